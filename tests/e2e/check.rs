//! `check` against a real API server with RBAC on, and through a real CoreDNS.
//!
//! The user `doctor` has what each step grants. RBAC takes a moment to follow a change, so what is awaited is the line.

mod front;
mod objects;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::global_dns;
use support::objects::namespace;
use support::ports::free_port;
use support::process;
use support::say::say;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

use crate::clusters_come_and_go::state_after_the_recordings;
use front::{Front, shipped, stanza};
use objects::{
    binding, failing_link, grant, link, link_definition, needed, odd_service, plain_service,
    probe_service,
};

/// How long a line may take to follow a grant, on a busy machine.
const FOLLOW: Duration = Duration::from_secs(60);
const START: Duration = Duration::from_secs(30);
const USER: &str = "doctor";
const CLUSTERS: [&str; 3] = ["east", "west", "north"];

/// What `check` printed, and its exit code.
#[derive(Debug)]
struct Checkup {
    report: Value,
    code: Option<i32>,
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "check_without_the_kind_of_links_does_not_check_them",
        || links_are_not_known(cluster),
    );
    steps.step(
        "check_is_green_with_what_the_chart_grants_and_links",
        || healthy_is_green(cluster),
    );
    steps.step(
        "check_tells_what_links_labels_and_lists_of_headless_mirrors_say",
        || links_labels_and_lists_are_read(cluster),
    );
    steps.step("check_names_each_verb_that_is_missing", || {
        each_verb_is_missed(cluster)
    });
    steps.step(
        "check_asks_for_permissions_in_the_watched_namespace_alone",
        || one_namespace_is_enough(cluster),
    );
    steps.step(
        "check_warns_an_administrator_of_too_many_permissions",
        || administrator_has_more(cluster),
    );
    steps.step("check_finds_the_mirrors_of_a_link_that_was_removed", || {
        orphans_are_found(cluster)
    });
    steps.step(
        "check_without_permission_to_read_links_does_not_check_them",
        || links_may_not_be_read(cluster),
    );
    steps.step(
        "check_tells_a_zone_that_coredns_forwards_from_one_that_it_does_not",
        || coredns_forwards_or_not(cluster),
    );
}

fn links_are_not_known(cluster: &Cluster) -> Result<()> {
    cluster.become_state(&state_after_the_recordings()?)?;
    grant(cluster, &needed(), true)?;
    let checkup = Checkup::wait(cluster, &[], |checkup| {
        checkup.has(
            "yellow",
            "orphaned-mirrors",
            "orphaned mirrors: not checked, this API server knows no Links",
        )
    })?;
    ensure!(checkup.code == Some(0), "{checkup:#?}");
    Ok(())
}

fn healthy_is_green(cluster: &Cluster) -> Result<()> {
    let front = Front::forwarding_to_a_server(cluster)?;
    cluster.put(&link_definition())?;
    for name in CLUSTERS {
        // The kind is served a moment after its definition is written.
        eventually("Links to be known", FOLLOW, || cluster.put(&link(name)))?;
    }
    cluster.put(&namespace("linkerd-multicluster"))?;
    cluster.put(&probe_service())?;
    // Somebody has decided which ports of the recorded `nginx` are opaque.
    for mut mirror in headless_mirrors()? {
        mirror["metadata"]["annotations"]["config.linkerd.io/opaque-ports"] = json!("26257");
        cluster.put(&mirror)?;
    }
    let flags = [front.server_flag(), front.resolver_flag(), front.api_flag()];
    let checkup = Checkup::wait(cluster, &flags, |checkup| {
        ensure!(
            checkup.report["yellow"] == 0 && checkup.report["red"] == 0,
            "{checkup:#?}"
        );
        Ok(())
    })?;
    ensure!(checkup.code == Some(0), "{checkup:#?}");
    for (check, sentence) in [
        ("api-server", "the API server answers"),
        ("permissions", "may list services in all namespaces"),
        ("permissions", "may watch services in all namespaces"),
        ("permissions", "may list endpointslices in all namespaces"),
        ("permissions", "may watch endpointslices in all namespaces"),
        (
            "more-permissions",
            "may change no Services or EndpointSlices, read no Secrets and start no Pods",
        ),
        (
            "mirrors",
            "3 headless mirrors of 3 clusters (east, north, west) with 9 endpoints",
        ),
        ("headless-mirroring", "headless mirroring is on"),
        ("orphaned-mirrors", "every mirror's cluster has a Link"),
        (
            "identity",
            "the server has seen no mirror become one of something else",
        ),
        (
            "endpoint-mirrors",
            "every headless mirror has endpoint mirrors",
        ),
        (
            "versions",
            "Linkerd's multicluster extension by linkerd/helm edge-26.8.3",
        ),
    ] {
        checkup.has("green", check, sentence)?;
    }
    let versions = checkup.sentences("green", "versions");
    ensure!(
        versions.iter().any(|one| one.starts_with("Kubernetes v")),
        "{versions:?}"
    );
    say(&format!(
        "check: {}",
        checkup.sentences("green", "forwarding").join("; ")
    ));
    Ok(())
}

/// The headless mirrors of `nginx`, as the recordings have them.
fn headless_mirrors() -> Result<Vec<Value>> {
    let written = state_after_the_recordings()?.into_iter();
    let services = written.filter(|event| event.kind() == "Service");
    // Of an object that changed, the last version.
    let last: BTreeMap<String, Value> = services
        .map(|event| (event.name().to_owned(), event.object))
        .filter(|(_, object)| object["spec"]["clusterIP"] == "None")
        .collect();
    Ok(last.into_values().collect())
}

fn links_labels_and_lists_are_read(cluster: &Cluster) -> Result<()> {
    cluster.delete(&link("west"))?;
    cluster.put(&failing_link())?;
    cluster.put(&plain_service())?;
    cluster.put(&odd_service())?;
    // The mirror goes, and what Linkerd listed stays.
    let lost = state_after_the_recordings()?.into_iter();
    let mut lost =
        lost.filter(|event| event.kind() == "Service" && event.name() == "nginx-set-0-east");
    let lost = lost.next().context("recording 10 has changed")?;
    cluster.delete(&lost.object)?;
    let checkup = Checkup::wait(
        cluster,
        &["--default-namespace=nowhere".to_owned()],
        |checkup| {
            let start = "namespaces that do not exist here: 'nowhere', of web in cluster 'west'";
            checkup.has("yellow", "namespaces", start)?;
            let sentence =
                "1 host without endpoint mirror: Service/default/nginx-east lists nginx-set-0";
            checkup.has("yellow", "endpoint-mirrors", sentence)
        },
    )?;
    let sentence =
        "Links report that mirroring fails: default/web of cluster 'west' (Error: as it says)";
    checkup.has("yellow", "link-status", sentence)?;
    let sentence = "1 object left out for the value of label mirror.linkerd.io/mirrored-service: \
                    Service/default/odd-east ('True')";
    checkup.has("yellow", "mirror-labels", sentence)?;
    // An administrator may list namespaces: `check` names the wrong one of a flag.
    let flags = ["--default-namespace=nowere", "--short-name=nginx=default"].map(str::to_owned);
    let by_admin = Checkup::by(cluster, "admin", &flags)?;
    let sentence = "namespaces that do not exist here: 'nowere', which a flag names, 'nowhere', of web in cluster 'west'";
    by_admin.has("yellow", "namespaces", sentence)?;
    // A Service that no watch selects is found by the command, with the rights of serve.
    let mut explain = global_dns(&["explain", "plain.default.global", "--context", USER]);
    let text = process::run(explain.arg("--kubeconfig").arg(&cluster.kubeconfig)).stdout;
    let note = "Service/default/plain of this cluster is not headless";
    ensure!(text.contains(note), "explain printed: {text}");
    for object in [plain_service(), odd_service()] {
        cluster.delete(&object)?;
    }
    cluster.delete(&failing_link())?;
    cluster.put(&link("west"))?;
    cluster.become_state(&state_after_the_recordings()?)
}

fn each_verb_is_missed(cluster: &Cluster) -> Result<()> {
    for (index, (group, resource)) in [("", "services"), ("discovery.k8s.io", "endpointslices")]
        .into_iter()
        .enumerate()
    {
        for (verb, rest) in [("list", "watch"), ("watch", "list")] {
            let mut rules = needed();
            rules[index] = json!({"apiGroups": [group], "resources": [resource], "verbs": [rest]});
            grant(cluster, &rules, true)?;
            let sentence = format!("may not {verb} {resource} in all namespaces");
            let checkup = Checkup::wait(cluster, &[], |checkup| {
                let red = checkup.of_health("red");
                ensure!(red == [format!("permissions: {sentence}")], "{checkup:#?}");
                Ok(())
            })?;
            ensure!(checkup.code == Some(1), "{checkup:#?}");
        }
    }
    grant(cluster, &needed(), true)?;
    let checkup = Checkup::wait(cluster, &[], |checkup| {
        ensure!(checkup.of_health("red").is_empty(), "{checkup:#?}");
        Ok(())
    })?;
    ensure!(checkup.code == Some(0), "{checkup:#?}");
    Ok(())
}

fn one_namespace_is_enough(cluster: &Cluster) -> Result<()> {
    cluster.delete(&binding())?;
    let metadata = json!({"name": "doctor", "namespace": "default"});
    cluster.put(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": needed(),
    }))?;
    let role_binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "doctor"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    });
    cluster.put(&role_binding)?;
    let checkup = Checkup::wait(cluster, &["--namespace=default".to_owned()], |checkup| {
        checkup.has(
            "green",
            "permissions",
            "may list services in namespace default",
        )?;
        let text = "may change no Services or EndpointSlices, read no Secrets and start no Pods";
        checkup.has("green", "more-permissions", text)?;
        checkup.has(
            "green",
            "mirrors",
            "3 headless mirrors of 3 clusters (east, north, west) with 9 endpoints",
        )
    })?;
    ensure!(checkup.code == Some(0), "{checkup:#?}");
    // The same user lacks everything else.
    let checkup = Checkup::wait(
        cluster,
        &["--namespace=default,shop".to_owned()],
        |checkup| {
            checkup.has(
                "red",
                "permissions",
                "may not watch endpointslices in namespace shop",
            )
        },
    )?;
    ensure!(checkup.code == Some(1), "{checkup:#?}");
    cluster.delete(&role_binding)?;
    // What is needed in one namespace, granted in all.
    grant(cluster, &needed(), true)?;
    let checkup = Checkup::wait(cluster, &["--namespace=default".to_owned()], |checkup| {
        let found = checkup.sentences("yellow", "more-permissions").join("");
        ensure!(
            found.contains("list services in all namespaces"),
            "{checkup:#?}"
        );
        Ok(())
    })?;
    ensure!(checkup.code == Some(0), "{checkup:#?}");
    Ok(())
}

fn administrator_has_more(cluster: &Cluster) -> Result<()> {
    let checkup = Checkup::by(cluster, "admin", &[])?;
    let found = checkup.sentences("yellow", "more-permissions");
    let start = "may do more than is needed: create deployments, create endpointslices, ";
    ensure!(
        found.len() == 1 && found[0].starts_with(start),
        "{checkup:#?}"
    );
    ensure!(checkup.code == Some(0), "{checkup:#?}");
    Ok(())
}

fn orphans_are_found(cluster: &Cluster) -> Result<()> {
    cluster.delete(&link("north"))?;
    let sentence = "without a Link: cluster 'north' has 4 mirrors";
    let checkup = Checkup::wait(cluster, &[], |checkup| {
        checkup.has("yellow", "orphaned-mirrors", sentence)
    })?;
    ensure!(checkup.code == Some(0), "{checkup:#?}");
    cluster.put(&link("north"))?;
    Checkup::wait(cluster, &[], |checkup| {
        checkup.has(
            "green",
            "orphaned-mirrors",
            "every mirror's cluster has a Link",
        )
    })?;
    Ok(())
}

fn links_may_not_be_read(cluster: &Cluster) -> Result<()> {
    grant(cluster, &needed(), false)?;
    let checkup = Checkup::wait(cluster, &[], |checkup| {
        let found = checkup.sentences("yellow", "orphaned-mirrors").join("");
        let start =
            "orphaned mirrors: not checked, Links cannot be read: the API server says 403: ";
        ensure!(found.starts_with(start), "{checkup:#?}");
        Ok(())
    })?;
    ensure!(checkup.code == Some(0), "{checkup:#?}");
    cluster.delete(&link_definition())?;
    Ok(())
}

fn coredns_forwards_or_not(cluster: &Cluster) -> Result<()> {
    let forwards = Front::forwarding_to_a_server(cluster)?;
    let dns = forwards.server.dns;
    let ask = |resolver: SocketAddr| {
        let flags = [format!("--server={dns}"), format!("--resolver={resolver}")];
        Checkup::wait(cluster, &flags, |checkup| {
            let served = checkup.sentences("green", "server");
            ensure!(served.len() == 1, "{checkup:#?}");
            Ok(())
        })
    };
    let front = forwards.address;
    let checkup = ask(front)?;
    let sentence = format!(
        "{front} forwards global. to the server: the same SOA record, and the same answer for nginx.default.global. A"
    );
    checkup.has("green", "forwarding", &sentence)?;
    ensure!(checkup.code == Some(0), "{checkup:#?}");

    // The Corefile of a cluster that was told nothing.
    let without = Front::start(cluster, |front| {
        Ok(format!(
            "cluster.local:{} {{\n    bind {}\n    whoami\n}}\n",
            front.port(),
            front.ip()
        ))
    })?;
    let checkup = ask(without.1)?;
    let sentence = format!(
        "{} does not forward global. yet: it says REFUSED",
        without.1
    );
    checkup.has("yellow", "forwarding", &sentence)?;
    ensure!(checkup.code == Some(0), "{checkup:#?}");

    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let astray = Front::start(cluster, |front| stanza(&shipped()?, front, nobody))?;
    let checkup = ask(astray.1)?;
    let sentence = format!("{} fails for global. alone: it says SERVFAIL", astray.1);
    checkup.has("red", "forwarding", &sentence)?;
    ensure!(checkup.code == Some(1), "{checkup:#?}");

    // A server of ours that knows other endpoints, as another cluster's does.
    let other = Server::ready_of_cluster(&cluster.kubeconfig, &["--exclude-cluster", "west"]);
    let elsewhere = Front::start(cluster, |front| stanza(&shipped()?, front, other.dns))?;
    let checkup = ask(elsewhere.1)?;
    let sentence = format!(
        "{} answers otherwise than the server: nginx.default.global. A",
        elsewhere.1
    );
    checkup.has("red", "forwarding", &sentence)?;
    ensure!(checkup.code == Some(1), "{checkup:#?}");
    Ok(())
}

// === impl Checkup ===

impl Checkup {
    /// Runs the binary as a user.
    fn by(cluster: &Cluster, user: &str, flags: &[String]) -> Result<Self> {
        let flags_of_all = ["--output=json", "--cluster-name=hub", "--context", user];
        let mut check = global_dns(&[&["check"], &flags_of_all[..]].concat());
        check.arg("--kubeconfig").arg(&cluster.kubeconfig);
        let ended = process::run(check.args(flags));
        let report = serde_json::from_str(&ended.stdout);
        Ok(Self {
            report: report.with_context(|| format!("check printed: {}", ended.said()))?,
            code: ended.code,
        })
    }

    /// Runs it as [`USER`], until it says what is awaited.
    fn wait(
        cluster: &Cluster,
        flags: &[String],
        awaited: impl Fn(&Self) -> Result<()>,
    ) -> Result<Self> {
        eventually("check to say so", FOLLOW, || {
            let checkup = Self::by(cluster, USER, flags)?;
            awaited(&checkup)?;
            Ok(checkup)
        })
    }

    fn lines(&self) -> impl Iterator<Item = &Value> {
        self.report["checks"].as_array().into_iter().flatten()
    }

    /// The sentences of one check that ended so.
    fn sentences(&self, health: &str, check: &str) -> Vec<String> {
        let own = self.lines();
        let own = own.filter(|line| line["health"] == health && line["check"] == check);
        own.filter_map(|line| line["sentence"].as_str().map(str::to_owned))
            .collect()
    }

    /// Every line that ended so: `check: sentence`.
    fn of_health(&self, health: &str) -> Vec<String> {
        let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let own = self.lines().filter(|line| line["health"] == health);
        own.map(|line| format!("{}: {}", text(line, "check"), text(line, "sentence")))
            .collect()
    }

    fn has(&self, health: &str, check: &str, sentence: &str) -> Result<()> {
        let found = self
            .sentences(health, check)
            .iter()
            .any(|one| one == sentence);
        ensure!(found, "no {health} '{sentence}' of {check}: {self:#?}");
        Ok(())
    }
}
