//! What a cluster sees of itself and of the others: its own Services as Kubernetes makes them, the others' as Linkerd
//! mirrors them.

use serde_json::{Map, Value, json};

use crate::plan::{CLUSTERS, Member, NAMESPACE, SERVICES, Service};
use crate::support::local_objects::{LocalService, endpoint};
use crate::support::mirror_objects::HeadlessMirror;

/// What one cluster sees: which members there are, and whose gateway is down.
pub struct View<'v> {
    /// The index of the cluster that looks.
    pub viewer: usize,
    pub members: &'v [Member],
    pub is_down: [bool; CLUSTERS.len()],
}

// === impl View ===

impl View<'_> {
    /// As a file, which needs no API server.
    pub fn manifest(&self) -> String {
        let own = SERVICES.iter().flat_map(|service| {
            let slice = self.local(service, |local, members| {
                // Kubernetes calls every endpoint ready where not-ready addresses are published.
                let endpoints = members.iter().map(|member| {
                    let host = member.host();
                    endpoint(&member.pod_address(), true, Some(&host), Some(&host))
                });
                local.slice(
                    &format!("{}-x7k2p", service.name),
                    "IPv4",
                    endpoints.collect(),
                )
            });
            [self.own_service(service, None), slice]
        });
        let mirrors = self.mirrors().into_iter().flat_map(|mirror| match mirror {
            Mirror::Headless(object) => vec![object],
            Mirror::Endpoint { service, slice, .. } => vec![service, slice],
        });
        let items: Vec<Value> = own.chain(mirrors).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }

    /// As objects of an API server, whose controllers make the slices: of the pods, and of the mirrors' Endpoints.
    pub fn objects(&self) -> Vec<Value> {
        let own = SERVICES
            .iter()
            .map(|service| self.own_service(service, Some(json!({"app": service.name}))));
        let mirrors = self.mirrors().into_iter().flat_map(|mirror| match mirror {
            Mirror::Headless(object) => vec![object],
            Mirror::Endpoint {
                service, endpoints, ..
            } => vec![service, endpoints],
        });
        own.chain(mirrors).collect()
    }

    /// The pods of this cluster, each with the status that a kubelet would report.
    pub fn pods(&self, is_ready: bool) -> Vec<(Value, Value)> {
        let own = self
            .members
            .iter()
            .filter(|member| member.cluster == self.viewer);
        let pod = |member: &Member| {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "namespace": NAMESPACE, "name": member.host(),
                    "labels": {"app": member.service.name},
                },
                "spec": {
                    "hostname": member.host(), "subdomain": member.service.name, "nodeName": "node-0",
                    "containers": [{"name": "main", "image": "main"}],
                },
            });
            let status = json!({
                "phase": "Running",
                "podIP": member.pod_address(), "podIPs": [{"ip": member.pod_address()}],
                "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}],
            });
            (pod, status)
        };
        own.map(pod).collect()
    }

    fn own_service(&self, service: &Service, selector: Option<Value>) -> Value {
        let mut object = self.local(service, |local, _| local.service(true, json!({})));
        object["spec"]["publishNotReadyAddresses"] = json!(true);
        if let Some(selector) = selector {
            object["spec"]["selector"] = selector;
        }
        object
    }

    fn local<T>(&self, service: &Service, make: impl Fn(&LocalService<'_>, &[&Member]) -> T) -> T {
        let own = self.members.iter();
        let own = own.filter(|member| member.is_of(service, self.viewer));
        make(
            &LocalService {
                namespace: NAMESPACE,
                name: service.name,
                ports: &service.ports(),
            },
            &own.collect::<Vec<_>>(),
        )
    }

    fn mirrors(&self) -> Vec<Mirror> {
        let mut mirrors = Vec::new();
        let others = (0..CLUSTERS.len()).filter(|&cluster| cluster != self.viewer);
        for (service, cluster) in SERVICES
            .iter()
            .flat_map(|service| others.clone().map(move |cluster| (service, cluster)))
        {
            let name = format!("{}-{}", service.name, CLUSTERS[cluster].name);
            let of_all = HeadlessMirror {
                name: &name,
                namespace: NAMESPACE,
                cluster: CLUSTERS[cluster].name,
                service: service.name,
                ports: &service.ports(),
            };
            mirrors.push(Mirror::Headless(of_all.service(Map::new())));
            let members = self.members.iter();
            for member in members.filter(|member| member.is_of(service, cluster)) {
                let name = format!("{}-{}", member.host(), CLUSTERS[cluster].name);
                let addresses = [member.synthetic_address(self.viewer)];
                let object = of_all.endpoint(&name, &member.host(), &addresses);
                mirrors.push(Mirror::Endpoint {
                    endpoints: endpoints_of(&object, cluster, self.is_down[cluster]),
                    slice: of_all.slice(&name, !self.is_down[cluster]),
                    service: object,
                });
            }
        }
        mirrors
    }
}

enum Mirror {
    Headless(Value),
    Endpoint {
        service: Value,
        /// What Linkerd writes; Kubernetes makes the slice of it.
        endpoints: Value,
        slice: Value,
    },
}

/// The gateway's address, ready or not, at the gateway's port for every port of the Service.
fn endpoints_of(service: &Value, cluster: usize, is_down: bool) -> Value {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| json!({"name": port["name"], "port": 4143, "protocol": "TCP"}));
    let addresses = if is_down {
        "notReadyAddresses"
    } else {
        "addresses"
    };
    let metadata = &service["metadata"];
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "namespace": NAMESPACE, "name": metadata["name"],
            "labels": metadata["labels"], "annotations": metadata["annotations"],
        },
        "subsets": [{
            addresses: [{"ip": CLUSTERS[cluster].gateway}],
            "ports": ports.collect::<Vec<_>>(),
        }],
    })
}
