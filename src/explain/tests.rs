use serde_json::{Value, json};

use super::*;
use crate::table::{Rules, ShortNames};
use crate::testing::{endpoint, gateway, local, mirror, published, rules, table, table_by, zones};

fn explained_in(watched: &[&str], objects: &[Value], name: &str) -> Explanation {
    let watched: Vec<Namespace> = watched.iter().map(|name| name.parse().unwrap()).collect();
    let name = Name::from_text(name).unwrap();
    explain(
        &zones(&["global"]),
        &published(table(objects)),
        &watched,
        &name,
    )
    .unwrap()
}

fn explained(objects: &[Value], name: &str) -> Explanation {
    explained_in(&[], objects, name)
}

fn shop() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
        mirror("prod", "db", "west"),
    ]
}

const MESHED: &str = "only meshed clients can use the addresses of other clusters' endpoints";
const EMPTY_WEST: &str = "Service/prod/db-west of cluster 'west' has no endpoint mirrors: no pod with a \
    hostname is ready over there, or Linkerd's controller lost them, which heals at the next change there or \
    within ten minutes";

#[test]
fn an_answer_comes_with_each_endpoint_and_its_object() {
    let explained = explained(&shop(), "db.prod.global");
    assert!(explained.exists);
    assert_eq!(
        explained.reading,
        "service 'db' in namespace 'prod': every endpoint of every cluster"
    );
    let answers = &explained.answers[0];
    assert_eq!(
        (answers.rtype.as_str(), answers.result.as_str(), answers.ttl),
        ("A", "NOERROR", Some(5))
    );
    assert_eq!(answers.records, ["A\t10.96.0.1", "A\t10.96.0.2"]);
    let objects: Vec<&str> = explained
        .endpoints
        .iter()
        .map(|e| e.object.as_str())
        .collect();
    assert_eq!(
        objects,
        ["Service/prod/db-0-east", "Service/prod/db-1-east"]
    );
    // A headless mirror without endpoint mirrors, as in recording 14.
    assert_eq!(explained.notes, [EMPTY_WEST, MESHED]);
}

#[test]
fn what_is_left_out_is_listed_with_its_reason() {
    let mut objects = shop();
    objects.push(gateway("prod", "db-0-east", false));
    let misleading = endpoint("prod", "db", "north", "db-9", &["10.96.0.9"]);
    objects.push(misleading);
    let explained = explained(&objects, "db.prod.global");
    assert_eq!(explained.notes[0], "1 endpoint's gateway is down; left out");
    let states: Vec<State> = explained
        .endpoints
        .iter()
        .map(|endpoint| endpoint.state)
        .collect();
    assert_eq!(states, [State::GatewayDown, State::Answered]);
    let skipped = &explained.skipped[0];
    assert_eq!(
        (skipped.object.as_str(), skipped.reason),
        ("Service/prod/db-9-north", SkipReason::NoParent)
    );
}

#[test]
fn an_explanation_says_what_the_answer_is() {
    for name in [
        "db.prod.global",
        "db.global",
        "west.db.prod.global",
        "prod.global",
        "nope.global",
        "example.com",
    ] {
        let name = Name::from_text(name).unwrap();
        let (zones, mut now) = (zones(&["global"]), published(table(&shop())));
        let explained = explain(&zones, &now, &[], &name).unwrap();
        now.is_expired = true;
        let expired = explain(&zones, &now, &[], &name).unwrap();
        let refused = explained.answers[0].result == "REFUSED";
        assert_eq!(expired.notes != explained.notes, !refused, "{name}");
        for report in &expired.answers {
            let result = if refused { "REFUSED" } else { "SERVFAIL" };
            assert_eq!(report.result, result, "{name}");
        }
        now.is_expired = false;
        for report in &explained.answers {
            let rtype = RecordType::OF_SERVICES
                .into_iter()
                .find(|t| t.to_string() == report.rtype);
            let result = match answer_question(&zones, &now, &name, rtype.unwrap()) {
                Answer::Data(..) => "NOERROR",
                Answer::NoData(_) => "NODATA",
                Answer::NxDomain(_) => "NXDOMAIN",
                Answer::Refused => "REFUSED",
                other @ (Answer::Soa(_)
                | Answer::Ns(_)
                | Answer::Address(..)
                | Answer::Text(_)
                | Answer::Pointers(..)
                | Answer::NotReady
                | Answer::Expired) => panic!("{other:?}"),
            };
            assert_eq!(report.result, result, "{name}");
        }
    }
}

#[test]
fn what_is_missing_for_a_name_that_does_not_exist() {
    let mut objects = shop();
    objects.extend(local("prod", "db", &[("db-0", "10.0.0.1", false)]));
    let mut web = mirror("prod", "web", "west");
    web["spec"]["clusterIP"] = json!("10.96.3.3");
    objects.push(web);
    objects.push(mirror("prod", "idle", "west"));
    let not_ready = "not ready in this cluster: db-0";
    let cases: &[(&str, &[&str])] = &[
        (
            "nope.prod.global",
            &[
                "no mirror of prod/nope was seen: is it exported over there (label \
               mirror.linkerd.io/exported=true), is its cluster linked, and is headless mirroring on?",
            ],
        ),
        (
            "web.prod.global",
            &[
                "Service/prod/web-west mirrors it from cluster 'west', but not as a headless service: headless \
               mirroring is off there, or its pods have no hostnames",
            ],
        ),
        (
            "idle.prod.global",
            &[&EMPTY_WEST.replace("db-west", "idle-west")],
        ),
        (
            "west.db.prod.global",
            &[
                "prod/db has endpoints in: east",
                EMPTY_WEST,
                not_ready,
                MESHED,
            ],
        ),
        (
            "db-7.east.db.prod.global",
            &[
                "endpoints of prod/db in 'east': db-0, db-1",
                EMPTY_WEST,
                not_ready,
                MESHED,
            ],
        ),
        (
            "_http._tcp.db.prod.global",
            &[
                "named ports of prod/db: _dns-tcp._tcp, _dns._udp, _sql._tcp",
                MESHED,
            ],
        ),
        ("nope.global", &["no namespace has a service of that name"]),
        (
            "a.b.c.d.e.f.g.global",
            &["names here are S.N, C.S.N, H.C.S.N or, without N, short; before each, _P._R"],
        ),
        ("example.com", &["served here: global."]),
    ];
    for (name, notes) in cases {
        let explained = explained(&objects, name);
        assert!(!explained.exists, "{name}");
        assert_eq!(explained.notes, *notes, "{name}");
        assert!(!explained.nearest.is_empty(), "{name}");
    }
    let unwatched = explained_in(&["shop"], &objects, "nope.prod.global");
    assert_eq!(
        unwatched.notes,
        ["namespace 'prod' is not watched: --namespace names others"]
    );
}

#[test]
fn a_short_name_without_an_owner_says_why_and_so_do_the_names_below_it() {
    let mut objects = shop();
    objects.push(mirror("shop", "db", "west"));
    let explained = |rules: Rules, name: &str| {
        let name = Name::from_text(name).unwrap();
        let now = published(table_by(&rules, &objects));
        explain(&zones(&["global"]), &now, &[], &name).unwrap()
    };
    let contested = "namespaces prod, shop have a service 'db', and no flag says whose the short name is: ask for the \
                     name with its namespace, or pin it with --short-name db=NAMESPACE";
    for name in ["db.global", "east.db.global", "_sql._tcp.east.db.global"] {
        let explained = explained(rules(), name);
        assert!(!explained.exists, "{name}");
        assert_eq!(
            explained.reading,
            "a short name that belongs to no namespace"
        );
        assert_eq!(explained.notes[0], contested, "{name}");
        let conflicts = explained.conflicts.iter();
        let conflicts: Vec<_> = conflicts
            .map(|c| (c.kind.name(), c.name.as_str()))
            .collect();
        assert_eq!(conflicts, [("short-name", "db")], "{name}");
    }
    let pinned = Rules {
        pinned_names: [("db".parse().unwrap(), "test".parse().unwrap())].into(),
        ..rules()
    };
    let short_names = |short_names| Rules {
        short_names,
        ..rules()
    };
    for (rules, note) in [
        (
            pinned,
            "the short name 'db' is pinned to namespace 'test', which lacks it; it is in: prod, shop",
        ),
        (
            short_names(ShortNames::Pinned),
            "no flag gives the short name 'db' to a namespace that has it, and --short-names is pinned; it is in: prod, \
             shop",
        ),
        (
            short_names(ShortNames::Off),
            "short names are off; 'db' is in: prod, shop",
        ),
    ] {
        let explained = explained(rules, "db.global");
        assert_eq!(explained.notes, [note]);
        assert_eq!(explained.conflicts, []);
    }
    // With its namespace it is answered, and the conflict is told there too.
    let explained = explained(rules(), "db.prod.global");
    assert!(explained.exists);
    assert_eq!(explained.conflicts[0].kind, ConflictKind::ShortName);
}

#[test]
fn the_nearest_names_come_first() {
    let explained = explained(&shop(), "dv.prod.global");
    assert_eq!(explained.nearest[0], "db.prod.global.");
    assert_eq!(explained.nearest.len(), NEAREST);
}

#[test]
fn the_text_for_people_says_it_all() {
    let text = explained(&shop(), "db.prod.global").to_text();
    for part in [
        "db.prod.global.\n  is service 'db'",
        "  A     NOERROR, TTL 5\n        10.96.0.1\n",
        "note: ",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_mirror_that_two_links_write_is_told_at_the_name_that_it_is_of_now() {
    let mut inputs = crate::testing::inputs(&shop());
    let rules = rules();
    let first = table(&shop());
    let moved = endpoint("prod", "db", "east", "db-7", &["10.96.0.1"]);
    let watch = crate::mirror::Watch::MirrorServices;
    let key = crate::mirror::ObjectKey::new("prod", "db-0-east");
    let (_, moved) = crate::testing::reduced(watch, &moved);
    let dirty = inputs.apply(watch, key, moved);
    let second = crate::table::build(&first, &inputs, &dirty, &rules).table;
    let name = Name::from_text("db-7.east.db.prod.global").unwrap();
    let explained = explain(&zones(&["global"]), &published(second), &[], &name).unwrap();
    let kinds: Vec<&str> = explained.conflicts.iter().map(|c| c.kind.name()).collect();
    assert_eq!(kinds, ["identity"]);
    assert!(
        explained.conflicts[0]
            .detail
            .contains("do two links write it?")
    );
}
