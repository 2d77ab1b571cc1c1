use serde_json::{Value, json};

use super::*;
use crate::clock::unix_seconds;
use crate::model::Timestamp;
use crate::source::Feeds;
use crate::table::change::{Change, ChangeKind};
use crate::table::{Built, Difference, Publisher, Rules, ShortNames};
use crate::testing::{
    backends, endpoint, federated, gateway, link, listing, local, mirror, record_now, rules,
    service_mirror, table, table_by, table_with_links, zones,
};
use crate::view::{Filter, Identity, Server, View, document};

/// What an explanation says.
#[derive(Debug)]
struct Explained {
    exists: bool,
    reading: String,
    /// The endpoints as `HOST returned: WHY`.
    endpoints: Vec<String>,
    /// The problems as `KIND SUBJECT: DETAIL`.
    problems: Vec<String>,
    nearest: Vec<String>,
}

fn server_of(watched: &[&str], table: Table) -> Server {
    let publisher = Publisher::default();
    let built = Built {
        table,
        difference: Difference::Answers,
        ..Built::default()
    };
    publisher.publish(built, Timestamp::from_seconds(1), unix_seconds());
    let mut server = Server::of_objects(
        publisher.reader(),
        Feeds::new(&[]),
        zones(&["global"]),
        Identity::default(),
    );
    server.namespaces = watched.iter().map(|name| name.parse().unwrap()).collect();
    server
}

fn explained_in(watched: &[&str], table: Table, name: &str) -> Explained {
    let server = server_of(watched, table);
    let filter = Filter {
        name: Some(name.to_owned()),
        ..Filter::default()
    };
    let document = document(View::Explain, &server, &filter).unwrap();
    let items = document.objects();
    let of = |section: &'static str| items.iter().filter(move |one| one["section"] == section);
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let endpoint = |one: &Value| {
        let returned = if one["returned"] == true { "+" } else { "-" };
        let why = text(one, "why");
        let why = if why.is_empty() {
            why
        } else {
            format!(": {why}")
        };
        format!(
            "{returned}{} {}{why}",
            text(one, "cluster"),
            text(one, "state")
        )
    };
    let problem = |one: &Value| {
        let [kind, subject, detail] = ["kind", "subject", "detail"].map(|field| text(one, field));
        format!("{kind} {subject}: {detail}")
    };
    Explained {
        exists: items[0]["exists"] == true,
        reading: text(&items[0], "reading"),
        endpoints: of("endpoints").map(endpoint).collect(),
        problems: of("problems")
            .map(problem)
            .filter(|one| !one.contains("source-"))
            .collect(),
        nearest: of("nearest names that exist")
            .map(|one| text(one, "text"))
            .collect(),
    }
}

fn explained(objects: &[Value], name: &str) -> Explained {
    explained_in(&[], table(objects), name)
}

fn as_texts(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn shop() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        endpoint("prod", "db", "east", "db-1", &["10.96.0.2"]),
        mirror("prod", "db", "west"),
    ]
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
            "service 'db' in namespace 'prod', cluster 'east', endpoint 'db-0': 1 of 1 endpoint",
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
                &format!("-{down}; the name has no records of endpoints"),
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
fn missing_name_has_its_reason_the_problems_and_the_nearest_names() {
    let mut objects = shop();
    objects.extend(local("prod", "db", &[("db-0", "10.0.0.1", false)]));
    objects.push(mirror("prod", "idle", "west"));
    // The worst first: a note is the last one.
    let of_db = [
        "not-exported prod/db: cluster 'hub' is a member here only, and only while a mirror of its name exists: its Service is not exported",
        "missing-host Service/prod/db-west: no host of cluster 'west'",
        "pod-not-ready prod/db: cluster 'hub': db-0",
    ];
    for (name, reading, problems) in [
        (
            "nope.prod.global",
            "no service 'nope' in namespace 'prod': it has no mirror here; export it in its cluster, and check that the cluster is linked",
            &[][..],
        ),
        (
            "idle.prod.global",
            "a service without endpoints",
            &["missing-host Service/prod/idle-west: no host of cluster 'west'"],
        ),
        (
            "west.db.prod.global",
            "the service has no endpoint in cluster 'west'",
            &of_db,
        ),
        (
            "db-7.east.db.prod.global",
            "a cluster without an endpoint of that hostname",
            &of_db,
        ),
        (
            "_http._tcp.db.prod.global",
            "a name without an endpoint with that port",
            &of_db,
        ),
        ("nope.global", "a short name that no service has", &[]),
        (
            "a.b.c.d.e.f.g.global",
            "not a valid form of name: names look like db.prod, west.db.prod and db-0.west.db.prod, also without the namespace, and \
             with _sql._tcp before them",
            &[],
        ),
        (
            "www.example.com",
            "in none of the zones of this server (global.)",
            &[],
        ),
    ] {
        let explained = explained(&objects, name);
        assert!(!explained.exists, "{name}");
        assert_eq!(
            (
                explained.reading.as_str(),
                &as_texts(&explained.problems)[..]
            ),
            (reading, problems),
            "{name}"
        );
        assert!(!explained.nearest.is_empty(), "{name}");
    }
    let unwatched = explained_in(&["shop"], table(&objects), "nope.prod.global");
    let reading =
        "no service 'nope' in namespace 'prod': the setting namespaces does not have this one";
    assert_eq!(unwatched.reading, reading);
}

#[test]
fn local_service_that_is_not_a_member_has_a_problem_with_the_command() {
    let own = |name: &str, labels: Value| {
        let [mut service, slice] = local("prod", name, &[("h-0", "10.0.0.1", true)]);
        service["metadata"]["labels"] = labels;
        [service, slice]
    };
    let exported = "mirror.linkerd.io/exported";
    let objects = [
        own("plain", json!({})),
        own("odd", json!({exported: "mine"})),
        own("good", json!({exported: "true"})),
    ]
    .concat();
    for (name, why) in [
        ("plain", "its Service is not exported"),
        (
            "odd",
            "label mirror.linkerd.io/exported of its Service is not 'true'",
        ),
    ] {
        let command = format!(
            "kubectl label service {name} --namespace prod --overwrite mirror.linkerd.io/exported=true"
        );
        let note = format!("left-out Service/prod/{name}: it is not a member: {why}: {command}");
        for below in ["", "h-0.hub."] {
            let explained = explained(&objects, &format!("{below}{name}.prod.global"));
            assert_eq!(
                (explained.exists, explained.problems),
                (false, vec![note.clone()])
            );
        }
    }
    assert!(explained(&objects, "good.prod.global").exists);
    // The command is sufficient.
    let exported = own("plain", json!({exported: "true"}));
    assert!(explained(&exported, "plain.prod.global").exists);
}

#[test]
fn host_without_an_endpoint_mirror_is_a_problem_of_all_names_of_its_service() {
    let mut objects = shop();
    objects.truncate(3);
    let hosts = [("db-0", "10.96.0.1"), ("db-2", "10.96.0.7")];
    objects.push(listing("prod", "db-east", &hosts));
    let gone = "missing-host Service/prod/db-east: lists db-2 (10.96.0.7)";
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
        assert_eq!(explained.problems, [gone], "{name}");
    }
}

/// People type the names of Kubernetes and of Linkerd.
#[test]
fn names_of_kubernetes_and_linkerd_have_the_name_to_ask_for() {
    let objects = shop();
    for (name, nearest) in [
        ("db-0.db.prod.global", "db-0.east.db.prod.global."),
        ("db-east.prod.global", "east.db.prod.global."),
        ("db-1-east.prod.global", "db-1.east.db.prod.global."),
    ] {
        assert_eq!(explained(&objects, name).nearest[0], nearest);
    }
}

#[test]
fn exported_service_that_cannot_be_mirrored_has_the_reason() {
    let long = "d".repeat(60);
    for (host, has_ports, expected) in [
        ("db-0", true, None),
        (
            "db-0",
            false,
            Some("it has no ports, so that Linkerd skips it: add ports to the Service"),
        ),
        (
            "",
            true,
            Some(
                "no pod has a hostname, so that Linkerd makes no mirrors of them: give its pods hostnames, by a StatefulSet whose serviceName is this Service",
            ),
        ),
        (&long, true, Some("is longer than 63 characters")),
    ] {
        let mut objects = local("prod", "db", &[(host, "10.0.0.1", true)]);
        objects[0]["metadata"]["labels"] = json!({"mirror.linkerd.io/exported": "true"});
        if !has_ports {
            objects[0]["spec"]["ports"] = json!([]);
        }
        let problems = explained(&objects, "db.prod").problems;
        let is_it = |one: &&String| one.starts_with("not-mirrorable prod/db: ");
        let found = problems.iter().find(is_it);
        assert_eq!(found.is_some(), expected.is_some(), "{host} {problems:?}");
        assert!(
            found.is_none_or(|one| one.contains(expected.unwrap())),
            "{found:?}"
        );
    }
}

#[test]
fn short_name_without_an_owner_and_names_below_it_have_the_reason() {
    let mut objects = shop();
    objects.push(mirror("shop", "db", "west"));
    let explained = |rules: Rules, name: &str| explained_in(&[], table_by(&rules, &objects), name);
    let conflict = "short-name db: exists in namespaces prod, shop";
    let has_conflict = |explained: &Explained| {
        explained
            .problems
            .iter()
            .any(|one| one.starts_with(conflict))
    };
    for name in ["db.global", "east.db.global", "_sql._tcp.east.db.global"] {
        let explained = explained(rules(), name);
        assert!(!explained.exists, "{name}");
        assert_eq!(
            explained.reading,
            "ambiguous: 'db' exists in the namespaces prod, shop"
        );
        assert!(has_conflict(&explained), "{name}: {explained:?}");
    }
    let pinned = Rules {
        pinned_names: [("db".parse().unwrap(), "test".parse().unwrap())].into(),
        ..rules()
    };
    let short_names = |short_names| Rules {
        short_names,
        ..rules()
    };
    for (rules, reading) in [
        (
            pinned,
            "'db' is pinned to namespace 'test', which has no such service; namespaces that have it: prod, shop",
        ),
        (
            short_names(ShortNames::Pinned),
            "no setting assigns the short name 'db' to a namespace (shortNames.pinned); namespaces that have it: prod, shop",
        ),
        (
            short_names(ShortNames::None),
            "short names are off; namespaces that have it: prod, shop",
        ),
    ] {
        let explained = explained(rules, "db.global");
        assert_eq!(explained.reading, reading);
        assert!(!has_conflict(&explained), "{explained:?}");
    }
    // The name with its namespace is answered, and also shows the conflict.
    let explained = explained(rules(), "db.prod.global");
    assert!(explained.exists);
    assert!(has_conflict(&explained), "{explained:?}");
}

#[test]
fn cluster_without_a_link_is_a_problem_of_the_names_of_its_services() {
    let objects = [
        mirror("prod", "db", "east"),
        mirror("prod", "web", "west"),
        link("east", "east"),
    ];
    let table = table_with_links(&rules(), &objects);
    let unlinked = "unlinked west: its endpoints are down".to_owned();
    for (name, expected) in [("db.prod", false), ("web.prod", true)] {
        let explained = explained_in(&[], table.clone(), name);
        let is_unlinked = explained.problems.contains(&unlinked);
        assert_eq!(is_unlinked, expected, "{explained:?}");
    }
}

/// A reply has at most so many octets over UDP. A page has so many endpoints.
#[test]
fn answers_and_endpoints_that_do_not_fit_are_counted() {
    let objects = (1..=25).flat_map(|number| {
        let address = format!("10.96.0.{number}");
        [endpoint(
            "prod",
            "db",
            "east",
            &format!("db-{number}"),
            &[&address],
        )]
    });
    let objects: Vec<Value> = [mirror("prod", "db", "east")]
        .into_iter()
        .chain(objects)
        .collect();
    for (limit, udp_max, expected) in [
        (
            Some(20),
            512,
            [
                "75, 10 over UDP (TC)",
                "5 more endpoints; -o wide shows all",
            ],
        ),
        (
            Some(20),
            4096,
            ["75", "5 more endpoints; -o wide shows all"],
        ),
        (None, 4096, ["75", "ok"]),
    ] {
        let mut server = server_of(&[], table(&objects));
        server.settings = json!({"answers": {"udpMax": udp_max}}).into();
        let filter = Filter {
            name: Some("db.prod".to_owned()),
            limit,
            ..Filter::default()
        };
        let document = document(View::Explain, &server, &filter).unwrap();
        let cells = document
            .sections
            .iter()
            .flat_map(|one| &one.rows)
            .flat_map(|row| &row.cells);
        let cells: Vec<&str> = cells.map(String::as_str).collect();
        for cell in expected {
            assert!(cells.contains(&cell), "{cell}: {cells:?}");
        }
    }
}

/// Returns the rows of the table, or of another view, that a filter selects.
fn rows(server: &Server, view: View, filter: &Filter) -> Vec<Value> {
    document(view, server, filter).unwrap().objects()
}

#[test]
fn row_of_a_service_without_problems_of_its_own_has_that_of_its_endpoints() {
    let objects = [
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.0.1"]),
        link("east", "east"),
    ];
    let server = server_of(&[], table_with_links(&rules(), &objects));
    let row = &rows(&server, View::Table, &Filter::default())[0];
    assert_eq!(
        (&row["state"], &row["problem"]),
        (&json!("failing"), &json!("unlinked"))
    );
}

#[test]
fn cluster_that_a_name_waits_for_selects_its_service() {
    let [mut service, slice] = local("prod", "db", &[("db-0", "10.0.0.1", true)]);
    service["metadata"]["annotations"] =
        json!({"global-dns/expected-clusters": "local+east until 1970-01-02T00:00Z"});
    let server = server_of(&[], table(&[service, slice]));
    for (cluster, count) in [("east", 1), ("west", 0)] {
        let filter = Filter {
            cluster: vec![cluster.to_owned()],
            ..Filter::default()
        };
        assert_eq!(
            rows(&server, View::Table, &filter).len(),
            count,
            "{cluster}"
        );
    }
}

/// An event of a cluster names no service.
#[test]
fn filter_of_events_without_a_service_is_told_beside_events_of_clusters() {
    let server = server_of(&[], table(&[mirror("prod", "db", "east")]));
    let unlinked = Change::new(ChangeKind::Unlinked, "Cluster west has no Link.");
    record_now(&server.feeds.events, unlinked);
    for (text, is_told) in [("nope", true), ("db", false)] {
        let filter = Filter {
            text: vec![text.to_owned()],
            ..Filter::default()
        };
        let document = document(View::Events, &server, &filter).unwrap();
        assert_eq!(document.sections[0].rows.len(), 1);
        let told = document.sections.iter().flat_map(|one| &one.rows);
        let mut told = told.flat_map(|row| &row.cells);
        assert_eq!(
            told.any(|cell| cell.starts_with("no service matches 'nope'")),
            is_told
        );
    }
}

/// At most five causes of services of one namespace are listed.
#[test]
fn problem_of_the_source_is_listed_beside_any_number_of_failing_services() {
    let failing = (0..60).flat_map(|number| {
        let namespace = if number == 59 { "shop" } else { "prod" };
        let (service, cluster) = (format!("s{number}"), format!("c{number}"));
        let slice = backends(namespace, &format!("{service}-{cluster}"), true, false);
        [
            service_mirror(namespace, &service, &cluster, "10.96.0.1"),
            slice,
        ]
    });
    let server = server_of(&[], table(&failing.collect::<Vec<_>>()));
    let feed = server.feeds.all().pop_first().unwrap();
    server
        .feeds
        .note_failure(&feed, "cannot reach https://10.0.0.1");
    let rows = rows(&server, View::Problems, &Filter::default());
    let causes = rows.iter().filter(|one| one["section"] == "causes");
    let kinds: Vec<_> = causes.map(|one| one["kind"].as_str()).collect();
    let down = kinds.iter().filter(|one| **one == Some("gateway-down"));
    assert_eq!((down.count(), kinds.len()), (6, 7), "{kinds:?}");
    assert!(kinds.contains(&Some("source-unavailable")), "{kinds:?}");
}
