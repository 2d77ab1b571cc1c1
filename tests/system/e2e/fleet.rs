//! `fleet` over three real API servers, with the permissions of `explain`. A kubelet of `support::kubelet` forwards the ports.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::global_dns;
use support::fleet::{Alteration, CLUSTERS, Fleet, FleetCluster, LINKS, altered};
use support::kubelet::Kubelet;
use support::objects::{
    cluster_role, cluster_role_binding, link_definition, namespace, node, pod_status, replica,
    workload,
};
use support::process::{self, ProcessOutput};
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

/// A user with the permissions of `explain` only.
const USER: &str = "stranger";
const NAMESPACE: &str = "dns";

/// Three clusters with their servers.
struct Clusters {
    clusters: Vec<Member>,
    /// One context for each cluster, of [`USER`].
    kubeconfig: PathBuf,
    _kubelet: Kubelet,
}

struct Member {
    cluster: Cluster,
    server: Option<Server>,
}

pub fn run(steps: &mut Steps) {
    let mut clusters = None;
    steps.prerequisite("three_clusters_with_servers_start", || {
        let started = clusters.insert(Clusters::start()?);
        started.apply(&Fleet::healthy())
    });
    let Some(mut clusters) = clusters else { return };
    steps.step("nothing_fails_in_a_healthy_fleet", || {
        clusters.check_healthy()
    });
    steps.step("replicas_that_differ_are_named", || {
        clusters.check_replicas()
    });
    steps.step("two_contexts_of_one_cluster_are_named", || {
        clusters.check_same_cluster()
    });
    steps.step(
        "context_without_permissions_is_named_and_the_others_are_compared",
        || clusters.check_permissions(),
    );
    steps.step(
        "api_server_that_does_not_respond_is_named_and_the_others_are_compared",
        || clusters.check_frozen(),
    );
}

// === impl Clusters ===

impl Clusters {
    fn start() -> Result<Self> {
        let kubelet = Kubelet::start()?;
        let clusters = CLUSTERS.iter().map(|_| Member::start(&kubelet));
        let clusters = clusters.collect::<Result<Vec<Member>>>()?;
        let kubeconfig = clusters[0].cluster.directory().join("fleet");
        let (mut named, mut contexts) = (Vec::new(), Vec::new());
        for (name, member) in CLUSTERS.iter().zip(&clusters) {
            let server = format!("https://{}", member.cluster.address()?);
            let certificate = member.cluster.certificate();
            named.push(json!({"name": name, "cluster": {"server": server, "certificate-authority": certificate}}));
            for context in [(*name).to_owned(), format!("user@{name}/b \u{fc}")] {
                contexts.push(json!({"name": context, "context": {"cluster": name, "user": USER}}));
            }
        }
        let users = json!([{"name": USER, "user": {"token": format!("token-of-{USER}")}}]);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "clusters": named, "contexts": contexts, "users": users,
        });
        fs::write(&kubeconfig, config.to_string())?;
        Ok(Self {
            clusters,
            kubeconfig,
            _kubelet: kubelet,
        })
    }

    fn apply(&mut self, fleet: &Fleet) -> Result<()> {
        let mut members = self.clusters.iter_mut().zip(&fleet.0);
        members.try_for_each(|(member, state)| member.apply(state))
    }

    fn compare(&self, arguments: &[&str]) -> ProcessOutput {
        let mut command = global_dns(&["fleet", "-o", "json"]);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        process::run(command.args(arguments))
    }

    /// Waits until the findings that are not `ok` are the expected ones: parts of sentence and hint.
    fn check(&self, arguments: &[&str], expected: &[(&[&str], &str)]) -> Result<()> {
        let checked = eventually("the differences", || {
            let output = self.compare(arguments);
            let findings = findings(&output)?;
            let code = i32::from(!expected.is_empty());
            ensure!(
                output.code == Some(code),
                "exit code {:?}: {findings:#?}",
                output.code
            );
            ensure!(findings.len() == expected.len(), "{findings:#?}");
            for (parts, hint) in expected {
                let is_expected = |[state, sentence, other]: &[String; 3]| {
                    let has_all = parts.iter().all(|part| sentence.contains(part));
                    state == "failing" && has_all && other.contains(hint)
                };
                ensure!(
                    findings.iter().any(is_expected),
                    "no {parts:?} and {hint}: {findings:#?}"
                );
            }
            Ok(())
        });
        checked.map(drop)
    }

    fn check_healthy(&self) -> Result<()> {
        self.check(&["--contexts=hub,east,west"], &[])
    }

    /// A second replica of `east` has another hash.
    fn check_replicas(&self) -> Result<()> {
        let member = &self.clusters[1];
        let server = member.server.as_ref().context("no server")?;
        let other = altered(
            server.api,
            Alteration {
                texts: &[("\"tableHash\":", "\"tableHash\":1")],
                clock: 0,
            },
        );
        let pod = replica(NAMESPACE, "dns-other", other.port());
        member.cluster.put(&pod)?;
        member
            .cluster
            .put_status(&pod, &pod_status("192.0.2.2", true))?;
        let replicas: &[&str] = &[
            "east: replicas answer differently: pod dns/dns-0",
            " / ",
            "pod dns/dns-other",
        ];
        let expected = [(replicas, "restart the older one")];
        let checked = self.check(&["--contexts=hub,east,west"], &expected);
        member.cluster.delete(&pod)?;
        checked
    }

    fn check_same_cluster(&self) -> Result<()> {
        let arguments = ["--contexts=hub,east,west,user@hub/b \u{fc}"];
        let expected: &[&str] = &["hub and user@hub/b \u{fc} are the same cluster"];
        self.check(&arguments, &[(expected, "name each cluster once")])
    }

    fn check_permissions(&self) -> Result<()> {
        let cluster = &self.clusters[1].cluster;
        cluster.delete(&binding())?;
        let missing: &[&str] = &[
            "east cannot be read: ",
            "403",
            "grant \"list\" on deployments",
        ];
        let unknown: &[&str] = &["nowhere cannot be read: "];
        let hint = "permissions of explain";
        let checked = self.check(&["--contexts=hub,east,west"], &[(missing, hint)]);
        let both = self.check(
            &["--contexts=hub,east,west,nowhere"],
            &[(missing, hint), (unknown, hint)],
        );
        cluster.put(&binding())?;
        checked.and(both)
    }

    fn check_frozen(&mut self) -> Result<()> {
        self.clusters[2].cluster.freeze_api_server()?;
        let expected: &[&str] = &["west cannot be read: ", "no response within"];
        let checked = self.check(&["--contexts=hub,east,west"], &[(expected, "")]);
        self.clusters[2].cluster.thaw_api_server()?;
        checked?;
        self.check_healthy()
    }
}

// === impl Member ===

impl Member {
    fn start(kubelet: &Kubelet) -> Result<Self> {
        let cluster = Cluster::start()?;
        for name in ["prod", LINKS, NAMESPACE] {
            cluster.put(&namespace(name))?;
        }
        cluster.put(&link_definition())?;
        cluster.put(&node("node-0"))?;
        cluster.put_status(&node("node-0"), &kubelet.node_status())?;
        let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let rules = json!([
            rule("apps", "deployments", &["list"]),
            rule("apps", "daemonsets", &["list"]),
            rule("", "pods", &["list"]),
            rule("", "pods/portforward", &["get", "create"]),
        ]);
        cluster.put(&cluster_role("explain", &rules))?;
        cluster.put(&binding())?;
        cluster.put(&workload("Deployment", NAMESPACE, "global-dns"))?;
        Ok(Self {
            cluster,
            server: None,
        })
    }

    /// Writes the objects of a state, and starts its server.
    fn apply(&mut self, state: &FleetCluster) -> Result<()> {
        self.wait_for_links()?;
        for object in state.writes().iter().chain(&state.links()) {
            self.cluster.put(object)?;
        }
        let flags = ["--cluster-name", state.own_name];
        let server = Server::ready_of_cluster(&self.cluster.kubeconfig, &flags);
        let pod = replica(NAMESPACE, "dns-0", server.api.port());
        self.server = Some(server);
        self.cluster.put(&pod)?;
        let ready = pod_status("192.0.2.1", true);
        self.cluster.put_status(&pod, &ready)
    }

    /// The API server serves a definition some time after it was written.
    fn wait_for_links(&self) -> Result<()> {
        eventually("the definition of Links", || {
            self.cluster
                .count("multicluster.linkerd.io/v1alpha3", "Link")
        })
        .map(drop)
    }
}

fn binding() -> Value {
    cluster_role_binding("explain", USER)
}

/// Returns the findings that are not `ok`: state, sentence and hint.
fn findings(output: &ProcessOutput) -> Result<Vec<[String; 3]>> {
    let document: Value =
        serde_json::from_str(&output.stdout).with_context(|| format!("{output:#?}"))?;
    let items = document["items"].as_array().context("no items")?.iter();
    let findings = items.filter(|one| one["name"].is_string());
    let bad = findings.filter(|one| one["state"] != "ok");
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    Ok(bad
        .map(|one| ["state", "sentence", "hint"].map(|field| text(one, field)))
        .collect())
}
