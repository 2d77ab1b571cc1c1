//! Replies of name servers, and the findings about them.

use super::*;
use crate::check::finding::Health;
use crate::check::question::QuestionOrigin;
use crate::zone::RecordType;

const SERVER: &str = "10.96.0.53:53";
const RESOLVER: &str = "10.96.0.10:53";

fn soa(mname: &str) -> SoaFields {
    SoaFields {
        names: [mname.to_owned(), "hostmaster.global.".to_owned()],
        serial: 1_790_000_000,
        timers: [7200, 1800, 86400, 5],
    }
}

fn reply(soa: SoaFields) -> ReplySummary {
    ReplySummary {
        rcode: Rcode::NOERROR,
        authoritative: true,
        soa: Some(soa),
        records: BTreeSet::new(),
    }
}

fn code(rcode: Rcode) -> ReplySummary {
    ReplySummary {
        rcode,
        authoritative: false,
        soa: None,
        records: BTreeSet::new(),
    }
}

fn records(records: &[&str]) -> ReplySummary {
    ReplySummary {
        records: records.iter().map(|one| (*one).to_owned()).collect(),
        ..code(Rcode::NOERROR)
    }
}

fn ours() -> SoaFields {
    soa("ns.dns.global.")
}

fn direct() -> ServerReplies {
    ServerReplies {
        address: SERVER.parse().unwrap(),
        udp: Ok(reply(ours())),
        tcp: Ok(reply(ours())),
        ns: Ok(records(&["global. NS ns.dns.global."])),
    }
}

fn through() -> ResolverReplies {
    ResolverReplies {
        address: RESOLVER.parse().unwrap(),
        soa: Ok(reply(ours())),
        root: Ok(reply(soa("a.root-servers.net."))),
        samples: vec![sample(
            records(&["x A 10.96.1.1"]),
            records(&["x A 10.96.1.1"]),
        )],
    }
}

fn sample(direct: ReplySummary, through: ReplySummary) -> Sample {
    Sample {
        question: Question {
            name: "db.prod.global.".to_owned(),
            rtype: RecordType::A,
            origin: QuestionOrigin::Table,
        },
        server: Ok(direct),
        resolver: Ok(through),
    }
}

fn zone(direct: ServerReplies, through: Fact<ResolverReplies>) -> ZoneFacts {
    ZoneFacts {
        zone: "global".parse().unwrap(),
        server: Ok(direct),
        resolver: through,
    }
}

/// Returns the finding about the replies of the server.
fn server(direct: ServerReplies) -> (Health, String) {
    finding(&zone(direct, Err(no_server())), 0)
}

/// Returns the finding about the replies of the cluster's DNS.
fn forwarding(through: ResolverReplies) -> (Health, String) {
    finding(&zone(direct(), Ok(through)), 1)
}

fn finding(zone: &ZoneFacts, index: usize) -> (Health, String) {
    let finding = zone.check()[index].clone();
    assert_eq!(finding.hint.is_none(), finding.health == Health::Green);
    (finding.health, finding.sentence.into())
}

#[test]
fn server_that_answers_over_udp_and_tcp_is_green() {
    let sentence = format!("{SERVER} serves global. over UDP and TCP, serial 1790000000");
    assert_eq!(server(direct()), (Health::Green, sentence));
}

#[test]
fn faulty_server_is_red() {
    let silent = || Err("no reply".to_owned());
    let mut other_timers = ours();
    other_timers.timers[3] = 30;
    let not_authoritative = ReplySummary {
        authoritative: false,
        ..reply(ours())
    };
    let over_udp = |udp: QueryResult| ServerReplies { udp, ..direct() };
    for (direct, fault) in [
        (over_udp(silent()), "does not answer over UDP: no reply"),
        (
            ServerReplies {
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
            "is not a global-dns server of global.: NXDOMAIN",
        ),
        (
            over_udp(Ok(reply(soa("a0.nic.global.")))),
            "is not a global-dns server of global.: NOERROR, SOA a0.nic.global.",
        ),
        (
            over_udp(Ok(not_authoritative)),
            "is not a global-dns server of global.: NOERROR, SOA ns.dns.global.",
        ),
        (
            over_udp(Ok(reply(other_timers))),
            "has different SOA records of global. over UDP and TCP",
        ),
        (
            ServerReplies {
                ns: Ok(records(&[])),
                ..direct()
            },
            "has no NS record ns.dns.global. for global., but: ",
        ),
        (
            ServerReplies {
                ns: silent(),
                ..direct()
            },
            "does not answer for the NS records of global.: no reply",
        ),
    ] {
        assert_eq!(server(direct), (Health::Red, format!("{SERVER} {fault}")));
    }
}

#[test]
fn zone_that_is_not_forwarded_yet_is_yellow() {
    let by_soa = |soa: QueryResult| ResolverReplies { soa, ..through() };
    let servfail = || Ok(code(Rcode::SERVFAIL));
    let silent = || Err("no reply".to_owned());
    for (through, reason) in [
        (by_soa(Ok(code(Rcode::NXDOMAIN))), "it returns NXDOMAIN"),
        (by_soa(Ok(code(Rcode::REFUSED))), "it returns REFUSED"),
        // `global` is also a top-level domain of the public DNS.
        (
            by_soa(Ok(reply(soa("a0.nic.global.")))),
            "its SOA record names a0.nic.global.",
        ),
        (by_soa(Ok(code(Rcode::NOERROR))), "it returns no SOA record"),
        // The resolver cannot resolve any other zone.
        (
            ResolverReplies {
                root: servfail(),
                ..by_soa(servfail())
            },
            "it returns SERVFAIL, also for the root zone",
        ),
        (
            ResolverReplies {
                root: silent(),
                ..by_soa(silent())
            },
            "it does not answer: no reply, also for the root zone",
        ),
    ] {
        let sentence = format!("{RESOLVER} does not forward global. yet: {reason}");
        assert_eq!(forwarding(through), (Health::Yellow, sentence));
    }
}

#[test]
fn zone_forwarded_to_a_closed_address_is_red() {
    let fails = format!("{RESOLVER} fails only for global.: it");
    let soa = Ok(code(Rcode::SERVFAIL));
    let sentence = format!("{fails} returns SERVFAIL");
    assert_eq!(
        forwarding(ResolverReplies { soa, ..through() }),
        (Health::Red, sentence)
    );
    let soa = Err("no reply".to_owned());
    let sentence = format!("{fails} does not answer: no reply");
    assert_eq!(
        forwarding(ResolverReplies { soa, ..through() }),
        (Health::Red, sentence)
    );
}

#[test]
fn zone_with_answers_that_differ_from_the_server_is_red() {
    let mut other = ours();
    other.timers[3] = 30;
    let soa = Ok(reply(other));
    let sentence = format!("{RESOLVER} and the server have different SOA records of global.");
    assert_eq!(
        forwarding(ResolverReplies { soa, ..through() }),
        (Health::Red, sentence)
    );
    let sentence = format!("{RESOLVER} and the server answer differently: db.prod.global. A");
    let own = || records(&["x A 10.96.1.1"]);
    for sample in [
        sample(own(), records(&["x A 10.97.1.1"])),
        sample(own(), code(Rcode::NXDOMAIN)),
        Sample {
            resolver: Err("no reply".to_owned()),
            ..sample(own(), own())
        },
    ] {
        let samples = vec![sample];
        let found = forwarding(ResolverReplies {
            samples,
            ..through()
        });
        assert_eq!(found, (Health::Red, sentence.clone()));
    }
}
