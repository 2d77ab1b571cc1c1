//! The member next door: a headless Service of this cluster joins the name of its mirrors.
//!
//! The Node and the Pods are written, with the status a kubelet would report; the slices are Kubernetes' own.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::dig::{a, answered, missing, srv};
use support::figures::Latencies;
use support::objects::{local, node, pod_status};
use support::observer::{Observer, Seen};
use support::server::Server;
use support::steps::Steps;

use crate::clusters_come_and_go::{
    FOLLOW, NGINX, PAUSE, answer_after_the_recordings, state_after_the_recordings,
};

const HOST: &str = "nginx-set-0.hub.nginx.default.global";

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.fresh_start();
    let mut server = None;
    steps.needed("a_name_without_a_local_member_has_the_mirrors_only", || {
        cluster.become_state(&state_after_the_recordings()?)?;
        let started = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
        started.with_log(
            Observer::start(started.dns, NGINX, PAUSE)?
                .wait_for(&answer_after_the_recordings(), FOLLOW),
        )?;
        missing(started.dns, HOST)?;
        server = Some(started);
        Ok(())
    });
    let mut step = |fact: &str, check: fn(&Cluster, &Server) -> Result<()>| {
        let server = server.as_ref();
        steps.needed(fact, || {
            server
                .context("there is no server")
                .and_then(|s| s.with_log(check(cluster, s)))
        });
    };
    step(
        "a_headless_service_of_this_cluster_joins_pod_by_pod",
        local_member_joins,
    );
    step(
        "a_local_pod_that_is_not_ready_leaves_until_it_is_ready",
        unready_pod_leaves,
    );
    step("a_deleted_local_service_leaves", local_member_leaves);
}

fn local_member_joins(cluster: &Cluster, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    cluster.put(&node("node-0"))?;
    cluster.put(&nginx())?;
    let mut figures = Latencies::default();
    let mut history = vec![answer_after_the_recordings()];
    for (pods, name, address) in [
        (1, "nginx-set-0", "10.0.0.1"),
        (2, "nginx-set-1", "10.0.0.2"),
    ] {
        cluster.put(&pod(name))?;
        let written = cluster.put_status(&pod(name), &pod_status(address, true))?;
        let answer = with_local(&["10.0.0.1", "10.0.0.2"][..pods]);
        figures.add(written, observer.wait_for(&answer, FOLLOW)?);
        history.push(answer);
    }
    observer.has_seen(&history)?;
    figures.print("local pod ready, slices included");

    answered(server.dns, HOST, "A", &a(HOST, &[&["10.0.0.1"]]))?;
    let hub = "hub.nginx.default.global";
    answered(server.dns, hub, "A", &a(hub, &[&["10.0.0.1", "10.0.0.2"]]))?;
    // Pods listen on the port of the pod, cluster IPs on the port of the Service.
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
    answered(
        server.dns,
        http,
        "SRV",
        &[srv(http, 80, &mirrors), srv(http, 8080, &pods)].concat(),
    )?;
    let http = "_http._tcp.nginx-set-0.hub.nginx.default.global";
    answered(server.dns, http, "SRV", &srv(http, 8080, &[HOST]))
}

fn unready_pod_leaves(cluster: &Cluster, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let mut figures = Latencies::default();
    for (is_ready, local) in [
        (false, &["10.0.0.1"][..]),
        (true, &["10.0.0.1", "10.0.0.2"]),
    ] {
        let written = cluster.put_status(&pod("nginx-set-1"), &pod_status("10.0.0.2", is_ready))?;
        figures.add(written, observer.wait_for(&with_local(local), FOLLOW)?);
        if !is_ready {
            missing(server.dns, "nginx-set-1.hub.nginx.default.global")?;
        }
    }
    observer.has_seen(&[
        with_local(&["10.0.0.1", "10.0.0.2"]),
        with_local(&["10.0.0.1"]),
        with_local(&["10.0.0.1", "10.0.0.2"]),
    ])?;
    figures.print("local pod not ready and ready again, slices included");
    Ok(())
}

fn local_member_leaves(cluster: &Cluster, server: &Server) -> Result<()> {
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let written = cluster.delete(&nginx())?;
    let mut figures = Latencies::default();
    figures.add(
        written,
        observer.wait_for(&answer_after_the_recordings(), FOLLOW)?,
    );
    figures.print("local service deleted");
    cluster.delete(&pod("nginx-set-0"))?;
    cluster.delete(&pod("nginx-set-1"))?;
    observer.has_seen(&[
        with_local(&["10.0.0.1", "10.0.0.2"]),
        answer_after_the_recordings(),
    ])?;
    missing(server.dns, HOST)
}

fn with_local(pods: &[&str]) -> Seen {
    answer_after_the_recordings().with(pods)
}

/// Its pods listen on another port than the Service has.
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
