use serde_json::json;

use super::*;

fn reply(code: &str, addresses: &[&str]) -> Reply {
    Reply {
        code: code.to_owned(),
        is_truncated: false,
        primary: None,
        addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
    }
}

fn data(addresses: &[&str]) -> Reply {
    reply("NOERROR", addresses)
}

/// The service `prod/db` with two endpoints, of which the server answers the first.
fn question(service: Value) -> Question {
    let mut row = json!({
        "namespace": "prod", "service": "db", "answer": "NOERROR", "alive": 2, "returned": 1, "ownsShortName": true,
    });
    for (field, value) in service.as_object().unwrap() {
        row[field] = value.clone();
    }
    let endpoints = [("10.0.0.1", true), ("10.0.0.2", false)];
    let endpoints = endpoints.map(|(address, returned)| {
        json!({"namespace": "prod", "service": "db", "addresses": [address], "returned": returned})
    });
    let mut table = table(&[row]);
    table.endpoints = endpoints.to_vec();
    Question::of_zone("global.", "global.", None, &table)
}

fn table(services: &[Value]) -> ServerTable {
    ServerTable {
        services: services.to_vec(),
        ..ServerTable::default()
    }
}

fn probe(question: Question, direct: Option<Reply>, resolver: Fact<Reply>) -> Probe {
    let server = |last| SocketAddr::from(([192, 0, 2, last], 53));
    Probe {
        question,
        direct: direct.map(|reply| (server(1), Ok(reply.clone()), Ok(reply))),
        resolvers: vec![(server(2), resolver)],
    }
}

/// Returns the state of the finding about the cluster's DNS.
fn state_of(probe: &Probe) -> State {
    let finding = probe.findings().pop().unwrap();
    assert_eq!(finding.name, "cluster-answer");
    assert_eq!(
        probe.differs(),
        finding.state == State::Failing,
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
            assert_eq!(state_of(&probe), State::Failing, "{probe:?}");
        }
        let own = unreachable(probe(question(json!({})), None, resolver));
        assert_eq!(state_of(&own), State::Failing, "{own:?}");
    }
    let own = probe(question(json!({})), None, Ok(data(&["10.0.0.1"])));
    assert_eq!(state_of(&unreachable(own)), State::Ok);
}

/// The address of `--dns` cannot be reached from here.
fn unreachable(probe: Probe) -> Probe {
    let late = || Err("no reply".to_owned());
    let server = SocketAddr::from(([192, 0, 2, 1], 53));
    Probe {
        direct: Some((server, late(), late())),
        ..probe
    }
}

#[test]
fn same_addresses_an_order_and_a_rotation_are_no_difference() {
    let order = json!({"failover": {"order": "hub:east"}});
    let truncated = |address| Reply {
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
        assert_eq!(state_of(&probe), State::Ok, "{probe:?}");
    }
    // Another server has an order too, and other addresses.
    let elsewhere = probe(
        question(order),
        Some(data(&["10.0.0.1"])),
        Ok(data(&["10.9.9.9"])),
    );
    assert_eq!(state_of(&elsewhere), State::Failing);
}

#[test]
fn closed_gate_is_not_failing_again() {
    let gate = json!({"failure": "waits for west", "answer": "SERVFAIL"});
    let name = "db.prod.global.";
    let row = json!({"namespace": "prod", "service": "db", "failure": gate["failure"]});
    let question = Question::of_zone("global.", "global.", Some(name), &table(&[row]));
    let fails = reply("SERVFAIL", &[]);
    let probe = probe(question, Some(fails.clone()), Ok(fails));
    let states: Vec<State> = probe.findings().iter().map(|one| one.state).collect();
    assert_eq!(states, [State::Attention, State::Ok]);
    // The gate does not hide that the zone is not forwarded.
    let missing = Probe {
        resolvers: vec![(probe.resolvers[0].0, Ok(reply("NXDOMAIN", &[])))],
        ..probe
    };
    assert_eq!(state_of(&missing), State::Failing);
}

/// Both `--dns` and the stanza lead to the server of another cluster.
#[test]
fn another_server_is_not_the_server() {
    let other = data(&["10.9.9.9"]);
    let probe = probe(question(json!({})), Some(other.clone()), Ok(other));
    let states: Vec<State> = probe.findings().iter().map(|one| one.state).collect();
    assert_eq!(states, [State::Failing, State::Ok]);
    assert!(probe.differs());
}

#[test]
fn question_is_the_smallest_service_that_answers_or_the_zone() {
    let row = |name: &str, returned: u64, answer: &str| json!({"namespace": "prod", "service": name, "alive": returned, "returned": returned, "answer": answer});
    let services = [
        row("db", 3, "NOERROR"),
        row("web", 2, "NOERROR"),
        row("gate", 1, "SERVFAIL"),
    ];
    let of = |name: Option<&str>, services: &[Value]| {
        let (zone, suffix) = ("clusterset.local.", "svc.clusterset.local.");
        Question::of_zone(zone, suffix, name, &table(services))
    };
    assert_eq!(of(None, &services).name, "web.prod.svc.clusterset.local.");
    let none = of(None, &services[2..]);
    assert_eq!(
        (none.name.as_str(), none.rtype),
        ("clusterset.local.", RecordType::SOA)
    );
    // The server does not return all endpoints for the name of a host.
    for (name, is_known) in [("db-0.east.db", false), ("db", true)] {
        let name = format!("{name}.prod.svc.clusterset.local.");
        let question = of(Some(&name), &services);
        assert_eq!(
            (question.name, question.returned.is_some()),
            (name, is_known)
        );
    }
}

#[test]
fn zone_without_services_is_compared_by_its_soa_record() {
    let question = || Question::of_zone("global.", "global.", None, &table(&[]));
    let of = |primary: &str| Reply {
        primary: Some(primary.to_owned()),
        ..data(&[])
    };
    let own = of("ns.dns.global.");
    for (resolver, expected) in [
        (own.clone(), State::Ok),
        (of("a.root-servers.net."), State::Failing),
        (reply("NXDOMAIN", &[]), State::Failing),
    ] {
        let probe = probe(question(), Some(own.clone()), Ok(resolver));
        assert_eq!(state_of(&probe), expected, "{probe:?}");
    }
}
