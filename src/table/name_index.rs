//! What the names of a service return. `name_index/compute.rs` computes it when the service is built, so that the time of a query does
//! not grow with the number of endpoints. Memory does not grow with names times ports: it is one bit for each endpoint and property,
//! and for each port that not all endpoints have.

pub(super) mod compute;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::Endpoint;
use crate::model::{GatewayDown, Port};

/// The endpoints and addresses of the names of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameIndex {
    /// The IPv4 addresses of the service's own name, each once, in the order of the table.
    pub v4: Box<[Ipv4Addr]>,
    /// The IPv6 addresses of the service's own name.
    pub v6: Box<[Ipv6Addr]>,
    /// A bit for each property that the endpoints of the service's own name must have (rules K1, K5, M4, L3).
    own: u16,
    /// A bit for each property that all endpoints have, if they have the same ones.
    common: u16,
    /// The properties of 64 endpoints each. Empty if all endpoints have the same ones.
    properties: Box<[[u64; PROPERTIES]]>,
    /// The named ports, sorted, with a bit for each endpoint that has one. Empty if all endpoints have the same ports.
    ports: Box<[(Port, Box<[u64]>)]>,
    /// The ports of its cluster IPs, each once. Zones with the grammar `mcs` have one SRV record for each (rule K9). Empty
    /// without such a zone.
    pub shared_ports: Box<[SharedPort]>,
}

impl NameIndex {
    /// Returns the size of its lists in octets.
    pub(super) fn octets(&self) -> usize {
        let bits = self.ports.iter().map(|(_, bits)| size_of_val(&**bits));
        size_of_val(&*self.v4)
            + size_of_val(&*self.v6)
            + size_of_val(&*self.properties)
            + size_of_val(&*self.ports)
            + size_of_val(&*self.shared_ports)
            + bits.sum::<usize>()
    }
}

/// A property of an endpoint.
#[derive(Clone, Copy, Debug)]
pub enum Property {
    /// It is one of `S.N.Z` (rules K1, K5).
    Selected,
    /// Connections to it can succeed (rule M3).
    Alive,
    /// A Link names its cluster (rule L3).
    Linked,
    /// It belongs to this cluster, by its name.
    Local,
    /// It belongs to another cluster, or to no single one.
    Remote,
    /// It has a hostname.
    Host,
    /// It has a port.
    WithPorts,
    /// It has an IPv4 address that no earlier endpoint of the service has.
    NewV4,
    /// It has an IPv6 address that no earlier endpoint of the service has.
    NewV6,
    /// It has an IPv4 address that no earlier endpoint of its cluster has.
    NewV4InCluster,
    /// It has an IPv6 address that no earlier endpoint of its cluster has.
    NewV6InCluster,
    /// It has a TCP port with a name.
    NamedTcp,
    /// It has a UDP port with a name.
    NamedUdp,
    /// It has an SCTP port with a name.
    NamedSctp,
}

/// The number of properties.
const PROPERTIES: usize = 14;

/// Endpoints of a service: those in a range that have a port and some properties.
#[derive(Clone, Debug)]
pub struct Members<'t> {
    index: &'t NameIndex,
    /// A bit for each endpoint of the service that has the port. Empty: all.
    port: &'t [u64],
    range: Range<usize>,
    /// A bit for each property.
    required: u16,
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

// === impl Property ===

impl Property {
    /// Returns the property of a named port of a protocol, by its label without the underscore (RFC 2782).
    pub fn of_protocol(label: &str) -> Option<Self> {
        match label {
            "tcp" => Some(Self::NamedTcp),
            "udp" => Some(Self::NamedUdp),
            "sctp" => Some(Self::NamedSctp),
            _ => None,
        }
    }
}

// === impl NameIndex ===

impl NameIndex {
    /// Returns the endpoints in a range. `port` is that of [`NameIndex::named_ports`], or empty.
    pub fn members<'t>(&'t self, range: Range<usize>, port: &'t [u64]) -> Members<'t> {
        Members {
            index: self,
            port,
            range,
            required: 0,
        }
    }

    /// Returns the endpoints of the service's own name, which are in this range.
    pub fn own_members(&self, all: Range<usize>) -> Members<'_> {
        Members {
            required: self.own,
            ..self.members(all, &[])
        }
    }

    /// Returns the named ports, with a bit for each endpoint that has one. `endpoints` are those of the service.
    pub fn named_ports<'t>(
        &'t self,
        endpoints: &'t [Endpoint],
    ) -> impl Iterator<Item = (&'t Port, &'t [u64])> {
        let common = match endpoints.first() {
            Some(first) if self.ports.is_empty() => &first.ports[..],
            _ => &[],
        };
        let common = common.iter().filter(|port| port.name.is_some());
        let of_some = self.ports.iter().map(|(port, bits)| (port, &**bits));
        common.map(|port| (port, &[][..])).chain(of_some)
    }
}

// === impl Members ===

impl<'t> Members<'t> {
    /// Returns those that have a property, too.
    pub fn requiring(&self, property: Property) -> Self {
        Self {
            required: self.required | 1 << property as u8,
            ..self.clone()
        }
    }

    /// Returns those with a port, which is that of [`NameIndex::named_ports`].
    pub(super) fn having(&self, port: &'t [u64]) -> Self {
        Self {
            port,
            ..self.clone()
        }
    }

    /// Returns those in a range.
    pub fn within(&self, range: Range<usize>) -> Self {
        Self {
            range: range.start.max(self.range.start)..range.end.min(self.range.end),
            ..self.clone()
        }
    }

    /// Decides for an owner name which of its endpoints answers include, by their liveness (rules M4, L3): those that are alive, or,
    /// with [`GatewayDown::Include`], those of linked clusters. If none is alive, all.
    pub fn answered(self, gateway_down: GatewayDown) -> Self {
        let alive = self.requiring(Property::Alive);
        match gateway_down {
            _ if alive.is_empty() => self,
            GatewayDown::LastResort => alive,
            GatewayDown::Include => self.requiring(Property::Linked),
        }
    }

    /// Returns the endpoints of a word, as bits.
    fn word(&self, at: usize) -> u64 {
        let from = self.range.start.saturating_sub(at * 64);
        let until = self.range.end.saturating_sub(at * 64);
        let below = |bit: usize| if bit < 64 { (1 << bit) - 1 } else { u64::MAX };
        let word = self.port.get(at).unwrap_or(&u64::MAX) & below(until) & !below(from);
        match self.index.properties.get(at) {
            None if self.required & !self.index.common == 0 => word,
            None => 0,
            Some(properties) => properties
                .iter()
                .enumerate()
                .filter(|(property, _)| self.required >> property & 1 == 1)
                .fold(word, |word, (_, bits)| word & bits),
        }
    }

    /// Returns the range of indexes that they are in.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the indexes of words with endpoints of the range.
    fn words(&self) -> Range<usize> {
        self.range.start / 64..self.range.end.div_ceil(64)
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words().all(|at| self.word(at) == 0)
    }

    /// Returns their number.
    pub fn count(&self) -> usize {
        self.words()
            .map(|at| self.word(at).count_ones() as usize)
            .sum()
    }

    /// Returns whether an endpoint is one of them, by its index.
    pub fn contains(&self, index: usize) -> bool {
        self.word(index / 64) >> (index % 64) & 1 == 1
    }

    /// Returns the index of the one with a number, counted from zero.
    pub fn nth(&self, mut number: usize) -> Option<usize> {
        for at in self.words() {
            let word = self.word(at);
            let count = word.count_ones() as usize;
            if number < count {
                return bits(at, word).nth(number);
            }
            number -= count;
        }
        None
    }

    /// Returns their indexes, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + Clone + use<'t> {
        let members = self.clone();
        self.words().flat_map(move |at| bits(at, members.word(at)))
    }

    /// Returns their indexes, from one of them on, and then those before it.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = usize> + Clone + use<'t> {
        let start = self.range.start;
        let end = self.range.end;
        self.within(first..end)
            .iter()
            .chain(self.within(start..first).iter())
    }
}

/// Returns the indexes of the bits of a word.
fn bits(at: usize, mut word: u64) -> impl Iterator<Item = usize> + Clone {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        word &= word.checked_sub(1)?;
        Some(at * 64 + bit)
    })
}
