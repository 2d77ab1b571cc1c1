//! What the server may do in the API server: to list and watch Services and EndpointSlices is enough, less is said.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::dig::{dig, missing};
use support::figures::Latencies;
use support::http::Page;
use support::observer::{Observer, Seen};
use support::say::say;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Over;

use crate::clusters_come_and_go::{
    FOLLOW, NGINX, PAUSE, after_the_recordings, answer_after_the_recordings,
    answer_with_the_extra_one, extra_endpoint_mirror, says, state_after_the_recordings,
};

/// Watches are retried, with longer and longer pauses.
const RETRY: Duration = Duration::from_secs(60);

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("to_list_and_watch_services_and_slices_is_enough", || {
        to_list_and_watch_is_enough(cluster)
    });
    steps.step(
        "with_an_allow_list_permissions_in_that_namespace_are_enough",
        || one_namespace_is_enough(cluster),
    );
    steps.step("without_permission_it_says_so_and_waits", || {
        without_permission_it_waits(cluster)
    });
}

fn to_list_and_watch_is_enough(cluster: &Cluster) -> Result<()> {
    cluster.become_state(&state_after_the_recordings()?)?;
    cluster.put(&role("ClusterRole", None))?;
    cluster.put(&binding("ClusterRole", None, "watcher"))?;
    let server = Server::ready_of_cluster(&cluster.kubeconfig, &["--context", "watcher"]);
    server.with_log(follows_changes(cluster, &server))
}

fn one_namespace_is_enough(cluster: &Cluster) -> Result<()> {
    cluster.put(&role("Role", Some("default")))?;
    cluster.put(&binding("Role", Some("default"), "tenant"))?;
    let server = Server::ready_of_cluster(
        &cluster.kubeconfig,
        &["--context", "tenant", "--namespace", "default"],
    );
    server.with_log(follows_changes(cluster, &server))?;
    // The same user without the list asks for more than it may have.
    let server = Server::of_cluster(&cluster.kubeconfig, &["--context", "tenant"]);
    server.with_log(is_forbidden(&server))
}

fn without_permission_it_waits(cluster: &Cluster) -> Result<()> {
    let mut server = Server::of_cluster(&cluster.kubeconfig, &["--context", "stranger"]);
    let refused = is_forbidden(&server).and_then(|()| {
        let text = server.readyz()?.body;
        for watch in [
            "mirror-services",
            "local-services",
            "mirror-slices",
            "local-slices",
            "foreign-slices",
        ] {
            ensure!(
                text.contains(watch),
                "/readyz does not name {watch}: {text}"
            );
        }
        for over in Over::BOTH {
            let dug = dig(server.dns, over, NGINX, "A")?;
            ensure!(dug.status == "SERVFAIL", "{} over {over:?}", dug.status);
        }
        Ok(())
    });
    server.with_log(refused)?;
    server.check()?;
    // It was worth waiting for.
    cluster.put(&binding("ClusterRole", None, "stranger"))?;
    let granted = Instant::now();
    let ready = eventually("readiness after the permission was granted", RETRY, || {
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 200, "/readyz says {status}: {text}");
        Ok(granted.elapsed())
    });
    let ready = server.with_log(ready)?;
    say(&format!(
        "permission: granted to ready {:.1} s",
        ready.as_secs_f64()
    ));
    cluster.delete(&binding("ClusterRole", None, "stranger"))?;
    says(&server, &after_the_recordings())
}

/// The whole answer is there, and it changes.
fn follows_changes(cluster: &Cluster, server: &Server) -> Result<()> {
    says(server, &after_the_recordings())?;
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let extra = extra_endpoint_mirror()?;
    let written = cluster.write(&extra)?;
    let host = Observer::start(server.dns, "nginx-set-4.east.nginx.default.global", PAUSE)?;
    host.wait_for(&Seen::addresses(&[&["10.96.134.180"]]), FOLLOW)?;
    let mut figures = Latencies::default();
    figures.add(
        written,
        observer.wait_for(&answer_with_the_extra_one(), FOLLOW)?,
    );
    figures.print("with few permissions");
    cluster.write(&extra.undone())?;
    observer.wait_for(&answer_after_the_recordings(), FOLLOW)?;
    missing(server.dns, "nginx-set-4.east.nginx.default.global")
}

fn is_forbidden(server: &Server) -> Result<()> {
    eventually("/readyz to say what is forbidden", RETRY, || {
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 503, "/readyz says {status}: {text}");
        ensure!(
            text.contains("mirror-services") && text.contains("forbidden"),
            "/readyz says: {text}"
        );
        Ok(())
    })
}

fn role(kind: &str, namespace: Option<&str>) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": metadata("global-dns", namespace),
        "rules": [
            {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    })
}

/// Binds the role of that kind to a user.
fn binding(role: &str, namespace: Option<&str>, user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{role}Binding"),
        "metadata": metadata(&format!("global-dns-{user}"), namespace),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "global-dns"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}
