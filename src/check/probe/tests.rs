use serde_json::json;

use super::*;

const GLOBAL: ZoneFacts<'_> = ZoneFacts {
    name: "global.",
    suffix: "global.",
    cluster: "",
};

fn reply(code: &str, addresses: &[&str]) -> ReceivedReply {
    ReceivedReply {
        code: code.to_owned(),
        is_truncated: false,
        has_records: !addresses.is_empty(),
        primary: None,
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
    }
}

fn data(addresses: &[&str]) -> ReceivedReply {
    reply("NOERROR", addresses)
}

/// The service `prod/db` with two endpoints, of which the server answers the first.
fn question(service: Value) -> Question {
    let mut items = vec![
        json!({"name": "db.prod.global.", "reading": "service", "exists": true}),
        json!({"section": "answers", "rtype": "A", "result": "NOERROR"}),
        service,
    ];
    items[2]["section"] = json!("service");
    for (address, returned) in [("10.0.0.1", true), ("10.0.0.2", false)] {
        items.push(json!({"section": "endpoints", "addresses": [address], "returned": returned}));
    }
    Question::of_name(&items)
}

fn probe(
    question: Question,
    direct: Option<ReceivedReply>,
    resolver: Fact<ReceivedReply>,
) -> Probe {
    let server = |last| SocketAddr::from(([192, 0, 2, last], 53));
    Probe {
        question,
        direct: direct.map(|reply| Direct {
            server: server(1),
            udp: Ok(reply.clone()),
            tcp: Ok(reply),
        }),
        resolvers: vec![Resolver {
            has_zone: false,
            server: server(2),
            replies: vec![resolver],
        }],
    }
}

/// Returns the state of the finding about the cluster's DNS.
fn state_of(probe: &Probe) -> FindingState {
    let finding = probe.findings().pop().unwrap();
    assert_eq!(finding.name, "cluster-answer");
    assert_eq!(
        probe.differs(),
        finding.state == FindingState::Failing,
        "{finding:?}"
    );
    finding.state
}

#[test]
fn resolver_without_an_answer_is_failing() {
    for resolver in [
        Ok(reply("NXDOMAIN", &[])),
        Ok(reply("REFUSED", &[])),
        Ok(reply("SERVFAIL", &[])),
        Ok(data(&[])),
        Ok(data(&["10.9.9.9"])),
        Ok(data(&["10.0.0.2"])),
        Err("no reply".to_owned()),
    ] {
        for direct in [Some(data(&["10.0.0.1"])), None] {
            let probe = probe(question(json!({})), direct, resolver.clone());
            assert_eq!(state_of(&probe), FindingState::Failing, "{probe:?}");
        }
        let own = unreachable(probe(question(json!({})), None, resolver));
        assert_eq!(state_of(&own), FindingState::Failing, "{own:?}");
    }
    let own = probe(question(json!({})), None, Ok(data(&["10.0.0.1"])));
    assert_eq!(state_of(&unreachable(own)), FindingState::Ok);
}

/// Not each replica of the cluster's DNS has the stanza.
#[test]
fn wrong_answers_among_others_are_counted() {
    let right = || Ok(data(&["10.0.0.1"]));
    let mut probe = probe(question(json!({})), Some(data(&["10.0.0.1"])), right());
    let wrong = || Ok(reply("NXDOMAIN", &[]));
    probe.resolvers[0].replies = vec![right(), wrong(), right(), wrong(), right()];
    assert_eq!(state_of(&probe), FindingState::Failing);
    let sentence = probe.findings().pop().unwrap().sentence;
    let expected = "2 of 5 answers: 192.0.2.2:53 answers NXDOMAIN for db.prod.global. A: the zone is not forwarded";
    assert_eq!(sentence, expected);
    probe.resolvers[0].replies.retain(|reply| *reply == right());
    assert_eq!(state_of(&probe), FindingState::Ok);
}

/// The address of `--dns` cannot be reached from here.
fn unreachable(probe: Probe) -> Probe {
    let late = || Err("no reply".to_owned());
    let server = SocketAddr::from(([192, 0, 2, 1], 53));
    Probe {
        direct: Some(Direct {
            server,
            udp: late(),
            tcp: late(),
        }),
        ..probe
    }
}

#[test]
fn same_addresses_an_order_and_a_rotation_are_no_difference() {
    let order = json!({"failover": {"order": "hub:east"}});
    let truncated = |address| ReceivedReply {
        is_truncated: true,
        ..data(&[address])
    };
    for (service, direct, resolver) in [
        (json!({}), Some(data(&["10.0.0.1"])), data(&["10.0.0.1"])),
        (json!({}), None, data(&["10.0.0.1"])),
        (
            order.clone(),
            Some(data(&["10.0.0.1"])),
            data(&["10.0.0.2"]),
        ),
        (
            json!({}),
            Some(truncated("10.0.0.1")),
            truncated("10.0.0.2"),
        ),
    ] {
        let probe = probe(question(service), direct, Ok(resolver));
        assert_eq!(state_of(&probe), FindingState::Ok, "{probe:?}");
    }
    // Another server has an order too, and other addresses.
    let elsewhere = probe(
        question(order),
        Some(data(&["10.0.0.1"])),
        Ok(data(&["10.9.9.9"])),
    );
    assert_eq!(state_of(&elsewhere), FindingState::Failing);
}

#[test]
fn closed_gate_is_not_failing_again() {
    let question = Question::of_name(&[
        json!({"name": "db.prod.global.", "reading": "service", "exists": true}),
        json!({"section": "answers", "rtype": "A", "result": "SERVFAIL", "reason": "waits for west"}),
    ]);
    assert!(!question.exists);
    let fails = reply("SERVFAIL", &[]);
    let probe = probe(question, Some(fails.clone()), Ok(fails));
    let states: Vec<FindingState> = probe.findings().iter().map(|one| one.state).collect();
    assert_eq!(states, [FindingState::Attention, FindingState::Ok]);
    // The gate does not hide that the zone is not forwarded.
    let mut missing = probe;
    missing.resolvers[0].replies = vec![Ok(reply("NXDOMAIN", &[]))];
    assert_eq!(state_of(&missing), FindingState::Failing);
}

/// Both `--dns` and the stanza lead to the server of another cluster.
#[test]
fn another_server_is_not_the_server() {
    let other = data(&["10.9.9.9"]);
    let probe = probe(question(json!({})), Some(other.clone()), Ok(other));
    let states: Vec<FindingState> = probe.findings().iter().map(|one| one.state).collect();
    assert_eq!(states, [FindingState::Failing, FindingState::Ok]);
    assert!(probe.differs());
}

#[test]
fn question_is_the_smallest_service_that_answers() {
    let row = |name: &str, returned: u64, answer: &str| json!({"namespace": "prod", "service": name, "alive": returned, "returned": returned, "answer": answer});
    let services = [
        row("db", 3, "NOERROR"),
        row("web", 2, "NOERROR"),
        row("gate", 1, "SERVFAIL"),
    ];
    let of = |services: &[Value]| {
        let zone = ZoneFacts {
            name: "clusterset.local.",
            suffix: "svc.clusterset.local.",
            ..GLOBAL
        };
        let facts = ServerFacts {
            services: services.to_vec(),
            ..ServerFacts::default()
        };
        name_in(zone, &facts)
    };
    let smallest = of(&services);
    assert_eq!(smallest.as_deref(), Some("web.prod.svc.clusterset.local."));
    assert_eq!(of(&services[2..]), None);
}

#[test]
fn service_in_a_zone_of_one_cluster_is_one_of_that_cluster() {
    let row = |name: &str, cluster: &str, alive: u64| {
        let cell = json!({"cluster": cluster, "alive": alive, "endpoints": 2});
        json!({"namespace": "prod", "service": name, "clusters": [cell]})
    };
    let zone = ZoneFacts {
        suffix: "svc.west.example.",
        cluster: "west",
        ..GLOBAL
    };
    let services = [
        row("east", "east", 2),
        row("down", "west", 0),
        row("alias", "west", 2),
    ];
    let mut facts = ServerFacts {
        status: json!({"settings": {"aliases": {"prod/alias": ["prod/db"]}}}),
        services: services.to_vec(),
        ..ServerFacts::default()
    };
    assert_eq!(name_in(zone, &facts), None);
    facts.services.push(row("db", "west", 1));
    assert_eq!(name_in(zone, &facts).unwrap(), "db.prod.svc.west.example.");
}

/// The server says what it answers for a name, whatever the other names of the service are.
#[test]
fn name_is_asked_for_as_the_server_explains_it() {
    let explained = |results: [&str; 3]| {
        let mut items = vec![
            json!({"name": "db-0.east.db.prod.global.", "reading": "endpoint", "exists": true}),
            json!({"section": "service", "namespace": "prod", "service": "db"}),
        ];
        for (rtype, result) in ["A", "AAAA", "SRV"].iter().zip(results) {
            items.push(json!({"section": "answers", "rtype": rtype, "result": result}));
        }
        items.push(json!({"section": "endpoints", "addresses": ["10.0.0.1"], "returned": true}));
        Question::of_name(&items)
    };
    let own = explained(["NOERROR", "NODATA", "NOERROR"]);
    assert_eq!(own.to_string(), "db-0.east.db.prod.global. A");
    for (resolver, expected) in [
        (data(&["10.0.0.1"]), FindingState::Ok),
        (data(&["10.0.0.2"]), FindingState::Failing),
        (reply("NXDOMAIN", &[]), FindingState::Failing),
    ] {
        assert_eq!(state_of(&probe(own.clone(), None, Ok(resolver))), expected);
    }
    // A resolver may leave out the addresses of the targets.
    let port = explained(["NODATA", "NODATA", "NOERROR"]);
    assert_eq!(port.rtype, RecordType::SRV);
    let without = ReceivedReply {
        has_records: true,
        ..data(&[])
    };
    for resolver in [without, data(&["10.0.0.1"])] {
        let probe = probe(port.clone(), None, Ok(resolver));
        assert_eq!(state_of(&probe), FindingState::Ok, "{probe:?}");
    }
    let none = explained(["NXDOMAIN"; 3]);
    let probe = probe(none, None, Ok(reply("NXDOMAIN", &[])));
    let states: Vec<FindingState> = probe.findings().iter().map(|one| one.state).collect();
    assert_eq!(states, [FindingState::Failing, FindingState::Ok]);
}

#[test]
fn zone_without_services_is_compared_by_its_soa_record() {
    let question = || Question::of_apex(GLOBAL.name);
    let of = |primary: &str| ReceivedReply {
        primary: Some(primary.to_owned()),
        has_records: true,
        ..data(&[])
    };
    let own = of("ns.dns.global.");
    for (resolver, expected) in [
        (own.clone(), FindingState::Ok),
        (of("a.root-servers.net."), FindingState::Failing),
        (reply("NXDOMAIN", &[]), FindingState::Failing),
    ] {
        let probe = probe(question(), Some(own.clone()), Ok(resolver));
        assert_eq!(state_of(&probe), expected, "{probe:?}");
    }
}
