//! Who may run the commands: the permissions of the manual suffice, and without them a command names what it lacks.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use support::process::run;
use support::wait::eventually;

use super::lab::Lab;

/// A user without other permissions.
const USER: &str = "stranger";

/// Asks a replica with each set of permissions: for all namespaces, and for `--server-namespace`.
pub fn check(lab: &Lab) -> Result<()> {
    let in_namespace = vec![
        rule("", "pods", &["list"]),
        rule("", "pods/portforward", &["get", "create"]),
    ];
    let workloads = vec![
        rule("apps", "deployments", &["list"]),
        rule("apps", "daemonsets", &["list"]),
    ];
    let all = [workloads, in_namespace.clone()].concat();
    let everywhere = "global-dns table";
    let in_one = "global-dns table --server-namespace global-dns";
    for (rules, kind, command, missing) in [
        (&all[..], "ClusterRole", everywhere, None),
        (&all, "Role", everywhere, Some("in all namespaces")),
        (
            &[],
            "Role",
            in_one,
            Some("list pods in namespace global-dns"),
        ),
        (&in_namespace, "Role", in_one, None),
    ] {
        let grant = grant(kind, rules);
        for object in &grant {
            lab.cluster.put(object)?;
        }
        let checked = eventually("the effect of a grant", || {
            let ended = run(&mut lab.command(&format!("{command} --context {USER}"))?);
            match missing {
                None => ensure!(
                    ended.stdout.starts_with("answered by pod global-dns/"),
                    "{ended:#?}"
                ),
                Some(action) => {
                    for part in [action, "403", "is forbidden", "grant \""] {
                        ensure!(ended.stderr.contains(part), "no {part}: {ended:#?}");
                    }
                }
            }
            Ok(())
        });
        for object in &grant {
            lab.cluster.delete(object)?;
        }
        checked?;
    }
    Ok(())
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

/// Returns a role and its binding to the user: in the namespace of the server, or in all.
fn grant(kind: &str, rules: &[Value]) -> [Value; 2] {
    let metadata = match kind {
        "Role" => json!({"name": "finder", "namespace": "global-dns"}),
        _ => json!({"name": "finder"}),
    };
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    [
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
        json!({
            "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": kind, "name": "finder"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
        }),
    ]
}
