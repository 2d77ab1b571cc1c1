//! Reads the fields that objects of several kinds have: names, addresses and ports.

use std::fmt;
use std::net::IpAddr;

use super::kube_object::{KubePort, Spec};
use super::{
    ClusterName, Few, KubeObject, Namespace, Port, PortName, Ports, Problem, ProblemKind, Protocol,
    ServiceKey, ServiceName, key,
};

/// Returns the problem of an object that cannot be used.
pub(super) fn unusable(reason: impl fmt::Display) -> Problem {
    Problem::new(ProblemKind::UnusableObject, reason.to_string())
}

/// Makes the problem that a field, a label or an annotation cannot be used.
pub(super) fn unusable_field<E: fmt::Display>(field: &str) -> impl FnOnce(E) -> Problem {
    move |error| unusable(format!("{field}: {error}"))
}

// === Names ===

/// Returns the key of a service in the namespace of an object.
pub(super) fn service_key(object: &KubeObject<'_>, service: &str) -> Result<ServiceKey, Problem> {
    let namespace = object.namespace();
    if namespace.is_empty() {
        return Err(unusable(
            "metadata.namespace is missing: name the namespace of the Service",
        ));
    }
    let namespace = Namespace::interned(namespace).map_err(unusable_field("metadata.namespace"))?;
    let service =
        ServiceName::interned(service).map_err(unusable_field("the name of its service"))?;
    Ok(ServiceKey { namespace, service })
}

/// Splits the first label off a dotted name.
pub(super) fn split(name: &str) -> Result<(&str, &str), Problem> {
    let key = key::REMOTE_FQ_NAME;
    name.split_once('.')
        .ok_or_else(|| unusable(format!("annotation {key} has too few labels: '{name}'")))
}

/// Rejects an annotation that names another namespace than that of the object. Otherwise, an object could add endpoints
/// to a service of another namespace.
pub(super) fn same_namespace(service: &KubeObject<'_>, rest: &str) -> Result<(), Problem> {
    let named = rest.split('.').next().unwrap_or_default();
    let own = service.namespace();
    if named == own {
        return Ok(());
    }
    let detail = format!("the annotation names another namespace: '{named}', not '{own}'");
    Err(Problem::new(ProblemKind::NamespaceMismatch, detail))
}

/// Returns a name without the suffix `-CLUSTER`, which is removed once. It is used if the annotation is absent (rule
/// M7).
pub(super) fn strip_cluster<'n>(name: &'n str, cluster: &ClusterName) -> Result<&'n str, Problem> {
    name
        .strip_suffix(cluster.as_str())
        .and_then(|rest| rest.strip_suffix('-')).ok_or_else(|| {
        let key = key::REMOTE_FQ_NAME;
        unusable(format!(
            "annotation {key} is absent, and the name does not end in that of the cluster: '{name}', '{cluster}'"
        ))
    })
}

/// Truncates a value of an annotation for reports. Annotations may have 256 KiB.
pub fn shorten(value: &str) -> String {
    value.chars().take(40).collect()
}

// === Addresses and ports ===

/// Reads the cluster IPs of a Service.
pub(super) fn cluster_addresses(spec: &Spec<'_>) -> Result<Few<IpAddr>, Problem> {
    let given = spec.addresses().iter().filter(|ip| !ip.is_empty());
    let addresses: Few<IpAddr> = given
        .map(|ip| usable_address(ip))
        .collect::<Result<_, _>>()?;
    if addresses.is_empty() {
        return Err(unusable(
            "spec.clusterIPs and spec.clusterIP contain no address",
        ));
    }
    Ok(addresses)
}

/// Reads the ports of the pods behind a Service, as far as `targetPort` is a number. If it is absent, it is the port itself.
pub(super) fn pod_ports(spec: &Spec<'_>) -> Ports {
    let target = |one: &KubePort<'_>| match &one.target_port {
        Some(target) => target.as_i64(),
        None => one.port.map(i64::from),
    };
    let ports = spec.ports.iter().flatten();
    Ports::interned(ports.filter_map(|one| port(one, target(one)?)))
}

/// Reads a list of ports.
pub(super) fn ports(ports: Option<&Vec<KubePort<'_>>>) -> Ports {
    let ports = ports.into_iter().flatten();
    Ports::interned(ports.filter_map(|one| port(one, one.port?.into())))
}

/// Parses an address, and rejects addresses that clients cannot use.
pub(super) fn usable_address(text: &str) -> Result<IpAddr, Problem> {
    let bad = |why: &str| unusable(format!("{why}: '{text}'"));
    let address: IpAddr = text.parse().map_err(|_| bad("not an IP address"))?;
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    match address {
        // `::ffff:127.0.0.1` reaches the same host as `127.0.0.1`. An IPv4 address must be written as one.
        _ if address != address.to_canonical() => Err(bad("an IPv4-mapped IPv6 address")),
        _ if address.is_unspecified() || is_broadcast => Err(bad("not the address of a host")),
        _ if address.is_loopback() => Err(bad("a loopback address")),
        _ if address.is_multicast() => Err(bad("a multicast address")),
        _ => Ok(address),
    }
}

/// Parses a port with its number. Returns `None` if the number is out of range or SRV has no name for the protocol. If the name is not
/// a label, the port is kept without it, so that it has an SRV record at the name without `_P._R`.
fn port(port: &KubePort<'_>, number: i64) -> Option<Port> {
    Some(Port {
        number: u16::try_from(number).ok().filter(|n| *n != 0)?,
        name: PortName::interned(&port.name).ok(),
        protocol: match &*port.protocol {
            "TCP" | "" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => return None,
        },
    })
}
