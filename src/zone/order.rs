//! The order of records in an answer. The set of records does not depend on it.
//!
//! The walk over a service begins at a random endpoint and ends when the message is full, so that the time depends on the length
//! of the reply.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{ControlFlow, Range};
use std::slice;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RecordType;
use super::reading::{Scope, View, same_port};
use crate::model::Port;
use crate::table::{Endpoint, Members, NameAddresses, Property};

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

/// Addresses of one family: one record for each.
#[derive(Clone, Copy, Debug)]
pub enum Addresses<'t> {
    /// Records of type A.
    V4(&'t [Ipv4Addr]),
    /// Records of type AAAA.
    V6(&'t [Ipv6Addr]),
}

/// One SRV record of an answer.
#[derive(Clone, Copy, Debug)]
pub struct SrvRow<'t> {
    /// The endpoint that is the target.
    pub endpoint: &'t Endpoint,
    /// Its index in the service.
    pub index: usize,
    /// The port number.
    pub port: u16,
    /// Whether it is the first row in this order with its target.
    pub is_first: bool,
}

/// Maps a query count to a number without a pattern. The counts of one client's queries have a pattern. A client that
/// queries A and AAAA in turn has only even counts for A, and would never get the second of two rows first.
///
/// The mapping is a bijection. The constants are those of the hash function `lowbias32`.
pub fn mix(count: u32) -> u32 {
    let mixed = (count ^ count >> 16).wrapping_mul(0x7feb_352d);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x846c_a68b);
    mixed ^ mixed >> 16
}

/// Visits the addresses of a view of type A or AAAA in order, in parts, until `visit` breaks. `turn` differs from answer to answer.
/// The turn zero of [`AnswerOrder::Rotate`] is the order of the table.
pub fn visit_addresses<'t>(
    view: &View<'t>,
    rtype: RecordType,
    order: AnswerOrder,
    turn: u32,
    mut visit: impl FnMut(Addresses<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let names = &view.service.names;
    let cluster = match view.scope {
        _ if view.port.is_some() => return ControlFlow::Continue(()),
        Scope::Host => return visit_host(view, rtype, turn, visit),
        Scope::Cluster => Some(view.covered.clone()),
        Scope::Service => None,
    };
    let visit_some = |part: Addresses<'t>| {
        if part.is_empty() {
            return ControlFlow::Continue(());
        }
        visit(part)
    };
    match rtype {
        RecordType::A => {
            let parts = parts_of(names.v4(cluster), order, turn).map(Addresses::V4);
            parts.into_iter().try_for_each(visit_some)
        }
        RecordType::AAAA => {
            let parts = parts_of(names.v6(cluster), order, turn).map(Addresses::V6);
            parts.into_iter().try_for_each(visit_some)
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Visits the addresses of a host, which has few.
fn visit_host<'t>(
    view: &View<'t>,
    rtype: RecordType,
    turn: u32,
    mut visit: impl FnMut(Addresses<'t>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    view.endpoints().try_for_each(|endpoint| {
        let addresses = &*endpoint.addresses; // sorted
        let (v4, v6) = addresses.split_at(addresses.partition_point(|one| one.ip.is_ipv4()));
        let family = match rtype {
            RecordType::A => v4,
            RecordType::AAAA => v6,
            _ => &[],
        };
        let mut ips = rotated([family, &[]], turn).into_iter().flatten();
        ips.try_for_each(|address| visit(Addresses::from(&address.ip)))
    })
}

/// Returns the addresses of a name in order.
fn parts_of<A>(addresses: NameAddresses<'_, A>, order: AnswerOrder, turn: u32) -> [&[A]; 6] {
    let NameAddresses { all, local } = addresses;
    let (first, then) = match order {
        AnswerOrder::Rotate => ([all, &[]], [&[][..]; 2]),
        AnswerOrder::LocalFirst => (
            [&all[local.clone()], &[]],
            [&all[..local.start], &all[local.end..]],
        ),
    };
    // With the same number, two parts of equal length would always start at the same index.
    let ([a, b, c], [d, e, f]) = (rotated(first, turn), rotated(then, mix(turn)));
    [a, b, c, d, e, f]
}

/// Rotates a list that consists of two parts.
fn rotated<A>([one, other]: [&[A]; 2], turn: u32) -> [&[A]; 3] {
    let first = turn as usize % (one.len() + other.len()).max(1);
    match one.split_at_checked(first) {
        Some((last, first)) => [first, other, last],
        None => {
            let (last, first) = other.split_at(first - one.len());
            [first, one, last]
        }
    }
}

/// Returns the SRV records of a view in order: for each target and port number one.
pub fn srv_rows<'t>(
    view: &View<'t>,
    order: AnswerOrder,
    turn: u32,
) -> impl Iterator<Item = SrvRow<'t>> + Clone + use<'t> {
    let own = view.targets_of_their_own();
    let parts = match order {
        AnswerOrder::Rotate => [Some((own, turn)), None],
        AnswerOrder::LocalFirst => [
            Some((own.requiring(Property::Local), turn)),
            Some((own.requiring(Property::Remote), mix(turn))),
        ],
    };
    let (endpoints, port) = (&*view.service.endpoints, view.port);
    let own = parts.into_iter().flatten();
    let own = own.flat_map(move |(members, turn)| rows_of(endpoints, port, &members, turn));
    shared_rows(view, turn).chain(own)
}

/// Returns the rows of the common target of cluster IPs, if it is the name of the service. A service has few.
fn shared_rows<'t>(
    view: &View<'t>,
    turn: u32,
) -> impl Iterator<Item = SrvRow<'t>> + Clone + use<'t> {
    let (service, members, wanted) = (view.service, view.members().clone(), view.port);
    let shared = rotated([view.shared_ports(), &[]], turn)
        .into_iter()
        .flatten();
    let shared = shared.filter(move |one| {
        let is_wanted = match wanted {
            Some(wanted) => same_port(&one.port, wanted),
            None => one.is_new_number,
        };
        is_wanted && members.contains(one.endpoint)
    });
    shared.enumerate().map(|(number, one)| SrvRow {
        endpoint: &service.endpoints[one.endpoint],
        index: one.endpoint,
        port: one.port.number,
        is_first: number == 0,
    })
}

/// Returns the rows of endpoints with targets of their own, from a random one and one of its ports on.
fn rows_of<'t>(
    endpoints: &'t [Endpoint],
    wanted: Option<&'t Port>,
    members: &Members<'t>,
    turn: u32,
) -> impl Iterator<Item = SrvRow<'t>> + Clone + use<'t> {
    let count = members.count().max(1);
    let first = members.nth(turn as usize % count);
    let ports = first.map_or(&[][..], |first| &endpoints[first].ports);
    let split = match wanted {
        None => first_of_number(ports, turn as usize / count % ports.len().max(1)),
        Some(_) => 0,
    };
    let all = members.iter_from(first.unwrap_or_default());
    let visits = all.map(move |index| {
        let from = if Some(index) == first { split } else { 0 };
        (index, from..endpoints[index].ports.len(), true)
    });
    let end = first.map(|first| (first, 0..split, false));
    visits.chain(end).flat_map(move |(index, range, is_begin)| {
        let rows = ports_in(&endpoints[index].ports, range, wanted).enumerate();
        rows.map(move |(number, port)| SrvRow {
            endpoint: &endpoints[index],
            index,
            port: port.number,
            is_first: is_begin && number == 0,
        })
    })
}

/// Returns the ports in a range that are rows. Ports are sorted by number. Without `_P._R.`, two names of one number are one SRV
/// record.
fn ports_in<'t>(
    ports: &'t [Port],
    range: Range<usize>,
    wanted: Option<&'t Port>,
) -> impl Iterator<Item = &'t Port> + Clone + use<'t> {
    let is_row = move |index: &usize| match wanted {
        Some(wanted) => same_port(&ports[*index], wanted),
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
    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::V4(ips) => ips.is_empty(),
            Self::V6(ips) => ips.is_empty(),
        }
    }

    /// Returns each address alone.
    pub fn each(self) -> impl Iterator<Item = Self> {
        let (v4, v6) = match self {
            Self::V4(ips) => (ips, &[][..]),
            Self::V6(ips) => (&[][..], ips),
        };
        v4.chunks(1).map(Self::V4).chain(v6.chunks(1).map(Self::V6))
    }
}

impl<'t> From<&'t IpAddr> for Addresses<'t> {
    #[inline]
    fn from(ip: &'t IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::V4(slice::from_ref(ip)),
            IpAddr::V6(ip) => Self::V6(slice::from_ref(ip)),
        }
    }
}
