//! The member next door: a headless Service of this cluster joins the name of its mirrors.
//!
//! The Node and the Pods are written, with the status a kubelet would report; the slices are Kubernetes' own.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::ask::{Observer, Seen, a, answered, missing, srv};
use crate::cluster::Cluster;
use crate::clusters_come_and_go::{
    EAST_REPAIRED, FOLLOW, NGINX, NORTH_AGAIN, PAUSE, WEST_LAST, answer_after_the_recordings,
    state_after_the_recordings,
};
use crate::figures::Latencies;
use crate::server::Server;
use crate::steps::Steps;

const HOST: &str = "nginx-set-0.hub.nginx.default.global";

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.fresh_start();
    let mut server = None;
    steps.needed("a_name_without_a_local_member_has_the_mirrors_only", || {
        cluster.become_state(&state_after_the_recordings()?)?;
        let started = Server::start_ready(&cluster.kubeconfig, &[]);
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
    cluster.put(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}}))?;
    cluster.put(&service())?;
    let mut figures = Latencies::default();
    let mut history = vec![answer_after_the_recordings()];
    for (pods, name, address) in [
        (1, "nginx-set-0", "10.0.0.1"),
        (2, "nginx-set-1", "10.0.0.2"),
    ] {
        cluster.put(&pod(name))?;
        let written = cluster.put_status(&pod(name), &status(address, "True"))?;
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
    for (ready, local) in [
        ("False", &["10.0.0.1"][..]),
        ("True", &["10.0.0.1", "10.0.0.2"]),
    ] {
        let written = cluster.put_status(&pod("nginx-set-1"), &status("10.0.0.2", ready))?;
        figures.add(written, observer.wait_for(&with_local(local), FOLLOW)?);
        if ready == "False" {
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
    let written = cluster.delete(&service())?;
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
    Seen::addresses(&[&EAST_REPAIRED, &WEST_LAST, &NORTH_AGAIN, pods])
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "nginx"},
        "spec": {
            "clusterIP": "None",
            "selector": {"app": "nginx"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "sql", "port": 26257}],
        },
    })
}

/// As a StatefulSet makes it, already scheduled.
fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {"app": "nginx"}},
        "spec": {
            "hostname": name,
            "subdomain": "nginx",
            "nodeName": "node-0",
            "containers": [{"name": "nginx", "image": "nginx", "ports": [{"containerPort": 8080}]}],
        },
    })
}

fn status(address: &str, ready: &str) -> Value {
    json!({
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": ready}],
    })
}
