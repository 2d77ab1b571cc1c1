//! Tests of the handlers, without connections.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::header::HOST;
use axum::http::{self, Request};
use serde_json::Value;
use strum::VariantArray as _;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use super::*;
use crate::clock::unix_milliseconds;
use crate::model::Timestamp;
use crate::source::Feeds;
use crate::table::content::listings::LISTINGS;
use crate::table::{Built, Difference, Moment, Publisher, Table};
use crate::testing::{backends, endpoint, mirror, service_mirror, table, zones};
use crate::view::{CurrentFacts, Identity, MAX_CLUSTERS, MAX_FAILING};

/// Returns a server with the tables of a publisher.
fn server(publisher: &Publisher) -> Server {
    let identity = Identity {
        cluster: "hub".parse().ok(),
        replica: "global-dns-7c9f".to_owned(),
        servers: vec!["192.0.2.53:53".parse().unwrap()],
    };
    Server::of_objects(
        publisher.reader(),
        Feeds::new(&[]),
        zones(&["global"]),
        identity,
    )
}

/// Returns the state of a server with the tables of a publisher, for tests on a runtime.
fn state(publisher: &Publisher, liveness: Liveness) -> HttpState {
    HttpState {
        server: server(publisher),
        probes: Probes {
            readiness: watch::Sender::new(Readiness::Ready),
            liveness,
        },
        metrics_runtime: Handle::current(),
    }
}

/// Requests a path.
async fn get(routes: &Router, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = Request::get(path).header(HOST, "localhost");
    let add = |request: http::request::Builder, (name, value): &(&str, &str)| {
        request.header(*name, *value)
    };
    let request = headers
        .iter()
        .fold(request, add)
        .body(Body::empty())
        .unwrap();
    routes.clone().oneshot(request).await.unwrap()
}

async fn octets(response: Response) -> Bytes {
    to_bytes(response.into_body(), usize::MAX).await.unwrap()
}

/// Returns the response to `/livez`.
pub(crate) async fn livez(liveness: &Liveness) -> (u16, String) {
    let state = state(&Publisher::default(), liveness.clone());
    let response = get(&admin_routes(state), "/livez", &[]).await;
    let status = response.status().as_u16();
    let text = octets(response).await;
    (status, String::from_utf8_lossy(&text).into_owned())
}

/// Checks the loops without any pause until `/livez` must fail. Returns its sentence.
pub(crate) async fn wait_until_stuck(liveness: &Liveness) -> String {
    // The first check may see the progress before.
    for _ in 0..=liveness::MAX_MISSED {
        liveness.check();
    }
    let (status, sentence) = livez(liveness).await;
    assert_eq!(status, 503, "{sentence}");
    sentence
}

/// Publishes a table of these objects.
fn publish(publisher: &Publisher, objects: &[Value]) {
    publish_at(publisher, objects, Timestamp(1));
}

fn publish_at(publisher: &Publisher, objects: &[Value], now: Timestamp) {
    let (last, table) = (publisher.reader().load(), table(objects));
    let services = last.table.iter().flat_map(Table::services);
    let services = services.chain(table.services()).map(|one| one.key.clone());
    let built = Built {
        services: services.collect(),
        table,
        difference: Difference::Answers,
        ..Built::default()
    };
    publisher.publish(built, now, 1);
}

/// The age of a history.
const HOUR: Duration = Duration::from_secs(3600);

fn alive() -> Liveness {
    Liveness::default()
}

fn api(publisher: &Publisher) -> Router {
    api_routes(server(publisher), ApiHosts::new(Vec::new()))
}

fn database(host: &str) -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", host, &["10.96.0.1"]),
        // Skipped: it has no parent.
        endpoint("prod", "db", "west", host, &["10.96.0.2"]),
    ]
}

#[tokio::test]
async fn metrics_have_a_limited_number_of_clusters_and_failing_services() {
    let publisher = Publisher::default();
    let mut objects = Vec::new();
    // The last one by name has the most endpoints. All gateways are down.
    let mut add = |namespace, service: &str, cluster: &str| {
        objects.push(service_mirror(namespace, service, cluster, "10.0.0.1"));
        let mirror = format!("{service}-{cluster}");
        objects.push(backends(namespace, &mirror, true, false));
    };
    for number in 0..MAX_CLUSTERS + 50 {
        add("prod", &format!("s{number}"), &format!("invented-{number}"));
    }
    for number in 0..3 {
        add("shop", &format!("s{number}"), "west");
    }
    publish(&publisher, &objects);
    let page = get(&admin_routes(state(&publisher, alive())), "/metrics", &[]).await;
    let page = String::from_utf8(octets(page).await.to_vec()).unwrap();
    let series = page.lines().filter_map(|line| {
        let labels = line.strip_prefix("global_dns_endpoints{remote_cluster=\"")?;
        let (cluster, rest) = labels.split_once('"')?;
        Some((cluster, rest.rsplit_once(' ')?.1.parse::<f64>().unwrap()))
    });
    let series: BTreeMap<&str, f64> = series.collect();
    assert_eq!(series.len(), MAX_CLUSTERS + 1);
    assert_eq!(series["west"], 3.0);
    assert_eq!(series["other"], 51.0);
    assert_eq!(series.values().sum::<f64>(), (MAX_CLUSTERS + 53) as f64);
    let failing = |labels: &str| page.matches(&format!("failing_services{{{labels}")).count();
    assert_eq!(failing(""), MAX_FAILING);
    let first = failing("namespace=\"prod\",service=\"s0\",kind=\"gateway-down\"} 1");
    assert_eq!(first, 1);
}

#[test]
fn replicas_are_compared_at_the_same_moment_although_answers_change() {
    let minute = |minutes: u64| Timestamp(minutes * 60_000);
    let hash = |(publisher, facts): &(Publisher, CurrentFacts), now| {
        let reader = publisher.reader();
        let _ = facts.of(&zones(&["global"]), &reader.load());
        facts.compared_hash(now, |moment| reader.at(moment))
    };
    let replicas = [9, 9].map(|_| (Publisher::new(minute(1), HOUR), CurrentFacts::default()));
    // The start is later than the moment, and then no table answered at it.
    for now in [4, 5] {
        assert_eq!(hash(&replicas[0], minute(now)), None);
    }
    for (publisher, _) in &replicas {
        publish_at(publisher, &database("db-0"), minute(9));
    }
    let expected = Some(table(&database("db-0")).answers_hash());
    assert_eq!(hash(&replicas[0], minute(10)), expected);
    // The second is scraped later, when the answers of both have changed.
    for (publisher, _) in &replicas {
        publish_at(publisher, &database("db-1"), minute(11));
    }
    let hashes = replicas.each_ref().map(|replica| hash(replica, minute(14)));
    assert_eq!(hashes, [expected; 2]);
    assert_ne!(hash(&replicas[1], minute(15)), expected);
    // Of a moment whose versions are not kept, a replica knows no answers.
    let whole = replicas[0].0.reader().at(minute(11)).unwrap();
    let incomplete = Moment {
        incomplete: ["prod".parse().unwrap()].into(),
        ..whole
    };
    let facts = CurrentFacts::default();
    assert_eq!(facts.compared_hash(minute(20), |_| Some(incomplete)), None);
}

/// The probe that arrives before the first table must not fail, and must not delay the other one.
#[tokio::test(start_paused = true)]
async fn readyz_waits_for_the_first_table_for_a_second() {
    let state = state(&Publisher::default(), alive());
    let readiness = state.probes.readiness.clone();
    readiness.send_replace(Readiness::Starting);
    let admin = admin_routes(state);
    let ready_after = async |milliseconds| {
        let start = Instant::now();
        let open = async {
            sleep(Duration::from_millis(milliseconds)).await;
            readiness.send_replace(Readiness::Ready);
        };
        let livez = async {
            let status = get(&admin, "/livez", &[]).await.status();
            (status, start.elapsed())
        };
        let readyz = async {
            let status = get(&admin, "/readyz", &[]).await.status();
            (status, start.elapsed())
        };
        let ((), livez, readyz) = tokio::join!(open, livez, readyz);
        assert_eq!(livez, (StatusCode::OK, Duration::ZERO));
        readiness.send_replace(Readiness::Starting);
        readyz
    };
    let arrival = Duration::from_millis(900);
    assert_eq!(ready_after(900).await, (StatusCode::OK, arrival));
    // The timer has a resolution of a millisecond.
    let (status, waited) = ready_after(1100).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(waited >= FIRST_TABLE_WAIT && waited < Duration::from_millis(1100));
    readiness.send_replace(Readiness::Withdrawn);
    let start = Instant::now();
    let status = get(&admin, "/readyz", &[]).await.status();
    assert_eq!(
        (status, start.elapsed()),
        (StatusCode::SERVICE_UNAVAILABLE, Duration::ZERO)
    );
}

/// Probes, and scrapes of an unchanged table, must cost the same with any number of services.
#[tokio::test]
async fn only_the_first_scrape_of_a_table_lists_its_services() {
    let publisher = Publisher::default();
    let state = state(&publisher, alive());
    let api = api_routes(state.server.clone(), ApiHosts::new(Vec::new()));
    let admin = admin_routes(state);
    let mut lists_of_scrapes = Vec::new();
    for host in ["db-0", "db-1"] {
        publish(&publisher, &database(host));
        let before = LISTINGS.get();
        // The first scrape computes the facts, and must be noticed here.
        get(&admin, "/metrics", &[]).await;
        let after = LISTINGS.get();
        lists_of_scrapes.push(after - before);
        for _ in 0..10 {
            for (routes, path) in [
                (&admin, "/metrics"),
                (&admin, "/readyz"),
                (&admin, "/livez"),
                (&api, "/api/v1/status"),
            ] {
                let response = get(routes, path, &[]).await;
                assert_eq!(response.status(), StatusCode::OK, "{path}");
                octets(response).await;
                assert_eq!(LISTINGS.get(), after, "{path}");
            }
        }
    }
    let [first, second] = lists_of_scrapes[..] else {
        panic!("{lists_of_scrapes:?}");
    };
    assert!(first > 0 && first == second, "{lists_of_scrapes:?}");
}

async fn items(api: &Router, path: &str) -> Value {
    let response = get(api, &format!("/api/v1/{path}"), &[]).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    serde_json::from_slice(&octets(response).await).unwrap()
}

/// A list continues in the table that it began in. Without history, that is gone half a minute later.
#[tokio::test]
async fn list_continues_in_its_table_or_is_gone() {
    for (history, seconds, status) in [
        (HOUR, 10, StatusCode::OK),
        (Duration::ZERO, 10, StatusCode::OK),
        (Duration::ZERO, 40, StatusCode::GONE),
    ] {
        let publisher = Publisher::new(Timestamp(0), history);
        let service = |name: &str| service_mirror("prod", name, "east", "10.0.0.1");
        publish(&publisher, &["a", "b", "c"].map(service));
        let api = api(&publisher);
        let first = items(&api, "table?limit=2").await;
        assert_eq!(first["items"].as_array().unwrap().len(), 2);
        let place = first["continue"].as_str().unwrap();
        let now = Timestamp(unix_milliseconds()).after(Duration::from_secs(seconds));
        publish_at(&publisher, &["a", "x"].map(service), now);
        let path = format!("/api/v1/table?limit=2&continue={place}");
        let response = get(&api, &path, &[]).await;
        assert_eq!(response.status(), status);
        // Version 0 is that before the first table, in which no list begins.
        for view in [
            "table?",
            "problems?",
            "endpoints?",
            "zone?",
            "explain?name=a.prod&",
        ] {
            for version in [0, 99] {
                let path = format!("/api/v1/{view}continue={version}.0");
                let response = get(&api, &path, &[]).await;
                assert_eq!(response.status(), StatusCode::GONE, "{path}");
            }
        }
        if status == StatusCode::OK {
            let second: Value = serde_json::from_slice(&octets(response).await).unwrap();
            assert_eq!(second["items"].as_array().unwrap().len(), 1);
            assert_eq!(second["items"][0]["service"], "c");
        }
    }
}

#[tokio::test]
async fn view_has_cells_or_objects_and_refuses_what_it_does_not_know() {
    let publisher = Publisher::default();
    publish(&publisher, &database("db-0"));
    let api = api(&publisher);
    for accept in ["application/json;as=Table", "application/json; as=table"] {
        let response = get(&api, "/api/v1/table", &[("accept", accept)]).await;
        let document: Value = serde_json::from_slice(&octets(response).await).unwrap();
        let section = &document["sections"][1];
        assert_eq!(section["rows"][0]["cells"][1], "db.prod", "{document}");
    }
    let objects = items(&api, "table").await;
    assert_eq!(objects["items"][0]["service"], "db");
    assert_eq!(objects["replica"], "global-dns-7c9f");
    let (long, many) = ("x".repeat(256), "x,".repeat(12) + "x");
    let long =
        ["table?text=", "table?cluster=", "explain?name="].map(|path| path.to_owned() + &long);
    let many = [("text", many.clone()), ("cluster", many.repeat(9))]
        .map(|(name, list)| format!("table?{name}={list}"));
    for path in long.iter().chain(&many) {
        let response = get(&api, &format!("/api/v1/{path}"), &[]).await;
        assert_eq!(response.status(), 400, "{path}");
        let sentence = String::from_utf8(octets(response).await.to_vec()).unwrap();
        assert!(
            sentence.contains(" values, of at most 255 octets each"),
            "{sentence}"
        );
    }
    for (path, status, sentence) in [
        ("table?offset=7", 400, "parameter: 'offset' cannot be used"),
        (
            "table?at=now",
            400,
            "at: 'now' cannot be used: a time is like 03:12 ",
        ),
        ("events?kind=x", 400, "kind: 'x' cannot be used"),
        (
            "problems?kind=x",
            400,
            "kind: 'x' cannot be used: it is one of unusable-object, ",
        ),
        (
            "table?state=down",
            400,
            "state: 'down' cannot be used: it is one of ok, attention, failing",
        ),
        (
            "endpoints?state=ok",
            400,
            "state: 'ok' cannot be used: it is one of down, expected, ",
        ),
        ("explain?name=a..b", 400, "name: 'a..b' cannot be used"),
        ("nothing", 404, "there is no such view; the views are"),
    ] {
        let response = get(&api, &format!("/api/v1/{path}"), &[]).await;
        assert_eq!(response.status().as_u16(), status, "{path}");
        let text = String::from_utf8(octets(response).await.to_vec()).unwrap();
        assert!(text.starts_with(sentence), "{text}");
    }
    for view in ViewKind::VARIANTS {
        let path = format!("/api/v1/{}?offset=7", view.name());
        assert_eq!(get(&api, &path, &[]).await.status(), 400, "{path}");
    }
}

/// A page has at least one row and at most a thousand, whatever a request says.
#[tokio::test]
async fn page_has_a_limited_number_of_rows() {
    let publisher = Publisher::default();
    let services: Vec<Value> = (0..1100)
        .map(|number| service_mirror("prod", &format!("s{number}"), "east", "10.0.0.1"))
        .collect();
    publish(&publisher, &services);
    let api = api(&publisher);
    for (limit, rows) in [("0", 1), ("7", 7), ("1000", 1000), ("5000", 1000)] {
        let page = items(&api, &format!("table?limit={limit}")).await;
        assert_eq!(page["items"].as_array().unwrap().len(), rows);
        assert!(page["continue"].is_string());
    }
}
