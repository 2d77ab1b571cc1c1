//! EndpointSlices: of mirrors, and of Services of this cluster (rules M3, M5).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::kube_object::{KubeEndpoint, ObjectBody, ports, unusable, usable_address};
use super::{Hostname, ObjectKey, ObjectRef, Ports, Problem, Text};

/// An EndpointSlice, reduced to what this server uses. There may be some hundred thousand of endpoint mirrors, so a slice has 16
/// octets, and lists are boxed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slice {
    /// Of an endpoint mirror, or of a Service with a cluster IP.
    Addresses {
        /// The name of the Service of the slice, in the same namespace.
        owner: Text,
        /// Whether an address is ready: of a gateway, or of pods behind a cluster IP. `None` if there is no address.
        ready: Option<bool>,
    },
    /// The hosts that a headless mirror lists. They are not used for answers. The slice contains the ports of the remote
    /// pods and no state of gateways, and it can be overwritten with gateway addresses.
    Hosts(Box<Listed<ListedHost>>),
    /// The pods of a Service of this cluster (rule M5).
    Endpoints(Box<Listed<SliceEndpoint>>),
}

/// What a slice lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// The name of the Service of the slice, in the same namespace.
    pub owner: Text,
    /// Its entries, sorted, each once.
    pub entries: Box<[T]>,
    /// `ports`: those of the pods.
    pub ports: Ports,
    /// Skipped parts of the slice: one skip for each reason.
    pub left_out: Box<[Problem]>,
}

/// An entry of a headless mirror's slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedHost {
    /// The remote pod's hostname.
    pub hostname: Hostname,
    /// The last cluster IP of its endpoint mirror that Linkerd knew. `None` if clients must not use the address.
    pub address: Option<IpAddr>,
}

/// An entry of a slice with an address that clients may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

// === Reading ===

/// Reduces a slice to whether an address is ready.
pub(super) fn addresses(owner: Text, body: &ObjectBody<'_>) -> Slice {
    let ready = body
        .endpoints
        .iter()
        .flatten()
        .map(is_ready)
        .reduce(|one, other| one || other);
    Slice::Addresses { owner, ready }
}

/// Reads what a slice lists, sorted and each entry once: their order is arbitrary and differs between versions of a slice. `read` reads
/// an entry.
pub(super) fn listed<T: Ord>(
    owner: Text,
    body: &ObjectBody<'_>,
    read: fn(&KubeEndpoint<'_>, &mut SkipCounts) -> Option<T>,
) -> Box<Listed<T>> {
    let mut skips = SkipCounts::default();
    let endpoints = body.endpoints.iter().flatten();
    let entries: BTreeSet<T> = endpoints.filter_map(|one| read(one, &mut skips)).collect();
    Box::new(Listed {
        owner,
        entries: entries.into_iter().collect(),
        ports: ports(body.ports.as_deref()),
        left_out: skips.into_skips(),
    })
}

/// Reads an endpoint of a slice of this cluster.
pub(super) fn endpoint(
    endpoint: &KubeEndpoint<'_>,
    skips: &mut SkipCounts,
) -> Option<SliceEndpoint> {
    let first = endpoint.addresses.iter().flatten().next();
    let usable = first
        .ok_or_else(|| unusable("an endpoint has no address"))
        .and_then(|ip| usable_address(ip));
    let address = skips.record("addresses", usable)?;
    let target = endpoint.target_ref.as_ref();
    Some(SliceEndpoint {
        address,
        hostname: hostname(endpoint, skips).unwrap_or_else(|| Hostname::from_address(address)),
        target: target.map(|target| target.uid[..].into()),
        ready: is_ready(endpoint),
    })
}

/// Reads the hostname of an endpoint, if it has one.
pub(super) fn hostname(endpoint: &KubeEndpoint<'_>, skips: &mut SkipCounts) -> Option<Hostname> {
    let given = &endpoint.hostname;
    let read = || Hostname::interned(given).map_err(unusable);
    (!given.is_empty()).then(|| skips.record("hostname", read()))?
}

// === impl Slice ===

impl Slice {
    /// Returns the name of the Service of the slice, in the same namespace.
    pub fn owner(&self) -> &Text {
        match self {
            Self::Addresses { owner, .. } => owner,
            Self::Hosts(listed) => &listed.owner,
            Self::Endpoints(listed) => &listed.owner,
        }
    }
}

// === impl Listed ===

impl<T> Listed<T> {
    /// Returns the problems of the parts that are skipped of a slice with a key.
    pub fn problems(&self, slice: &ObjectKey) -> impl Iterator<Item = Problem> {
        let object = ObjectRef::slice(slice);
        self.left_out
            .iter()
            .cloned()
            .map(move |skip| skip.of_object(object.clone()))
    }
}

/// The skips of each field. A slice may have a thousand endpoints with the same error, of which one is reported, with the number of
/// the others.
#[derive(Default)]
pub(super) struct SkipCounts(BTreeMap<&'static str, Problem>);

impl SkipCounts {
    /// Returns a valid part. Counts the skip of an invalid part.
    pub(super) fn record<T>(&mut self, field: &'static str, part: Result<T, Problem>) -> Option<T> {
        let count = |skip| {
            let skips = self.0.entry(field).and_modify(|first| first.count += 1);
            skips.or_insert(skip);
        };
        part.map_err(count).ok()
    }

    fn into_skips(self) -> Box<[Problem]> {
        let skip = |first: Problem| match first.count {
            1 => first,
            count => unusable(format!("{}; and {} more", first.detail, count - 1)),
        };
        self.0.into_values().map(skip).collect()
    }
}

/// Returns whether an endpoint is ready. If the condition is absent, it is.
fn is_ready(endpoint: &KubeEndpoint<'_>) -> bool {
    endpoint
        .conditions
        .as_ref()
        .and_then(|c| c.ready)
        .unwrap_or(true)
}
