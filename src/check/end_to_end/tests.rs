use super::*;
use crate::check::check as check_all;
use crate::check::finding::Health;
use crate::check::tests::way;

fn code(rcode: Rcode) -> QueryResult {
    Ok(ReplySummary {
        rcode,
        authoritative: false,
        soa: None,
        records: BTreeSet::new(),
    })
}

fn records(texts: &[&str]) -> QueryResult {
    let mut reply = code(Rcode::NOERROR).unwrap();
    reply.records = texts.iter().map(|text| (*text).to_owned()).collect();
    Ok(reply)
}

/// Returns the findings of one check as `health: sentence`.
fn findings(way: EndToEnd, of: Check) -> Vec<String> {
    let findings = check(&Ok(way)).into_iter();
    let own = findings.filter(|finding| finding.check == of);
    own.map(|finding| match finding.health {
        Health::Green => format!("green: {}", finding.sentence),
        Health::Yellow => format!("yellow: {}", finding.sentence),
        Health::Grey => format!("grey: {}", finding.sentence),
        Health::Red => format!("red: {}", finding.sentence),
    })
    .collect()
}

fn with_answer(answer: QueryResult) -> EndToEnd {
    let mut way = way();
    way.resolvers.as_mut().unwrap()[0].answer = answer;
    way
}

#[test]
fn each_step_of_a_name_that_resolves_is_green() {
    for (check, sentence) in [
        (
            Check::DirectAnswer,
            "10.96.0.53:53 answers db.prod.global. A: 10.96.1.1",
        ),
        (
            Check::ClusterAnswer,
            "10.96.0.10:53 answers db.prod.global. A as the server does",
        ),
        (
            Check::Resolver,
            "programs find db.prod.global with 2 queries, the first 1 for names of the search list (ndots); a final dot \
             saves them",
        ),
        (
            Check::Connections,
            "connected to 10.96.1.1:26257 (db-0 of cluster east) in 1.2 ms, and it replied",
        ),
    ] {
        assert_eq!(findings(way(), check), [format!("green: {sentence}")]);
    }
    let mut short = way();
    short.searched.clear();
    short.connections = None;
    assert_eq!(
        findings(short.clone(), Check::Resolver),
        ["green: programs ask for db.prod.global as it is"]
    );
    assert_eq!(findings(short, Check::Connections), [""; 0]);
}

#[test]
fn wrong_answer_of_the_server_is_red_and_the_other_steps_are_its_consequences() {
    for (direct, fault) in [
        (
            code(Rcode::NXDOMAIN),
            "answers NXDOMAIN for db.prod.global. A: the server does not have this name",
        ),
        (
            code(Rcode::NOERROR),
            "answers db.prod.global. A without records",
        ),
        (
            code(Rcode::SERVFAIL),
            "answers SERVFAIL for db.prod.global. A: it has no complete table, its table is too old, or the name waits for expected clusters",
        ),
        (
            code(Rcode::REFUSED),
            "answers REFUSED for db.prod.global. A: the name is in none of its zones, or limits.allow excludes this machine",
        ),
        (
            Err("no reply".to_owned()),
            "does not answer db.prod.global. A: no reply",
        ),
    ] {
        let way = EndToEnd { direct, ..way() };
        let found = findings(way.clone(), Check::DirectAnswer);
        assert_eq!(found, [format!("red: 10.96.0.53:53 {fault}")]);
        let others = check(&Ok(way))
            .into_iter()
            .filter(|one| [Check::ClusterAnswer, Check::Resolver].contains(&one.check));
        let consequences: Vec<bool> = others.map(|one| one.is_consequence).collect();
        assert_eq!(consequences, [true; 2]);
    }
}

#[test]
fn wrong_answer_of_the_clusters_dns_has_its_own_reason() {
    let question = "db.prod.global. A";
    for (answer, health, reason) in [
        (
            code(Rcode::NXDOMAIN),
            "yellow",
            format!("answers NXDOMAIN for {question}: the stub zone is missing"),
        ),
        (
            code(Rcode::REFUSED),
            "yellow",
            format!("answers REFUSED for {question}: the stub zone is missing"),
        ),
        (
            code(Rcode::NOERROR),
            "yellow",
            format!(
                "answers {question} without records: another server has the zone; the stub zone is missing"
            ),
        ),
        (
            records(&["db.prod.global. A 10.97.1.1"]),
            "red",
            format!(
                "answers {question} with 10.97.1.1, not with the server's addresses: another server, or an older answer \
                 from a cache"
            ),
        ),
        (
            Err("no reply".to_owned()),
            "red",
            format!("does not answer {question}: no reply"),
        ),
    ] {
        let way = with_answer(answer);
        let found = findings(way.clone(), Check::ClusterAnswer);
        assert_eq!(found, [format!("{health}: 10.96.0.10:53 {reason}")]);
        assert!(way.differs());
        // The user expects that a named name resolves.
        let mut named = way;
        named.question.origin = QuestionOrigin::Flag;
        let found = findings(named, Check::ClusterAnswer);
        assert_eq!(found, [format!("red: 10.96.0.10:53 {reason}")]);
    }
    assert!(!way().differs());
}

#[test]
fn search_list_that_has_the_name_is_red() {
    let mut way = way();
    let searched = "db.prod.global.example.com.";
    way.searched
        .push((searched.to_owned(), records(&["x A 192.0.2.7"])));
    let sentence = "red: db.prod.global.example.com. has the addresses 192.0.2.7: programs that ask for db.prod.global get \
                    these first";
    assert_eq!(findings(way.clone(), Check::Resolver), [sentence]);
    way.searched.pop();
    way.searched
        .push((searched.to_owned(), code(Rcode::SERVFAIL)));
    let sentence = "yellow: names of the search list fail, and some programs (musl) stop there: db.prod.global.example.com.: \
                    SERVFAIL";
    assert_eq!(findings(way, Check::Resolver), [sentence]);
}

#[test]
fn failed_connection_is_red_and_one_without_a_reply_is_not_green() {
    let mut way = way();
    let attempt = &mut way.connections.as_mut().unwrap().as_mut().unwrap()[0];
    attempt.result = Ok(None);
    let sentence = "grey: 10.96.1.1:26257 (db-0 of cluster east): not checked, accepted by the proxy, without a reply";
    assert_eq!(findings(way.clone(), Check::Connections), [sentence]);
    let attempt = &mut way.connections.as_mut().unwrap().as_mut().unwrap()[0];
    attempt.result = Err("timed out".to_owned());
    let sentence = "red: cannot connect to 10.96.1.1:26257 (db-0 of cluster east): timed out";
    assert_eq!(findings(way, Check::Connections), [sentence]);
}

/// The server's own check has the reason.
#[test]
fn server_that_does_not_answer_is_red_once() {
    let mut facts = crate::check::tests::facts(&[]);
    let silent = || Err("no reply".to_owned());
    facts.end_to_end = Ok(EndToEnd {
        direct: silent(),
        ..way()
    });
    let red = |facts: &crate::check::Facts| {
        let diagnosis = check_all(facts).0.into_iter();
        let red = diagnosis.filter(|one| one.health == Health::Red);
        red.map(|one| one.check).collect::<Vec<_>>()
    };
    assert_eq!(red(&facts), [Check::DirectAnswer]);
    facts.dns = vec![crate::check::dns::ZoneFacts {
        zone: "global".parse().unwrap(),
        server: Ok(crate::check::dns::ServerReplies {
            address: "10.96.0.53:53".parse().unwrap(),
            udp: silent(),
            tcp: silent(),
            ns: silent(),
        }),
        resolver: Err(NotChecked::new("not queried", "query it")),
    }];
    assert_eq!(red(&facts), [Check::Server]);
}
