use std::collections::BTreeMap;

use super::*;
use crate::mirror::{GatewayDown, Watch, parse};
use crate::table::{Inputs, LocalMembers, Rules, ShortNames, Table, build};
use serde_json::{Value, json};

pub(crate) fn mirror(namespace: &str, service: &str, cluster: &str) -> Value {
    json!({
        "metadata": {
            "namespace": namespace, "name": format!("{service}-{cluster}"),
            "labels": {"mirror.linkerd.io/mirrored-service": "true", "mirror.linkerd.io/cluster-name": cluster},
        },
        "spec": {"clusterIP": "None"},
    })
}

pub(crate) fn endpoint(
    namespace: &str,
    service: &str,
    cluster: &str,
    host: &str,
    ips: &[&str],
) -> Value {
    json!({
        "metadata": {
            "namespace": namespace, "name": format!("{host}-{cluster}"),
            "labels": {
                "mirror.linkerd.io/mirrored-service": "true", "mirror.linkerd.io/cluster-name": cluster,
                "mirror.linkerd.io/headless-mirror-svc-name": format!("{service}-{cluster}"),
            },
            "annotations": {
                "mirror.linkerd.io/remote-svc-fq-name": format!("{host}.{service}.{namespace}.svc.cluster.local"),
            },
        },
        "spec": {"clusterIP": ips[0], "clusterIPs": ips, "ports": [
            {"name": "sql", "port": 26257}, {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53}, {"port": 7000},
        ]},
    })
}

pub(crate) fn table(objects: &[Value]) -> Table {
    let mut inputs = Inputs::default();
    for object in objects {
        let key = parse::object_key(object).unwrap();
        inputs.apply(
            Watch::MirrorServices,
            key,
            parse::object(Watch::MirrorServices, object),
        );
    }
    let rules = Rules {
        cluster_name: "hub".parse().unwrap(),
        cluster_aliases: BTreeMap::new(),
        excluded_clusters: Default::default(),
        ttl: 5,
        ttl_max: 30,
        gateway_down: GatewayDown::LastResort,
        local_members: LocalMembers::Matching,
        short_names: ShortNames::On,
        pinned_names: BTreeMap::new(),
        default_namespace: None,
        longest_zone: 8,
        has_reverse_zones: false,
    };
    build(&Table::default(), &inputs, &inputs.services(), &rules).table
}

pub(crate) fn zones(names: &[&str]) -> Zones {
    let zone = |name: &&str| Zone {
        name: name.parse().unwrap(),
        ttl: 5,
        negative_ttl: 5,
        ns_addresses: vec!["192.0.2.53".parse().unwrap()],
        kind: ZoneKind::Forward,
    };
    Zones::new(names.iter().map(zone).collect())
}

fn shop() -> Table {
    table(&[
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1", "2001:db8::1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.3"]),
        mirror("empty", "idle", "east"),
    ])
}

/// What a question gets, as one line.
fn ask(zones: &Zones, table: &Table, name: &str, rtype: RecordType) -> String {
    let name = Name::from_text(name).unwrap();
    match answer(read(zones, table, &name), rtype) {
        Answer::Data(_, view, rtype) => {
            let rows = print::rows_text(&name, &view, rtype);
            rows.iter()
                .map(|row| row.replace('\t', " "))
                .collect::<Vec<_>>()
                .join(", ")
        }
        Answer::Soa(_) => "SOA".to_owned(),
        Answer::Ns(_) => "NS".to_owned(),
        Answer::Address(_, rtype) => format!("own {rtype}"),
        Answer::Text(_) => "TXT".to_owned(),
        Answer::NoData(zone) => format!("NODATA {}", zone.name),
        Answer::NxDomain(zone) => format!("NXDOMAIN {}", zone.name),
        Answer::Refused => "REFUSED".to_owned(),
        Answer::NotReady => "SERVFAIL".to_owned(),
    }
}

#[test]
fn the_grammar_of_names() {
    let (zones, table) = (zones(&["global"]), shop());
    let all = "A 10.96.0.1, A 10.96.0.2, A 10.96.0.3";
    let cases: &[(&str, RecordType, &str)] = &[
        ("db.prod.global", RecordType::A, all),
        ("db.prod.global", RecordType::AAAA, "AAAA 2001:db8::1"),
        ("db.prod.global", RecordType::ANY, all),
        ("db.prod.global", RecordType::TXT, "NODATA global."),
        (
            "east.db.prod.global",
            RecordType::A,
            "A 10.96.0.1, A 10.96.0.2",
        ),
        ("db-0.west.db.prod.global", RecordType::A, "A 10.96.0.3"),
        (
            "db-0.west.db.prod.global",
            RecordType::AAAA,
            "NODATA global.",
        ),
        (
            "_sql._tcp.db-0.west.db.prod.global",
            RecordType::SRV,
            "SRV 0 10 26257 db-0.west.db.prod.global.",
        ),
        (
            "_dns._udp.west.db.prod.global",
            RecordType::SRV,
            "SRV 0 10 53 db-0.west.db.prod.global.",
        ),
        ("_sql._tcp.db.prod.global", RecordType::A, "NODATA global."),
        (
            "_sql._udp.db.prod.global",
            RecordType::SRV,
            "NXDOMAIN global.",
        ),
        (
            "_nope._tcp.db.prod.global",
            RecordType::SRV,
            "NXDOMAIN global.",
        ),
        // One SRV record for a number with two names, and one for a port without a name.
        (
            "west.db.prod.global",
            RecordType::SRV,
            "SRV 0 10 53 db-0.west.db.prod.global., SRV 0 10 7000 db-0.west.db.prod.global., \
             SRV 0 10 26257 db-0.west.db.prod.global.",
        ),
        // The short family stays in the short family.
        ("db.global", RecordType::A, all),
        ("west.db.global", RecordType::A, "A 10.96.0.3"),
        ("db-0.west.db.global", RecordType::A, "A 10.96.0.3"),
        (
            "_sql._tcp.west.db.global",
            RecordType::SRV,
            "SRV 0 10 26257 db-0.west.db.global.",
        ),
        // Empty non-terminals.
        ("prod.global", RecordType::A, "NODATA global."),
        ("dns.global", RecordType::A, "NODATA global."),
        ("_tcp.db.prod.global", RecordType::SRV, "NODATA global."),
        ("_udp.east.db.global", RecordType::SRV, "NODATA global."),
        // What does not exist.
        ("_sctp.db.prod.global", RecordType::SRV, "NXDOMAIN global."),
        ("empty.global", RecordType::A, "NXDOMAIN global."),
        ("idle.empty.global", RecordType::A, "NXDOMAIN global."),
        ("idle.global", RecordType::A, "NXDOMAIN global."),
        ("nope.prod.global", RecordType::A, "NXDOMAIN global."),
        ("north.db.prod.global", RecordType::A, "NXDOMAIN global."),
        (
            "db-1.west.db.prod.global",
            RecordType::A,
            "NXDOMAIN global.",
        ),
        (
            "x.db-0.west.db.prod.global",
            RecordType::A,
            "NXDOMAIN global.",
        ),
        ("a.b.c.d.e.f.g.global", RecordType::A, "NXDOMAIN global."),
        (
            "_grpc_config.db.prod.global",
            RecordType::TXT,
            "NXDOMAIN global.",
        ),
        ("_sql.global", RecordType::SRV, "NXDOMAIN global."),
        ("_sql._tcp.global", RecordType::SRV, "NXDOMAIN global."),
        ("_sql._tcp.prod.global", RecordType::SRV, "NXDOMAIN global."),
        // The zone itself.
        ("global", RecordType::SOA, "SOA"),
        ("global", RecordType::NS, "NS"),
        ("global", RecordType::A, "NODATA global."),
        ("ns.dns.global", RecordType::A, "own A"),
        ("ns.dns.global", RecordType::AAAA, "NODATA global."),
        ("dns-version.global", RecordType::TXT, "TXT"),
        ("x.dns-version.global", RecordType::TXT, "NXDOMAIN global."),
        // Outside.
        ("example.com", RecordType::A, "REFUSED"),
        ("xglobal", RecordType::A, "REFUSED"),
        (".", RecordType::NS, "REFUSED"),
    ];
    for (name, rtype, expected) in cases {
        assert_eq!(
            ask(&zones, &table, name, *rtype),
            *expected,
            "{name} {rtype}"
        );
    }
}

#[test]
fn the_longest_zone_decides() {
    let (zones, table) = (zones(&["global", "svc.global"]), shop());
    assert_eq!(
        ask(&zones, &table, "db.prod.svc.global", RecordType::AAAA),
        "AAAA 2001:db8::1"
    );
    assert_eq!(
        ask(&zones, &table, "nope.svc.global", RecordType::A),
        "NXDOMAIN svc.global."
    );
    assert_eq!(ask(&zones, &table, "svc.global", RecordType::SOA), "SOA");
    assert_eq!(
        ask(&zones, &table, "db.prod.global", RecordType::AAAA),
        "AAAA 2001:db8::1"
    );
    assert_eq!(
        ask(&zones, &table, "nope.global", RecordType::A),
        "NXDOMAIN global."
    );
}

#[test]
fn canonical_names_with_records_come_before_short_ones() {
    // A service `db` in namespace `prod`, and a namespace `db` with a service called like a cluster.
    let table = table(&[
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        mirror("db", "east", "north"),
        endpoint("db", "east", "north", "e-0", &["10.96.0.9"]),
    ]);
    let zones = zones(&["global"]);
    assert_eq!(
        ask(&zones, &table, "east.db.global", RecordType::A),
        "A 10.96.0.9"
    );
    // An empty non-terminal yields to a short name.
    assert_eq!(
        ask(&zones, &table, "db.global", RecordType::A),
        "A 10.96.0.1"
    );
    assert_eq!(
        ask(&zones, &table, "db-0.east.db.global", RecordType::A),
        "A 10.96.0.1"
    );
    let kinds: Vec<&str> = table
        .conflicts()
        .map(|conflict| conflict.kind.name())
        .collect();
    assert_eq!(kinds, ["shadowed"]);
}

#[test]
fn an_address_that_two_endpoints_share_is_one_record() {
    let table = table(&[
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.1"]),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.1"]),
    ]);
    let zones = zones(&["global"]);
    for name in [
        "db.prod.global",
        "east.db.prod.global",
        "west.db.prod.global",
        "db-1.east.db.prod.global",
    ] {
        assert_eq!(
            ask(&zones, &table, name, RecordType::A),
            "A 10.96.0.1",
            "{name}"
        );
    }
}

#[test]
fn names_that_exceed_dns_limits_are_left_out() {
    let (host, cluster) = ("h".repeat(63), "c".repeat(55));
    let (service, namespace) = ("s".repeat(63), "n".repeat(63));
    let table = table(&[
        mirror(&namespace, &service, &cluster),
        endpoint(&namespace, &service, &cluster, &host, &["10.96.0.1"]),
        endpoint(&namespace, &service, &cluster, "db-0", &["10.96.0.2"]),
    ]);
    // The longer name takes 64 + 56 + 64 + 64 + 8 = 256 octets.
    let zones = zones(&["global"]);
    let name = format!("{service}.{namespace}.global");
    assert_eq!(ask(&zones, &table, &name, RecordType::A), "A 10.96.0.2");
    let reasons: Vec<&str> = table
        .skipped()
        .map(|(_, skip)| skip.reason.name())
        .collect();
    assert_eq!(reasons, ["bad-name"]);
}

#[test]
fn names_are_read_and_written_as_in_a_zone_file() {
    for (wire, text) in [
        (&b"\x02DB\x04prod\x06global\x00"[..], "db.prod.global."),
        (b"\x00", "."),
        (b"\x04a.b\n\x00", "a\\.b\\010."),
        (b"\x01\xff\x00", "\\255."),
    ] {
        assert_eq!(Name::read(wire).unwrap().to_string(), text);
    }
    assert!(Name::from_text("a..b").is_none());
    assert!(Name::from_text(&"x".repeat(64)).is_none());
}

#[test]
fn what_a_zone_may_be_called() {
    assert_eq!("Global".parse::<ZoneName>().unwrap().as_str(), "global.");
    assert_eq!(
        "svc.global.".parse::<ZoneName>().unwrap().wire(),
        b"\x03svc\x06global\x00"
    );
    assert_eq!(".".parse::<ZoneName>(), Err(InvalidZone::Root));
    for bad in ["glo bal", "a..b", "-a", "a_b"] {
        assert!(
            matches!(bad.parse::<ZoneName>(), Err(InvalidZone::Label(_))),
            "{bad}"
        );
    }
    assert_eq!(
        ["abc"; 40].join(".").parse::<ZoneName>(),
        Err(InvalidZone::Long(161))
    );
}
