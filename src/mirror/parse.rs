//! Kubernetes objects → domain types, or a reason to skip (rules M1, M7, M9, M10).
//!
//! The sources call [`object`] for every object that a watch selected. It never fails as a whole: what cannot be used
//! becomes [`Object::Skipped`], so that one bad object never stops a watch. Annotations of users are dropped here;
//! Linkerd copies even `last-applied-configuration` of the remote object to its mirrors.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::object::{KubeEndpoint, KubePort, ServiceSpec, SliceBody};
use super::watch::{Kind, Watch, key};
use super::{
    ClusterName, EndpointMirror, Export, FLAT_MIRROR, GatewayDown, GatewaySlice, HeadlessMirror,
    KubeObject, ListedHost, ListedHosts, LocalService, Namespace, Object, Port, Protocol,
    ServiceKey, ServiceName, Skip, SkipReason, Slice, SliceEndpoint, Text, Wishes, intern,
};

/// Finds the watch that selects an object, and reduces it. An object that no selector can be asked about, because a
/// label of it is no text or because it has no name, is one that cannot be decoded: it must not vanish without a trace.
pub fn found(kind: Kind, object: &KubeObject<'_>) -> Option<(Watch, Object)> {
    let Some(detail) = object.problem() else {
        return Watch::of(kind, object).map(|watch| (watch, self::object(watch, object)));
    };
    let watch = Watch::ALL.into_iter().find(|watch| watch.kind() == kind)?;
    Some((watch, skipped(Skip::new(SkipReason::Undecodable, detail))))
}

/// Reduces an object that `watch` selected to what matters here.
pub fn object(watch: Watch, object: &KubeObject<'_>) -> Object {
    let parsed = match watch {
        Watch::MirrorServices => mirror(object).map_err(|skip| Skip {
            about: about(object),
            ..skip
        }),
        Watch::LocalServices => local(object),
        Watch::MirrorSlices => mirror_slice(object),
        Watch::LocalSlices | Watch::ForeignSlices => local_slice(object),
    };
    parsed.unwrap_or_else(skipped)
}

fn skipped(skip: Skip) -> Object {
    Object::Skipped(Arc::new(skip))
}

fn undecodable(error: serde_json::Error) -> Skip {
    Skip::new(SkipReason::Undecodable, error.to_string())
}

/// Tells a headless mirror from an endpoint mirror, and both from the kinds that have no place in a headless union.
fn mirror(service: &KubeObject<'_>) -> Result<Object, Skip> {
    let spec = service.service_spec().map_err(undecodable)?;
    if service.label(key::HEADLESS_MIRROR).is_some() {
        return endpoint_mirror(service, &spec)
            .map(|mirror| Object::EndpointMirror(Box::new(mirror)));
    }
    let not_headless = |detail| Skip::new(SkipReason::NotHeadless, detail);
    if service.label(key::REMOTE_DISCOVERY).is_some() {
        return Err(not_headless(FLAT_MIRROR));
    }
    if service.label(key::CLUSTER_NAME).is_none() {
        return Err(not_headless("a federated service: of no one cluster"));
    }
    if spec.cluster_ip.as_deref() != Some("None") {
        return Err(not_headless("a mirror with a cluster IP"));
    }
    let cluster = cluster(service)?;
    Ok(Object::HeadlessMirror(Box::new(HeadlessMirror {
        service: mirrored_service(service, &cluster)?,
        cluster,
        wishes: wishes(service),
    })))
}

/// Returns the service that a mirror of a whole Service is of.
fn mirrored_service(service: &KubeObject<'_>, cluster: &ClusterName) -> Result<ServiceKey, Skip> {
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

/// Returns the name of the endpoint and of the service that an endpoint mirror is of.
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

/// Says what a mirror that cannot be used is of, as far as it can be read.
fn about(service: &KubeObject<'_>) -> Option<(ServiceKey, ClusterName)> {
    let cluster = cluster(service).ok()?;
    let of = match service.label(key::HEADLESS_MIRROR) {
        Some(_) => {
            mirrored_endpoint(service, &cluster).and_then(|(_, name)| service_key(service, name))
        }
        None => mirrored_service(service, &cluster),
    };
    Some((of.ok()?, cluster))
}

fn endpoint_mirror(
    service: &KubeObject<'_>,
    spec: &ServiceSpec<'_>,
) -> Result<EndpointMirror, Skip> {
    let cluster = cluster(service)?;
    let parent = service.label(key::HEADLESS_MIRROR).unwrap_or_default();
    let (host, name) = mirrored_endpoint(service, &cluster)?;
    let ips = spec.addresses();
    let mut addresses = SmallVec::with_capacity(ips.len());
    for ip in ips {
        addresses.push(usable_address(ip)?);
    }
    if addresses.is_empty() {
        return Err(Skip::new(
            SkipReason::BadAddress,
            "it has neither spec.clusterIPs nor spec.clusterIP",
        ));
    }
    let ports = spec.ports.iter().flatten();
    Ok(EndpointMirror {
        hostname: host.parse().map_err(bad_name)?,
        service: service_key(service, name)?,
        cluster,
        parent: intern(parent),
        addresses,
        ports: ports.filter_map(port).collect(),
    })
}

fn local(service: &KubeObject<'_>) -> Result<Object, Skip> {
    service.service_spec().map_err(undecodable)?;
    Ok(Object::LocalService(Box::new(LocalService {
        service: service_key(service, service.name())?,
        export: match service.label(key::EXPORTED) {
            None => Export::No,
            Some("true") => Export::Gateway,
            Some("remote-discovery") => Export::RemoteDiscovery,
            Some(_) => Export::Other,
        },
        wishes: wishes(service),
    })))
}

/// Reduces a slice of a mirror: one that lists hosts to these, any other to whether a gateway is ready. Only headless
/// mirrors list hosts; one that was overwritten with gateway addresses does not.
fn mirror_slice(slice: &KubeObject<'_>) -> Result<Object, Skip> {
    let body = slice.slice_body().map_err(undecodable)?;
    let mirror = slice_owner(slice, &body)?;
    if slice.label(key::HEADLESS_MIRROR).is_none() {
        let hosts = listed_hosts(&body);
        if !hosts.is_empty() {
            return Ok(Object::ListedHosts(Box::new(ListedHosts { mirror, hosts })));
        }
    }
    let ready = body.endpoints.iter().flatten().map(is_ready);
    let ready = ready.reduce(|one, other| one || other);
    Ok(Object::GatewaySlice(GatewaySlice { mirror, ready }))
}

/// Returns the hosts of a slice. Their order is arbitrary, and differs from one version of the slice to the next.
fn listed_hosts(body: &SliceBody<'_>) -> Box<[ListedHost]> {
    let host = |endpoint: &KubeEndpoint<'_>| {
        let first = endpoint.addresses.iter().flatten().next();
        Some(ListedHost {
            hostname: endpoint.hostname.as_deref()?.parse().ok()?,
            address: first.and_then(|ip| usable_address(ip).ok()),
        })
    };
    let hosts: BTreeSet<_> = body.endpoints.iter().flatten().filter_map(host).collect();
    hosts.into_iter().collect()
}

fn local_slice(slice: &KubeObject<'_>) -> Result<Object, Skip> {
    let body = slice.slice_body().map_err(undecodable)?;
    let service = slice_owner(slice, &body)?;
    let mut left_out = LeftOut::default();
    let mut endpoint = |e: &KubeEndpoint<'_>| {
        let first = e.addresses.iter().flatten().next();
        let none = || Skip::new(SkipReason::BadAddress, "an endpoint has no address");
        let address = first.ok_or_else(none).and_then(|ip| usable_address(ip));
        let hostname = e.hostname.as_deref().filter(|host| !host.is_empty());
        let hostname = hostname.map(|host| host.parse().map_err(bad_name));
        SliceEndpoint {
            address: left_out.note(address),
            hostname: hostname.and_then(|host| left_out.note(host)),
            target: e
                .target_ref
                .as_ref()
                .and_then(|t| t.uid.as_deref())
                .map(Text::from),
            ready: is_ready(e),
        }
    };
    let endpoints = body.endpoints.iter().flatten().map(&mut endpoint).collect();
    Ok(Object::Slice(Box::new(Slice {
        service,
        endpoints,
        ports: body.ports.iter().flatten().filter_map(port).collect(),
        left_out: left_out.skips(),
    })))
}

/// What is wrong with parts of an object: a slice may have a thousand endpoints, and all of them the same fault.
#[derive(Default)]
struct LeftOut(Vec<(Skip, usize)>);

impl LeftOut {
    /// Takes what can be used, and notes what cannot.
    fn note<T>(&mut self, part: Result<T, Skip>) -> Option<T> {
        let skip = match part {
            Ok(part) => return Some(part),
            Err(skip) => skip,
        };
        match self
            .0
            .iter_mut()
            .find(|(known, _)| known.reason == skip.reason)
        {
            Some((_, others)) => *others += 1,
            None => self.0.push((skip, 0)),
        }
        None
    }

    fn skips(self) -> Box<[Skip]> {
        let skip = |(skip, others): (Skip, usize)| match others {
            0 => skip,
            others => Skip::new(skip.reason, format!("{}; and {others} more", skip.detail)),
        };
        self.0.into_iter().map(skip).collect()
    }
}

/// Returns the name of the Service that a slice belongs to.
fn slice_owner(slice: &KubeObject<'_>, body: &SliceBody<'_>) -> Result<Text, Skip> {
    let Some(service) = slice.label(key::SERVICE_NAME) else {
        let detail = format!("label {} is missing", key::SERVICE_NAME);
        return Err(Skip::new(SkipReason::BadName, detail));
    };
    if body.address_type.as_deref() == Some("FQDN") {
        return Err(Skip::new(SkipReason::BadAddress, "addressType FQDN"));
    }
    Ok(intern(service))
}

/// Absent means ready.
fn is_ready(endpoint: &KubeEndpoint<'_>) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|c| c.ready).unwrap_or(true)
}

// === Names ===

/// Splits the first label off a dotted name.
fn split(name: &str) -> Result<(&str, &str), Skip> {
    name.split_once('.').ok_or_else(|| {
        let detail = format!("annotation {} is '{name}'", key::REMOTE_FQ_NAME);
        Skip::new(SkipReason::BadName, detail)
    })
}

/// Refuses an annotation that names another namespace than the object's own: nobody may join another namespace's
/// database.
fn same_namespace(service: &KubeObject<'_>, rest: &str) -> Result<(), Skip> {
    let named = rest.split('.').next().unwrap_or_default();
    let own = service.namespace();
    if named == own {
        return Ok(());
    }
    let detail = format!("annotation names namespace '{named}', the object is in '{own}'");
    Err(Skip::new(SkipReason::NamespaceMismatch, detail))
}

/// Recovers a name where the annotation is missing: the exact suffix goes, once (rule M7).
fn strip_cluster<'n>(name: &'n str, cluster: &ClusterName) -> Result<&'n str, Skip> {
    let base = name
        .strip_suffix(cluster.as_str())
        .and_then(|rest| rest.strip_suffix('-'));
    base.ok_or_else(|| {
        let key = key::REMOTE_FQ_NAME;
        let detail = format!("no annotation {key}, and '{name}' does not end in '-{cluster}'");
        Skip::new(SkipReason::BadName, detail)
    })
}

fn service_key(object: &KubeObject<'_>, service: &str) -> Result<ServiceKey, Skip> {
    let namespace: Namespace = object.namespace().parse().map_err(bad_name)?;
    let service: ServiceName = service.parse().map_err(bad_name)?;
    Ok(ServiceKey { namespace, service })
}

fn cluster(service: &KubeObject<'_>) -> Result<ClusterName, Skip> {
    service
        .label(key::CLUSTER_NAME)
        .unwrap_or_default()
        .parse()
        .map_err(bad_name)
}

fn bad_name(error: super::InvalidLabel) -> Skip {
    Skip::new(SkipReason::BadName, error.to_string())
}

// === Addresses, ports, annotations ===

/// Reads an address that a client may be sent to.
fn usable_address(text: &str) -> Result<IpAddr, Skip> {
    let bad = |why: &str| Skip::new(SkipReason::BadAddress, format!("'{text}' {why}"));
    let address: IpAddr = text.parse().map_err(|_| bad("is no IP address"))?;
    // `::ffff:127.0.0.1` leads where `127.0.0.1` does; whoever means an IPv4 address is to write one.
    if address != address.to_canonical() {
        return Err(bad("is an IPv4 address in IPv6"));
    }
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || is_broadcast {
        return Err(bad("is no host's address"));
    }
    if address.is_loopback() {
        return Err(bad("is a loopback address"));
    }
    if address.is_multicast() {
        return Err(bad("is a multicast address"));
    }
    Ok(address)
}

/// Makes a port, or none of a number out of range or a protocol that SRV has no name for. A name that is no label is
/// dropped, not the port: it has an SRV record at the bare name still.
fn port(port: &KubePort<'_>) -> Option<Port> {
    Some(Port {
        number: u16::try_from(port.port?).ok().filter(|n| *n != 0)?,
        name: port.name.as_deref().and_then(|name| name.parse().ok()),
        protocol: match port.protocol.as_deref().unwrap_or("TCP") {
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => return None,
        },
    })
}

fn wishes(service: &KubeObject<'_>) -> Wishes {
    let mut wishes = Wishes::default();
    if let Some(value) = service.annotation(key::TTL) {
        wishes.ttl = value.trim().parse().ok();
        if wishes.ttl.is_none() {
            wishes
                .unreadable
                .push(format!("{}={}", key::TTL, shorten(value)));
        }
    }
    if let Some(value) = service.annotation(key::GATEWAY_DOWN) {
        wishes.gateway_down = GatewayDown::from_value(value.trim());
        if wishes.gateway_down.is_none() {
            wishes
                .unreadable
                .push(format!("{}={}", key::GATEWAY_DOWN, shorten(value)));
        }
    }
    wishes
}

/// Cuts a foreign string to what a report can show: annotations may hold 256 KiB.
fn shorten(value: &str) -> String {
    value.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
