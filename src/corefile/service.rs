//! The Service of the server, and its cluster IP.

use std::net::IpAddr;

use crate::model::KubeObject;

/// The labels that the chart sets. They also select the Service of the metrics, which has no DNS port.
pub const SELECTOR: &str = "app.kubernetes.io/name=global-dns,app.kubernetes.io/component=server";

/// The port that CoreDNS forwards to.
const DNS_PORT: i32 = 53;

/// The reason why no cluster IP is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterIpError {
    /// No Service is the one of the chart.
    #[error(
        "no Service has the labels {SELECTOR} and port {DNS_PORT}: install the chart first, or name the Service with \
         --service NAMESPACE/NAME"
    )]
    NoService,
    /// The named Service does not exist.
    #[error("Service {0} does not exist; name another one with --service NAMESPACE/NAME")]
    Unknown(String),
    /// Several Services have the labels.
    #[error("several Services have the labels of the chart: {}; choose one with --service {}", .0.join(", "), .0[0])]
    Several(Vec<String>),
    /// The Service has no DNS port.
    #[error(
        "Service {0} has no port {DNS_PORT}, so DNS cannot forward to it; name another one with --service"
    )]
    NoDnsPort(String),
    /// The Service has no cluster IP.
    #[error(
        "Service {0} has no cluster IP, because {1}; name another one with --service, or set --address"
    )]
    NoClusterIp(String, &'static str),
    /// The Service has an address of each family.
    #[error("Service {service} is dual-stack, with the cluster IPs {}; choose one with --address {}", .addresses.join(" and "), .addresses[0])]
    DualStack {
        /// Namespace and name.
        service: String,
        /// The cluster IPs.
        addresses: Vec<String>,
    },
    /// The given address is not that of a Service.
    #[error(
        "{0} is not the cluster IP of a Service of this cluster; omit --address to find the address"
    )]
    NotClusterIp(IpAddr),
}

/// A Service, reduced to the fields in use.
struct DnsService {
    /// Namespace and name.
    name: String,
    is_external: bool,
    has_dns_port: bool,
    /// The cluster IPs, or `None` as the only one.
    addresses: Vec<String>,
}

/// Returns the cluster IP of the server's Service. `services` are the candidates as JSON: those with the labels of the
/// chart, or the one that `named` names, if it exists.
///
/// # Errors
///
/// If there is not exactly one Service with exactly one cluster IP.
pub fn cluster_ip(services: &[String], named: Option<&str>) -> Result<IpAddr, ClusterIpError> {
    let services = services.iter().filter_map(|json| DnsService::read(json));
    let mut services: Vec<DnsService> = services.collect();
    match named {
        None => services.retain(|service| service.has_dns_port),
        Some(name) if services.is_empty() => return Err(ClusterIpError::Unknown(name.to_owned())),
        Some(_) => {}
    }
    match services.as_slice() {
        [] => Err(ClusterIpError::NoService),
        [service] => service.cluster_ip(),
        several => Err(ClusterIpError::Several(
            several.iter().map(|service| service.name.clone()).collect(),
        )),
    }
}

/// Returns whether one of the Services, each as JSON, has an address as its cluster IP.
pub fn is_cluster_ip(address: IpAddr, services: &[String]) -> bool {
    let services = services.iter().filter_map(|json| DnsService::read(json));
    let mut addresses = services.flat_map(|service| service.addresses);
    addresses.any(|text| text.parse() == Ok(address))
}

// === impl DnsService ===

impl DnsService {
    /// Reads a Service. Returns `None` if it does not match the schema.
    fn read(json: &str) -> Option<Self> {
        let object = KubeObject::read(json);
        let spec = object.service_spec().ok()?;
        let ports = spec.ports.iter().flatten();
        let addresses = spec.addresses().iter().map(|text| text.to_string());
        Some(Self {
            name: format!("{}/{}", object.namespace(), object.name()),
            is_external: spec.r#type.as_deref() == Some("ExternalName"),
            has_dns_port: ports.into_iter().any(|port| port.port == Some(DNS_PORT)),
            addresses: addresses.filter(|text| !text.is_empty()).collect(),
        })
    }

    fn cluster_ip(&self) -> Result<IpAddr, ClusterIpError> {
        let none = |why| ClusterIpError::NoClusterIp(self.name.clone(), why);
        if self.is_external {
            return Err(none("it has type ExternalName"));
        }
        if self.addresses == ["None"] {
            return Err(none("it is headless"));
        }
        if !self.has_dns_port {
            return Err(ClusterIpError::NoDnsPort(self.name.clone()));
        }
        match self.addresses.as_slice() {
            [] => Err(none("none is assigned yet")),
            [one] => one.parse().map_err(|_| none("its address is invalid")),
            several => Err(ClusterIpError::DualStack {
                service: self.name.clone(),
                addresses: several.to_vec(),
            }),
        }
    }
}
