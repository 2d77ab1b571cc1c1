//! The rows of a service's own name that are computed when the service is built, because many queries ask for that name.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Endpoint, Included};
use crate::model::{GatewayDown, Port};

/// The addresses of a service's own name, `S.N.Z`: each once, in the order of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameAddresses {
    /// The endpoints that are included (rule M4).
    pub included: Included,
    /// IPv4.
    pub v4: Box<[Ipv4Addr]>,
    /// IPv6.
    pub v6: Box<[Ipv6Addr]>,
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
        let included_ones = selected.filter(|endpoint| included.has(endpoint));
        Self {
            included,
            v4: addresses(included_ones.clone(), v4_of),
            v6: addresses(included_ones, v6_of),
        }
    }
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
