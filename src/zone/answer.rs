//! The answering algorithm: the only place that chooses between data, NODATA, NXDOMAIN, REFUSED and SERVFAIL.

use std::net::IpAddr;
use std::ops::ControlFlow;

use super::reading::{Pointers, Reading, Scope, View, same_port};
use super::{RecordType, Zone};
use crate::table::{Endpoint, Published, Repeats};
use crate::zone::{Name, Zones, read};

/// What a question gets. Malformed and unsupported messages end earlier, in [`respond`](crate::wire::respond()).
#[derive(Clone, Debug)]
pub enum Answer<'t> {
    /// Rows of one type; there is at least one.
    Data(&'t Zone, View<'t>, RecordType),
    /// The zone's SOA record.
    Soa(&'t Zone),
    /// The zone's NS record.
    Ns(&'t Zone),
    /// This server's addresses, A or AAAA.
    Address(&'t Zone, RecordType),
    /// The version of the Kubernetes DNS specification.
    Text(&'t Zone),
    /// The names of an address.
    Pointers(&'t Zone, Pointers<'t>),
    /// The name exists, but not with this type (RFC 2308 section 2.2).
    NoData(&'t Zone),
    /// The name does not exist (RFC 2308 section 2.1).
    NxDomain(&'t Zone),
    /// Not in our zones.
    Refused,
    /// There is no table yet.
    NotReady,
    /// The table is too old.
    Expired,
}

/// One row of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Row<'t> {
    /// The endpoint that the row is of.
    pub endpoint: &'t Endpoint,
    /// Its data.
    pub data: RowData,
    /// The first row of its endpoint, in the table's order.
    pub is_first: bool,
}

/// The data of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowData {
    /// A or AAAA.
    Address(IpAddr),
    /// SRV: the port number; the target is the endpoint's name.
    Srv(u16),
}

/// Answers a question about what is current.
pub fn answer_question<'t>(
    zones: &'t Zones,
    now: &'t Published,
    name: &Name,
    rtype: RecordType,
) -> Answer<'t> {
    match &now.table {
        // As a secondary server that lost its primary (RFC 1035 section 3.3.13, EXPIRE): the zone as a whole.
        Some(_) if now.is_expired && zones.of(name).is_some() => Answer::Expired,
        Some(table) => answer(read(zones, table, name), rtype),
        None if zones.of(name).is_none() => Answer::Refused,
        None => Answer::NotReady,
    }
}

/// Chooses the answer for a name that has been read.
pub fn answer(reading: Reading<'_>, rtype: RecordType) -> Answer<'_> {
    match reading {
        Reading::Outside => Answer::Refused, // not our zone
        Reading::Missing(zone, _) => Answer::NxDomain(zone), // RFC 2308 section 2.1
        Reading::Empty(zone) => Answer::NoData(zone), // RFC 8020: something exists below
        Reading::Apex(zone) => match rtype {
            RecordType::SOA | RecordType::ANY => Answer::Soa(zone),
            RecordType::NS => Answer::Ns(zone),
            _ => Answer::NoData(zone),
        },
        Reading::Version(zone) => match rtype {
            RecordType::TXT | RecordType::ANY => Answer::Text(zone),
            _ => Answer::NoData(zone),
        },
        Reading::Pointers(zone, pointers) => match rtype {
            RecordType::PTR | RecordType::ANY => Answer::Pointers(zone, pointers),
            _ => Answer::NoData(zone),
        },
        Reading::NsHost(zone) => {
            let owns = |rtype: &RecordType| addresses_of(zone, *rtype).next().is_some();
            match choose(rtype, owns) {
                Some(rtype) => Answer::Address(zone, rtype),
                None => Answer::NoData(zone),
            }
        }
        Reading::View(zone, view) => {
            match choose(rtype, |rtype| view.has_rows(*rtype)) {
                Some(rtype) => Answer::Data(zone, view, rtype),
                None => Answer::NoData(zone), // RFC 2308 section 2.2
            }
        }
    }
}

/// Settles the type of an answer: what was asked for, or for ANY the first type that there is (RFC 8482 section 4.1).
fn choose(rtype: RecordType, owns: impl Fn(&RecordType) -> bool) -> Option<RecordType> {
    match rtype {
        RecordType::ANY => RecordType::OF_SERVICES.into_iter().find(owns),
        rtype => Some(rtype)
            .filter(|rtype| RecordType::OF_SERVICES.contains(rtype))
            .filter(owns),
    }
}

/// Returns the type of an address's record.
pub fn rtype_of(address: IpAddr) -> RecordType {
    match address {
        IpAddr::V4(_) => RecordType::A,
        IpAddr::V6(_) => RecordType::AAAA,
    }
}

/// Returns the addresses of `ns.dns.Z` that are of one type.
pub fn addresses_of(zone: &Zone, rtype: RecordType) -> impl Iterator<Item = IpAddr> {
    let addresses = zone.ns_addresses.iter().copied();
    addresses.filter(move |ip| rtype_of(*ip) == rtype)
}

// === impl View ===

impl<'t> View<'t> {
    /// Visits the rows of one type, each once (RFC 2181 section 5), in the table's order, until `visit` breaks.
    pub fn visit_rows(
        &self,
        rtype: RecordType,
        visit: &mut impl FnMut(Row<'t>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match rtype {
            RecordType::A | RecordType::AAAA if self.port.is_none() => {
                self.visit_addresses(rtype, visit)
            }
            RecordType::SRV => self.visit_ports(visit),
            _ => ControlFlow::Continue(()),
        }
    }

    fn visit_addresses(
        &self,
        rtype: RecordType,
        visit: &mut impl FnMut(Row<'t>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.endpoints().try_for_each(|endpoint| {
            let mut is_first = true;
            for address in &endpoint.addresses {
                if rtype_of(address.ip) == rtype && !repeats(address.repeats, self.scope) {
                    let data = RowData::Address(address.ip);
                    visit(Row {
                        endpoint,
                        data,
                        is_first,
                    })?;
                    is_first = false;
                }
            }
            ControlFlow::Continue(())
        })
    }

    fn visit_ports(&self, visit: &mut impl FnMut(Row<'t>) -> ControlFlow<()>) -> ControlFlow<()> {
        self.endpoints().try_for_each(|endpoint| {
            let mut last = None;
            for port in &endpoint.ports {
                // Ports are sorted by number: two names for one number are one SRV record at the bare name.
                let is_row = match self.port {
                    Some(asked) => same_port(port, asked),
                    None => last != Some(port.number),
                };
                if is_row {
                    let data = RowData::Srv(port.number);
                    let is_first = last.is_none();
                    visit(Row {
                        endpoint,
                        data,
                        is_first,
                    })?;
                    last = Some(port.number);
                }
            }
            ControlFlow::Continue(())
        })
    }

    /// Tells whether there is a row of this type.
    pub fn has_rows(&self, rtype: RecordType) -> bool {
        match (self.own_name(), rtype) {
            (Some(own), RecordType::A) => return !own.v4.is_empty(),
            (Some(own), RecordType::AAAA) => return !own.v6.is_empty(),
            _ => {}
        }
        self.visit_rows(rtype, &mut |_| ControlFlow::Break(()))
            .is_break()
    }
}

/// Tells whether an address was already in the answer, for a name of this scope.
fn repeats(repeats: Repeats, scope: Scope) -> bool {
    match (repeats, scope) {
        (Repeats::Nothing, _) | (_, Scope::Host) | (Repeats::Service, Scope::Cluster) => false,
        (Repeats::Service, Scope::Service) | (Repeats::Cluster, _) => true,
    }
}
