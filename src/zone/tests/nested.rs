//! Zones below another zone: their names, and what they hide.

use super::*;
use crate::table::{ChildZone, Grammar, Rules};

fn child(name: &str, parent: &str, parent_grammar: Grammar) -> ChildZone {
    let labels = name.strip_suffix(parent).unwrap().trim_end_matches('.');
    ChildZone {
        name: name.to_owned(),
        parent: parent.to_owned(),
        parent_grammar,
        labels: labels.split('.').map(str::to_owned).collect(),
    }
}

/// Returns the conflicts of a table with a zone below `global.`, or below `set.` with the grammar `mcs`.
fn hidden_by(name: &str, objects: &[Value]) -> Vec<String> {
    let (parent, grammar) = if name.ends_with(".set.") {
        ("set.", Grammar::Mcs)
    } else {
        ("global.", Grammar::Global)
    };
    let rules = Rules {
        child_zones: vec![child(name, parent, grammar)],
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
