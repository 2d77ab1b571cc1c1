//! The command `check` with a real API server with RBAC, and through a real CoreDNS.
//!
//! Each step grants permissions to the user `doctor`. RBAC applies a change with a delay, so the steps wait for the
//! expected line.

mod forwarder;
mod objects;

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::global_dns;
use support::objects::{
    cluster_role_binding, gateway_pod, namespace, pod_status, replica, workload,
};
use support::output::print_line;
use support::process;
use support::server::Server;
use support::settings::add_arguments;
use support::steps::Steps;
use support::wait::eventually;

use crate::e2e::linked_clusters::state_after_recordings;
use forwarder::{Forwarder, shipped, stanza};
use objects::{
    binding, exported_service, failing_link, grant, link, link_definition, needed_rules,
    plain_service, state,
};

const USER: &str = "doctor";
const CLUSTERS: [&str; 3] = ["east", "west", "north"];

/// The report of `check` and its exit code.
#[derive(Debug)]
struct CheckRun {
    report: Value,
    code: Option<i32>,
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("check_reports_ports_that_are_dead", || {
        check_recorded_ports(cluster)
    });
    steps.step("check_skips_links_if_their_kind_is_unknown", || {
        check_unknown_links(cluster)
    });
    steps.step(
        "check_is_ok_with_the_permissions_of_the_chart_and_links",
        || check_healthy_cluster(cluster),
    );
    steps.step(
        "check_reports_failures_in_links_host_lists_and_slices",
        || check_links_and_lists(cluster),
    );
    steps.step("check_reports_each_missing_verb", || {
        check_each_missing_verb(cluster)
    });
    steps.step(
        "check_requires_permissions_only_in_the_watched_namespaces",
        || check_one_namespace(cluster),
    );
    steps.step(
        "check_without_a_replica_prints_the_pods_and_the_permissions",
        || check_pods(cluster),
    );
    steps.step("check_reports_mirrors_of_a_removed_link", || {
        check_orphans(cluster)
    });
    steps.step("check_skips_links_without_permission_to_read_them", || {
        check_unreadable_objects(cluster)
    });
    steps.step("check_reports_whether_coredns_forwards_the_zone", || {
        check_coredns_forwarding(cluster)
    });
}

/// The pods of the recordings listen on 8080 instead of 80.
fn check_recorded_ports(cluster: &Cluster) -> Result<()> {
    cluster.apply_state(&state_after_recordings()?)?;
    grant(cluster, &needed_rules(), true)?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        let found = run.sentences("failing", "dead-port").join("");
        for cluster in ["east", "north", "west"] {
            let text = format!("cluster '{cluster}': port 80 is 8080 in its pods");
            ensure!(found.contains(&text), "{run:#?}");
        }
        Ok(())
    })?;
    ensure!(run.code == Some(1), "{run:#?}");
    Ok(())
}

fn check_unknown_links(cluster: &Cluster) -> Result<()> {
    cluster.apply_state(&state()?)?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        let found = run.sentences("attention", "links-unknown").join("");
        ensure!(
            found.contains("the API server does not define Links"),
            "{run:#?}"
        );
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    Ok(())
}

fn check_healthy_cluster(cluster: &Cluster) -> Result<()> {
    let forwarder = Forwarder::with_server(cluster)?;
    cluster.put(&link_definition())?;
    cluster.put(&namespace("linkerd-multicluster"))?;
    for name in CLUSTERS {
        // The API server serves the kind with a delay after its definition is written.
        eventually("the kind Link", || cluster.put(&link(name)))?;
    }
    let exported = exported_service(SocketAddr::from(([192, 0, 2, 1], 26257)));
    for object in &exported {
        cluster.put(object)?;
    }
    cluster.put(&gateway_pod("0s"))?;
    let flags = [forwarder.server_flag(), forwarder.resolver_flag()];
    let run = CheckRun::run_until(cluster, &flags, |run| {
        ensure!(run.lines().all(|line| line["state"] == "ok"), "{run:#?}");
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    for name in [
        "server",
        "api-server",
        "permissions",
        "link-status",
        "gateway-cache",
        "direct-answer",
        "cluster-answer",
    ] {
        ensure!(run.sentences("ok", name).len() == 1, "{name}: {run:#?}");
    }
    check_gateway(cluster)?;
    for object in &exported {
        cluster.delete(object)?;
    }
    let run = CheckRun::run_as(cluster, "admin", &[])?;
    run.check_line("ok", "gateway-cache", "nothing is wrong")?;
    print_line(&format!(
        "check: {}",
        run.sentences("ok", "server").join("; ")
    ));
    Ok(())
}

/// The gateway decides whether streams for an exported headless Service reach the right pods.
fn check_gateway(cluster: &Cluster) -> Result<()> {
    grant(cluster, &needed_rules(), true)?;
    let keeps = "gateways that keep the address of a pod that is gone: Pod/linkerd-multicluster/linkerd-gateway (1s)";
    cluster.delete(&gateway_pod("0s"))?;
    cluster.put(&gateway_pod("1s"))?;
    let run = CheckRun::run_as(cluster, "admin", &[])?;
    run.check_line("attention", "gateway-cache", keeps)?;
    grant(cluster, &needed_rules(), false)?;
    CheckRun::run_until(cluster, &[], |run| {
        let found = run.sentences("unknown", "gateway-cache").join("");
        ensure!(
            found.starts_with("not checked: ") && found.contains("403"),
            "{run:#?}"
        );
        Ok(())
    })?;
    cluster.delete(&gateway_pod("1s"))?;
    grant(cluster, &needed_rules(), true)
}

fn check_links_and_lists(cluster: &Cluster) -> Result<()> {
    cluster.put_status(&link("west"), &failing_link()["status"])?;
    cluster.put(&plain_service())?;
    // The mirror is deleted, but its host stays in Linkerd's list.
    let mut lost = state()?
        .into_iter()
        .filter(|event| event.kind() == "Service" && event.name() == "nginx-set-0-east");
    let lost = lost.next().context("recording 10 has changed")?;
    cluster.delete(&lost.object)?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        let start = "Headless mirror without endpoint mirrors: Service/default/nginx-east: lists nginx-set-0";
        let found = run.sentences("attention", "missing-host");
        ensure!(found.iter().any(|one| one.starts_with(start)), "{found:?}");
        Ok(())
    })?;
    let sentence = "Links report that mirroring fails: default/web of cluster 'west' (Error: example message), \
                    nowhere/web of cluster 'west' (MissingNamespace: example message)";
    run.check_line("attention", "link-status", sentence)?;
    cluster.delete(&plain_service())?;
    cluster.put_status(&link("west"), &json!({"mirrorServices": null}))?;
    cluster.apply_state(&state()?)
}

fn check_each_missing_verb(cluster: &Cluster) -> Result<()> {
    for (index, (group, resource)) in [("", "services"), ("discovery.k8s.io", "endpointslices")]
        .into_iter()
        .enumerate()
    {
        for (verb, rest) in [("list", "watch"), ("watch", "list")] {
            let mut rules = needed_rules();
            rules[index] = json!({"apiGroups": [group], "resources": [resource], "verbs": [rest]});
            grant(cluster, &rules, true)?;
            let end = format!(" cannot {verb} {resource} in all namespaces");
            let run = CheckRun::run_until(cluster, &[], |run| {
                let failing = run.failing();
                let is_expected =
                    |line: &String| line.starts_with("permissions: ") && line.ends_with(&end);
                ensure!(
                    matches!(failing.as_slice(), [one] if is_expected(one)),
                    "{run:#?}"
                );
                Ok(())
            })?;
            ensure!(run.code == Some(1), "{run:#?}");
        }
    }
    grant(cluster, &needed_rules(), true)?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        ensure!(run.failing().is_empty(), "{run:#?}");
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    Ok(())
}

fn check_one_namespace(cluster: &Cluster) -> Result<()> {
    cluster.delete(&binding())?;
    let metadata = json!({"name": "doctor", "namespace": "default"});
    cluster.put(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": needed_rules(),
    }))?;
    let role_binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "doctor"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    cluster.put(&role_binding)?;
    let run = CheckRun::run_until(cluster, &["--namespace=default".to_owned()], |run| {
        // Without permissions for Links, their state is unknown.
        ensure!(run.failing().is_empty(), "{run:#?}");
        ensure!(run.sentences("ok", "server").len() == 1, "{run:#?}");
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    // The same user lacks permissions in other namespaces.
    let run = CheckRun::run_until(cluster, &["--namespace=default,shop".to_owned()], |run| {
        let found = run.sentences("failing", "permissions").join("");
        let end = " cannot list services in namespace shop, watch services in namespace shop, list endpointslices in namespace \
                   shop, watch endpointslices in namespace shop";
        ensure!(found.contains(end), "{run:#?}");
        Ok(())
    })?;
    ensure!(run.code == Some(1), "{run:#?}");
    cluster.delete(&role_binding)?;
    Ok(())
}

/// No replica answers: the only pod is not ready. Its account has every permission.
fn check_pods(cluster: &Cluster) -> Result<()> {
    let (pod, workload) = (
        replica("default", "dns-0", 9154),
        workload("Deployment", "default", "global-dns"),
    );
    let account = json!([{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]);
    let mut binding = cluster_role_binding("dns", "nobody");
    binding["roleRef"]["name"] = json!("cluster-admin");
    binding["subjects"] = account;
    for object in [&pod, &workload, &binding] {
        cluster.put(object)?;
    }
    cluster.put_status(&pod, &pod_status("192.0.2.1", false))?;
    let checked = eventually("the pods", || {
        let mut check = global_dns(&["check", "--output=json", "--context=admin"]);
        let ended = process::run(check.arg("--kubeconfig").arg(&cluster.kubeconfig));
        let run = CheckRun {
            report: serde_json::from_str(&ended.stdout).with_context(|| ended.output())?,
            code: ended.code,
        };
        run.check_line("failing", "pods", "default/dns-0: Running, not Ready")?;
        run.check_line(
            "failing",
            "server",
            "no ready pod of global-dns in namespace default; --direct reads the objects of the cluster instead",
        )?;
        ensure!(
            run.sentences("ok", "api-server").len() == 1 && run.code == Some(1),
            "{run:#?}"
        );
        Ok(())
    });
    for object in [&pod, &workload, &binding] {
        cluster.delete(object)?;
    }
    checked
}

fn check_orphans(cluster: &Cluster) -> Result<()> {
    grant(cluster, &needed_rules(), true)?;
    cluster.delete(&link("north"))?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        let found = run.sentences("attention", "unlinked").join("");
        let expected = "Cluster has no Link: north: its endpoints are down";
        ensure!(found.starts_with(expected), "{run:#?}");
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    cluster.put(&link("north"))?;
    CheckRun::run_until(cluster, &[], |run| {
        ensure!(
            run.sentences("attention", "unlinked").is_empty(),
            "{run:#?}"
        );
        Ok(())
    })?;
    Ok(())
}

fn check_unreadable_objects(cluster: &Cluster) -> Result<()> {
    grant(cluster, &needed_rules(), false)?;
    let run = CheckRun::run_until(cluster, &[], |run| {
        let found = run.sentences("unknown", "link-status").join("");
        ensure!(
            found.starts_with("not checked: ") && found.contains("403"),
            "{run:#?}"
        );
        Ok(())
    })?;
    ensure!(run.code == Some(0), "{run:#?}");
    cluster.delete(&link_definition())?;
    Ok(())
}

fn check_coredns_forwarding(cluster: &Cluster) -> Result<()> {
    let forwarder = Forwarder::with_server(cluster)?;
    let dns = forwarder.server.dns;
    let check = |resolver: SocketAddr| {
        let flags = [format!("--dns={dns}"), format!("--resolver={resolver}")];
        CheckRun::run_until(cluster, &flags, |run| {
            let served = run.sentences("ok", "direct-answer");
            ensure!(served.len() == 1, "{run:#?}");
            Ok(())
        })
    };
    let coredns = forwarder.address;
    let run = check(coredns)?;
    let sentence = format!("{coredns} answers as the server does: nginx.default.global. A");
    run.check_line("ok", "cluster-answer", &sentence)?;
    ensure!(run.code == Some(0), "{run:#?}");

    // A Corefile without stanza for the zone.
    let without = Forwarder::start(cluster, |address| {
        Ok(format!(
            "cluster.local:{} {{\n    bind {}\n    whoami\n}}\n",
            address.port(),
            address.ip()
        ))
    })?;
    let run = check(without.1)?;
    let sentence = format!(
        "{} answers REFUSED for nginx.default.global. A: the zone is not forwarded",
        without.1
    );
    run.check_line("failing", "cluster-answer", &sentence)?;
    ensure!(run.code == Some(1), "{run:#?}");

    // A global-dns server with other endpoints, as in another cluster.
    let other = Server::ready_of_cluster(&cluster.kubeconfig, &["excludeClusters=[west]"]);
    let elsewhere = Forwarder::start(cluster, |address| stanza(&shipped()?, address, other.dns))?;
    let run = check(elsewhere.1)?;
    let found = run.sentences("failing", "cluster-answer").join("");
    let start = format!("{} answers nginx.default.global. A with ", elsewhere.1);
    ensure!(found.starts_with(&start), "{run:#?}");
    ensure!(run.code == Some(1), "{run:#?}");
    Ok(())
}

// === impl CheckRun ===

impl CheckRun {
    /// Runs `check` as a user.
    fn run_as(cluster: &Cluster, user: &str, flags: &[String]) -> Result<Self> {
        let common_flags = [
            "--output=json",
            "--direct",
            "--cluster-name=hub",
            "--context",
            user,
        ];
        let mut check = global_dns(&[&["check"], &common_flags[..]].concat());
        check.arg("--kubeconfig").arg(&cluster.kubeconfig);
        add_arguments(&mut check, flags);
        let ended = process::run(&mut check);
        let report = serde_json::from_str(&ended.stdout);
        Ok(Self {
            report: report.with_context(|| format!("check printed no JSON: {}", ended.output()))?,
            code: ended.code,
        })
    }

    /// Runs `check` as [`USER`] until the condition is met.
    fn run_until(
        cluster: &Cluster,
        flags: &[String],
        condition: impl Fn(&Self) -> Result<()>,
    ) -> Result<Self> {
        eventually("the expected report of check", || {
            let run = Self::run_as(cluster, USER, flags)?;
            condition(&run)?;
            Ok(run)
        })
    }

    fn lines(&self) -> impl Iterator<Item = &Value> {
        self.report["items"].as_array().into_iter().flatten()
    }

    /// Returns the sentences of one check, or of one kind of problem, with this state.
    fn sentences(&self, state: &str, name: &str) -> Vec<String> {
        let own = self.lines();
        let own = own.filter(|line| line["state"] == state && line["name"] == name);
        own.filter_map(|line| line["sentence"].as_str().map(str::to_owned))
            .collect()
    }

    /// Returns every failing line as `name: sentence`.
    fn failing(&self) -> Vec<String> {
        let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let own = self.lines().filter(|line| line["state"] == "failing");
        own.map(|line| format!("{}: {}", text(line, "name"), text(line, "sentence")))
            .collect()
    }

    fn check_line(&self, state: &str, name: &str, sentence: &str) -> Result<()> {
        let found = self
            .sentences(state, name)
            .iter()
            .any(|one| one == sentence);
        ensure!(found, "no line {state} '{sentence}' of {name}: {self:#?}");
        Ok(())
    }
}
