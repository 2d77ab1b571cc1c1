//! Headless Services of the local cluster with their EndpointSlices, in the form that Kubernetes writes.

use serde_json::{Value, json};

use super::{
    CONTROLLER, EXPORTED, MANAGED_BY, Manifest, Port, SERVICE_NAME, endpoint, port, service, slice,
    sql,
};

/// Builder of a local headless Service with its EndpointSlices.
#[derive(Clone, Debug)]
pub struct Local {
    namespace: String,
    name: String,
    is_exported: bool,
    has_selector: bool,
    ports: Vec<Port>,
    endpoints: Vec<Endpoint>,
    annotations: Value,
}

#[derive(Clone, Debug)]
struct Endpoint {
    host: Option<String>,
    pod: Option<String>,
    addresses: Vec<String>,
    is_ready: bool,
}

/// Maximum number of endpoints in one EndpointSlice.
const MAX_ENDPOINTS_PER_SLICE: usize = 1000;

/// Starts a local headless Service with port `sql` 26257 as the default.
pub fn local(namespace: &str, name: &str) -> Local {
    Local {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        is_exported: false,
        has_selector: true,
        ports: sql(),
        endpoints: Vec::new(),
        annotations: json!({}),
    }
}

/// Returns one local service `prod/sN` with N endpoints for each number N. Its hosts are `h-1`, `h-2`, … with addresses
/// 10.96.0.1, 10.96.0.2, … and one port.
pub fn members(counts: &[usize]) -> Manifest {
    let service = |count: &usize| {
        let service = local("prod", &format!("s{count}")).exported();
        (1..=*count).fold(service, |service, n| {
            let address = format!("10.96.{}.{}", n / 250, n % 250);
            service.endpoint(Some(&format!("h-{n}")), &address, true)
        })
    };
    counts.iter().map(service).collect()
}

// === impl Local ===

impl Local {
    /// Adds an endpoint. With a host, it is a pod of the same name.
    #[must_use]
    pub fn endpoint(self, host: Option<&str>, address: &str, is_ready: bool) -> Self {
        self.pod(host, host, &[address], is_ready)
    }

    /// Adds an endpoint with several addresses, an optional pod name and an optional host.
    #[must_use]
    pub fn pod(
        mut self,
        pod: Option<&str>,
        host: Option<&str>,
        addresses: &[&str],
        is_ready: bool,
    ) -> Self {
        self.endpoints.push(Endpoint {
            host: host.map(str::to_owned),
            pod: pod.map(str::to_owned),
            addresses: addresses.iter().map(|ip| (*ip).to_owned()).collect(),
            is_ready,
        });
        self
    }

    /// Marks the Service as exported.
    #[must_use]
    pub fn exported(mut self) -> Self {
        self.is_exported = true;
        self
    }

    /// Removes the selector. Another controller manages the slices, and they lack the headless label.
    #[must_use]
    pub fn without_selector(mut self) -> Self {
        self.has_selector = false;
        self
    }

    /// Sets the ports.
    #[must_use]
    pub fn ports(self, ports: &[(&str, &str, u16)]) -> Self {
        let ports = ports.iter().map(|(n, r, p)| port(n, r, *p)).collect();
        self.all_ports(ports)
    }

    /// Sets the ports, also ports without a name.
    #[must_use]
    pub fn all_ports(mut self, ports: Vec<Port>) -> Self {
        self.ports = ports;
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations[name] = json!(value);
        self
    }

    /// Returns the Service.
    pub fn service(&self) -> Value {
        let labels = if self.is_exported {
            json!({EXPORTED: "true"})
        } else {
            json!({})
        };
        let place = (&*self.namespace, &*self.name);
        service(place, &labels, &self.annotations, &["None"], &self.ports)
    }

    /// Returns the EndpointSlices of both address families.
    pub fn slices(&self) -> Vec<Value> {
        let mut slices = Vec::new();
        for (family, is_v6) in [("IPv4", false), ("IPv6", true)] {
            let of_family = self.endpoints.iter().flat_map(|endpoint| {
                let own = endpoint.addresses.iter();
                let own = own.filter(move |address| address.contains(':') == is_v6);
                own.map(|address| endpoint.object(address))
            });
            let of_family: Vec<Value> = of_family.collect();
            for (number, endpoints) in of_family.chunks(MAX_ENDPOINTS_PER_SLICE).enumerate() {
                let suffix = match number {
                    0 => family.to_lowercase(),
                    more => format!("{}-{more}", family.to_lowercase()),
                };
                slices.push(self.slice(&suffix, family, endpoints));
            }
        }
        slices
    }

    /// Returns a slice with any endpoints. Its name ends in `suffix`.
    pub fn slice(&self, suffix: &str, family: &str, endpoints: &[Value]) -> Value {
        let mut labels = json!({SERVICE_NAME: self.name, MANAGED_BY: "somebody-else"});
        if self.has_selector {
            labels["service.kubernetes.io/headless"] = json!("");
            labels[MANAGED_BY] = json!(CONTROLLER);
        }
        let name = format!("{}-{suffix}", self.name);
        let place = (&*self.namespace, &*name);
        slice(place, &labels, family, &self.ports, endpoints)
    }

    /// Returns a scheduled pod of the Service with a hostname, like one of a StatefulSet.
    pub fn pod_object(&self, host: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": self.namespace, "name": host, "labels": {"app": self.name}},
            "spec": {
                "hostname": host, "subdomain": self.name, "nodeName": "node-0",
                "containers": [{"name": "main", "image": "main"}],
            },
        })
    }
}

impl Endpoint {
    fn object(&self, address: &str) -> Value {
        let mut object = endpoint(self.host.as_deref(), address, self.is_ready);
        if let Some(pod) = &self.pod {
            object["targetRef"] =
                json!({"kind": "Pod", "name": pod, "uid": format!("uid-of-{pod}")});
        }
        object
    }
}

impl From<Local> for Manifest {
    fn from(local: Local) -> Self {
        let mut manifest = Self(vec![local.service()]);
        manifest.0.extend(local.slices());
        manifest
    }
}
