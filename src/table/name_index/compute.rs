//! Computes the index of a service.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use super::{NameIndex, PROPERTIES, Property, SharedPort};
use crate::model::{GatewayDown, Port, PortName, Protocol};
use crate::table::endpoint::{Address, Endpoint, EndpointLiveness};

/// Computes the index of a service with these endpoints, which are sorted by cluster.
pub(in crate::table) fn name_index(
    endpoints: &[Endpoint],
    gateway_down: GatewayDown,
    has_mcs_zones: bool,
) -> NameIndex {
    let mut index = NameIndex {
        ports: ports(endpoints),
        ..NameIndex::default()
    };
    index.set_properties(endpoints);
    if has_mcs_zones {
        index.shared_ports = shared_ports(endpoints);
    }
    let own = index
        .members(0..endpoints.len(), &[])
        .requiring(Property::Selected)
        .answered(gateway_down);
    let required = own.required;
    let addresses = own
        .iter()
        .flat_map(|index| endpoints[index].addresses.iter());
    let mut v4 = Vec::new();
    let mut v6 = Vec::new();
    for address in addresses.filter(|address| !address.repeats_in_service) {
        match address.ip {
            IpAddr::V4(ip) => v4.push(ip),
            IpAddr::V6(ip) => v6.push(ip),
        }
    }
    index.v4 = v4.into();
    index.v6 = v6.into();
    index.own = required;
    index
}

impl NameIndex {
    /// Sets the properties that all endpoints have, or those of each if they differ.
    fn set_properties(&mut self, endpoints: &[Endpoint]) {
        let own = endpoints
            .iter()
            .find(|endpoint| endpoint.is_local())
            .map(|endpoint| &endpoint.cluster);
        let mut all = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            let is_local = own == Some(&endpoint.cluster);
            let has_new = |is_v4: bool, is_repeated: fn(&Address) -> bool| {
                let mut addresses = endpoint.addresses.iter();
                addresses.any(|one| one.ip.is_ipv4() == is_v4 && !is_repeated(one))
            };
            let has_named = |protocol: Protocol| {
                let mut named = endpoint.ports.iter().filter(|port| port.name.is_some());
                named.any(|port| port.protocol == protocol)
            };
            // In the order of `Property`.
            let has = [
                endpoint.is_selected(),
                endpoint.is_alive(),
                endpoint.liveness != EndpointLiveness::Unlinked,
                is_local,
                !is_local,
                endpoint.hostname.is_some(),
                !endpoint.ports.is_empty(),
                has_new(true, |one| one.repeats_in_service),
                has_new(false, |one| one.repeats_in_service),
                has_new(true, |one| one.repeats_in_cluster),
                has_new(false, |one| one.repeats_in_cluster),
                has_named(Protocol::Tcp),
                has_named(Protocol::Udp),
                has_named(Protocol::Sctp),
            ];
            let add = |bits: u16, has: bool| bits << 1 | u16::from(has);
            all.push(has.into_iter().rev().fold(0, add));
        }
        let first = all.first().copied().unwrap_or_default();
        if all.iter().all(|bits| *bits == first) {
            self.common = first;
            return;
        }
        let mut properties = vec![[0; PROPERTIES]; all.len().div_ceil(64)];
        for (index, bits) in all.into_iter().enumerate() {
            for (property, word) in properties[index / 64].iter_mut().enumerate() {
                *word |= u64::from(bits >> property & 1) << (index % 64);
            }
        }
        self.properties = properties.into();
    }
}

/// Returns the named ports of endpoints with different ports. Mirrors of one Service usually have the same list, so that most
/// lists are equal to the one before.
fn ports(endpoints: &[Endpoint]) -> Box<[(Port, Box<[u64]>)]> {
    let is_same = |one: &Endpoint, other: &Endpoint| {
        one.ports.as_ptr() == other.ports.as_ptr() || one.ports == other.ports
    };
    if endpoints.windows(2).all(|pair| is_same(&pair[0], &pair[1])) {
        return Box::default();
    }
    let mut all: BTreeMap<(&PortName, Protocol), (&Port, Vec<u64>)> = BTreeMap::new();
    for (index, endpoint) in endpoints.iter().enumerate() {
        for port in endpoint.ports.iter() {
            if let Some(name) = &port.name {
                let (_, bits) = all
                    .entry((name, port.protocol))
                    .or_insert_with(|| (port, vec![0; endpoints.len().div_ceil(64)]));
                bits[index / 64] |= 1 << (index % 64);
            }
        }
    }
    all.into_values()
        .map(|(port, bits)| (port.clone(), bits.into()))
        .collect()
}

/// Collects the ports of the cluster IPs that a service's own name returns, sorted by endpoint. The time grows with the
/// number of different lists of ports: mirrors of one Service usually have the same one.
fn shared_ports(endpoints: &[Endpoint]) -> Box<[SharedPort]> {
    let mut in_order: Vec<_> = endpoints
        .iter()
        .enumerate()
        .filter(|(_, endpoint)| endpoint.is_selected() && endpoint.hostname.is_none())
        .collect();
    in_order.sort_by_key(|(_, endpoint)| endpoint.liveness);
    let mut lists = HashSet::new();
    let mut known = HashSet::new();
    let mut numbers = HashSet::new();
    let mut shared = Vec::new();
    for (index, endpoint) in in_order {
        if !lists.insert(endpoint.ports.as_ptr()) {
            continue; // an endpoint before it has the same ports
        }
        let new = endpoint.ports.iter().filter(|port| known.insert(*port));
        shared.extend(new.map(|port| SharedPort {
            endpoint: index,
            port: port.clone(),
            is_new_number: numbers.insert(port.number),
        }));
    }
    shared.sort_by_key(|port: &SharedPort| port.endpoint);
    shared.into()
}
