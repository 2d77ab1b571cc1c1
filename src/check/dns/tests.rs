//! What name servers may say, and what is made of it.

use super::*;
use crate::check::Health;
use crate::testing::{endpoint, mirror, table, zones};

const SERVER: &str = "10.96.0.53:53";
const RESOLVER: &str = "10.96.0.10:53";

fn soa(mname: &str) -> Soa {
    Soa {
        names: [mname.to_owned(), "hostmaster.global.".to_owned()],
        serial: 1_790_000_000,
        timers: [7200, 1800, 86400, 5],
    }
}

fn reply(soa: Soa) -> Reply {
    Reply {
        rcode: Rcode::NOERROR,
        authoritative: true,
        soa: Some(soa),
        records: BTreeSet::new(),
    }
}

fn code(rcode: Rcode) -> Reply {
    Reply {
        rcode,
        authoritative: false,
        soa: None,
        records: BTreeSet::new(),
    }
}

fn records(records: &[&str]) -> Reply {
    Reply {
        records: records.iter().map(|one| (*one).to_owned()).collect(),
        ..code(Rcode::NOERROR)
    }
}

fn ours() -> Soa {
    soa("ns.dns.global.")
}

fn direct() -> Direct {
    Direct {
        udp: Ok(reply(ours())),
        tcp: Ok(reply(ours())),
        ns: Ok(records(&["global. NS ns.dns.global."])),
    }
}

fn through() -> Through {
    Through {
        soa: Ok(reply(ours())),
        root: Ok(reply(soa("a.root-servers.net."))),
        samples: vec![sample(
            records(&["x A 10.96.1.1"]),
            records(&["x A 10.96.1.1"]),
        )],
    }
}

fn sample(direct: Reply, through: Reply) -> Sample {
    Sample {
        question: "db.prod.global. A".to_owned(),
        direct: Ok(direct),
        through: Ok(through),
    }
}

fn dns(direct: Direct, through: Option<Through>) -> Dns {
    Dns {
        server: Some(SERVER.parse().unwrap()),
        resolver: Ok(RESOLVER.parse().unwrap()),
        zones: vec![ZoneFacts {
            zone: "global".parse().unwrap(),
            direct: Some(direct),
            through,
        }],
    }
}

/// What is made of the server's own answers.
fn server(direct: Direct) -> (Health, String) {
    finding(&dns(direct, None), 0)
}

/// What is made of the answers of the cluster's DNS.
fn forwarding(through: Through) -> (Health, String) {
    finding(&dns(direct(), Some(through)), 1)
}

fn finding(dns: &Dns, index: usize) -> (Health, String) {
    let mut findings = check(dns);
    assert_eq!(findings.len(), 2, "{findings:?}");
    let finding = findings.swap_remove(index);
    assert_eq!(finding.hint.is_none(), finding.health == Health::Green);
    (finding.health, finding.sentence)
}

#[test]
fn a_server_that_answers_over_udp_and_tcp_is_green_with_its_serial() {
    let sentence = format!("{SERVER} serves global. over UDP and TCP, serial 1790000000");
    assert_eq!(server(direct()), (Health::Green, sentence));
}

#[test]
fn replicas_may_differ_in_their_serials() {
    let mut other = ours();
    other.serial += 7;
    let tcp = Ok(reply(other.clone()));
    assert_eq!(server(Direct { tcp, ..direct() }).0, Health::Green);
    let soa = Ok(reply(other));
    assert_eq!(forwarding(Through { soa, ..through() }).0, Health::Green);
}

#[test]
fn a_server_that_cannot_be_used_is_red() {
    let silent = || Err("no reply".to_owned());
    let mut other_timers = ours();
    other_timers.timers[3] = 30;
    let not_authoritative = Reply {
        authoritative: false,
        ..reply(ours())
    };
    let over_udp = |udp: Asked| Direct { udp, ..direct() };
    for (direct, said) in [
        (over_udp(silent()), "does not answer over UDP: no reply"),
        (
            Direct {
                tcp: silent(),
                ..direct()
            },
            "does not answer over TCP: no reply",
        ),
        (
            over_udp(Ok(code(Rcode::SERVFAIL))),
            "has no complete table of global. yet: SERVFAIL",
        ),
        (
            over_udp(Ok(code(Rcode::REFUSED))),
            "does not serve global.: REFUSED",
        ),
        (
            over_udp(Ok(code(Rcode::NXDOMAIN))),
            "is no global-dns that serves global.: NXDOMAIN",
        ),
        (
            over_udp(Ok(reply(soa("a0.nic.global.")))),
            "is no global-dns that serves global.: NOERROR, SOA a0.nic.global.",
        ),
        (
            over_udp(Ok(not_authoritative)),
            "is no global-dns that serves global.: NOERROR, SOA ns.dns.global.",
        ),
        (
            over_udp(Ok(reply(other_timers))),
            "has one SOA record of global. over UDP and another over TCP",
        ),
        (
            Direct {
                ns: Ok(records(&[])),
                ..direct()
            },
            "lacks the NS record of global., has: ",
        ),
        (
            Direct {
                ns: silent(),
                ..direct()
            },
            "does not answer for the NS records of global.: no reply",
        ),
    ] {
        assert_eq!(server(direct), (Health::Red, format!("{SERVER} {said}")));
    }
}

#[test]
fn without_a_server_nothing_is_compared() {
    let mut dns = dns(direct(), None);
    dns.server = None;
    dns.zones[0].direct = None;
    let sentence = "the server of global.: not checked, --server is not given";
    assert_eq!(finding(&dns, 0), (Health::Yellow, sentence.to_owned()));
    let sentence = "forwarding of global.: not checked, --server is not given";
    assert_eq!(finding(&dns, 1), (Health::Yellow, sentence.to_owned()));
}

#[test]
fn without_a_resolver_or_an_answer_of_the_server_nothing_is_compared() {
    let mut unknown = dns(direct(), None);
    unknown.resolver = Err(NotChecked::new(
        "/etc/resolv.conf names no name server",
        "name one",
    ));
    let sentence = "forwarding of global.: not checked, /etc/resolv.conf names no name server";
    assert_eq!(finding(&unknown, 1), (Health::Yellow, sentence.to_owned()));
    let udp = Err("no reply".to_owned());
    let silent = dns(Direct { udp, ..direct() }, Some(through()));
    let sentence = "forwarding of global.: not checked, the server's own answer is missing";
    assert_eq!(finding(&silent, 1), (Health::Yellow, sentence.to_owned()));
}

#[test]
fn a_zone_that_is_forwarded_is_green_and_says_what_was_compared() {
    let sentence = format!(
        "{RESOLVER} forwards global. to the server: the same SOA record, and the same answer for db.prod.global. A"
    );
    assert_eq!(forwarding(through()), (Health::Green, sentence));
    let sentence = format!("{RESOLVER} forwards global. to the server: the same SOA record");
    let samples = Vec::new();
    assert_eq!(
        forwarding(Through {
            samples,
            ..through()
        }),
        (Health::Green, sentence)
    );
}

#[test]
fn a_zone_that_is_not_forwarded_yet_is_yellow() {
    let by_soa = |soa: Asked| Through { soa, ..through() };
    let servfail = || Ok(code(Rcode::SERVFAIL));
    let silent = || Err("no reply".to_owned());
    for (through, said) in [
        (by_soa(Ok(code(Rcode::NXDOMAIN))), "it says NXDOMAIN"),
        (by_soa(Ok(code(Rcode::REFUSED))), "it says REFUSED"),
        // `global` is a top-level domain of the public DNS, too.
        (
            by_soa(Ok(reply(soa("a0.nic.global.")))),
            "its SOA record names a0.nic.global.",
        ),
        (
            by_soa(Ok(code(Rcode::NOERROR))),
            "it has no SOA record there",
        ),
        // Nothing outside can be resolved.
        (
            Through {
                root: servfail(),
                ..by_soa(servfail())
            },
            "it says SERVFAIL, for the root too",
        ),
        (
            Through {
                root: silent(),
                ..by_soa(silent())
            },
            "it does not answer: no reply, for the root too",
        ),
    ] {
        let sentence = format!("{RESOLVER} does not forward global. yet: {said}");
        assert_eq!(forwarding(through), (Health::Yellow, sentence));
    }
}

#[test]
fn a_zone_that_is_forwarded_to_where_nobody_answers_is_red() {
    let fails = format!("{RESOLVER} fails for global. alone: it");
    let soa = Ok(code(Rcode::SERVFAIL));
    let sentence = format!("{fails} says SERVFAIL");
    assert_eq!(
        forwarding(Through { soa, ..through() }),
        (Health::Red, sentence)
    );
    let soa = Err("no reply".to_owned());
    let sentence = format!("{fails} does not answer: no reply");
    assert_eq!(
        forwarding(Through { soa, ..through() }),
        (Health::Red, sentence)
    );
}

#[test]
fn a_zone_with_other_answers_than_the_servers_is_red() {
    let mut other = ours();
    other.timers[3] = 30;
    let soa = Ok(reply(other));
    let sentence = format!("{RESOLVER} has another SOA record of global. than the server");
    assert_eq!(
        forwarding(Through { soa, ..through() }),
        (Health::Red, sentence)
    );
    let sentence = format!("{RESOLVER} answers otherwise than the server: db.prod.global. A");
    let own = || records(&["x A 10.96.1.1"]);
    for sample in [
        sample(own(), records(&["x A 10.97.1.1"])),
        sample(own(), code(Rcode::NXDOMAIN)),
        Sample {
            through: Err("no reply".to_owned()),
            ..sample(own(), own())
        },
    ] {
        let samples = vec![sample];
        let found = forwarding(Through {
            samples,
            ..through()
        });
        assert_eq!(found, (Health::Red, sentence.clone()));
    }
}

#[test]
fn some_services_with_addresses_are_compared() {
    let mut objects = Vec::new();
    for (service, address) in [
        ("a", "10.96.1.1"),
        ("b", "2001:db8::1"),
        ("d", "10.96.1.2"),
        ("e", "10.96.1.3"),
    ] {
        objects.push(mirror("prod", service, "east"));
        let host = format!("{service}-0");
        objects.push(endpoint("prod", service, "east", &host, &[address]));
    }
    objects.push(mirror("prod", "c", "east")); // without an endpoint
    let table = table(&objects);
    let zones = zones(&["global", "96.10.in-addr.arpa"]);
    let questions = |kind: fn(&ZoneKind) -> bool| {
        let zone = zones.iter().find(|zone| kind(&zone.kind)).unwrap();
        samples(zone, &table)
    };
    let expected = [
        ("a.prod.global.".to_owned(), RecordType::A),
        ("b.prod.global.".to_owned(), RecordType::AAAA),
        ("d.prod.global.".to_owned(), RecordType::A),
    ];
    assert_eq!(questions(|kind| *kind == ZoneKind::Forward), expected);
    assert_eq!(questions(|kind| *kind != ZoneKind::Forward), []);
}

#[test]
fn the_systems_name_server_is_the_first_that_is_named() {
    let server = |text: &str| first_name_server(text).map(|server| server.to_string());
    let text = "# nameserver 192.0.2.9\nsearch prod.svc.cluster.local\nnameserver 10.96.0.10\nnameserver 192.0.2.1\n";
    assert_eq!(server(text).as_deref(), Some("10.96.0.10:53"));
    assert_eq!(
        server("nameserver\t2001:db8::10").as_deref(),
        Some("[2001:db8::10]:53")
    );
    for text in ["", "search a.test\n", "nameserver\n", "nameserver here\n"] {
        assert_eq!(server(text), None, "{text}");
    }
}
