//! A permission that the API server refuses is reported. The layer `chart` shows which permissions are enough.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::dig::dig;
use support::http::Page;
use support::output::print_line;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::watches::WATCHES;
use support::wire::Transport;

use crate::e2e::linked_clusters::{
    NGINX, case_after_recordings, check_case, state_after_recordings,
};

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("missing_permission_is_reported_until_it_is_granted", || {
        check_missing_permission(cluster)
    });
}

fn check_missing_permission(cluster: &Cluster) -> Result<()> {
    cluster.apply_state(&state_after_recordings()?)?;
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
    for object in &grant() {
        cluster.put(object)?;
    }
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
    for object in &grant() {
        cluster.delete(object)?;
    }
    check_case(&server, &case_after_recordings())
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

/// Returns a role with the permissions of the chart, and its binding to the user.
fn grant() -> [Value; 2] {
    let (version, metadata) = (
        "rbac.authorization.k8s.io/v1",
        json!({"name": "global-dns"}),
    );
    [
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": [
            {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ]}),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "global-dns"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "stranger"}],
        }),
    ]
}
