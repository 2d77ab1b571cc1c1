//! Edge cases of names: maximum lengths, names that only look like names of a zone, and names with two possible
//! meanings.

use super::*;
use crate::table::{Published, Rules};
use crate::testing::{federated, published, service_mirror};
use answer::answer_question;

#[test]
fn name_has_at_most_255_octets_and_label_at_most_63() {
    let name = |lengths: &[usize]| {
        let labels: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        Name::from_text(&labels.join(".")).map(|name| (name.wire().len(), name.count()))
    };
    // RFC 1035 section 2.3.4.
    assert_eq!(name(&[63, 63, 63, 61]), Some((255, 4)));
    assert_eq!(name(&[63, 63, 63, 62]), None);
    assert_eq!(name(&[1; 127]), Some((255, 127)));
    assert_eq!(name(&[1; 128]), None);
    assert_eq!(name(&[64]), None);
    let label = |length: u8| [&[length][..], &vec![b'x'; usize::from(length)], &[0]].concat();
    assert!(Name::read(&label(63)).is_some());
    assert!(Name::read(&label(64)).is_none());
}

#[test]
fn zone_name_has_at_most_128_octets() {
    let zone = |lengths: &[usize]| {
        let labels: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        labels
            .join(".")
            .parse::<ZoneName>()
            .map(|zone| zone.wire().len())
    };
    assert_eq!(zone(&[63, 62]), Ok(128));
    assert!(zone(&[63, 63]).is_err());
}

#[test]
fn name_is_in_a_zone_if_its_last_labels_are_equal() {
    let zones = zones(&["global"]);
    for (wire, is_below) in [
        (&b"\x06global\x00"[..], true),
        (b"\x06GLOBAL\x00", true),
        (b"\x02db\x06global\x00", true),
        // The same numbers of octets and labels
        (b"\x02db\x06client\x00", false),
        // One label that ends with the wire format of the zone's name
        (b"\x09db\x06global\x00", false),
        (b"\x07xglobal\x00", false),
        (b"\x00", false),
    ] {
        let name = Name::read(wire).unwrap();
        assert_eq!(zones.find(&name).is_some(), is_below, "{name}");
    }
}

#[test]
fn empty_non_terminal_dns_does_not_hide_a_short_name() {
    let table = table(&[
        mirror("prod", "dns", "east"),
        endpoint("prod", "dns", "east", "dns-0", &["10.96.0.1"]),
    ]);
    check(
        &table,
        &[
            ("dns.global A", "A 10.96.0.1"),
            ("east.dns.global A", "A 10.96.0.1"),
            // Names of the zone itself come first.
            ("ns.dns.global A", "A 192.0.2.53"),
        ],
    );
}

/// The SRV record of a cluster IP has the name of its cluster, or of a federated service, as target. The names of the zone
/// itself would send its clients to this server.
#[test]
fn names_of_the_zone_itself_have_no_ports() {
    let objects = [
        federated("dns", "ns", "10.96.0.1", "ns@east"),
        service_mirror("prod", "dns", "ns", "10.96.0.2"),
        mirror("prod", "dns-version", "east"),
        endpoint("prod", "dns-version", "east", "v-0", &["10.96.0.3"]),
    ];
    let rules = Rules {
        default_namespace: Some("prod".parse().unwrap()),
        ..rules()
    };
    let none = "NXDOMAIN global.";
    check(
        &table_by(&rules, &objects),
        &[
            ("_http._tcp.ns.dns.global SRV", none),
            ("_tcp.ns.dns.global SRV", none),
            ("_sql._tcp.dns-version.global SRV", none),
            ("_tcp.dns-version.global SRV", none),
            // Names below them belong to the services.
            (
                "_sql._tcp.east.dns-version.global SRV",
                "SRV 0 10 26257 v-0.east.dns-version.global.",
            ),
            // `ns.dns.global` is this server.
            (
                "_http._tcp.dns.global SRV",
                "SRV 0 10 80 ns.dns.prod.global.",
            ),
            (
                "_http._tcp.dns.prod.global SRV",
                "SRV 0 10 80 ns.dns.prod.global.",
            ),
        ],
    );
}

#[test]
fn zone_file_begins_with_records_of_the_zone_itself() {
    let zones = zones(&["global"]);
    let now = published(shop());
    let file = zone_file(&zones, &zones.0[0], &now);
    assert_eq!(
        file.lines().take(4).collect::<Vec<_>>(),
        [
            "global.\t5\tIN\tSOA\tns.dns.global. hostmaster.global. 1790000000 7200 1800 86400 5",
            "global.\t5\tIN\tNS\tns.dns.global.",
            "dns-version.global.\t5\tIN\tTXT\t\"1.1.0\"",
            "ns.dns.global.\t5\tIN\tA\t192.0.2.53",
        ]
    );
}

/// BIND, Knot and NSD reject a zone if its name server has no address.
#[test]
fn zone_file_has_a_placeholder_for_an_unknown_name_server_address() {
    let known = zones(&["global"]);
    let unknown = known.iter().cloned().map(|zone| Zone {
        ns_addresses: Vec::new(),
        ..zone
    });
    let unknown = Zones(unknown.collect());
    let now = published(shop());
    let [with, without] =
        [&known, &unknown].map(|zones| zone_file(zones, zones.iter().next().unwrap(), &now));
    assert_eq!(
        with.replace("\tA\t192.0.2.53\n", "\tA\t127.0.0.1\n"),
        without
    );
    let name = Name::from_text("ns.dns.global").unwrap();
    let table = now.table.as_ref().unwrap();
    let answered = answer(read(&unknown, table, &name), RecordType::A);
    assert!(matches!(answered, Answer::NoData(_)), "{answered:?}");
}

#[test]
fn srv_targets_are_short_unless_a_canonical_name_hides_one() {
    let zones = zones(&["global"]);
    let are_short = |namespace: &str, service: &str, name: &str| {
        let table = table(&[
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
            mirror("prod", "db", "west"),
            endpoint("prod", "db", "west", "db-0", &["10.96.0.2"]),
            mirror(namespace, service, "north"),
        ]);
        let Reading::View(_, view) = read(&zones, &table, &Name::from_text(name).unwrap()) else {
            panic!("{name}")
        };
        matches!(view.targets, reading::Targets::SameFamily(_))
    };
    assert!(are_short("shop", "web", "db.global"));
    assert!(are_short("db", "web", "db.global"));
    // `db-0.west.db.global` belongs to service `west` in namespace `db` and does not exist. All targets are canonical.
    assert!(!are_short("db", "west", "db.global"));
    assert!(are_short("db", "west", "east.db.global"));
    assert!(are_short("db", "west", "db.prod.global"));
}

/// A server of the parent zone alone must know that the names above its children exist.
#[test]
fn zone_file_delegates_the_nearest_child_zones_only() {
    let zones = zones(&["global", "a.global", "b.a.global", "other.test"]);
    let now = published(shop());
    let delegations = |name: &str| -> Vec<String> {
        let zone = zones.iter().find(|zone| zone.name.as_str() == name);
        let text = zone_file(&zones, zone.unwrap(), &now);
        let owner = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        let servers = text.lines().filter(|line| line.contains("\tNS\t"));
        servers.map(owner).collect()
    };
    assert_eq!(delegations("global."), ["global.", "a.global."]);
    assert_eq!(delegations("a.global."), ["a.global.", "b.a.global."]);
    assert_eq!(delegations("other.test."), ["other.test."]);
}

#[test]
fn answer_says_why_it_fails() {
    let zones = zones(&["global"]);
    let failure = |now: &Published, name: &str| {
        let name = Name::from_text(name).unwrap();
        answer_question(&zones, now, &name, RecordType::A).failure()
    };
    let [mut waiting, _] = local("prod", "db", &[]);
    waiting["metadata"]["annotations"]["global-dns/failover"] = json!("north");
    let failing = published(table(&[waiting, mirror("prod", "db", "east")]));
    for (now, expected) in [
        (&Published::default(), Some("there is no table yet")),
        (
            &failing,
            Some("the failover step that answers has no endpoint"),
        ),
        (&published(shop()), None),
    ] {
        assert_eq!(failure(now, "db.prod.global").as_deref(), expected);
        assert_eq!(failure(now, "db.prod.example"), None);
    }
}

/// Rule M3. Somebody else may write slices of a mirror, too.
#[test]
fn slice_without_endpoints_does_not_say_that_a_gateway_is_down() {
    let down = json!([{"addresses": ["192.0.2.1"], "conditions": {"ready": false}}]);
    for (endpoints, expected) in [
        (json!([]), "A 10.96.0.1, A 10.96.0.2"),
        (down, "A 10.96.0.2"),
    ] {
        let mut slice = crate::testing::gateway("prod", "db-0-east", true);
        slice["metadata"]["labels"] = json!({"kubernetes.io/service-name": "db-0-east"});
        slice["endpoints"] = endpoints;
        let objects = [
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
            endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
            slice,
        ];
        check(&table(&objects), &[("db.prod.global A", expected)]);
    }
}

/// The time of a query must not grow with the service.
#[test]
fn port_that_does_not_exist_costs_like_another_name_that_does_not() {
    let port = |number: u32| json!({"name": format!("p{number}"), "port": number});
    let ports: Value = (1..=128).map(port).collect();
    let first = json!([{"name": "sql", "port": 26257, "protocol": "UDP"}]);
    let address = |number: u32| std::net::Ipv4Addr::from(0x0a00_0000 + number).to_string();
    let pod = |number: u32| {
        let address = address(number);
        json!({"addresses": [address], "hostname": format!("db-{number}"), "conditions": {"ready": true}})
    };
    let [mut own, mut slice] = local("prod", "db", &[]);
    own["metadata"]["annotations"]["global-dns/failover"] = json!("east:local");
    (slice["endpoints"], slice["ports"]) = ((0..20_000).map(pod).collect(), ports);
    let mut east = endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]);
    east["spec"]["ports"] = first;
    let table = table(&[mirror("prod", "db", "east"), east, own, slice]);
    let zones = zones(&["global"]);
    let time = |name: &str| {
        let name = Name::from_text(name).unwrap();
        crate::testing::cpu_time(20, || {
            for _ in 0..50 {
                let reading = read(&zones, &table, &name);
                assert!(matches!(reading, Reading::Missing(..)), "{name}");
            }
        })
    };
    let other = time("db-1.north.db.prod.global");
    let port = time("_nosuch._tcp.db.prod.global");
    assert!(port < 10 * other, "{port:?}, {other:?}");
    // One pass over the endpoints, and not one for each port.
    let standby = time("_p7._tcp.db.prod.global");
    for protocol in ["_tcp", "_sctp"] {
        let protocol = time(&format!("{protocol}.db.prod.global"));
        assert!(protocol < 10 * standby, "{protocol:?}, {standby:?}");
    }
}
