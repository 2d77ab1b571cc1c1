//! EndpointSlices: of mirrors, and of Services of this cluster (rules M3, M5).

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::fields::{bad_name, list_of_ports, undecodable, usable_address};
use super::object::{KubeEndpoint, SliceBody};
use super::{Hostname, KubeObject, Object, Ports, Skip, SkipReason, Text, intern, key};

/// An EndpointSlice of which only readiness matters. The addresses are those of gateways, or of pods behind a cluster IP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadySlice {
    /// Label `kubernetes.io/service-name`: the Service of the slice, in the same namespace.
    pub service: Text,
    /// Whether an address is ready. `None` if there is no address.
    pub ready: Option<bool>,
}

/// An EndpointSlice of a headless mirror: the hosts that Linkerd lists. It is not used for answers. It contains the
/// ports of the remote pods and no state of gateways, and it can be overwritten with gateway addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedHosts {
    /// Label `kubernetes.io/service-name`: the headless mirror of the slice, in the same namespace.
    pub mirror: Text,
    /// The endpoints that have a hostname, sorted, each once.
    pub hosts: Box<[ListedHost]>,
}

/// An entry of a headless mirror's slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListedHost {
    /// The remote pod's hostname.
    pub hostname: Hostname,
    /// The last cluster IP of its endpoint mirror that Linkerd knew. `None` if clients must not use the address.
    pub address: Option<IpAddr>,
}

/// An EndpointSlice of a headless Service of this cluster (rule M5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Label `kubernetes.io/service-name`: the Service of the slice, in the same namespace.
    pub service: Text,
    /// `endpoints`.
    pub endpoints: Box<[SliceEndpoint]>,
    /// `ports`: the ports of the pods.
    pub ports: Ports,
    /// Skipped parts of the slice: one skip for each reason.
    pub left_out: Box<[Skip]>,
}

/// An entry of a slice with an address that clients may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceEndpoint {
    /// The first of `addresses`. Consumers of slices use only this one.
    pub address: IpAddr,
    /// `hostname`. If it is absent or not a DNS label, the address with dashes.
    pub hostname: Hostname,
    /// `targetRef.uid`. It distinguishes one dual-stack pod from two pods with one hostname.
    pub target: Option<Text>,
    /// `conditions.ready`. If it is absent, the endpoint is ready.
    pub ready: bool,
}

/// Parses a slice of a mirror. A slice that lists hosts becomes [`ListedHosts`], any other a [`ReadySlice`]. Only
/// slices of headless mirrors list hosts, unless they were overwritten with gateway addresses.
pub(super) fn mirror_slice(slice: &KubeObject<'_>) -> Result<Object, Skip> {
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
pub(super) fn ready_slice(slice: &KubeObject<'_>) -> Result<Object, Skip> {
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

/// Parses a slice of a headless Service of this cluster.
pub(super) fn local_slice(slice: &KubeObject<'_>) -> Result<Object, Skip> {
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
