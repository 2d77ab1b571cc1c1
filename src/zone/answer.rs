//! The answering algorithm: the only place that chooses between data, NODATA, NXDOMAIN, REFUSED and SERVFAIL.

use std::net::IpAddr;

use super::read::{Reading, Scope, View, same_port};
use super::reverse::Pointers;
use super::{RecordType, Zone};
use crate::mirror::Port;
use crate::table::{Endpoint, Repeats, Table};
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

/// Answers a question about the table that is current, if there is one.
pub fn answer_question<'t>(
    zones: &'t Zones,
    table: Option<&'t Table>,
    name: &Name,
    rtype: RecordType,
) -> Answer<'t> {
    match table {
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
            let owns =
                |rtype: &RecordType| zone.ns_addresses.iter().any(|ip| rtype_of(*ip) == *rtype);
            match choose(rtype, owns) {
                Some(rtype) => Answer::Address(zone, rtype),
                None => Answer::NoData(zone),
            }
        }
        Reading::View(zone, view) => {
            match choose(rtype, |rtype| view.rows(*rtype).next().is_some()) {
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

// === impl View ===

impl<'t> View<'t> {
    /// Returns the rows of one type, each once (RFC 2181 section 5), in the table's order.
    pub fn rows(&self, rtype: RecordType) -> impl Iterator<Item = Row<'t>> + Clone + use<'t> {
        let (scope, asked) = (self.scope, self.port);
        let is_srv = rtype == RecordType::SRV;
        let addresses = move |endpoint: &'t Endpoint| {
            let wanted = endpoint.addresses.iter().filter(move |address| {
                asked.is_none() && rtype_of(address.ip) == rtype && !repeats(address.repeats, scope)
            });
            wanted.map(|address| RowData::Address(address.ip))
        };
        let ports = move |endpoint: &'t Endpoint| {
            let wanted = endpoint
                .ports
                .iter()
                .enumerate()
                .filter(move |(index, port)| {
                    is_srv
                        && match asked {
                            Some(asked) => same_port(port, asked),
                            None => *index == 0 || differs(&endpoint.ports[index - 1], port),
                        }
                });
            wanted.map(|(_, port)| RowData::Srv(port.number))
        };
        self.endpoints().flat_map(move |endpoint| {
            let data = addresses(endpoint).chain(ports(endpoint)).enumerate();
            data.map(move |(index, data)| Row {
                endpoint,
                data,
                is_first: index == 0,
            })
        })
    }
}

/// Tells whether an address was already in the answer, for a name of this scope.
fn repeats(repeats: Repeats, scope: Scope) -> bool {
    match (repeats, scope) {
        (Repeats::Nothing, _) | (_, Scope::Host) | (Repeats::Service, Scope::Cluster) => false,
        (Repeats::Service, Scope::Service) | (Repeats::Cluster, _) => true,
    }
}

/// Ports are sorted by number: two names for one number are one SRV record at the bare name.
fn differs(one: &Port, other: &Port) -> bool {
    one.number != other.number
}
