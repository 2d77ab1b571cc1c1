//! The order of records in an answer. The set of records does not depend on it.
//!
//! The walk over a service begins at a random endpoint and ends when the message is full, so that the time depends on the length
//! of the reply.

use std::mem::take;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{ControlFlow, Range};
use std::slice;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RecordType;
use super::reading::{Scope, View};
use crate::model::Port;
use crate::table::{Endpoint, Members, Property};

/// The order of records in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerOrder {
    /// Each answer starts at a random record. The others follow in the order of the table.
    #[default]
    Rotate,
    /// Records of this cluster come first. Both parts are rotated.
    LocalFirst,
}

/// Where the records of an answer begin, and how they follow. The default is the order of the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    /// The order.
    pub order: AnswerOrder,
    /// A random number for each answer, by which it has the first record.
    pub turn: u32,
}

/// Addresses of one family, one record for each. A list that begins at one of them has two parts.
#[derive(Clone, Copy, Debug)]
pub enum Addresses<'t> {
    /// Records of type A.
    V4([&'t [Ipv4Addr]; 2]),
    /// Records of type AAAA.
    V6([&'t [Ipv6Addr]; 2]),
}

/// Visits the addresses of a view of type A or AAAA in order until `visit` breaks, several at once if possible.
pub fn visit_addresses<'t>(
    view: &View<'t>,
    rtype: RecordType,
    walk: Walk,
    mut visit: impl FnMut(Addresses<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if view.port.is_some() {
        return ControlFlow::Continue(());
    }
    let names = &view.service.names;
    if (view.scope, walk.order) == (Scope::Service, AnswerOrder::Rotate) {
        return match rtype {
            RecordType::A if !names.v4.is_empty() => {
                visit(Addresses::V4(rotated(&names.v4, walk.turn)))
            }
            RecordType::AAAA if !names.v6.is_empty() => {
                visit(Addresses::V6(rotated(&names.v6, walk.turn)))
            }
            _ => ControlFlow::Continue(()),
        };
    }
    let mut visit_endpoint = |endpoint: &'t Endpoint| {
        addresses_of(endpoint, rtype, view.scope).try_for_each(|ip| visit(Addresses::from(ip)))
    };
    let property = match (view.scope, rtype) {
        (Scope::Service, RecordType::A) => Property::NewV4,
        (Scope::Service, RecordType::AAAA) => Property::NewV6,
        (Scope::Cluster, RecordType::A) => Property::NewV4InCluster,
        (Scope::Cluster, RecordType::AAAA) => Property::NewV6InCluster,
        // It is one endpoint. It has all its addresses, also those of other endpoints.
        (Scope::Host, _) => return view.covered().iter().try_for_each(visit_endpoint),
        _ => return ControlFlow::Continue(()),
    };
    let members = view.members().requiring(property);
    visit_walks(members, walk, |members, first, _| {
        members
            .iter_from(first)
            .try_for_each(|index| visit_endpoint(&view.service.endpoints[index]))
    })
}

/// Returns the addresses of an endpoint that are records of a name with this scope.
pub(super) fn addresses_of(
    endpoint: &Endpoint,
    rtype: RecordType,
    scope: Scope,
) -> impl Iterator<Item = &IpAddr> {
    endpoint
        .addresses
        .iter()
        .filter(move |address| {
            let is_repeated = match scope {
                Scope::Service => address.repeats_in_service,
                Scope::Cluster => address.repeats_in_cluster,
                Scope::Host => false,
            };
            rtype_of(address.ip) == rtype && !is_repeated
        })
        .map(|address| &address.ip)
}

/// Returns the record type of an address.
pub fn rtype_of(address: IpAddr) -> RecordType {
    match address {
        IpAddr::V4(_) => RecordType::A,
        IpAddr::V6(_) => RecordType::AAAA,
    }
}

/// Visits endpoints in an order: `visit` gets the endpoints of a walk, the one that it begins at, and a random number.
fn visit_walks<'t>(
    members: Members<'t>,
    walk: Walk,
    mut visit: impl FnMut(Members<'t>, usize, usize) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut begin = |members: Members<'t>, turn: u32| {
        let turn = turn as usize;
        let count = members.count().max(1);
        match members.nth(turn % count) {
            Some(first) => visit(members, first, turn / count),
            None => ControlFlow::Continue(()),
        }
    };
    match walk.order {
        AnswerOrder::Rotate => begin(members, walk.turn),
        AnswerOrder::LocalFirst => {
            begin(members.requiring(Property::Local), walk.turn)?;
            // With the same number, two parts of equal length would always start at the same index.
            begin(
                members.requiring(Property::Remote),
                walk.turn.rotate_left(16),
            )
        }
    }
}

/// Rotates a list. Returns its parts.
fn rotated<A>(list: &[A], turn: u32) -> [&[A]; 2] {
    let (last, first) = list.split_at(turn as usize % list.len().max(1));
    [first, last]
}

/// Visits the SRV records of a view in order until `visit` breaks: for each target and port number one. `visit` gets the index of the
/// endpoint that is the target, the port number, and whether it is the first record in this order with its target.
pub fn visit_srv<'t>(
    view: &View<'t>,
    walk: Walk,
    mut visit: impl FnMut(usize, u16, bool) -> ControlFlow<()>,
) -> ControlFlow<()> {
    // The common target of cluster IPs, if it is the name of the service. A service has few.
    let mut is_first = true;
    for one in rotated(view.shared_ports(), walk.turn)
        .into_iter()
        .flatten()
    {
        let is_wanted = match view.port {
            Some(wanted) => one.port.has_same_name(wanted),
            None => one.is_new_number,
        };
        if is_wanted && view.members().contains(one.endpoint) {
            visit(one.endpoint, one.port.number, take(&mut is_first))?;
        }
    }
    // Targets of their own, from a random port of the first one on.
    let endpoints = &view.service.endpoints;
    let mut visit_ports = |index: usize, range: Range<usize>, mut is_first: bool| {
        ports_in(&endpoints[index].ports, range, view.port)
            .try_for_each(|port| visit(index, port.number, take(&mut is_first)))
    };
    visit_walks(
        view.targets_of_their_own(),
        walk,
        |members, first, random| {
            let ports = &endpoints[first].ports;
            let split = match view.port {
                None => first_of_number(ports, random % ports.len().max(1)),
                Some(_) => 0,
            };
            members.iter_from(first).try_for_each(|index| {
                let from = if index == first { split } else { 0 };
                visit_ports(index, from..endpoints[index].ports.len(), true)
            })?;
            visit_ports(first, 0..split, false)
        },
    )
}

/// Returns the ports in a range that are rows. Ports are sorted by number. Without `_P._R.`, two names of one number are one SRV
/// record.
fn ports_in<'t>(
    ports: &'t [Port],
    range: Range<usize>,
    wanted: Option<&'t Port>,
) -> impl Iterator<Item = &'t Port> {
    let is_row = move |index: &usize| match wanted {
        Some(wanted) => ports[*index].has_same_name(wanted),
        None => *index == 0 || ports[*index - 1].number != ports[*index].number,
    };
    range.filter(is_row).map(|index| &ports[index])
}

/// Returns the index of the first port with the number of a port.
fn first_of_number(ports: &[Port], index: usize) -> usize {
    let number = ports.get(index).map(|port| port.number);
    ports.partition_point(|port| Some(port.number) < number)
}

// === impl Addresses ===

impl<'t> Addresses<'t> {
    /// Returns each address alone.
    pub fn each(self) -> impl Iterator<Item = Self> {
        let (v4, v6) = match self {
            Self::V4(parts) => (parts, [&[][..]; 2]),
            Self::V6(parts) => ([&[][..]; 2], parts),
        };
        let v4 = v4.into_iter().flat_map(|part| part.chunks(1));
        let v6 = v6.into_iter().flat_map(|part| part.chunks(1));
        v4.map(|one| Self::V4([one, &[]]))
            .chain(v6.map(|one| Self::V6([one, &[]])))
    }
}

impl<'t> From<&'t IpAddr> for Addresses<'t> {
    #[inline]
    fn from(ip: &'t IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::V4([slice::from_ref(ip), &[]]),
            IpAddr::V6(ip) => Self::V6([slice::from_ref(ip), &[]]),
        }
    }
}
