//! The rows of a service's own name that are computed when the service is built, because many queries ask for that name.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Endpoint, Included};
use crate::model::{GatewayDown, Port, Weight};

/// The addresses of a service's own name, `S.N.Z`: each once, in the order of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameAddresses {
    /// The endpoints that are included (rule M4).
    pub included: Included,
    /// IPv4.
    pub v4: Box<[Ipv4Addr]>,
    /// IPv6.
    pub v6: Box<[Ipv6Addr]>,
    /// The draw of one cluster for each answer, if clusters have weights (rule K5w).
    pub draw: Option<Box<Draw>>,
}

/// The draw of one cluster for each answer (rule K5w).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// For type A.
    pub v4: Shares<Ipv4Addr>,
    /// For type AAAA.
    pub v6: Shares<Ipv6Addr>,
}

/// The clusters for answers of one type; an answer contains one of them. There are none if no cluster with a weight has an address of the
/// type.
pub type Shares<A> = Box<[Share<A>]>;

/// The share of a cluster in the answers of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share<A> {
    /// Index of the first endpoint of the cluster. It has one, or of an alias one for each service.
    pub endpoint: usize,
    /// Its weight. Clusters that are all drained share the answers equally.
    pub weight: u32,
    /// The addresses of an answer with the cluster: its own, and those of endpoints without a weight.
    addresses: Box<[A]>,
}

/// A port of the cluster IPs of a service. Their SRV records have one target, so an SRV record exists once for each number,
/// however many clusters have the port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPort {
    /// Index of the first endpoint that has the port. Endpoints that fewer rules omit come first, so that the omission of the
    /// others never loses a port.
    pub endpoint: usize,
    /// The port.
    pub port: Port,
    /// Whether no port before it, in the same order, has its number.
    pub is_new_number: bool,
}

// === impl NameAddresses ===

impl NameAddresses {
    /// Collects the addresses for the name of a service with these endpoints.
    pub(super) fn new(endpoints: &[Endpoint], gateway_down: GatewayDown) -> Self {
        let selected = endpoints.iter().filter(|endpoint| endpoint.is_selected);
        let included = gateway_down.included(selected.clone());
        let endpoints = endpoints.iter().enumerate();
        let included_ones =
            endpoints.filter(|(_, endpoint)| endpoint.is_selected && included.has(endpoint));
        let has_weight = included_ones.clone().any(|(_, one)| one.weight.is_some());
        Self {
            included,
            v4: addresses(included_ones.clone().map(|(_, endpoint)| endpoint), v4_of),
            v6: addresses(included_ones.clone().map(|(_, endpoint)| endpoint), v6_of),
            draw: has_weight.then(|| {
                Box::new(Draw {
                    v4: shares(included_ones.clone(), v4_of),
                    v6: shares(included_ones, v6_of),
                })
            }),
        }
    }

    /// Returns the addresses of one answer of type A. `turn` is random.
    #[inline]
    pub fn drawn_v4(&self, turn: u32) -> &[Ipv4Addr] {
        let draw = self.draw.as_ref();
        let share = draw.and_then(|draw| drawn(&draw.v4, turn));
        share.map_or(&self.v4, |share| &share.addresses)
    }

    /// Returns the addresses of one answer of type AAAA. `turn` is random.
    #[inline]
    pub fn drawn_v6(&self, turn: u32) -> &[Ipv6Addr] {
        let draw = self.draw.as_ref();
        let share = draw.and_then(|draw| drawn(&draw.v6, turn));
        share.map_or(&self.v6, |share| &share.addresses)
    }
}

/// Draws a share. `turn` is random, and each of its values is equally likely.
pub fn drawn<A>(shares: &[Share<A>], turn: u32) -> Option<&Share<A>> {
    let total: u32 = shares.iter().map(|share| share.weight).sum();
    // The upper bits of the turn. The order of the addresses depends on the lower ones.
    let mut place = ((u64::from(turn) * u64::from(total)) >> u32::BITS) as u32; // less than `total`
    shares.iter().find(|share| {
        let is_drawn = place < share.weight;
        place = place.saturating_sub(share.weight);
        is_drawn
    })
}

fn v4_of(ip: IpAddr) -> Option<Ipv4Addr> {
    match ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    }
}

fn v6_of(ip: IpAddr) -> Option<Ipv6Addr> {
    match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) => Some(ip),
    }
}

/// Collects the addresses of one family, each once.
fn addresses<'e, A>(
    endpoints: impl Iterator<Item = &'e Endpoint>,
    of_family: impl Fn(IpAddr) -> Option<A>,
) -> Box<[A]> {
    let addresses = endpoints.flat_map(|endpoint| &endpoint.addresses);
    let distinct = addresses.filter(|address| !address.duplicate.in_service);
    distinct
        .filter_map(|address| of_family(address.ip))
        .collect()
}

/// Collects the shares of the clusters with a weight that have an address of one family: of those that are alive, if one is.
fn shares<'e, A>(
    endpoints: impl Iterator<Item = (usize, &'e Endpoint)> + Clone,
    of_family: impl Fn(IpAddr) -> Option<A> + Copy,
) -> Shares<A> {
    let has_address = |one: &Endpoint| one.addresses.iter().any(|own| of_family(own.ip).is_some());
    let weighted = endpoints
        .clone()
        .filter(|(_, endpoint)| endpoint.weight.is_some() && has_address(endpoint));
    let any_alive = weighted.clone().any(|(_, endpoint)| endpoint.is_alive());
    let drawn: Vec<(usize, &Endpoint)> = weighted
        .filter(|(_, endpoint)| endpoint.is_alive() || !any_alive)
        .collect();
    let are_drained = drawn.iter().all(|(_, endpoint)| endpoint.is_drained());
    let always = endpoints.map(|(_, endpoint)| endpoint);
    let always = always.filter(|endpoint| endpoint.weight.is_none());
    let share = |cluster: &[(usize, &'e Endpoint)]| {
        let (index, first) = cluster[0];
        let weight = first.weight.map_or(0, Weight::get);
        let own = cluster.iter().map(|(_, endpoint)| *endpoint);
        Share {
            endpoint: index,
            weight: if are_drained { 1 } else { weight.into() },
            addresses: addresses(own.chain(always.clone()), of_family),
        }
    };
    let clusters = drawn.chunk_by(|(_, one), (_, other)| one.cluster == other.cluster);
    clusters.map(share).collect()
}

// === impl SharedPort ===

impl SharedPort {
    /// Collects the ports of the cluster IPs that a service's own name returns, sorted by endpoint. The time grows with the
    /// number of different lists of ports: mirrors of one Service usually have the same one.
    pub(super) fn collect(endpoints: &[Endpoint]) -> Box<[Self]> {
        let is_shared = |one: &(usize, &Endpoint)| one.1.is_selected && one.1.hostname.is_none();
        let mut in_order: Vec<_> = endpoints.iter().enumerate().filter(is_shared).collect();
        in_order.sort_by_key(|(_, endpoint)| endpoint.liveness);
        let (mut lists, mut known, mut numbers) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut shared = Vec::new();
        for (index, endpoint) in in_order {
            if !lists.insert(endpoint.ports.as_ptr()) {
                continue; // an endpoint before it has the same ports
            }
            let new = endpoint.ports.iter().filter(|port| known.insert(*port));
            shared.extend(new.map(|port| Self {
                endpoint: index,
                port: port.clone(),
                is_new_number: numbers.insert(port.number),
            }));
        }
        shared.sort_by_key(|port: &Self| port.endpoint);
        shared.into()
    }
}
