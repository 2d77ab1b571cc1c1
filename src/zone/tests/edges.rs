//! Where names begin and end: the longest that there are, those that only look like names of a zone, and names that
//! two readings compete for.

use super::*;
use crate::mirror::GatewayDown;
use crate::table::{Published, Rules};
use crate::testing::{gateway, published};
use answer::answer_question;

#[test]
fn names_have_at_most_255_octets_and_labels_at_most_63() {
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
fn a_zone_leaves_room_for_the_names_below_it() {
    let zone = |lengths: &[usize]| {
        let labels: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        labels
            .join(".")
            .parse::<ZoneName>()
            .map(|zone| zone.wire().len())
    };
    assert_eq!(zone(&[63, 62]), Ok(128));
    assert_eq!(zone(&[63, 63]), Err(InvalidZone::Long(129)));
}

#[test]
fn a_name_lies_in_a_zone_if_its_last_labels_are_the_zones() {
    let global: ZoneName = "global".parse().unwrap();
    for (wire, is_below) in [
        (&b"\x06global\x00"[..], true),
        (b"\x06GLOBAL\x00", true),
        (b"\x02db\x06global\x00", true),
        // As many octets in as many labels.
        (b"\x02db\x06client\x00", false),
        // One label that ends as the zone's name does on the wire.
        (b"\x09db\x06global\x00", false),
        (b"\x07xglobal\x00", false),
        (b"\x00", false),
    ] {
        let name = Name::read(wire).unwrap();
        assert_eq!(name.is_below(&global), is_below, "{name}");
    }
}

#[test]
fn no_name_can_forge_a_line_of_a_log() {
    let name = Name::read(b"\x05a\n\x1b\"b\x06global\x00").unwrap();
    assert_eq!(name.to_string(), "a\\010\\027\\\"b.global.");
    assert_eq!(format!("{name:?}"), name.to_string());
}

#[test]
fn an_empty_non_terminal_yields_to_a_short_name_dns_too() {
    let table = table(&[
        mirror("prod", "dns", "east"),
        endpoint("prod", "dns", "east", "dns-0", &["10.96.0.1"]),
    ]);
    let zones = zones(&["global", "96.10.in-addr.arpa"]);
    for (name, expected) in [
        ("dns.global", "A 10.96.0.1"),
        ("east.dns.global", "A 10.96.0.1"),
        // The zone's own name comes first.
        ("ns.dns.global", "A 192.0.2.53"),
        // Names of addresses are no services'.
        ("dns.96.10.in-addr.arpa", "NODATA 96.10.in-addr.arpa."),
        (
            "east.dns.96.10.in-addr.arpa",
            "NXDOMAIN 96.10.in-addr.arpa.",
        ),
        ("prod.96.10.in-addr.arpa", "NXDOMAIN 96.10.in-addr.arpa."),
    ] {
        assert_eq!(ask(&zones, &table, name, RecordType::A), expected, "{name}");
    }
}

#[test]
fn what_does_not_exist_is_told_by_how_far_it_could_be_read() {
    let (zones, table) = (zones(&["global", "96.10.in-addr.arpa"]), shop());
    for (name, expected) in [
        ("nope.prod.global", Why::NoService),
        ("idle.empty.global", Why::NoEndpoint),
        ("east.idle.empty.global", Why::NoEndpoint),
        ("north.db.prod.global", Why::NoCluster),
        ("db-0.north.db.prod.global", Why::NoCluster),
        ("db-1.west.db.prod.global", Why::NoHost),
        ("_nope._tcp.db.prod.global", Why::NoPort),
        ("_sctp.db.prod.global", Why::NoPort),
        ("x.db-0.west.db.prod.global", Why::NoForm),
        ("9.0.96.10.in-addr.arpa", Why::NoAddress),
        ("9.96.10.in-addr.arpa", Why::NoAddress),
        ("x.96.10.in-addr.arpa", Why::NoForm),
    ] {
        let Reading::Missing(_, why) = read(&zones, &table, &Name::from_text(name).unwrap()) else {
            panic!("{name}")
        };
        assert_eq!(why, expected, "{name}");
    }
}

#[test]
fn a_zone_file_begins_with_what_the_zone_itself_owns() {
    let zones = zones(&["global", "96.10.in-addr.arpa"]);
    let now = published(shop());
    let head = |name: &str| {
        let zone = zones
            .iter()
            .find(|zone| zone.name.as_str() == name)
            .unwrap();
        let file = print::zone_file(&zones, zone, &now);
        file.lines().take(4).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        head("global.")[..],
        [
            "global.\t5\tIN\tSOA\tns.dns.global. hostmaster.global. 1790000000 7200 1800 86400 5",
            "global.\t5\tIN\tNS\tns.dns.global.",
            "dns-version.global.\t5\tIN\tTXT\t\"1.1.0\"",
            "ns.dns.global.\t5\tIN\tA\t192.0.2.53",
        ]
    );
    let reverse = head("96.10.in-addr.arpa.");
    assert!(
        reverse[0].starts_with("96.10.in-addr.arpa.\t5\tIN\tSOA\t"),
        "{reverse:?}"
    );
    assert!(
        !reverse.iter().any(|line| line.contains("TXT")),
        "{reverse:?}"
    );
}

/// BIND, Knot and NSD refuse a zone whose name server has no address.
#[test]
fn a_zone_file_has_an_address_of_its_name_server_even_if_none_is_known() {
    let known = zones(&["global"]);
    let unknown = known.iter().cloned().map(|zone| Zone {
        ns_addresses: Vec::new(),
        ..zone
    });
    let unknown = Zones::new(unknown.collect());
    let now = published(shop());
    let [with, without] =
        [&known, &unknown].map(|zones| print::zone_file(zones, zones.iter().next().unwrap(), &now));
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
fn types_are_written_as_in_a_zone_file() {
    for (rtype, text) in [
        (RecordType::A, "A"),
        (RecordType::NS, "NS"),
        (RecordType::SOA, "SOA"),
        (RecordType::PTR, "PTR"),
        (RecordType::TXT, "TXT"),
        (RecordType::AAAA, "AAAA"),
        (RecordType::SRV, "SRV"),
        (RecordType::ANY, "ANY"),
        (RecordType(65), "TYPE65"), // RFC 3597 section 5
    ] {
        assert_eq!(rtype.to_string(), text);
    }
}

#[test]
fn without_a_table_or_with_too_old_a_one_the_zone_fails_and_nothing_else() {
    let zones = zones(&["global"]);
    let fresh = || published(shop());
    let expired = Published {
        is_expired: true,
        ..fresh()
    };
    for (now, name, expected) in [
        (&Published::default(), "db.prod.global", "NotReady"),
        (&Published::default(), "nope.global", "NotReady"),
        (&Published::default(), "example.com", "Refused"),
        (&fresh(), "db.prod.global", "Data"),
        (&fresh(), "nope.global", "NxDomain"),
        (&fresh(), "example.com", "Refused"),
        (&expired, "db.prod.global", "Expired"),
        (&expired, "nope.global", "Expired"),
        (&expired, "example.com", "Refused"),
    ] {
        let name = Name::from_text(name).unwrap();
        let answer = answer_question(&zones, now, &name, RecordType::A);
        let found = format!("{answer:?}");
        let found = found.split('(').next().unwrap();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn targets_are_short_unless_a_canonical_name_hides_one() {
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
        matches!(view.targets, Targets::Asked(_))
    };
    assert!(are_short("shop", "web", "db.global"));
    assert!(are_short("db", "web", "db.global"));
    // `db-0.west.db.global` is a name of service `west` in namespace `db`, and does not exist: all are canonical.
    assert!(!are_short("db", "west", "db.global"));
    assert!(are_short("db", "west", "east.db.global"));
    assert!(are_short("db", "west", "db.prod.global"));
}

/// Rule M4, decided once for each owner name.
#[test]
fn a_dead_gateway_counts_for_each_name_by_itself_and_never_for_one_host() {
    let objects = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        gateway("prod", "db-0-east", false),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.2"]),
    ];
    let zones = zones(&["global"]);
    let (east, west, nodata) = ("A 10.96.0.1", "A 10.96.0.2", "NODATA global.");
    let srv = "SRV 0 10 26257 db-0.east.db.prod.global.";
    use GatewayDown::{Exclude, Include, LastResort};
    for (gateway_down, name, rtype, expected) in [
        (LastResort, "db.prod.global", RecordType::A, west),
        (LastResort, "east.db.prod.global", RecordType::A, east),
        (LastResort, "db-0.east.db.prod.global", RecordType::A, east),
        (
            Include,
            "db.prod.global",
            RecordType::A,
            "A 10.96.0.1, A 10.96.0.2",
        ),
        (Include, "east.db.prod.global", RecordType::A, east),
        (Exclude, "db.prod.global", RecordType::A, west),
        (Exclude, "east.db.prod.global", RecordType::A, nodata),
        (Exclude, "db-0.east.db.prod.global", RecordType::A, east),
        (
            Exclude,
            "_sql._tcp.east.db.prod.global",
            RecordType::SRV,
            nodata,
        ),
        (
            Exclude,
            "_sql._tcp.db-0.east.db.prod.global",
            RecordType::SRV,
            srv,
        ),
        (
            LastResort,
            "_sql._tcp.east.db.prod.global",
            RecordType::SRV,
            srv,
        ),
    ] {
        let table = table_by(
            &Rules {
                gateway_down,
                ..rules()
            },
            &objects,
        );
        let found = ask(&zones, &table, name, rtype);
        assert_eq!(found, expected, "{gateway_down:?} {name}");
    }
}

#[test]
fn leaving_out_a_dead_endpoint_loses_no_address_that_a_live_one_has_too() {
    let table = table(&[
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        gateway("prod", "db-0-east", false),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.1"]),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.2"]),
    ]);
    let zones = zones(&["global"]);
    for (name, expected) in [
        ("db.prod.global", "A 10.96.0.1, A 10.96.0.2"),
        ("east.db.prod.global", "A 10.96.0.1"),
    ] {
        assert_eq!(ask(&zones, &table, name, RecordType::A), expected, "{name}");
    }
}
