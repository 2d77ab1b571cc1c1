//! Local members: a headless Service of this cluster joins the name of its mirrors.
//!
//! The test writes the Node and the Pods with the status that a kubelet would report. Kubernetes writes the slices.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::dig::{a_records, check_answer, check_nxdomain, srv_records};
use support::latency::Latencies;
use support::objects::{local, node, pod_status};
use support::observer::{Observation, Observer};
use support::server::Server;
use support::steps::Steps;

use crate::e2e::linked_clusters::{NGINX, PAUSE, answer_after_recordings, state_after_recordings};

const HOST: &str = "nginx-set-0.hub.nginx.default.global";

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.forget_failed_prerequisite();
    let mut server = None;
    steps.prerequisite("name_without_local_member_has_only_mirrors", || {
        cluster.apply_state(&state_after_recordings()?)?;
        let started = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
        started.with_log(
            Observer::start(started.dns, NGINX, PAUSE)?.wait_for(&answer_after_recordings()),
        )?;
        check_nxdomain(started.dns, HOST)?;
        server = Some(started);
        Ok(())
    });
    let mut step = |fact: &str, check: fn(&Cluster, &Server) -> Result<()>| {
        let server = server.as_ref();
        steps.prerequisite(fact, || {
            server
                .context("there is no server")
                .and_then(|s| s.with_log(check(cluster, s)))
        });
    };
    step(
        "local_headless_service_is_added_pod_by_pod",
        check_local_member_is_added,
    );
    step(
        "local_pod_is_omitted_while_not_ready",
        check_unready_pod_is_omitted,
    );
    step(
        "deleted_local_service_is_removed",
        check_local_member_is_removed,
    );
}

fn check_local_member_is_added(cluster: &Cluster, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    cluster.put(&node("node-0"))?;
    cluster.put(&nginx())?;
    let mut figures = Latencies::default();
    let mut history = vec![answer_after_recordings()];
    for (pods, name, address) in [
        (1, "nginx-set-0", "10.0.0.1"),
        (2, "nginx-set-1", "10.0.0.2"),
    ] {
        cluster.put(&pod(name))?;
        let written = cluster.put_status(&pod(name), &pod_status(address, true))?;
        let answer = with_local(&["10.0.0.1", "10.0.0.2"][..pods]);
        figures.add(written, observer.wait_for(&answer)?);
        history.push(answer);
    }
    observer.check_history(&history)?;
    figures.print("local pod ready, including slices");

    check_answer(server.dns, HOST, "A", &a_records(HOST, &[&["10.0.0.1"]]))?;
    let hub = "hub.nginx.default.global";
    check_answer(
        server.dns,
        hub,
        "A",
        &a_records(hub, &[&["10.0.0.1", "10.0.0.2"]]),
    )?;
    // Pods listen on the target port, cluster IPs on the port of the Service.
    let http = "_http._tcp.nginx.default.global";
    let mirrors: Vec<String> = ["east", "west", "north"]
        .iter()
        .flat_map(|cluster| {
            (0..3).map(move |n| format!("nginx-set-{n}.{cluster}.nginx.default.global"))
        })
        .collect();
    let mirrors: Vec<&str> = mirrors.iter().map(String::as_str).collect();
    let pods = [
        "nginx-set-0.hub.nginx.default.global",
        "nginx-set-1.hub.nginx.default.global",
    ];
    check_answer(
        server.dns,
        http,
        "SRV",
        &[
            srv_records(http, 80, &mirrors),
            srv_records(http, 8080, &pods),
        ]
        .concat(),
    )?;
    let http = "_http._tcp.nginx-set-0.hub.nginx.default.global";
    check_answer(server.dns, http, "SRV", &srv_records(http, 8080, &[HOST]))
}

fn check_unready_pod_is_omitted(cluster: &Cluster, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let mut figures = Latencies::default();
    for (is_ready, local) in [
        (false, &["10.0.0.1"][..]),
        (true, &["10.0.0.1", "10.0.0.2"]),
    ] {
        let written = cluster.put_status(&pod("nginx-set-1"), &pod_status("10.0.0.2", is_ready))?;
        figures.add(written, observer.wait_for(&with_local(local))?);
        if !is_ready {
            check_nxdomain(server.dns, "nginx-set-1.hub.nginx.default.global")?;
        }
    }
    observer.check_history(&[
        with_local(&["10.0.0.1", "10.0.0.2"]),
        with_local(&["10.0.0.1"]),
        with_local(&["10.0.0.1", "10.0.0.2"]),
    ])?;
    figures.print("local pod not ready and ready again, including slices");
    Ok(())
}

fn check_local_member_is_removed(cluster: &Cluster, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let written = cluster.delete(&nginx())?;
    let mut figures = Latencies::default();
    figures.add(written, observer.wait_for(&answer_after_recordings())?);
    figures.print("local service deleted");
    cluster.delete(&pod("nginx-set-0"))?;
    cluster.delete(&pod("nginx-set-1"))?;
    observer.check_history(&[
        with_local(&["10.0.0.1", "10.0.0.2"]),
        answer_after_recordings(),
    ])?;
    check_nxdomain(server.dns, HOST)
}

fn with_local(pods: &[&str]) -> Observation {
    answer_after_recordings().with(pods)
}

/// Returns a Service with a target port that differs from its port.
fn nginx() -> Value {
    let mut service = local("default", "nginx").service();
    service["spec"]["selector"] = json!({"app": "nginx"});
    service["spec"]["ports"] = json!([
        {"name": "http", "port": 80, "targetPort": 8080},
        {"name": "sql", "port": 26257},
    ]);
    service
}

fn pod(host: &str) -> Value {
    local("default", "nginx").pod_object(host)
}
