//! A cluster: an API server with its controllers, a network, and the pods on its only node.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::multicluster::GLOBAL_DNS_POD;
use support::multicluster::plan::CLUSTERS;
use support::networks::Network;
use support::objects::node;
use tempfile::TempDir;

use super::linkerd;
use super::pod::Pod;

/// The controllers that make pods.
const CONTROLLERS: [&str; 3] = [
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
];
const NODE: &str = "node-0";

/// A cluster.
pub struct Site {
    /// Index in [`CLUSTERS`].
    pub index: usize,
    pub api: Cluster,
    pods: BTreeMap<String, Pod>,
    /// Cluster IPs that the network translates already.
    translated: BTreeSet<String>,
    /// Whether the gateway admits connections.
    is_gateway_open: bool,
    /// Volumes and other files of the pods.
    folder: TempDir,
}

// === impl Site ===

impl Site {
    /// Starts an API server and its controllers, and creates what exists before `04-global-dns`.
    pub fn start(index: usize, network: &Network) -> Result<Self> {
        let api = Cluster::start_with_controllers(&CONTROLLERS)?;
        api.put(&node(NODE))?;
        for object in linkerd::fixtures(index) {
            support::wait::eventually("a fixture", || api.put(&object).map(drop))?;
        }
        let site = Self {
            index,
            api,
            pods: BTreeMap::new(),
            translated: BTreeSet::new(),
            is_gateway_open: true,
            folder: tempfile::tempdir()?,
        };
        if index > 0 {
            relay(network, site.address()?)?;
        }
        Ok(site)
    }

    pub fn name(&self) -> &'static str {
        CLUSTERS[self.index].name
    }

    /// Returns the address of the API server. It is the same in the networks of all clusters.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.api.address()?.parse()?)
    }

    pub fn folder(&self) -> &TempDir {
        &self.folder
    }

    /// Does what is due: like a scheduler, a kubelet and a kube-proxy.
    pub fn tick(&mut self, network: &Network) -> Result<()> {
        let objects = self.api.objects("v1", "Pod", "")?;
        let mut pods = std::mem::take(&mut self.pods);
        pods.retain(|uid, _| objects.iter().any(|pod| pod["metadata"]["uid"] == **uid));
        for object in &objects {
            let uid = object["metadata"]["uid"].as_str().context("no UID")?;
            if !object["metadata"]["deletionTimestamp"].is_null() {
                pods.remove(uid);
                self.api.delete(object)?;
            } else if object["spec"]["nodeName"].is_null() {
                self.bind(object)?;
            } else if let Some(pod) = pods.get_mut(uid) {
                pod.tick(self, network)?;
            } else {
                pods.insert(uid.to_owned(), Pod::new(object)?);
            }
        }
        self.pods = pods;
        self.translate(network)?;
        self.set_gateway(network)
    }

    fn bind(&self, pod: &Value) -> Result<()> {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}});
        let url = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
        self.api.post(&url, &binding).map(drop)
    }

    /// Translates the cluster IP of global-dns to its pod.
    fn translate(&mut self, network: &Network) -> Result<()> {
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": "global-dns", "name": "global-dns"}});
        let Some(service) = self.api.get(&service)? else {
            return Ok(());
        };
        let address = service.data["spec"]["clusterIP"].as_str();
        let address = address.context("the Service has no cluster IP")?;
        if self.translated.insert(address.to_owned()) {
            for protocol in ["udp", "tcp"] {
                network.nft(&format!(
                    "add rule ip proxy output ip daddr {address} {protocol} dport 53 dnat to {GLOBAL_DNS_POD}"
                ))?;
            }
        }
        Ok(())
    }

    /// Returns whether the cluster has a gateway that is ready.
    pub fn has_gateway(&self) -> Result<bool> {
        let gateway = self.api.get(&linkerd::gateway())?;
        Ok(gateway
            .is_some_and(|gateway| gateway.data["status"]["readyReplicas"].as_u64() > Some(0)))
    }

    /// Drops connections from other clusters while there is no gateway.
    fn set_gateway(&mut self, network: &Network) -> Result<()> {
        let is_open = self.has_gateway()?;
        if is_open != self.is_gateway_open {
            self.is_gateway_open = is_open;
            network.nft(if is_open {
                "delete table ip outage"
            } else {
                "table ip outage {
                    chain input {
                        type filter hook input priority -10
                        iifname eth0 ip daddr 10.244.0.0/24 ct status dnat drop
                    }
                }"
            })?;
        }
        Ok(())
    }

    /// Returns whether a pod of a Deployment or StatefulSet, or a single pod, is ready.
    pub fn is_ready(&self, start: &str) -> bool {
        self.pods
            .values()
            .any(|pod| pod.name().starts_with(start) && pod.is_ready())
    }

    /// Asserts that a pod is ready.
    pub fn check_ready(&self, start: &str) -> Result<()> {
        ensure!(
            self.is_ready(start),
            "{start} in {} is not ready",
            self.name()
        );
        Ok(())
    }

    /// Returns the last lines of the logs of all pods.
    pub fn logs(&self) -> String {
        let pods = self
            .pods
            .values()
            .map(|pod| format!("{}: {}", self.name(), pod.log_tail()));
        Vec::from_iter(pods).join("\n")
    }
}

/// Listens at an address of the network, and passes connections on to the same address of this thread's network.
fn relay(network: &Network, address: SocketAddr) -> Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
    let listener = network.enter(|| TcpListener::bind(address))??;
    // The thread stays in the network of this thread. It ends with the process.
    thread::spawn(move || {
        for accepted in listener.incoming().flatten() {
            thread::spawn(move || {
                let Ok(other) = TcpStream::connect(address) else {
                    return;
                };
                let pairs = [
                    (accepted.try_clone(), other.try_clone()),
                    (Ok(other), Ok(accepted)),
                ];
                for (from, to) in pairs {
                    let (Ok(mut from), Ok(mut to)) = (from, to) else {
                        return;
                    };
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            });
        }
    });
    Ok(())
}
