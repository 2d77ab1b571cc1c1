//! `fleet` over three real API servers, with the permissions of `explain`. A kubelet of `support::kubelet` forwards the ports.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::global_dns;
use support::fleet::{Alteration, CLUSTERS, Fault, Fleet, FleetCluster, LINKS, altered, faults};
use support::kubelet::Kubelet;
use support::objects::{
    cluster_role, cluster_role_binding, gateway_deployment, link_definition, namespace, node,
    pod_status, replica, workload,
};
use support::process::{self, ProcessOutput};
use support::recordings::{Action, Event};
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;

/// A user with the permissions of `explain` only.
const USER: &str = "stranger";
const NAMESPACE: &str = "dns";
/// The time for which a gateway keeps an address.
const CACHE_TIMEOUT: &str = "config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout";

/// Three clusters with their servers.
struct Clusters {
    clusters: Vec<Member>,
    /// One context for each cluster, of [`USER`].
    kubeconfig: PathBuf,
    _kubelet: Kubelet,
}

struct Member {
    cluster: Cluster,
    /// The server, its flags, and the pod with the port of its API.
    server: Option<(Server, Vec<String>)>,
    pod: Value,
    written: Vec<Value>,
}

pub fn run(steps: &mut Steps) {
    let mut clusters = None;
    steps.prerequisite("three_clusters_with_servers_start", || {
        let started = clusters.insert(Clusters::start()?);
        started.apply(&Fleet::healthy())
    });
    let Some(mut clusters) = clusters else { return };
    steps.step("nothing_is_red_in_a_healthy_fleet", || {
        clusters.check_healthy()
    });
    for fault in faults() {
        steps.step(&format!("fault: {}", fault.name), || {
            clusters.check_fault(&fault)
        });
    }
    steps.step("nothing_is_red_after_the_faults", || {
        clusters.apply(&Fleet::healthy())?;
        clusters.check_healthy()
    });
    steps.step("gateways_that_keep_addresses_are_named", || {
        clusters.check_gateways()
    });
    steps.step("port_that_no_cluster_reaches_is_named", || {
        clusters.check_dead_port()
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

    /// Waits until the findings that are not green are the expected ones: parts of sentence and hint.
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
                let is_expected = |[health, sentence, other]: &[String; 3]| {
                    let has_all = parts.iter().all(|part| sentence.contains(part));
                    health == "red" && has_all && other.contains(hint)
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

    fn check_fault(&mut self, fault: &Fault) -> Result<()> {
        let mut fleet = Fleet::healthy();
        (fault.plant)(&mut fleet);
        self.apply(&fleet)?;
        self.check(&["--contexts=hub,east,west"], &[(fault.line, fault.hint)])
    }

    /// The annotation is on the pods of the gateway in `east`, on its namespace, or absent. The namespace is readable later.
    fn check_gateways(&self) -> Result<()> {
        let east = &self.clusters[1].cluster;
        let without = gateway_deployment(&json!({}));
        let wait_for = |health: &str, sentence: &str| {
            eventually(sentence, || {
                let output = self.compare(&["--contexts=hub,east,west"]);
                let findings = findings(&output)?;
                ensure!(output.code == Some(0), "{output:#?}");
                ensure!(findings.len() == 1, "{findings:#?}");
                let [own_health, own_sentence, hint] = &findings[0];
                ensure!(own_health == health, "{findings:#?}");
                ensure!(own_sentence.starts_with(sentence), "{findings:#?}");
                ensure!(!hint.is_empty(), "{findings:#?}");
                Ok(())
            })
        };
        east.put(&without)?;
        grant_gateways(east, &["services"])?;
        let unread = "east: Gateway address cache: not checked, cannot list namespaces: the API server returned 403";
        wait_for("grey", unread)?;
        grant_gateways(east, &["services", "namespaces"])?;
        let keeps = "east: gateways that keep the address of a pod that is gone: Deployment/linkerd-multicluster/linkerd-gateway";
        wait_for("yellow", &format!("{keeps} (not set)"))?;
        east.put(&gateway_deployment(&json!({CACHE_TIMEOUT: "1s"})))?;
        wait_for("yellow", &format!("{keeps} (1s)"))?;
        east.put(&without)?;
        let annotated = json!({"metadata": {"annotations": {CACHE_TIMEOUT: "0s"}}});
        east.patch(&namespace(LINKS), &annotated)?;
        self.check_healthy()?;
        east.put(&gateway_deployment(&json!({CACHE_TIMEOUT: "0s"})))?;
        self.check_healthy()
    }

    /// The cluster that exports the Service and both that mirror it say so.
    fn check_dead_port(&mut self) -> Result<()> {
        let sentence = "Port cannot be reached from other clusters: prod/db: cluster 'east': port 26257 is 15432 in its pods";
        for (member, state) in self.clusters.iter_mut().zip(&Fleet::healthy().0) {
            let is_east = state.name == "east";
            let mut objects = state.writes();
            for object in &mut objects {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                match object["kind"].as_str() {
                    Some("Service") if name == "db-0-east" || is_east && name == "db" => {
                        object["spec"]["ports"][0]["targetPort"] = json!(15432);
                    }
                    Some("EndpointSlice") if is_east => object["ports"][0]["port"] = json!(15432),
                    _ => {}
                }
            }
            objects.extend(state.links());
            member.write(objects)?;
        }
        let of = |cluster: &str| format!("{cluster}: {sentence}");
        let lines = CLUSTERS.map(of);
        let parts: Vec<[&str; 1]> = lines.iter().map(|line| [line.as_str()]).collect();
        let expected: Vec<(&[&str], &str)> =
            parts.iter().map(|one| (&one[..], "targetPort")).collect();
        self.check(&["--contexts=hub,east,west"], &expected)?;
        self.apply(&Fleet::healthy())
    }

    /// A second replica of `east` has another hash and a table of another time.
    fn check_replicas(&self) -> Result<()> {
        let member = &self.clusters[1];
        let (server, _) = member.server.as_ref().context("no server")?;
        let other = altered(
            server.api,
            Alteration {
                texts: &[
                    ("\"tableHash\":", "\"tableHash\":1"),
                    (
                        "\"state\":\"alive\",\"returned\":true",
                        "\"state\":\"down\",\"returned\":false",
                    ),
                ],
                clock: 0,
            },
        );
        let pod = replica(NAMESPACE, "dns-other", other.port());
        member.cluster.put(&pod)?;
        member
            .cluster
            .put_status(&pod, &pod_status("192.0.2.2", true))?;
        let checked = self.check(
            &["--contexts=hub,east,west"],
            &[(
                &[
                    "east: replicas answer differently: pod dns/dns-0",
                    " / ",
                    "pod dns/dns-other",
                ],
                "restart the older one",
            )],
        );
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
        cluster.put(&gateway_deployment(&json!({CACHE_TIMEOUT: "0s"})))?;
        grant_gateways(&cluster, &["services", "namespaces"])?;
        Ok(Self {
            cluster,
            server: None,
            pod: Value::Null,
            written: Vec::new(),
        })
    }

    /// Writes the objects of a state, and starts its server if its flags differ.
    fn apply(&mut self, state: &FleetCluster) -> Result<()> {
        let mut objects = state.writes();
        self.wait_for_links()?;
        objects.extend(state.links());
        self.write(objects)?;
        let mut flags = vec!["--cluster-name".to_owned(), state.own_name.to_owned()];
        for flag in &state.flags {
            match flag.split_once('=') {
                Some((name, value)) if name.starts_with("--") => {
                    flags.extend([name, value].map(str::to_owned));
                }
                _ => flags.push((*flag).to_owned()),
            }
        }
        if self
            .server
            .as_ref()
            .is_none_or(|(_, known)| *known != flags)
        {
            let texts: Vec<&str> = flags.iter().map(String::as_str).collect();
            let server = Server::ready_of_cluster(&self.cluster.kubeconfig, &texts);
            self.server = Some((server, flags));
        }
        let (server, _) = self.server.as_ref().context("no server")?;
        let api = match state.alteration {
            Some(alteration) => altered(server.api, alteration),
            None => server.api,
        };
        let pod = replica(NAMESPACE, "dns-0", api.port());
        if pod != self.pod {
            self.cluster.delete(&pod)?;
            self.cluster.put(&pod)?;
            self.cluster
                .put_status(&pod, &pod_status("192.0.2.1", true))?;
            self.pod = pod;
        }
        Ok(())
    }

    /// The API server serves a definition some time after it was written.
    fn wait_for_links(&self) -> Result<()> {
        eventually("the definition of Links", || {
            self.cluster
                .count("multicluster.linkerd.io/v1alpha3", "Link")
        })
        .map(drop)
    }

    /// Changes the objects to exactly these.
    fn write(&mut self, objects: Vec<Value>) -> Result<()> {
        let wanted: BTreeMap<String, &Value> = objects.iter().map(|one| (key(one), one)).collect();
        let written: BTreeMap<String, &Value> =
            self.written.iter().map(|one| (key(one), one)).collect();
        for (key, object) in &written {
            let is_kept = wanted
                .get(key)
                .is_some_and(|one| one["spec"]["clusterIP"] == object["spec"]["clusterIP"]);
            if object["kind"] == "Endpoints" || is_kept {
                continue;
            }
            self.cluster.delete(object)?;
            // Kubernetes deletes them with their Service.
            let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {
                "namespace": object["metadata"]["namespace"], "name": object["metadata"]["name"],
            }});
            if object["kind"] == "Service" && written.contains_key(&self::key(&endpoints)) {
                self.cluster.write(&Event {
                    time: 0,
                    action: Action::Deleted,
                    object: endpoints,
                })?;
            }
        }
        for object in wanted.values() {
            // Also those that are as before: Endpoints are deleted with a Service that is replaced.
            if object["kind"] == "Endpoints" || !self.written.contains(object) {
                self.cluster.put(object)?;
            }
        }
        self.written = objects;
        Ok(())
    }
}

/// Grants the user permission to list these resources, which the check of gateways reads.
fn grant_gateways(cluster: &Cluster, resources: &[&str]) -> Result<()> {
    let rules = json!([{"apiGroups": [""], "resources": resources, "verbs": ["list"]}]);
    cluster.put(&cluster_role("gateways", &rules))?;
    cluster.put(&cluster_role_binding("gateways", USER))?;
    Ok(())
}

fn binding() -> Value {
    cluster_role_binding("explain", USER)
}

fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    // Services before Endpoints.
    let order = u8::from(object["kind"] == "Endpoints");
    format!(
        "{order} {} {} {}",
        object["kind"], metadata["namespace"], metadata["name"]
    )
}

/// Returns the findings that are not green: health, sentence and hint.
fn findings(output: &ProcessOutput) -> Result<Vec<[String; 3]>> {
    let document: Value =
        serde_json::from_str(&output.stdout).with_context(|| format!("{output:#?}"))?;
    let checks = document["checks"].as_array().context("no checks")?;
    let bad = checks.iter().filter(|one| one["health"] != "green");
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    Ok(bad
        .map(|one| ["health", "sentence", "hint"].map(|field| text(one, field)))
        .collect())
}
