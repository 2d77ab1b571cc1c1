//! RFC 2782: SRV.

use crate::support::{
    Over, answer, case, check, decode, members, nodata, nxdomain, query, sample, serve_objects,
    wire_name,
};

#[test]
fn a_service_has_one_record_for_each_endpoint_with_the_port() {
    check(
        &sample(),
        &[
            case("a port of every cluster", "_sql._tcp.db.prod.global. SRV", answer(
                "_sql._tcp.db.prod.global. 5 IN SRV 0 10 26257 db-0.hub.db.prod.global.
                 _sql._tcp.db.prod.global. 5 IN SRV 0 10 26257 db-0.east.db.prod.global.
                 _sql._tcp.db.prod.global. 5 IN SRV 0 10 26257 db-1.east.db.prod.global.
                 _sql._tcp.db.prod.global. 5 IN SRV 0 10 26257 db-0.west.db.prod.global.",
            ).additional(
                "db-0.hub.db.prod.global. 5 IN A 192.0.2.10
                 db-0.east.db.prod.global. 5 IN A 10.96.10.1
                 db-1.east.db.prod.global. 5 IN A 10.96.10.2
                 db-0.west.db.prod.global. 5 IN A 10.96.20.1",
            )),
            case("a port of one cluster", "_http._tcp.west.db.prod.global. SRV", answer(
                "_http._tcp.west.db.prod.global. 5 IN SRV 0 10 8080 db-0.west.db.prod.global.",
            ).additional("db-0.west.db.prod.global. 5 IN A 10.96.20.1")),
            case("a port of one host", "_http._tcp.db-1.east.db.prod.global. SRV", answer(
                "_http._tcp.db-1.east.db.prod.global. 5 IN SRV 0 10 8080 db-1.east.db.prod.global.",
            ).additional("db-1.east.db.prod.global. 5 IN A 10.96.10.2")),
            case("targets stay in the family of short names", "_http._tcp.west.db.global. SRV", answer(
                "_http._tcp.west.db.global. 5 IN SRV 0 10 8080 db-0.west.db.global.",
            ).additional("db-0.west.db.global. 5 IN A 10.96.20.1")),
            case("every port at the bare name", "west.db.prod.global. SRV", answer(
                "west.db.prod.global. 5 IN SRV 0 10 26257 db-0.west.db.prod.global.
                 west.db.prod.global. 5 IN SRV 0 10 8080 db-0.west.db.prod.global.",
            ).additional("db-0.west.db.prod.global. 5 IN A 10.96.20.1")),
            case("a port without a name has no name of its own", "six.shop.global. SRV", answer(
                "six.shop.global. 5 IN SRV 0 10 9000 six-0.west.six.shop.global.",
            ).additional("six-0.west.six.shop.global. 5 IN AAAA 2001:db8:60::1")),
            case("so there is nothing below", "_tcp.six.shop.global. SRV", nxdomain()),
            case("the wrong port", "_redis._tcp.db.prod.global. SRV", nxdomain()),
            case("no address at a port's name", "_sql._tcp.db.prod.global. A", nodata()),
        ],
    );
}

#[test]
fn a_port_belongs_to_a_protocol() {
    check(
        &sample(),
        &[
            case(
                "UDP",
                "_quic._udp.web.shop.global. SRV",
                answer(
                    "_quic._udp.web.shop.global. 5 IN SRV 0 10 8443 web-0.east.web.shop.global.",
                )
                .additional(
                    "web-0.east.web.shop.global. 5 IN A 10.96.30.1
                 web-0.east.web.shop.global. 5 IN AAAA 2001:db8:30::1",
                ),
            ),
            case(
                "the same over TCP",
                "_quic._tcp.web.shop.global. SRV",
                nxdomain(),
            ),
            case(
                "the other port over TCP",
                "_https._tcp.web.shop.global. SRV",
                answer(
                    "_https._tcp.web.shop.global. 5 IN SRV 0 10 443 web-0.east.web.shop.global.",
                )
                .additional(
                    "web-0.east.web.shop.global. 5 IN A 10.96.30.1
                 web-0.east.web.shop.global. 5 IN AAAA 2001:db8:30::1",
                ),
            ),
            case(
                "the other port over UDP",
                "_https._udp.web.shop.global. SRV",
                nxdomain(),
            ),
            case(
                "a protocol that nobody has",
                "_https._quic.web.shop.global. SRV",
                nxdomain(),
            ),
        ],
    );
}

#[test]
fn targets_resolve_to_the_addresses_beside_them_and_are_no_aliases() {
    let server = sample();
    for name in [
        "db.prod.global.",
        "db.global.",
        "queue.prod.global.",
        "web.shop.global.",
        "six.shop.global.",
        "cache.global.",
    ] {
        let reply = server
            .ask(&query(&format!("{name} SRV")), Over::Tcp)
            .unwrap();
        let message = decode(&reply);
        assert!(!message.answer.is_empty(), "{name}");
        let mut resolved = Vec::new();
        let mut targets: Vec<&str> = message
            .answer
            .iter()
            .map(|srv| srv.rsplit(' ').next().unwrap())
            .collect();
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            assert!(
                target.ends_with(&format!(".{name}")),
                "{target} is outside {name}"
            );
            let ask = |rtype| {
                decode(
                    &server
                        .ask(&query(&format!("{target} {rtype}")), Over::Udp)
                        .unwrap(),
                )
                .answer
            };
            let addresses = [ask("A"), ask("AAAA")].concat();
            assert!(!addresses.is_empty(), "{target} has no address");
            assert!(ask("CNAME").is_empty());
            resolved.extend(addresses);
        }
        let mut additional = message.additional;
        additional.sort();
        resolved.sort();
        assert_eq!(additional, resolved, "{name}");
    }
}

/// Each record takes 18 octets and its target, so that a message of 65,535 octets holds a number of them that is known.
#[test]
fn more_targets_than_a_message_holds_are_cut_over_tcp_too() {
    let octets = |count: usize| {
        let target = |n: usize| wire_name(&format!("h-{n}.hub.s{count}.prod.global.")).len();
        let question = wire_name(&format!("s{count}.prod.global.")).len() + 4;
        let records: usize = (1..=count).map(|n| 18 + target(n)).sum();
        12 + question + records + 11
    };
    let most = (1000..9999).take_while(|count| octets(*count) <= 65_535);
    let most = most.last().unwrap();
    assert_eq!(most, 1387);
    let server = serve_objects(&members(&[most, most + 1]), &["--order=stable"]);
    for (count, is_cut) in [(most, false), (most + 1, true)] {
        let question = query(&format!("s{count}.prod.global. SRV +edns"));
        let reply = server.ask(&question, Over::Tcp).unwrap();
        assert_eq!(reply[2] & 0x02 != 0, is_cut, "{count}");
        let message = decode(&reply);
        assert_eq!(message.answer.len(), most);
        assert!(message.opt.is_some());
        // There is room for the address of one target.
        let additional = if is_cut { 0 } else { 1 };
        assert_eq!(message.additional.len(), additional);
        if !is_cut {
            assert_eq!(reply.len(), octets(count) + 16);
        }
    }
}

#[test]
fn targets_are_not_compressed() {
    let server = sample();
    let question = query("_http._tcp.west.db.prod.global. SRV");
    let reply = server.ask(&question, Over::Udp).unwrap();
    let record = &reply[question.0.len()..];
    let target = wire_name("db-0.west.db.prod.global.");
    assert_eq!(record[..2], [0xc0, 12], "the owner is compressed");
    assert_eq!(
        usize::from(u16::from_be_bytes([record[10], record[11]])),
        6 + target.len()
    );
    assert_eq!(record[18..18 + target.len()], target);
}
