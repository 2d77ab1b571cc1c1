use serde_json::{Value, json};

use super::*;
use crate::table::{Rules, ShortNames, Table};
use crate::testing::{
    backends, endpoint, exported, federated, gateway, listing, local, mirror, published, rules,
    service_mirror, table, table_by, zones,
};

/// What an explanation says.
#[derive(Debug)]
struct Explained {
    exists: bool,
    reading: String,
    /// The endpoints as `HOST returned: WHY`.
    endpoints: Vec<String>,
    problems: BTreeSet<Problem>,
    notes: Vec<String>,
    nearest: Vec<String>,
}

fn explained_in(watched: &[&str], table: Table, name: &str) -> Explained {
    let watched: Vec<Namespace> = watched.iter().map(|name| name.parse().unwrap()).collect();
    let (name, now, zones) = (
        Name::from_text(name).unwrap(),
        published(table),
        zones(&["global"]),
    );
    let explained = Explanation::of_name(&zones, &now, &watched, &name, 100).unwrap();
    let endpoint = |one: &ListedEndpoint<'_>| {
        let report = one.report();
        let returned = if report.returned { "+" } else { "-" };
        let why: String = report.why.iter().map(|why| format!(": {why}")).collect();
        format!("{returned}{} {}{why}", report.cluster, report.state.name())
    };
    Explained {
        exists: explained.exists,
        endpoints: explained.endpoints.iter().map(endpoint).collect(),
        reading: explained.reading,
        problems: explained.problems,
        notes: explained.notes,
        nearest: explained.nearest,
    }
}

fn explained(objects: &[Value], name: &str) -> Explained {
    explained_in(&[], table(objects), name)
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
const EMPTY_WEST: &str = "missing-host Service/prod/db-west: no host of cluster 'west'";

/// Returns the problems of an explanation, and its notes.
fn said(explained: &Explained) -> Vec<String> {
    let problems = explained
        .problems
        .iter()
        .map(|one| format!("{} {}: {}", one.kind, one.subject(), one.detail));
    problems.chain(explained.notes.iter().cloned()).collect()
}

/// Each endpoint with the reason for which the replies contain it or not.
#[test]
fn reason_of_an_endpoint_depends_on_the_name() {
    let mut objects = shop();
    objects.push(gateway("prod", "db-0-east", false));
    let pods = [("db-0", "192.0.2.1", true), ("db-1", "192.0.2.2", false)];
    objects.extend(local("prod", "db", &pods));
    objects.push(federated("prod", "web", "10.96.6.1", "web@east"));
    objects.push(service_mirror("prod", "web", "east", "10.96.5.1"));
    objects.push(backends("prod", "web-east", true, true));
    let mut own = local("shop", "pay", &[])[0].clone();
    own["metadata"]["annotations"] = json!({
        "global-dns/failover": "east:west",
    });
    objects.push(own);
    for (cluster, ip) in [("east", "10.96.7.1"), ("west", "10.96.7.2")] {
        objects.push(service_mirror("shop", "pay", cluster, ip));
    }
    // The one of east has no slice.
    objects.push(backends("shop", "pay-west", true, true));
    let unready = "-hub not-ready: its pod is not ready";
    let down = "east down: its gateway is down";
    for (name, reading, expected) in [
        (
            "db.prod.global",
            "service 'db' in namespace 'prod': 2 of 4 endpoints",
            ["+east alive", "+hub alive", &format!("-{down}"), unready].to_vec(),
        ),
        (
            "_dns._udp.db.prod.global",
            "service 'db' in namespace 'prod', port 'dns' over udp: 1 of 4 endpoints",
            ["+east alive", &format!("-{down}"), "-hub alive: it lacks the port", unready].to_vec(),
        ),
        (
            "hub.db.prod.global",
            "service 'db' in namespace 'prod', cluster 'hub': 1 of 2 endpoints",
            [
                "+hub alive",
                &format!("-{down}; the name is that of cluster 'hub'"),
                "-east alive: the name is that of cluster 'hub'",
                unready,
            ].to_vec(),
        ),
        (
            "db-0.east.db.prod.global",
            "service 'db' in namespace 'prod', cluster 'east': endpoint 'db-0'",
            [
                &format!("+{down}; returned because nothing better is left"),
                "-east alive: the name is that of another endpoint",
                "-hub alive: the name is that of another endpoint",
                unready,
            ].to_vec(),
        ),
        (
            "_tcp.db.prod.global",
            "an empty non-terminal: names exist below it, and it has no records",
            [
                &format!("-{down}"),
                "-east alive: the name has no records of endpoints",
                "-hub alive: the name has no records of endpoints",
                unready,
            ].to_vec(),
        ),
        (
            "web.prod.global",
            "service 'web' in namespace 'prod': 1 of 2 endpoints",
            ["+ alive", "-east omitted: a better kind answers for its cluster"].to_vec(),
        ),
        (
            "east.web.prod.global",
            "service 'web' in namespace 'prod', cluster 'east': 1 of 1 endpoint",
            [
                "+east omitted: a better kind answers for its cluster; returned for names of its cluster",
                "- alive: the name is that of cluster 'east'",
            ].to_vec(),
        ),
        (
            "pay.shop.global",
            "service 'pay' in namespace 'shop': 1 of 2 endpoints",
            [
                "+east not-ready: no pod behind its address is ready; returned because nothing better is left",
                "-west standby: another step of the failover order answers",
            ].to_vec(),
        ),
    ] {
        let explained = explained(&objects, name);
        assert_eq!(explained.endpoints, expected, "{name}");
        assert_eq!(explained.reading, reading);
    }
}

#[test]
fn missing_name_has_notes_about_what_is_missing() {
    let mut objects = shop();
    objects.extend(local("prod", "db", &[("db-0", "10.0.0.1", false)]));
    objects.push(mirror("prod", "idle", "west"));
    let not_ready = "pod-not-ready prod/db: in this cluster: db-0";
    let not_exported = "not-exported prod/db: cluster 'hub' is a member here only, and only while a mirror of its name exists: its Service is not exported";
    let cases: &[(&str, &[&str])] = &[
        (
            "nope.prod.global",
            &[
                "there is no mirror of prod/nope: check that it is exported in its cluster (label \
               mirror.linkerd.io/exported=true), that the cluster is linked, and that headless mirroring is on; while \
               it is on, Linkerd does not mirror a headless Service that is exported as remote-discovery",
            ],
        ),
        (
            "idle.prod.global",
            &["missing-host Service/prod/idle-west: no host of cluster 'west'"],
        ),
        (
            "west.db.prod.global",
            &[
                not_exported,
                not_ready,
                EMPTY_WEST,
                "prod/db has endpoints in: east",
                MESHED,
            ],
        ),
        (
            "db-7.east.db.prod.global",
            &[
                not_exported,
                not_ready,
                EMPTY_WEST,
                "endpoints of prod/db in 'east': db-0, db-1",
                MESHED,
            ],
        ),
        (
            "_http._tcp.db.prod.global",
            &[
                not_exported,
                not_ready,
                EMPTY_WEST,
                "named ports of prod/db: _dns-tcp._tcp, _dns._udp, _sql._tcp",
                MESHED,
            ],
        ),
        ("nope.global", &["no namespace has a service of that name"]),
        (
            "a.b.c.d.e.f.g.global",
            &[
                "valid names look like db.prod, west.db.prod and db-0.west.db.prod, also without the namespace, and with \
                 _sql._tcp before them",
            ],
        ),
        ("example.com", &["zones served here: global."]),
    ];
    for (name, notes) in cases {
        let explained = explained(&objects, name);
        assert!(!explained.exists, "{name}");
        assert_eq!(said(&explained), *notes, "{name}");
        assert!(!explained.nearest.is_empty(), "{name}");
    }
    let unwatched = explained_in(&["shop"], table(&objects), "nope.prod.global");
    assert_eq!(
        unwatched.notes,
        ["namespace 'prod' is not watched; --namespace selects others"]
    );
}

#[test]
fn local_service_that_is_not_a_member_has_a_note_with_the_command() {
    let own = |name: &str, labels: Value| {
        let [mut service, slice] = local("prod", name, &[("h-0", "10.0.0.1", true)]);
        service["metadata"]["labels"] = labels;
        [service, slice]
    };
    let exported = "mirror.linkerd.io/exported";
    let objects = [
        own("plain", json!({})),
        own("flat", json!({exported: "remote-discovery"})),
        own("odd", json!({exported: "True"})),
        own("good", json!({exported: "true"})),
    ]
    .concat();
    let command = |service: &str, flag: &str| {
        format!(
            "kubectl label service {service} --namespace prod{flag} mirror.linkerd.io/exported=true"
        )
    };
    for (name, why, command) in [
        (
            "plain",
            "it is headless, but not exported",
            command("plain", ""),
        ),
        (
            "flat",
            "it is exported as remote-discovery, which Linkerd does not support for headless Services",
            command("flat", " --overwrite"),
        ),
        (
            "odd",
            "it is headless, but its label mirror.linkerd.io/exported is not 'true'",
            command("odd", " --overwrite"),
        ),
    ] {
        let note = format!("not-a-member Service/prod/{name}: {why}: {command}");
        for below in ["", "h-0.hub."] {
            let explained = explained(&objects, &format!("{below}{name}.prod.global"));
            assert_eq!(
                (explained.exists, said(&explained)),
                (false, vec![note.clone()])
            );
        }
    }
    assert!(explained(&objects, "good.prod.global").exists);
    // The command of the note is sufficient.
    let exported = own("plain", json!({exported: "true"}));
    assert!(explained(&exported, "plain.prod.global").exists);
}

#[test]
fn hosts_without_an_endpoint_mirror_are_in_notes() {
    let mut objects = shop();
    objects.truncate(3);
    objects.push(listing(
        "prod",
        "db-east",
        &[
            ("db-0", "10.96.0.1"),
            ("db-2", "10.96.0.7"),
            ("db-3", "10.96.0.8"),
            ("db-4", "10.96.0.9"),
            ("db-5", "10.96.0.10"),
        ],
    ));
    // Two objects have the name of an endpoint mirror: the mirror of another service of the same pods, and that of a
    // Service for one pod.
    objects.push(mirror("prod", "cache", "east"));
    objects.push(endpoint("prod", "cache", "east", "db-4", &["10.96.0.9"]));
    objects.push(service_mirror("prod", "db-5", "east", "10.96.0.11"));
    let gone = "missing-host Service/prod/db-east: lists db-2 (10.96.0.7), db-3 (10.96.0.8), db-4 (10.96.0.9), db-5 \
                (10.96.0.10)";
    let other = "Service/prod/db-east lists db-4, but Service/prod/db-4-east is the endpoint mirror of a host of prod/cache";
    let own = "Service/prod/db-east lists db-5, but Service/prod/db-5-east is the mirror of prod/db-5 at another address";
    for (name, exists) in [
        ("db.prod.global", true),
        ("east.db.prod.global", true),
        // It fails.
        ("db-2.east.db.prod.global", true),
        ("db-6.east.db.prod.global", false),
        ("west.db.prod.global", false),
    ] {
        let explained = explained(&objects, name);
        assert_eq!(explained.exists, exists, "{name}");
        for note in [gone, other, own] {
            assert!(
                said(&explained).contains(&note.to_owned()),
                "{name}: {explained:#?}"
            );
        }
    }
}

/// People type the names of Kubernetes and of Linkerd.
#[test]
fn names_of_kubernetes_and_linkerd_have_the_name_to_ask_for() {
    let objects = shop();
    let host = explained(&objects, "db-0.db.prod.global");
    let note = "a host has its cluster in its name: ask for db-0.east.db.prod";
    assert!(host.notes.contains(&note.to_owned()), "{host:?}");
    let mirror = explained(&objects, "db-east.prod.global");
    let note =
        "'db-east' is Linkerd's mirror of 'db' in cluster 'east': ask for db.prod or east.db.prod";
    assert_eq!(mirror.notes, [note]);
}

#[test]
fn short_name_without_an_owner_and_names_below_it_have_the_reason() {
    let mut objects = shop();
    objects.push(mirror("shop", "db", "west"));
    let explained = |rules: Rules, name: &str| explained_in(&[], table_by(&rules, &objects), name);
    let conflicts = |explained: &Explained| {
        let conflicts = explained.problems.iter().filter(|one| one.is_conflict());
        let conflicts = conflicts.map(|one| (one.kind.name(), one.subject().to_string()));
        conflicts.collect::<Vec<_>>()
    };
    for name in ["db.global", "east.db.global", "_sql._tcp.east.db.global"] {
        let explained = explained(rules(), name);
        assert!(!explained.exists, "{name}");
        assert_eq!(
            explained.reading,
            "ambiguous: 'db' exists in the namespaces prod, shop"
        );
        assert_eq!(explained.notes, [""; 0], "{name}");
        assert_eq!(
            conflicts(&explained),
            [("short-name", "db".to_owned())],
            "{name}"
        );
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
            "the short name 'db' is pinned to namespace 'test', which has no such service; namespaces that have it: prod, shop",
        ),
        (
            short_names(ShortNames::Pinned),
            "shortNames.which is pinned, and no setting assigns the short name 'db' to a namespace with such a service; namespaces \
             that have it: prod, shop",
        ),
        (
            short_names(ShortNames::None),
            "short names are off; namespaces that have 'db': prod, shop",
        ),
    ] {
        let explained = explained(rules, "db.global");
        assert_eq!(explained.notes, [note]);
        assert_eq!(conflicts(&explained), []);
    }
    // The name with its namespace is answered, and also shows the conflict.
    let explained = explained(rules(), "db.prod.global");
    assert!(explained.exists);
    assert_eq!(conflicts(&explained)[0].0, "short-name");
}

/// The EndpointSlice of a mirror says whether its gateway is down, or nothing is ready behind it.
#[test]
fn endpoints_that_are_down_have_their_cause() {
    let mut objects = shop();
    objects.push(service_mirror("prod", "db", "north", "10.96.5.1"));
    objects.push(gateway("prod", "db-0-east", false));
    let down = |objects: &[Value], name: &str| {
        let problems = said(&explained(objects, name)).into_iter();
        let is_down = |one: &String| {
            ["gateway-down", "service-not"]
                .iter()
                .any(|kind| one.starts_with(kind))
        };
        problems.filter(is_down).collect::<Vec<_>>()
    };
    let gateway_down = "gateway-down prod/db: cluster 'east': db-0";
    let not_ready = "service-not-ready prod/db: cluster 'north': its cluster IP";
    assert_eq!(down(&objects, "db.prod.global"), [gateway_down, not_ready]);
    objects.push(backends("prod", "db-north", true, false));
    let both = "gateway-down prod/db: cluster 'north': its cluster IP";
    assert_eq!(down(&objects, "db.prod.global"), [gateway_down, both]);
    let own = [exported("prod", "web", "10.96.6.1")];
    assert_eq!(
        down(&own, "web.prod.global"),
        ["service-not-ready prod/web: cluster 'hub': its cluster IP"]
    );
}
