//! Permissions in the API server: to list and watch Services and EndpointSlices is enough; fewer permissions are
//! reported.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::dig::{check_nxdomain, dig};
use support::http::Page;
use support::observer::{Observation, Observer};
use support::output::print_line;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::watches::WATCHES;
use support::wire::Transport;

use crate::e2e::linked_clusters::{
    NGINX, PAUSE, answer_after_recordings, answer_with_extra_endpoint, case_after_recordings,
    check_case, extra_endpoint_mirror, state_after_recordings,
};

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "permission_to_list_and_watch_services_and_slices_is_sufficient",
        || check_list_and_watch_are_sufficient(cluster),
    );
    steps.step(
        "permissions_in_the_watched_namespace_are_sufficient",
        || check_one_namespace_is_sufficient(cluster),
    );
    steps.step("missing_permission_is_reported_until_it_is_granted", || {
        check_missing_permission(cluster)
    });
}

fn check_list_and_watch_are_sufficient(cluster: &Cluster) -> Result<()> {
    cluster.apply_state(&state_after_recordings()?)?;
    cluster.put(&role("ClusterRole", None))?;
    cluster.put(&binding("ClusterRole", None, "watcher"))?;
    let server = Server::ready_of_cluster(&cluster.kubeconfig, &["--context", "watcher"]);
    server.with_log(check_follows_changes(cluster, &server))
}

fn check_one_namespace_is_sufficient(cluster: &Cluster) -> Result<()> {
    cluster.put(&role("Role", Some("default")))?;
    cluster.put(&binding("Role", Some("default"), "tenant"))?;
    let server = Server::ready_of_cluster(
        &cluster.kubeconfig,
        &["--context", "tenant", "--namespace", "default"],
    );
    server.with_log(check_follows_changes(cluster, &server))?;
    // Without the flag `--namespace`, the same user lacks permissions.
    let server = Server::of_cluster(&cluster.kubeconfig, &["--context", "tenant"]);
    server.with_log(check_is_forbidden(&server))
}

fn check_missing_permission(cluster: &Cluster) -> Result<()> {
    let mut server = Server::of_cluster(&cluster.kubeconfig, &["--context", "stranger"]);
    let refused = check_is_forbidden(&server).and_then(|()| {
        let text = server.readyz()?.body;
        for watch in WATCHES {
            ensure!(
                text.contains(watch),
                "/readyz does not name {watch}: {text}"
            );
        }
        for over in Transport::BOTH {
            let answer = dig(server.dns, over, NGINX, "A");
            ensure!(answer.is_err(), "an answer without a table over {over:?}");
        }
        Ok(())
    });
    server.with_log(refused)?;
    server.check()?;
    // After the permission is granted, the server becomes ready.
    cluster.put(&binding("ClusterRole", None, "stranger"))?;
    let granted = Instant::now();
    let ready = eventually("readiness after the permission was granted", || {
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 200, "/readyz returned {status}: {text}");
        Ok(granted.elapsed())
    });
    let ready = server.with_log(ready)?;
    print_line(&format!(
        "permission: ready {:.1} s after the grant",
        ready.as_secs_f64()
    ));
    cluster.delete(&binding("ClusterRole", None, "stranger"))?;
    check_case(&server, &case_after_recordings())
}

/// Asserts that the answer is complete, and that it follows a write.
fn check_follows_changes(cluster: &Cluster, server: &Server) -> Result<()> {
    check_case(server, &case_after_recordings())?;
    let observer = Observer::start(server.dns, NGINX, PAUSE)?;
    let extra = extra_endpoint_mirror()?;
    cluster.write(&extra)?;
    let host = Observer::start(server.dns, "nginx-set-4.east.nginx.default.global", PAUSE)?;
    host.wait_for(&Observation::addresses(&[&["10.96.134.180"]]))?;
    observer.wait_for(&answer_with_extra_endpoint())?;
    cluster.write(&extra.as_deletion())?;
    observer.wait_for(&answer_after_recordings())?;
    check_nxdomain(server.dns, "nginx-set-4.east.nginx.default.global")
}

fn check_is_forbidden(server: &Server) -> Result<()> {
    eventually("/readyz to report the missing permission", || {
        let Page { status, body: text } = server.readyz()?;
        ensure!(status == 503, "/readyz returned {status}: {text}");
        ensure!(
            text.contains("Services: ") && text.contains("forbidden"),
            "/readyz returned: {text}"
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

/// Returns a binding of the role of that kind to a user.
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
