//! Zones below another zone: their names, and what they hide.

use super::*;
use crate::table::{ChildZone, Profile, Rules};
use crate::testing::{federated, import, import_slice, service_mirror};

fn child(name: &str, parent: &str, parent_profile: Profile) -> ChildZone {
    let labels = name.strip_suffix(parent).unwrap().trim_end_matches('.');
    ChildZone {
        name: name.to_owned(),
        parent: parent.to_owned(),
        parent_profile,
        labels: labels.split('.').map(str::to_owned).collect(),
    }
}

/// Returns the conflicts of a table with a zone below `global.`, or below `set.` with the profile `mcs`.
fn hidden_by(name: &str, objects: &[Value]) -> Vec<String> {
    let (parent, profile) = if name.ends_with(".set.") {
        ("set.", Profile::ClusterSet)
    } else {
        ("global.", Profile::Global)
    };
    let rules = Rules {
        child_zones: vec![child(name, parent, profile)],
        has_cluster_sets: true,
        ..rules()
    };
    let table = table_by(&rules, objects);
    let conflicts = table.conflicts();
    conflicts
        .map(|one| format!("{} {}: {}", one.kind.name(), one.subject(), one.detail))
        .collect()
}

#[test]
fn names_that_a_child_zone_hides_are_a_conflict() {
    let objects = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        mirror("test", "idle", "east"),
    ];
    for (zone, hidden) in [
        ("prod.global.", "all names of namespace 'prod'"),
        ("db.prod.global.", "names of prod/db"),
        ("east.db.prod.global.", "names of prod/db"),
        ("db-0.east.db.prod.global.", "names of prod/db"),
        ("db.global.", "short names of prod/db"),
        ("east.db.global.", "short names of prod/db"),
        ("svc.set.", "all names"),
        ("prod.svc.set.", "all names of namespace 'prod'"),
        ("db.prod.svc.set.", "names of prod/db"),
        ("db-0.east.db.prod.svc.set.", "names of prod/db"),
    ] {
        let parent = if zone.ends_with("set.") {
            "set."
        } else {
            "global."
        };
        assert_eq!(
            hidden_by(zone, &objects),
            [format!(
                "shadowed {zone}: zone {zone} hides {hidden} in zone {parent}"
            )]
        );
    }
    // No name exists there.
    for zone in [
        "other.global.",
        "test.global.",
        "idle.test.global.",
        "west.db.prod.global.",
        "db-1.east.db.prod.global.",
        "x.db-0.east.db.prod.global.",
        "prod.set.",
        "test.svc.set.",
        "idle.test.svc.set.",
    ] {
        assert_eq!(hidden_by(zone, &objects), [""; 0], "{zone}");
    }
    // A namespace and a service of another one.
    let both = [
        mirror("db", "web", "east"),
        endpoint("db", "web", "east", "web-0", &["10.96.0.2"]),
    ];
    assert_eq!(
        hidden_by("db.global.", &[&objects[..], &both].concat()),
        [
            "shadowed db.global.: zone db.global. hides all names of namespace 'db' and short names of prod/db in zone global."
        ]
    );
}

#[test]
fn imports_that_a_child_zone_hides_are_a_conflict() {
    let objects = [
        import("prod", "db", "Headless", &[]),
        import_slice("prod", "db", "east", &[("db-0", "10.1.0.1")]),
    ];
    assert_eq!(
        hidden_by("svc.set.", &objects),
        ["shadowed svc.set.: zone svc.set. hides all names in zone set."]
    );
    assert_eq!(hidden_by("svc.set.", &[]), [""; 0]);
}

/// RFC 4035 section 3.1.4.1: the DS record of a zone belongs to its parent.
#[test]
fn ds_at_an_apex_is_answered_from_the_zone_above() {
    let zones = zones(&["global", "prod.global", "a.prod.global", "10.in-addr.arpa"]);
    let ds = |name: &str| ask(&zones, &shop(), name, RecordType::DS);
    assert_eq!(ds("prod.global"), "NODATA global.");
    assert_eq!(ds("a.prod.global"), "NODATA prod.global.");
    // No zone above it is served.
    assert_eq!(ds("global"), "NODATA global.");
    assert_eq!(ds("10.in-addr.arpa"), "NODATA 10.in-addr.arpa.");
    // Below an apex, and with other types, the child zone answers.
    assert_eq!(ds("ns.dns.prod.global"), "NODATA prod.global.");
    let txt = ask(&zones, &shop(), "prod.global", RecordType::TXT);
    assert_eq!(txt, "NODATA prod.global.");
}

fn pointers(zones: &[&str], objects: &[Value]) -> String {
    let zones = crate::testing::zones(&[zones, &["96.10.in-addr.arpa"]].concat());
    ask(
        &zones,
        &table(objects),
        "1.0.96.10.in-addr.arpa",
        RecordType::PTR,
    )
}

#[test]
fn pointer_names_only_what_resolves() {
    let headless = [
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
    ];
    let name = "PTR db-0.east.db.prod.global.";
    let none = "NODATA 96.10.in-addr.arpa.";
    assert_eq!(pointers(&["global"], &headless), name);
    assert_eq!(pointers(&["global", "test.global"], &headless), name);
    for hidden in [
        "db.prod.global",
        "east.db.prod.global",
        "db-0.east.db.prod.global",
    ] {
        assert_eq!(pointers(&["global", hidden], &headless), none, "{hidden}");
    }
    // In the child zone, `db-0.east.db` is the short name of the same endpoint.
    assert_eq!(pointers(&["global", "prod.global"], &headless), name);
    // Here it is the name of another one: service `east` in namespace `db` has no such endpoint.
    let other = [
        mirror("db", "east", "north"),
        endpoint("db", "east", "north", "e-0", &["10.96.0.9"]),
    ];
    let objects = [&headless[..], &other].concat();
    assert_eq!(pointers(&["global", "prod.global"], &objects), none);
    // The endpoint of another namespace keeps its name.
    let visible = endpoint("db", "east", "north", "e-0", &["10.96.0.1"]);
    let objects = [&headless[..], &other[..1], &[visible]].concat();
    assert_eq!(
        pointers(&["global", "prod.global"], &objects),
        "PTR e-0.north.east.db.global."
    );
    // Without the zone of the names, there is none.
    assert_eq!(pointers(&["other"], &headless), none);
}

/// `ns.dns.Z` is the name of this server.
#[test]
fn pointer_never_names_the_server_itself() {
    let server = federated("dns", "ns", "10.96.0.1", "ns@east");
    assert_eq!(
        pointers(&["global"], std::slice::from_ref(&server)),
        "NODATA 96.10.in-addr.arpa."
    );
    // The names of its clusters are its own.
    let mirror = service_mirror("dns", "ns", "east", "10.96.0.1");
    assert_eq!(
        pointers(&["global"], &[server, mirror]),
        "PTR east.ns.dns.global."
    );
}
