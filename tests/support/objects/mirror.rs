//! Headless mirrors with their endpoint mirrors and slices, in the form that Linkerd's mirror controller writes.

use serde_json::{Value, json};

use super::{
    CLUSTER_NAME, FQ_NAME, GATEWAY, MANAGED_BY, MIRRORED, Manifest, Port, SERVICE_NAME, endpoint,
    port, service, slice, sql,
};

/// Builder of a headless mirror with its endpoint mirrors and their slices.
#[derive(Clone, Debug)]
pub struct Mirror {
    namespace: String,
    service: String,
    cluster: String,
    /// Name of the object if it differs from the one that Linkerd generates.
    name: Option<String>,
    ports: Vec<Port>,
    endpoints: Vec<(String, Vec<String>, Gateway)>,
    annotations: Value,
    /// Address of the cluster's gateway.
    gateway: String,
}

/// State of the gateway in the slice of an endpoint mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// There is no slice.
    Unknown,
    /// Ready.
    Up,
    /// Not ready.
    Down,
}

const PARENT: &str = "mirror.linkerd.io/headless-mirror-svc-name";

/// Starts a headless mirror from `cluster` with port `sql` 26257 as the default.
pub fn mirror(namespace: &str, service: &str, cluster: &str) -> Mirror {
    Mirror {
        namespace: namespace.to_owned(),
        service: service.to_owned(),
        cluster: cluster.to_owned(),
        name: None,
        ports: sql(),
        endpoints: Vec::new(),
        annotations: json!({}),
        gateway: GATEWAY.to_owned(),
    }
}

/// Returns the headless mirror `prod/dbN-east` for a number N, and its only endpoint mirror, with address 10.0.0.N.
pub fn numbered_mirror(number: usize) -> [Value; 2] {
    let service = format!("db{number}");
    let mirror = mirror("prod", &service, "east");
    let address = format!("10.0.0.{number}");
    let endpoint = mirror.endpoint_mirror(&format!("{service}-0"), &[&address]);
    [mirror.service(), endpoint]
}

// === impl Mirror ===

impl Mirror {
    /// Adds an endpoint mirror behind a gateway that is up.
    #[must_use]
    pub fn endpoint(self, host: &str, addresses: &[&str]) -> Self {
        self.endpoint_behind(Gateway::Up, host, addresses)
    }

    /// Adds an endpoint mirror behind a gateway in a given state.
    #[must_use]
    pub fn endpoint_behind(mut self, gateway: Gateway, host: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|ip| (*ip).to_owned()).collect();
        self.endpoints.push((host.to_owned(), addresses, gateway));
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

    /// Adds an annotation of the exported Service, which Linkerd copies to the mirror.
    #[must_use]
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations[name] = json!(value);
        self
    }

    /// Sets the address of the gateway.
    #[must_use]
    pub fn gateway(mut self, address: &str) -> Self {
        self.gateway = address.to_owned();
        self
    }

    /// Sets a name that Linkerd would not generate. The names of the endpoint mirrors start with it.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Returns the name of the object.
    pub fn name(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => format!("{}-{}", self.service, self.cluster),
        }
    }

    /// Returns the name of the Service in its own cluster.
    pub fn service_name(&self) -> &str {
        &self.service
    }

    fn endpoint_name(&self, host: &str) -> String {
        format!("{host}-{}", self.cluster)
    }

    /// Returns the objects that Linkerd writes: Services and Endpoints. Kubernetes derives the slices from the
    /// Endpoints.
    pub fn writes(&self) -> Vec<Value> {
        let mut writes = vec![self.service()];
        for (host, addresses, gateway) in &self.endpoints {
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            writes.push(self.endpoint_mirror(host, &addresses));
            if *gateway != Gateway::Unknown {
                writes.push(self.endpoints(host, *gateway == Gateway::Up));
            }
        }
        writes
    }

    // === Single objects ===

    /// Returns the headless mirror.
    pub fn service(&self) -> Value {
        let mut annotations = self.annotations.clone();
        annotations[FQ_NAME] = json!(self.fq_name(""));
        let place = (&*self.namespace, &*self.name());
        service(place, &self.labels(), &annotations, &["None"], &self.ports)
    }

    /// Returns an endpoint mirror.
    pub fn endpoint_mirror(&self, host: &str, addresses: &[&str]) -> Value {
        self.endpoint_mirror_named(&self.endpoint_name(host), host, addresses)
    }

    fn endpoint_mirror_named(&self, name: &str, host: &str, addresses: &[&str]) -> Value {
        let annotations = json!({FQ_NAME: self.fq_name(&format!("{host}."))});
        let (place, labels) = ((&*self.namespace, name), self.endpoint_labels());
        service(place, &labels, &annotations, addresses, &self.ports)
    }

    /// Returns the slice of an endpoint mirror, which shows the state of its gateway.
    pub fn slice(&self, host: &str, is_up: bool) -> Value {
        self.slice_of(&self.endpoint_name(host), is_up)
    }

    /// Returns the slice of an endpoint mirror with a given object name.
    pub fn slice_of(&self, endpoint_mirror: &str, is_up: bool) -> Value {
        let labels = with_slice_labels(self.endpoint_labels(), endpoint_mirror);
        let name = format!("{endpoint_mirror}-7xk2p");
        // Linkerd writes the port of the gateway.
        let ports = [port("sql", "TCP", 4143)];
        let place = (&*self.namespace, &*name);
        let endpoint = endpoint(None, &self.gateway, is_up);
        slice(place, &labels, "IPv4", &ports, &[endpoint])
    }

    /// Returns the Endpoints of an endpoint mirror, the source of its slice: the address of the gateway, ready or not,
    /// with the gateway's port for every port of the Service.
    fn endpoints(&self, host: &str, is_up: bool) -> Value {
        let ports = self.ports.iter();
        let ports = ports.map(|port| json!({"name": port.name, "port": 4143, "protocol": "TCP"}));
        let addresses = if is_up {
            "addresses"
        } else {
            "notReadyAddresses"
        };
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {
                "namespace": self.namespace, "name": self.endpoint_name(host),
                "labels": self.endpoint_labels(),
                "annotations": {FQ_NAME: self.fq_name(&format!("{host}."))},
            },
            "subsets": [{addresses: [{"ip": self.gateway}], "ports": Vec::from_iter(ports)}],
        })
    }

    /// Returns the slice of the headless mirror: the hosts with the addresses of their endpoint mirrors.
    pub fn listing(&self, hosts: &[(&str, &str)]) -> Value {
        let host = |(host, address): &(&str, &str)| endpoint(Some(host), address, true);
        let labels = with_slice_labels(self.labels(), &self.name());
        let name = format!("{}-9qz4d", self.name());
        // Linkerd writes the ports of the pod.
        let place = (&*self.namespace, &*name);
        let hosts = Vec::from_iter(hosts.iter().map(host));
        slice(place, &labels, "IPv4", &self.ports, &hosts)
    }

    fn labels(&self) -> Value {
        json!({MIRRORED: "true", CLUSTER_NAME: self.cluster})
    }

    fn endpoint_labels(&self) -> Value {
        json!({MIRRORED: "true", CLUSTER_NAME: self.cluster, PARENT: self.name()})
    }

    fn fq_name(&self, prefix: &str) -> String {
        let (service, namespace) = (&self.service, &self.namespace);
        format!("{prefix}{service}.{namespace}.svc.cluster.local")
    }
}

fn with_slice_labels(mut labels: Value, service: &str) -> Value {
    labels[SERVICE_NAME] = json!(service);
    labels[MANAGED_BY] = json!("endpointslicemirroring-controller.k8s.io");
    labels
}

impl From<Mirror> for Manifest {
    fn from(mirror: Mirror) -> Self {
        let mut manifest = Self(vec![mirror.service()]);
        for (number, (host, addresses, gateway)) in mirror.endpoints.iter().enumerate() {
            let name = match &mirror.name {
                Some(own) => format!("{own}-{number}"),
                None => mirror.endpoint_name(host),
            };
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            let service = mirror.endpoint_mirror_named(&name, host, &addresses);
            manifest.0.push(service);
            if *gateway != Gateway::Unknown {
                let slice = mirror.slice_of(&name, *gateway == Gateway::Up);
                manifest.0.push(slice);
            }
        }
        manifest
    }
}
