//! Converts Kubernetes objects to domain types, or to the reason for which they are skipped (rules M1, M7, M9).
//!
//! The sources call [`parse_object`] for every object that a watch selected. It never fails. An object that cannot be
//! used becomes [`Object::Skipped`], so that one invalid object never stops a watch. All other annotations are dropped:
//! Linkerd copies even `last-applied-configuration` of the remote object to its mirrors.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::object::{JsonText, KubeEndpoint, KubePort, ServiceSpec, SliceBody};
use super::watch::{Kind, Watch, key};
use super::{
    ClusterName, EndpointMirror, FederatedService, GatewayDown, HeadlessMirror, Hostname,
    ImportSlice, KubeObject, ListedHost, ListedHosts, LocalService, Namespace, Object, Overrides,
    Policy, Port, PortName, Ports, Protocol, ReadySlice, ServiceImport, ServiceKey, ServiceMirror,
    ServiceName, Skip, SkipReason, Slice, SliceEndpoint, Text, intern,
};

/// Returns the watch that selects an object, and the parsed object. Selectors cannot be evaluated on an object without
/// a name or with a label that is not a string. Such an object is skipped as undecodable, so that it appears in
/// reports.
pub fn select_and_parse(kind: Kind, object: &KubeObject<'_>) -> Option<(Watch, Object)> {
    let Some(detail) = object.problem() else {
        return Watch::for_object(kind, object).map(|watch| (watch, parse_object(watch, object)));
    };
    let watch = Watch::ALL.into_iter().find(|watch| watch.kind() == kind)?;
    Some((watch, skipped(Skip::new(SkipReason::Undecodable, detail))))
}

/// Parses an object that `watch` selected.
pub fn parse_object(watch: Watch, object: &KubeObject<'_>) -> Object {
    let parsed = match watch {
        Watch::MirrorServices => mirror(object).map_err(|skip| Skip {
            mirror_of: service_and_cluster(object),
            ..skip
        }),
        Watch::LocalServices | Watch::ExportedServices | Watch::PolicyServices => {
            LocalService::parse(object).map(|local| Object::LocalService(Box::new(local)))
        }
        Watch::MirrorSlices => mirror_slice(object),
        Watch::LocalSlices | Watch::ForeignSlices => local_slice(object),
        Watch::ExportedSlices => ready_slice(object),
        Watch::ServiceImports => {
            ServiceImport::parse(object).map(|import| Object::ServiceImport(Box::new(import)))
        }
        Watch::ImportSlices => {
            ImportSlice::parse(object).map(|slice| Object::ImportSlice(Box::new(slice)))
        }
    };
    parsed.unwrap_or_else(skipped)
}

fn skipped(skip: Skip) -> Object {
    Object::Skipped(Arc::new(skip))
}

pub(super) fn undecodable(error: serde_json::Error) -> Skip {
    Skip::new(SkipReason::Undecodable, error.to_string())
}

/// Parses a Service that Linkerd mirrored. The kinds are listed in the documentation of [`table`](crate::table).
fn mirror(service: &KubeObject<'_>) -> Result<Object, Skip> {
    let spec = service.service_spec().map_err(undecodable)?;
    if service.label(key::HEADLESS_MIRROR).is_some() {
        return endpoint_mirror(service, &spec)
            .map(|mirror| Object::EndpointMirror(Box::new(mirror)));
    }
    if service.label(key::CLUSTER_NAME).is_none() && FederatedService::is(service) {
        let federated = FederatedService::parse(service, &spec)?;
        return Ok(Object::FederatedService(Box::new(federated)));
    }
    if spec.cluster_ip.as_deref() != Some("None") {
        let mirror = ServiceMirror::parse(service, &spec)?;
        return Ok(Object::ServiceMirror(Box::new(mirror)));
    }
    let cluster = cluster(service)?;
    Ok(Object::HeadlessMirror(Box::new(HeadlessMirror {
        service: mirrored_service(service, &cluster)?,
        cluster,
        overrides: mirror_overrides(service).if_any(),
        created: service.created(),
    })))
}

/// Returns the service of a mirror that is not an endpoint mirror.
pub(super) fn mirrored_service(
    service: &KubeObject<'_>,
    cluster: &ClusterName,
) -> Result<ServiceKey, Skip> {
    let name = match service.annotation(key::REMOTE_FQ_NAME) {
        Some(fq_name) => {
            let (name, rest) = split(fq_name)?;
            same_namespace(service, rest)?;
            name
        }
        None => strip_cluster(service.name(), cluster)?,
    };
    service_key(service, name)
}

/// Returns the names of the endpoint and the service of an endpoint mirror.
fn mirrored_endpoint<'o>(
    service: &'o KubeObject<'_>,
    cluster: &ClusterName,
) -> Result<(&'o str, &'o str), Skip> {
    let Some(fq_name) = service.annotation(key::REMOTE_FQ_NAME) else {
        let parent = service.label(key::HEADLESS_MIRROR).unwrap_or_default();
        return Ok((
            strip_cluster(service.name(), cluster)?,
            strip_cluster(parent, cluster)?,
        ));
    };
    let (host, rest) = split(fq_name)?;
    let (name, rest) = split(rest)?;
    same_namespace(service, rest)?;
    Ok((host, name))
}

/// Returns the service and the cluster of a mirror that is skipped, if both can be read.
fn service_and_cluster(service: &KubeObject<'_>) -> Option<(ServiceKey, ClusterName)> {
    let cluster = cluster(service).ok()?;
    let key = match service.label(key::HEADLESS_MIRROR) {
        Some(_) => {
            mirrored_endpoint(service, &cluster).and_then(|(_, name)| service_key(service, name))
        }
        None => mirrored_service(service, &cluster),
    };
    Some((key.ok()?, cluster))
}

fn endpoint_mirror(
    service: &KubeObject<'_>,
    spec: &ServiceSpec<'_>,
) -> Result<EndpointMirror, Skip> {
    let cluster = cluster(service)?;
    let parent = service.label(key::HEADLESS_MIRROR).unwrap_or_default();
    let (host, name) = mirrored_endpoint(service, &cluster)?;
    Ok(EndpointMirror {
        hostname: Hostname::interned(host).map_err(bad_name)?,
        service: service_key(service, name)?,
        cluster,
        parent: intern(parent),
        addresses: cluster_addresses(spec)?,
        ports: ports(spec),
    })
}

/// Parses a slice of a mirror. A slice that lists hosts becomes [`ListedHosts`], any other a [`ReadySlice`]. Only
/// slices of headless mirrors list hosts, unless they were overwritten with gateway addresses.
fn mirror_slice(slice: &KubeObject<'_>) -> Result<Object, Skip> {
    let body = slice.slice_body().map_err(undecodable)?;
    let mirror = slice_owner(slice)?;
    has_addresses(&body)?;
    if slice.label(key::HEADLESS_MIRROR).is_none() {
        let hosts = listed_hosts(&body);
        if !hosts.is_empty() {
            return Ok(Object::ListedHosts(Box::new(ListedHosts { mirror, hosts })));
        }
    }
    Ok(readiness(mirror, &body))
}

/// Parses a slice of an exported Service of this cluster with a cluster IP.
fn ready_slice(slice: &KubeObject<'_>) -> Result<Object, Skip> {
    let body = slice.slice_body().map_err(undecodable)?;
    has_addresses(&body)?;
    Ok(readiness(slice_owner(slice)?, &body))
}

/// Reduces a slice to whether an address is ready.
fn readiness(service: Text, body: &SliceBody<'_>) -> Object {
    let ready = body.endpoints.iter().flatten().map(is_ready);
    let ready = ready.reduce(|one, other| one || other);
    Object::ReadySlice(ReadySlice { service, ready })
}

/// Returns the hosts of a slice, sorted. Their order in the slice is arbitrary and differs between its versions.
fn listed_hosts(body: &SliceBody<'_>) -> Box<[ListedHost]> {
    let host = |endpoint: &KubeEndpoint<'_>| {
        let first = endpoint.addresses.iter().flatten().next();
        Some(ListedHost {
            hostname: Hostname::interned(endpoint.hostname.as_deref()?).ok()?,
            address: first.and_then(|ip| usable_address(ip).ok()),
        })
    };
    let hosts: BTreeSet<_> = body.endpoints.iter().flatten().filter_map(host).collect();
    hosts.into_iter().collect()
}

fn local_slice(slice: &KubeObject<'_>) -> Result<Object, Skip> {
    let body = slice.slice_body().map_err(undecodable)?;
    let service = slice_owner(slice)?;
    let slice = slice_with_endpoints(service, &body)?;
    Ok(Object::Slice(Box::new(slice)))
}

/// Parses the endpoints and ports of a slice. `service` is the name of its Service or ServiceImport.
pub(super) fn slice_with_endpoints(service: Text, body: &SliceBody<'_>) -> Result<Slice, Skip> {
    has_addresses(body)?;
    let mut skips = SkipCounts::default();
    let mut endpoint = |e: &KubeEndpoint<'_>| {
        let first = e.addresses.iter().flatten().next();
        let none = || Skip::new(SkipReason::BadAddress, "an endpoint has no address");
        let address = first.ok_or_else(none).and_then(|ip| usable_address(ip));
        let address = skips.record(address)?;
        let hostname = e.hostname.as_deref().filter(|host| !host.is_empty());
        let hostname = hostname.map(|host| Hostname::interned(host).map_err(bad_name));
        let hostname = hostname.and_then(|host| skips.record(host));
        Some(SliceEndpoint {
            address,
            hostname: hostname.unwrap_or_else(|| Hostname::from_address(address)),
            target: e
                .target_ref
                .as_ref()
                .and_then(|t| t.uid.as_deref())
                .map(Text::from),
            ready: is_ready(e),
        })
    };
    let endpoints = body.endpoints.iter().flatten();
    let endpoints = endpoints.filter_map(&mut endpoint).collect();
    Ok(Slice {
        service,
        endpoints,
        ports: list_of_ports(body.ports.as_ref()),
        left_out: skips.into_skips(),
    })
}

/// One skip for each reason, with the number of further skips. A slice may have a thousand endpoints with the same
/// error.
#[derive(Default)]
struct SkipCounts(Vec<(Skip, usize)>);

impl SkipCounts {
    /// Returns a valid part. Counts the skip of an invalid part.
    fn record<T>(&mut self, part: Result<T, Skip>) -> Option<T> {
        let skip = match part {
            Ok(part) => return Some(part),
            Err(skip) => skip,
        };
        match self
            .0
            .iter_mut()
            .find(|(first, _)| first.reason == skip.reason)
        {
            Some((_, others)) => *others += 1,
            None => self.0.push((skip, 0)),
        }
        None
    }

    fn into_skips(self) -> Box<[Skip]> {
        let skip = |(skip, others): (Skip, usize)| match others {
            0 => skip,
            others => Skip::new(skip.reason, format!("{}; and {others} more", skip.detail)),
        };
        self.0.into_iter().map(skip).collect()
    }
}

/// Returns the name of the Service that a slice belongs to.
fn slice_owner(slice: &KubeObject<'_>) -> Result<Text, Skip> {
    let Some(service) = slice.label(key::SERVICE_NAME) else {
        let detail = format!("label {} is missing", key::SERVICE_NAME);
        return Err(Skip::new(SkipReason::BadName, detail));
    };
    Ok(intern(service))
}

/// Rejects a slice of names instead of addresses.
fn has_addresses(body: &SliceBody<'_>) -> Result<(), Skip> {
    match body.address_type.as_deref() {
        Some("FQDN") => Err(Skip::new(
            SkipReason::BadAddress,
            "addressType FQDN is not supported",
        )),
        _ => Ok(()),
    }
}

/// Returns whether an endpoint is ready. If the condition is absent, it is.
fn is_ready(endpoint: &KubeEndpoint<'_>) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|c| c.ready).unwrap_or(true)
}

// === Names ===

/// Splits the first label off a dotted name.
fn split(name: &str) -> Result<(&str, &str), Skip> {
    name.split_once('.').ok_or_else(|| {
        let detail = format!(
            "annotation {} has too few labels: '{name}'",
            key::REMOTE_FQ_NAME
        );
        Skip::new(SkipReason::BadName, detail)
    })
}

/// Rejects an annotation that names another namespace than that of the object. Otherwise, an object could add endpoints
/// to a service of another namespace.
fn same_namespace(service: &KubeObject<'_>, rest: &str) -> Result<(), Skip> {
    let named = rest.split('.').next().unwrap_or_default();
    let own = service.namespace();
    if named == own {
        return Ok(());
    }
    let detail = format!("the annotation names namespace '{named}', but the object is in '{own}'");
    Err(Skip::new(SkipReason::NamespaceMismatch, detail))
}

/// Returns a name without the suffix `-CLUSTER`, which is removed once. It is used if the annotation is absent (rule
/// M7).
fn strip_cluster<'n>(name: &'n str, cluster: &ClusterName) -> Result<&'n str, Skip> {
    let base = name
        .strip_suffix(cluster.as_str())
        .and_then(|rest| rest.strip_suffix('-'));
    base.ok_or_else(|| {
        let key = key::REMOTE_FQ_NAME;
        let detail =
            format!("annotation {key} is absent, and '{name}' does not end in '-{cluster}'");
        Skip::new(SkipReason::BadName, detail)
    })
}

pub(super) fn service_key(object: &KubeObject<'_>, service: &str) -> Result<ServiceKey, Skip> {
    let namespace = Namespace::interned(object.namespace()).map_err(bad_name)?;
    let service = ServiceName::interned(service).map_err(bad_name)?;
    Ok(ServiceKey { namespace, service })
}

pub(super) fn cluster(service: &KubeObject<'_>) -> Result<ClusterName, Skip> {
    let cluster = service.label(key::CLUSTER_NAME).unwrap_or_default();
    ClusterName::interned(cluster).map_err(bad_name)
}

fn bad_name(error: super::InvalidLabel) -> Skip {
    Skip::new(SkipReason::BadName, error.to_string())
}

// === Addresses, ports, annotations ===

/// Reads the cluster IPs of a Service.
pub(super) fn cluster_addresses(spec: &ServiceSpec<'_>) -> Result<SmallVec<[IpAddr; 1]>, Skip> {
    let addresses = usable_addresses(spec.addresses())?;
    if addresses.is_empty() {
        return Err(Skip::new(
            SkipReason::BadAddress,
            "spec.clusterIPs and spec.clusterIP contain no address",
        ));
    }
    Ok(addresses)
}

/// Parses addresses. Fails if clients cannot use one of them.
pub(super) fn usable_addresses(ips: &[JsonText<'_>]) -> Result<SmallVec<[IpAddr; 1]>, Skip> {
    ips.iter().map(|ip| usable_address(ip)).collect()
}

/// Reads the ports of a Service.
pub(super) fn ports(spec: &ServiceSpec<'_>) -> Ports {
    list_of_ports(spec.ports.as_ref())
}

/// Reads a list of ports.
pub(super) fn list_of_ports(ports: Option<&Vec<KubePort<'_>>>) -> Ports {
    Ports::interned(ports.into_iter().flatten().filter_map(port))
}

/// Parses an address, and rejects addresses that clients cannot use.
fn usable_address(text: &str) -> Result<IpAddr, Skip> {
    let bad = |why: &str| Skip::new(SkipReason::BadAddress, format!("'{text}' {why}"));
    let address: IpAddr = text.parse().map_err(|_| bad("is not an IP address"))?;
    // `::ffff:127.0.0.1` reaches the same host as `127.0.0.1`. An IPv4 address must be written as one.
    if address != address.to_canonical() {
        return Err(bad("is an IPv4-mapped IPv6 address"));
    }
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || is_broadcast {
        return Err(bad("is not the address of a host"));
    }
    if address.is_loopback() {
        return Err(bad("is a loopback address"));
    }
    if address.is_multicast() {
        return Err(bad("is a multicast address"));
    }
    Ok(address)
}

/// Parses a port. Returns `None` if the number is out of range or SRV has no name for the protocol. If the name is not
/// a label, the port is kept without it, so that it has an SRV record at the name without `_P._R`.
fn port(port: &KubePort<'_>) -> Option<Port> {
    Some(Port {
        number: u16::try_from(port.port?).ok().filter(|n| *n != 0)?,
        name: port
            .name
            .as_deref()
            .and_then(|name| PortName::interned(name).ok()),
        protocol: match port.protocol.as_deref().unwrap_or("TCP") {
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => return None,
        },
    })
}

/// Reads the annotations of a mirror.
pub(super) fn mirror_overrides(mirror: &KubeObject<'_>) -> Overrides {
    Overrides {
        ignored: Policy::ignored(mirror),
        ..overrides(mirror)
    }
}

/// Reads the annotations of an exported Service or its mirror.
pub(super) fn overrides(service: &KubeObject<'_>) -> Overrides {
    let mut overrides = Overrides::default();
    if let Some(value) = service.annotation(key::TTL) {
        overrides.ttl = value.trim().parse().ok();
        if overrides.ttl.is_none() {
            overrides
                .invalid
                .push(format!("{}={}", key::TTL, shorten(value)));
        }
    }
    if let Some(value) = service.annotation(key::GATEWAY_DOWN) {
        overrides.gateway_down = GatewayDown::from_value(value.trim());
        if overrides.gateway_down.is_none() {
            overrides
                .invalid
                .push(format!("{}={}", key::GATEWAY_DOWN, shorten(value)));
        }
    }
    overrides
}

/// Truncates a value of an annotation for reports. Annotations may have 256 KiB.
pub(super) fn shorten(value: &str) -> String {
    value.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
