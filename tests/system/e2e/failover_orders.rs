//! A person moves a name between clusters with one annotation, and gateways go down behind a failover order: the
//! name stays, unless the order begins with `auto:`; then it moves after a delay.
//!
//! The annotations are written with the merge patch that `kubectl annotate` sends.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::latency::Latencies;
use support::objects::{Gateway, federated, flat_mirror, gateway_mirror, local, mirror, namespace};
use support::observer::{Observation, Observer};
use support::output::print_line;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::e2e::linked_clusters::PAUSE;

const NAMESPACE: &str = "orders";
const NAME: &str = "db.orders.global";
const EAST: &[&str] = &["10.96.61.1", "10.96.61.2"];
const WEST: &[&str] = &["10.96.62.1"];
/// Times that the annotation moves the name.
const MOVES: usize = 10;
/// How long the settings of a Service that is gone apply (rule K6).
const KEPT: Duration = Duration::from_secs(10);
/// `failover.delay` and `failover.back` of the server: longer than a reaction of the controllers, short for a test.
const FAILOVER_DELAY: Duration = Duration::from_millis(1500);
const FAILBACK_DELAY: Duration = Duration::from_millis(3000);

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.forget_failed_prerequisite();
    let mut server = None;
    steps.prerequisite("name_without_an_order_has_all_clusters", || {
        write_objects(cluster)?;
        let flags = ["failover.delay=1500ms", "failover.back=3s"];
        let started = Server::ready_of_cluster(&cluster.kubeconfig, &flags);
        let all = Observation::addresses(&[EAST, WEST]);
        started.with_log(Observer::start(started.dns, NAME, PAUSE)?.wait_for(&all))?;
        server = Some(started);
        Ok(())
    });
    let mut step = |fact: &str, check: fn(&Cluster, &Server) -> Result<()>| {
        let server = server.as_ref();
        steps.prerequisite(fact, || {
            let server = server.context("there is no server")?;
            server.with_log(check(cluster, server))
        });
    };
    step(
        "annotation_moves_the_name_within_a_second",
        check_annotation_moves_the_name,
    );
    step(
        "dead_step_is_left_by_an_order_with_auto_but_not_by_one_that_is_held",
        check_gateway_of_held_and_moving_orders,
    );
    step(
        "dead_step_of_an_order_with_auto_is_left_and_preferred_again",
        check_gateway_of_headless_mirrors,
    );
    step(
        "flat_and_federated_services_do_not_change",
        check_flat_and_federated,
    );
    step(
        "name_waits_for_expected_clusters_while_the_bootstrap_lasts",
        check_expected_clusters,
    );
    step(
        "settings_outlive_their_service_by_ten_seconds",
        check_replaced_service,
    );
}

/// Returns the Service of this cluster that only decides. It has no selector, so it has no endpoint.
fn own_service() -> Value {
    local(NAMESPACE, "db").without_selector().service()
}

fn write_objects(cluster: &Cluster) -> Result<()> {
    cluster.put(&namespace(NAMESPACE))?;
    let east = mirror(NAMESPACE, "db", "east")
        .endpoint("db-0", &EAST[..1])
        .endpoint("db-1", &EAST[1..]);
    let west = mirror(NAMESPACE, "db", "west").endpoint("db-0", WEST);
    let mut writes = [east.writes(), west.writes(), vec![own_service()]].concat();
    writes.extend(gateway_mirror(NAMESPACE, "pay", "east", "10.96.61.10").writes());
    writes.extend(gateway_mirror(NAMESPACE, "pay", "west", "10.96.62.10").writes());
    writes.extend(flat_mirror(NAMESPACE, "api", "east", "10.96.61.20").writes());
    writes.extend(flat_mirror(NAMESPACE, "api", "west", "10.96.62.20").writes());
    writes.extend(federated(NAMESPACE, "web", "10.96.61.30", "web@east,web@west").writes());
    writes
        .iter()
        .try_for_each(|object| cluster.put(object).map(drop))
}

/// Returns the patch that `kubectl annotate --overwrite` sends.
fn annotate(key: &str, value: Value) -> Value {
    let mut annotations = json!({});
    annotations[format!("global-dns/{key}")] = value;
    json!({"metadata": {"annotations": annotations}})
}

fn check_annotation_moves_the_name(cluster: &Cluster, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NAME, PAUSE)?;
    let (east, west) = (
        Observation::addresses(&[EAST]),
        Observation::addresses(&[WEST]),
    );
    let mut figures = Latencies::default();
    let mut times = Vec::new();
    for number in 0..MOVES {
        let (order, expected) = match number % 2 {
            0 => ("west:east", &west),
            _ => ("east:west", &east),
        };
        let written = cluster.patch(&own_service(), &annotate("failover", json!(order)))?;
        let answered = observer.wait_for(expected)?;
        times.push(answered.saturating_duration_since(written.sent));
        figures.add(written, answered);
    }
    figures.print("global-dns/failover annotated");
    // Other work on the machine can delay single moves.
    times.sort();
    ensure!(
        times[times.len() / 2] < Duration::from_secs(1),
        "the moves took {times:?}"
    );
    // Names of one cluster are not affected.
    let leaf = Observer::start(server.dns, "west.db.orders.global", PAUSE)?;
    leaf.wait_for(&west)?;
    let text = explain(server, NAME)?;
    ensure!(text.contains("answering step 1 of 2, east"), "{text}");
    Ok(())
}

/// Returns the notes of the explanation of a name.
fn explain(server: &Server, name: &str) -> Result<String> {
    Ok(server.try_api(&format!("/api/v1/explain?name={name}"))?["notes"].to_string())
}

/// Writes the state of the gateway of east to its endpoint mirrors of `db`, as Linkerd does. Returns the time of the first
/// write.
fn set_gateway(cluster: &Cluster, gateway: Gateway) -> Result<Instant> {
    let mirror = mirror(NAMESPACE, "db", "east")
        .endpoint_behind(gateway, "db-0", &EAST[..1])
        .endpoint_behind(gateway, "db-1", &EAST[1..]);
    let first = Instant::now();
    for object in mirror
        .writes()
        .iter()
        .filter(|object| object["kind"] == "Endpoints")
    {
        cluster.put(object)?;
    }
    Ok(first)
}

fn check_gateway_of_headless_mirrors(cluster: &Cluster, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NAME, PAUSE)?;
    let (east, west) = (
        Observation::addresses(&[EAST]),
        Observation::addresses(&[WEST]),
    );
    observer.wait_for(&east)?;
    let order = annotate("failover", json!("auto:east:west"));
    cluster.patch(&own_service(), &order)?;
    eventually("the order", || {
        let text = explain(server, NAME)?;
        ensure!(text.contains("failover order auto:east:west"), "{text}");
        Ok(())
    })?;
    let down = set_gateway(cluster, Gateway::Down)?;
    let answered = observer.wait_for(&west)?;
    print_time(
        "headless: gateway down to the next step",
        answered - down,
        FAILOVER_DELAY,
    );
    let text = explain(server, NAME)?;
    ensure!(
        text.contains("answering step 2 of 2, west; east has been down since 20"),
        "{text}"
    );
    let up = set_gateway(cluster, Gateway::Up)?;
    let answered = observer.wait_for(&east)?;
    print_time(
        "headless: gateway up to the first step",
        answered - up,
        FAILBACK_DELAY,
    );
    ensure!(
        answered - up >= FAILBACK_DELAY,
        "the first step came back too early"
    );
    // Primary and standby never answer together, and the name is never empty. One endpoint goes down before the other.
    let one = Observation::addresses(&[&EAST[..1]]);
    let other = Observation::addresses(&[&EAST[1..]]);
    for run in observer.history() {
        let answer = run.answer;
        ensure!(
            [&east, &west, &one, &other].contains(&&answer),
            "the answer was {answer}"
        );
    }
    ensure!(
        server.metric("global_dns_changes_total{kind=\"step\"}") >= 2.0,
        "failovers are not counted"
    );
    Ok(())
}

/// Prints the time of a change, which includes a delay of the server.
fn print_time(what: &str, time: Duration, delay: Duration) {
    print_line(&format!(
        "{what}: {time:.2?}, of which {delay:.1?} are the delay"
    ));
}

/// Without a mode, `hold` applies to a service with pods, and `auto` to others. The gateways of east are down for both.
fn check_gateway_of_held_and_moving_orders(cluster: &Cluster, server: &Server) -> Result<()> {
    // This Service has a cluster IP, is not exported, and is read for its annotation only.
    let mut own = local(NAMESPACE, "pay").without_selector().service();
    own["metadata"]["annotations"] = json!({"global-dns/failover": "auto:east:*"});
    let spec = own["spec"].as_object_mut().context("spec")?;
    spec.remove("clusterIP");
    spec.remove("clusterIPs");
    cluster.put(&own)?;
    let database = Observer::start(server.dns, NAME, PAUSE)?;
    let (east, west) = (
        Observation::addresses(&[&["10.96.61.10"]]),
        Observation::addresses(&[&["10.96.62.10"]]),
    );
    // The history begins with the order.
    let start = || Observer::start(server.dns, "pay.orders.global", PAUSE);
    start()?.wait_for(&east)?;
    let observer = start()?;
    set_gateway(cluster, Gateway::Down)?;
    let down = ", held: answering step 1 of 2, east; east has been down";
    eventually("east of db is down", || {
        let text = explain(server, NAME)?;
        ensure!(text.contains(down), "{text}");
        Ok(())
    })?;
    let down = gateway_mirror(NAMESPACE, "pay", "east", "10.96.61.10").without_ready_endpoint();
    let endpoints = down.writes().pop().context("Endpoints")?;
    let sent = cluster.put(&endpoints)?.sent;
    let answered = observer.wait_for(&west)?;
    print_time(
        "gateway: gateway down to the next step",
        answered - sent,
        FAILOVER_DELAY,
    );
    ensure!(
        answered - sent >= FAILOVER_DELAY,
        "the first step was left too early"
    );
    observer.check_history(&[east, west])?;
    // The gateway of the database has been down for longer. One of its endpoints went down before the other.
    for run in database.history() {
        let Observation::Addresses(addresses) = &run.answer else {
            bail!("the answer was {}", run.answer);
        };
        let is_east = |address: &Ipv4Addr| EAST.contains(&address.to_string().as_str());
        let is_of_east = !addresses.is_empty() && addresses.iter().all(is_east);
        ensure!(is_of_east, "the answer was {}", run.answer);
    }
    set_gateway(cluster, Gateway::Up)?;
    eventually("east of db is up", || {
        let text = explain(server, NAME)?;
        ensure!(!text.contains("east has been down"), "{text}");
        Ok(())
    })
}

/// The gateway of east is lost and comes back, which the answer of `db` shows.
fn check_flat_and_federated(cluster: &Cluster, server: &Server) -> Result<()> {
    let flat = Observation::addresses(&[&["10.96.61.20", "10.96.62.20"]]);
    let federated = Observation::addresses(&[&["10.96.61.30"]]);
    let start = |name| Observer::start(server.dns, name, PAUSE);
    let observers = [
        (start("api.orders.global")?, flat),
        (start("web.orders.global")?, federated),
    ];
    let other = start(NAME)?;
    for (gateway, addresses) in [(Gateway::Down, WEST), (Gateway::Up, EAST)] {
        set_gateway(cluster, gateway)?;
        other.wait_for(&Observation::addresses(&[addresses]))?;
    }
    for (observer, expected) in observers {
        observer.check_history(&[expected])?;
    }
    Ok(())
}

fn check_expected_clusters(cluster: &Cluster, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NAME, PAUSE)?;
    cluster.patch(
        &own_service(),
        &annotate("expected-clusters", json!("east+north+west")),
    )?;
    observer.wait_for(&Observation::other("SERVFAIL"))?;
    let ready = server.readyz()?;
    ensure!(
        ready.status == 200
            && ready
                .body
                .contains("orders/db: not answered; waits for north"),
        "{}",
        ready.body
    );
    let leaf = Observer::start(server.dns, "west.db.orders.global", PAUSE)?;
    leaf.wait_for(&Observation::addresses(&[WEST]))?;
    let north = mirror(NAMESPACE, "db", "north").endpoint("db-0", &["10.96.63.1"]);
    for object in north.writes() {
        cluster.put(&object)?;
    }
    observer.wait_for(&Observation::addresses(&[EAST]))?;
    // It leaves again. No process remembers that the name was answered.
    for object in north
        .writes()
        .iter()
        .filter(|object| object["kind"] == "Service")
    {
        cluster.delete(object)?;
    }
    observer.wait_for(&Observation::other("SERVFAIL"))?;
    // Afterwards, the name waits for no cluster, and the setting goes on watching.
    for (until, answer, problem) in [
        (
            "2020-01-01T00:00Z",
            Observation::addresses(&[EAST]),
            "cluster-missing",
        ),
        (
            "2100-01-01T00:00Z",
            Observation::other("SERVFAIL"),
            "expected-clusters-missing",
        ),
    ] {
        let expected = json!(format!("east+north+west until {until}"));
        cluster.patch(&own_service(), &annotate("expected-clusters", expected))?;
        observer.wait_for(&answer)?;
        let explained = server.try_api(&format!("/api/v1/explain?name={NAME}"))?;
        let text = explained["problems"].to_string();
        ensure!(text.contains(problem), "{text}");
    }
    // A setting that is removed ends at once.
    cluster.patch(&own_service(), &annotate("expected-clusters", Value::Null))?;
    observer.wait_for(&Observation::addresses(&[EAST]))?;
    Ok(())
}

/// A Service whose type changes is deleted and created again (rule K6).
fn check_replaced_service(cluster: &Cluster, server: &Server) -> Result<()> {
    let east = Observation::addresses(&[EAST]);
    let all = Observation::addresses(&[EAST, WEST]);
    let mut replaced = own_service();
    replaced["metadata"]["annotations"] = json!({"global-dns/failover": "east:west"});
    let observer = Observer::start(server.dns, NAME, PAUSE)?;
    cluster.delete(&own_service())?;
    cluster.put(&replaced)?;
    eventually("the new Service decides", || {
        let text = explain(server, NAME)?;
        // The order is held.
        ensure!(text.contains(", held: answering"), "{text}");
        Ok(())
    })?;
    observer.check_history(std::slice::from_ref(&east))?;
    let observer = Observer::start(server.dns, NAME, PAUSE)?;
    let deleted = cluster.delete(&replaced)?.sent;
    let answered = observer.wait_for(&all)?;
    print_time("Service deleted to all clusters", answered - deleted, KEPT);
    ensure!(
        answered - deleted >= KEPT,
        "the order ended before ten seconds"
    );
    observer.check_history(&[east, all])
}
