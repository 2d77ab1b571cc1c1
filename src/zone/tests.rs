use super::*;
use crate::model::{Family, Problem};
use crate::table::Table;
use crate::table::Timers;
use crate::testing::support::codes::type_number;
use crate::testing::{endpoint, local, mirror, rules, table, table_by, zone_file, zones};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

mod aliases;
mod edges;
mod failover;
mod kinds;
mod links;
mod missing;
mod namespaces;
mod order;

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

/// Returns the answer to a question as one line: the records of the answer section, or the negative result.
fn ask(zones: &Zones, table: &Table, name: &str, rtype: RecordType) -> String {
    let name = Name::from_text(name).unwrap();
    let answer = answer(read(zones, table, &name), rtype);
    match &answer {
        Answer::NoData(zone) => format!("NODATA {}", zone.name),
        Answer::NxDomain(zone) => format!("NXDOMAIN {}", zone.name),
        Answer::Refused => "REFUSED".to_owned(),
        Answer::NotReady | Answer::Failed(_) => "SERVFAIL".to_owned(),
        Answer::Data(..)
        | Answer::Soa(_)
        | Answer::Ns(_)
        | Answer::Address(..)
        | Answer::Text(_) => {
            let records = answer.records(AnswerContext::new(&name, 7)).into_iter();
            let answered = records.filter(|record| record.section == MessageSection::Answer);
            let texts = answered.map(|record| record.data.to_string().replace('\t', " "));
            texts.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Asserts the answers to questions, such as `db.prod.global A`. The zone `set` has the grammar `mcs`, and `one`
/// that of cluster `east`.
fn check(table: &Table, cases: &[(&str, &str)]) {
    let zones = zones(&["global", "set=mcs", "one=east"]);
    for (question, expected) in cases {
        let (name, rtype) = question.split_once(' ').unwrap();
        let rtype = RecordType(type_number(rtype));
        assert_eq!(ask(&zones, table, name, rtype), *expected, "{question}");
    }
}

#[test]
fn canonical_name_hides_short_name() {
    // A service `db` in namespace `prod`, and a namespace `db` with a service that has the name of a cluster.
    let table = table(&[
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        mirror("db", "east", "north"),
        endpoint("db", "east", "north", "e-0", &["10.96.0.9"]),
    ]);
    check(
        &table,
        &[
            ("east.db.global A", "A 10.96.0.9"),
            // An empty non-terminal does not hide a short name.
            ("db.global A", "A 10.96.0.1"),
            // A canonical name also hides the short names below it.
            ("db-0.east.db.global A", "NXDOMAIN global."),
        ],
    );
    let kinds: Vec<&str> = table
        .conflicts()
        .map(|conflict| conflict.kind.name())
        .collect();
    assert_eq!(kinds, ["shadowed"]);
}

#[test]
fn endpoint_with_too_long_name_is_skipped() {
    let (host, cluster) = ("h".repeat(63), "c".repeat(55));
    let (service, namespace) = ("s".repeat(63), "n".repeat(63));
    let table = table(&[
        mirror(&namespace, &service, &cluster),
        endpoint(&namespace, &service, &cluster, &host, &["10.96.0.1"]),
        endpoint(&namespace, &service, &cluster, "db-0", &["10.96.0.2"]),
    ]);
    // The longer name has 64 + 56 + 64 + 64 + 8 = 256 octets.
    let zones = zones(&["global"]);
    let name = format!("{service}.{namespace}.global");
    assert_eq!(ask(&zones, &table, &name, RecordType::A), "A 10.96.0.2");
    let is_skip = |one: &&Problem| one.kind.row().family == Family::Skipped;
    let skipped = table.problems().filter(is_skip);
    let reasons: Vec<&str> = skipped.map(|problem| problem.kind.name()).collect();
    assert_eq!(reasons, ["unusable-object"]);
}

#[test]
fn name_is_written_as_in_a_zone_file() {
    for (wire, text) in [
        (&b"\x02DB\x04prod\x06global\x00"[..], "db.prod.global."),
        (b"\x00", "."),
        (b"\x04a.b\n\x00", "a\\.b\\010."),
        (b"\x01\xff\x00", "\\255."),
        // No name can forge a line of the log.
        (b"\x05a\n\x1b\"b\x06global\x00", "a\\010\\027\\\"b.global."),
    ] {
        let name = Name::read(wire).unwrap();
        assert_eq!(name.to_string(), text);
        assert_eq!(format!("{name:?}"), text);
    }
    assert!(Name::from_text("a..b").is_none());
    assert!(Name::from_text(&"x".repeat(64)).is_none());
    let name = Name::from_text("prod.global").unwrap();
    assert!(name.labels(2).unwrap().eq(["prod", "global"]));
    let name = Name::read(b"\x02db\x02\xc3\xa9\x06global\x00").unwrap();
    assert!(name.labels(1).is_some() && name.labels(2).is_none());
}

#[test]
fn zone_name_is_validated() {
    assert_eq!("Global".parse::<ZoneName>().unwrap().as_str(), "global.");
    assert_eq!(
        "svc.global.".parse::<ZoneName>().unwrap().wire(),
        b"\x03svc\x06global\x00"
    );
    let long = ["abc"; 40].join(".");
    for (bad, reason) in [
        (".", "the root zone"),
        ("glo bal", "'glo bal' is not"),
        ("a..b", "'' is not"),
        ("-a", "'-a' is not"),
        ("a_b", "'a_b' is not"),
        (&long, "the zone name has 161 octets"),
    ] {
        let refused = bad.parse::<ZoneName>().unwrap_err();
        assert!(refused.starts_with(reason), "{refused}");
    }
}

/// Labels that services, namespaces, clusters, hosts and ports share, so that their names collide.
const LABELS: [&str; 8] = [
    "db",
    "east",
    "prod",
    "dns",
    "ns",
    "sql",
    "db-0",
    "dns-version",
];

fn any_object() -> impl Strategy<Value = Value> {
    let label = || prop::sample::select(LABELS.to_vec());
    let host = (label(), label(), label(), label(), 1..250_u8);
    prop_oneof![
        (label(), label(), label())
            .prop_map(|(namespace, service, cluster)| mirror(namespace, service, cluster)),
        host.prop_map(|(namespace, service, cluster, host, ip)| {
            endpoint(
                namespace,
                service,
                cluster,
                host,
                &[&format!("10.96.0.{ip}")],
            )
        }),
    ]
}

fn any_name() -> impl Strategy<Value = String> {
    let label = prop_oneof![
        prop::sample::select(LABELS.to_vec()).prop_map(str::to_owned),
        prop::sample::select(vec!["_sql", "_tcp", "_udp", "_dns", "nope", "x.y"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(label, 0..7).prop_map(|labels| {
        let labels: Vec<String> = labels.into_iter().chain(["global".to_owned()]).collect();
        labels.join(".")
    })
}

proptest! {
    /// The zone file of `table --output zone` has exactly the records of the answers.
    #[test]
    fn zone_file_equals_answers(
        objects in prop::collection::vec(any_object(), 0..40),
        names in prop::collection::vec(any_name(), 60),
    ) {
        let (zones, table) = (zones(&["global"]), table(&objects));
        let zone = zones.iter().next().unwrap();
        let printed = zone_file(&zones, zone, &crate::testing::published(table.clone()));
        let (mut owners, mut lines) = (BTreeSet::new(), BTreeSet::new());
        for line in printed.lines() {
            prop_assert!(lines.insert(line), "twice: {line}");
            let fields: Vec<&str> = line.split('\t').collect();
            owners.insert(fields[0].to_owned());
            let rtype = match fields[3] {
                "A" => RecordType::A,
                "AAAA" => RecordType::AAAA,
                "SRV" => RecordType::SRV,
                _ => continue,
            };
            let answer = ask(&zones, &table, fields[0], rtype);
            let is_own = fields[0] == "ns.dns.global.";
            let record = format!("{} {}", fields[3], fields[4]);
            prop_assert!(is_own || answer.split(", ").any(|own| own == record), "{line}: {answer}");
        }
        for name in names {
            let name = Name::from_text(&name).unwrap();
            let own = name.to_string();
            let exists = owners.iter().any(|owner| *owner == own || owner.ends_with(&format!(".{own}")));
            match read(&zones, &table, &name) {
                Reading::View(..) | Reading::Apex(..) | Reading::NsHost(_) | Reading::Version(_) => {
                    prop_assert!(owners.contains(&own), "{own} has an answer but is not in the zone file");
                }
                Reading::Empty(_) => {
                    prop_assert!(exists && !owners.contains(&own), "{own} is not an empty non-terminal");
                }
                Reading::Missing(..) => prop_assert!(!exists, "{own} is in the zone file but has no answer"),
                Reading::Failing(..) | Reading::Outside => prop_assert!(false, "{own}"),
            }
        }
    }

    /// A later export can contest a short name that is not pinned, but never become its owner. Conflicts are reported.
    #[test]
    fn short_name_never_moves_to_another_namespace(
        later in prop::collection::vec(any_object(), 1..30),
        is_pinned in any::<bool>(),
    ) {
        let zones = zones(&["global"]);
        let own = [mirror("shop", "db", "east"), endpoint("shop", "db", "east", "db-0", &["192.0.2.1"])];
        let pin = || ("db".parse().unwrap(), "shop".parse().unwrap());
        let rules = crate::table::Rules {
            pinned_names: is_pinned.then(pin).into_iter().collect(),
            ..rules()
        };
        let mut store = crate::testing::store(&own);
        let mut table = table_by(&rules, &own);
        for object in later {
            let watch = crate::model::Kind::Service;
            let (key, object) = crate::testing::parsed(watch, &object);
            let dirty = store.apply(watch, key, Some(object));
            table = crate::table::build(&table, &store, &dirty, &rules, &Timers::default()).table;
            let has_conflict = |kind: &str, matches: &dyn Fn(&str) -> bool| {
                table.conflicts().any(|c| c.kind.name() == kind && matches(&c.subject()))
            };
            let is_ambiguous = has_conflict("short-name", &|name| name == "db");
            prop_assert!(!is_ambiguous || !is_pinned);
            let answer = ask(&zones, &table, "db.global", RecordType::A);
            if is_ambiguous {
                // Namespace `db` may have names.
                prop_assert!(["NXDOMAIN global.", "NODATA global."].contains(&answer.as_str()));
            } else {
                prop_assert_eq!(answer, "A 192.0.2.1");
            }
            for name in ["east.db", "db-0.east.db"] {
                let answer = ask(&zones, &table, &format!("{name}.global"), RecordType::A);
                let is_hidden = has_conflict("shadowed", &|hidden| name.ends_with(hidden));
                let is_own = !is_hidden && !is_ambiguous;
                prop_assert_eq!(answer == "A 192.0.2.1", is_own, "{} {}", name, answer);
            }
        }
    }
}
