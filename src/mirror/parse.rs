//! Kubernetes objects → domain types, or a reason to skip (rules M1, M7, M9, M10).
//!
//! The sources call [`object`] for every object that a watch selected. It never fails as a whole: what cannot be used
//! becomes [`Object::Skipped`], so that one bad object never stops a watch. Annotations of users are dropped here;
//! Linkerd copies even `last-applied-configuration` of the remote object to its mirrors.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Service as KubeService, ServicePort};
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice as KubeSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::watch::{Kind, Watch, key};
use super::{
    ClusterName, EndpointMirror, GatewayDown, HeadlessMirror, LocalService, Namespace, Object,
    ObjectKey, Port, Protocol, ServiceKey, ServiceName, Skip, SkipReason, Slice, SliceEndpoint,
    Wishes,
};

/// Returns the key of an object, or `None` if it has no name.
pub fn object_key(object: &Value) -> Option<ObjectKey> {
    let name = object["metadata"]["name"].as_str()?;
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    Some(ObjectKey::new(namespace, name))
}

/// Finds the watch that selects an object, and reduces it. An object that no selector can be asked about, because a
/// label of it is no text or because it has no name, is one that cannot be decoded: it must not vanish without a trace.
pub fn found(kind: Kind, object: &Value) -> Option<(Watch, Object)> {
    let labels = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    let odd = labels.into_iter().find(|(_, value)| !value.is_string());
    let detail = match odd {
        Some((label, value)) => format!("label {label} is {value}, which is no text"),
        None if object_key(object).is_none() => "metadata.name is missing".to_owned(),
        None => return Watch::of(kind, object).map(|watch| (watch, self::object(watch, object))),
    };
    let watch = Watch::ALL.into_iter().find(|watch| watch.kind() == kind)?;
    Some((
        watch,
        Object::Skipped(Skip::new(SkipReason::Undecodable, detail)),
    ))
}

/// Reduces an object that `watch` selected to what matters here.
pub fn object(watch: Watch, object: &Value) -> Object {
    let parsed = match watch.kind() {
        Kind::Service => KubeService::deserialize(object)
            .map_err(undecodable)
            .and_then(|service| match watch {
                Watch::MirrorServices => mirror(&service),
                Watch::LocalServices
                | Watch::MirrorSlices
                | Watch::LocalSlices
                | Watch::ForeignSlices => local(&service),
            }),
        Kind::EndpointSlice => KubeSlice::deserialize(object)
            .map_err(undecodable)
            .and_then(|s| slice(&s)),
    };
    parsed.unwrap_or_else(Object::Skipped)
}

fn undecodable(error: serde_json::Error) -> Skip {
    Skip::new(SkipReason::Undecodable, error.to_string())
}

/// Tells a headless mirror from an endpoint mirror, and both from the kinds that have no place in a headless union.
fn mirror(service: &KubeService) -> Result<Object, Skip> {
    let meta = &service.metadata;
    if label(meta, key::HEADLESS_MIRROR).is_some() {
        return endpoint_mirror(service).map(Object::EndpointMirror);
    }
    let not_headless = |detail| Skip {
        other_kind: other_kind(meta),
        ..Skip::new(SkipReason::NotHeadless, detail)
    };
    if label(meta, key::REMOTE_DISCOVERY).is_some() {
        return Err(not_headless("a flat (remote-discovery) mirror"));
    }
    if label(meta, key::CLUSTER_NAME).is_none() {
        return Err(not_headless("a federated service: of no one cluster"));
    }
    if !is_headless(service) {
        return Err(not_headless("a mirror with a cluster IP"));
    }
    let cluster = cluster(meta)?;
    Ok(Object::HeadlessMirror(HeadlessMirror {
        service: mirrored_service(meta, &cluster)?,
        cluster,
        wishes: wishes(meta),
        created: created(meta),
    }))
}

/// Returns the service that a mirror of a whole Service is of.
fn mirrored_service(meta: &ObjectMeta, cluster: &ClusterName) -> Result<ServiceKey, Skip> {
    let name = match annotation(meta, key::REMOTE_FQ_NAME) {
        Some(fq_name) => {
            let (service, rest) = split(fq_name)?;
            same_namespace(meta, rest)?;
            service
        }
        None => strip_cluster(name(meta), cluster)?,
    };
    service_key(meta, name)
}

/// Says what a mirror of another kind is of, as far as it can be read.
fn other_kind(meta: &ObjectMeta) -> Option<(ServiceKey, ClusterName)> {
    let cluster = cluster(meta).ok()?;
    Some((mirrored_service(meta, &cluster).ok()?, cluster))
}

fn endpoint_mirror(service: &KubeService) -> Result<EndpointMirror, Skip> {
    let meta = &service.metadata;
    let cluster = cluster(meta)?;
    let parent = label(meta, key::HEADLESS_MIRROR).unwrap_or_default();
    let (host, name) = match annotation(meta, key::REMOTE_FQ_NAME) {
        Some(fq_name) => {
            let (host, rest) = split(fq_name)?;
            let (service, rest) = split(rest)?;
            same_namespace(meta, rest)?;
            (host, service)
        }
        None => (
            strip_cluster(name(meta), &cluster)?,
            strip_cluster(parent, &cluster)?,
        ),
    };
    let spec = service.spec.as_ref();
    let ips = spec
        .and_then(|spec| spec.cluster_ips.as_deref())
        .unwrap_or_default();
    let mut addresses = Vec::with_capacity(ips.len());
    for ip in ips {
        addresses.push(usable_address(ip)?);
    }
    if addresses.is_empty() {
        return Err(Skip::new(
            SkipReason::BadAddress,
            "spec.clusterIPs is empty",
        ));
    }
    let ports = spec
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    Ok(EndpointMirror {
        hostname: host.parse().map_err(bad_name)?,
        service: service_key(meta, name)?,
        cluster,
        parent: parent.into(),
        addresses,
        ports: ports.iter().filter_map(service_port).collect(),
    })
}

fn local(service: &KubeService) -> Result<Object, Skip> {
    let meta = &service.metadata;
    service_key(meta, name(meta))?;
    Ok(Object::LocalService(LocalService {
        exported: label(meta, key::EXPORTED) == Some("true"),
        wishes: wishes(meta),
        created: created(meta),
    }))
}

fn slice(slice: &KubeSlice) -> Result<Object, Skip> {
    let Some(service) = label(&slice.metadata, key::SERVICE_NAME) else {
        let detail = format!("label {} is missing", key::SERVICE_NAME);
        return Err(Skip::new(SkipReason::BadName, detail));
    };
    if slice.address_type == "FQDN" {
        return Err(Skip::new(SkipReason::BadAddress, "addressType FQDN"));
    }
    let endpoint = |e: &k8s_openapi::api::discovery::v1::Endpoint| SliceEndpoint {
        address: e.addresses.first().and_then(|ip| usable_address(ip).ok()),
        hostname: e.hostname.as_deref().and_then(|h| h.parse().ok()),
        target: e
            .target_ref
            .as_ref()
            .and_then(|t| t.uid.as_deref())
            .map(Into::into),
        ready: e.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true),
    };
    let ports = slice.ports.as_deref().unwrap_or_default();
    Ok(Object::Slice(Slice {
        service: service.into(),
        endpoints: slice.endpoints.iter().map(endpoint).collect(),
        ports: ports.iter().filter_map(slice_port).collect(),
    }))
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
fn same_namespace(meta: &ObjectMeta, rest: &str) -> Result<(), Skip> {
    let named = rest.split('.').next().unwrap_or_default();
    let own = namespace(meta);
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

fn service_key(meta: &ObjectMeta, service: &str) -> Result<ServiceKey, Skip> {
    let namespace: Namespace = namespace(meta).parse().map_err(bad_name)?;
    let service: ServiceName = service.parse().map_err(bad_name)?;
    Ok(ServiceKey { namespace, service })
}

fn cluster(meta: &ObjectMeta) -> Result<ClusterName, Skip> {
    label(meta, key::CLUSTER_NAME)
        .unwrap_or_default()
        .parse()
        .map_err(bad_name)
}

fn bad_name(error: super::InvalidLabel) -> Skip {
    Skip::new(SkipReason::BadName, error.to_string())
}

fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

fn label<'m>(meta: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'m>(meta: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

fn created(meta: &ObjectMeta) -> Option<i64> {
    meta.creation_timestamp
        .as_ref()
        .map(|time| time.0.as_second())
}

// === Addresses, ports, annotations ===

fn is_headless(service: &KubeService) -> bool {
    service
        .spec
        .as_ref()
        .and_then(|spec| spec.cluster_ip.as_deref())
        == Some("None")
}

/// Reads an address that a client may be sent to.
fn usable_address(text: &str) -> Result<IpAddr, Skip> {
    let bad = |why: &str| Skip::new(SkipReason::BadAddress, format!("'{text}' {why}"));
    let address: IpAddr = text.parse().map_err(|_| bad("is no IP address"))?;
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

fn service_port(port: &ServicePort) -> Option<Port> {
    checked_port(
        port.name.as_deref(),
        port.protocol.as_deref(),
        Some(port.port),
    )
}

fn slice_port(port: &EndpointPort) -> Option<Port> {
    checked_port(port.name.as_deref(), port.protocol.as_deref(), port.port)
}

/// Makes a port, or none of a number out of range or a protocol that SRV has no name for. A name that is no label is
/// dropped, not the port: it has an SRV record at the bare name still.
fn checked_port(name: Option<&str>, protocol: Option<&str>, number: Option<i32>) -> Option<Port> {
    Some(Port {
        number: u16::try_from(number?).ok().filter(|n| *n != 0)?,
        name: name.and_then(|name| name.parse().ok()),
        protocol: match protocol.unwrap_or("TCP") {
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => return None,
        },
    })
}

fn wishes(meta: &ObjectMeta) -> Wishes {
    let mut wishes = Wishes::default();
    if let Some(value) = annotation(meta, key::TTL) {
        wishes.ttl = value.trim().parse().ok();
        if wishes.ttl.is_none() {
            wishes
                .unreadable
                .push(format!("{}={}", key::TTL, shorten(value)));
        }
    }
    if let Some(value) = annotation(meta, key::GATEWAY_DOWN) {
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
