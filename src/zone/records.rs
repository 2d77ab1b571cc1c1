//! Lists the records of an answer. The writer of replies, the conversion to hickory's records, zone files and `explain`
//! all use this list.
//!
//! Names consist of borrowed parts, so that an answer needs no allocation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;

use super::answer::addresses_of;
use super::order::{AnswerOrder, visit_rows};
use super::record_name::RecordName;
use super::zones::NEGATIVE_TTL;
use super::{Answer, Name, RecordType, RowData, View, Zone};
use crate::table::Grammar;

/// Weight of all SRV records (RFC 2782).
pub const SRV_WEIGHT: u16 = 10;

/// Version of the Kubernetes DNS specification at `dns-version.Z`.
const DNS_VERSION: &[u8] = b"1.1.0";
/// Version of the DNS specification of KEP-1645 at `dns-version.Z`, section 2.2.
const MCS_DNS_VERSION: &[u8] = b"1.0.0";

/// REFRESH, RETRY and EXPIRE of the SOA record: two hours, half an hour, one day. There are no secondary servers that
/// use them.
const SOA_TIMERS: [u32; 3] = [7200, 1800, 86400];

/// The context of an answer that determines its records.
#[derive(Clone, Copy, Debug)]
pub struct AnswerContext<'q> {
    /// The name of the question.
    pub question: &'q Name,
    /// SOA serial.
    pub serial: u32,
    /// The order of the rows.
    pub order: AnswerOrder,
    /// A random number, by which the reply has the first row. `None`: all rows, in the order of the table.
    pub turn: Option<u32>,
}

impl<'q> AnswerContext<'q> {
    /// Makes a context with all rows, in the order of the table.
    pub fn new(question: &'q Name, serial: u32) -> Self {
        Self {
            question,
            serial,
            order: AnswerOrder::Rotate,
            turn: None,
        }
    }
}

/// A record of class IN. Only the texts about this server that [`Reply`](crate::wire::Reply) adds have another class.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its section.
    pub section: Section,
    /// Its owner name.
    pub owner: RecordName<'a>,
    /// Its TTL, seconds.
    pub ttl: u32,
    /// Its type and data.
    pub data: Data<'a>,
}

/// A section of a message (RFC 1035 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// One RRset. Its owner is the name of the question.
    Answer,
    /// The SOA record of a negative answer (RFC 2308 section 3).
    Authority,
    /// Addresses of a target, one RRset after the other.
    Additional {
        /// Index of the record in the answer section that has the target.
        of: usize,
    },
}

/// The type and data of a record.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// IPv4 address.
    A(Ipv4Addr),
    /// IPv6 address.
    Aaaa(Ipv6Addr),
    /// Service location: priority 0, weight [`SRV_WEIGHT`].
    Srv {
        /// Port number.
        port: u16,
        /// Name of the host.
        target: RecordName<'a>,
    },
    /// Name server.
    Ns(RecordName<'a>),
    /// Start of authority.
    Soa(Soa<'a>),
    /// One character string.
    Txt(&'a [u8]),
}

/// The data of an SOA record.
#[derive(Clone, Copy, Debug)]
pub struct Soa<'a> {
    zone: &'a Zone,
    serial: u32,
}

// === impl Answer ===

impl Answer<'_> {
    /// Visits the records of the answer section, of the authority section, and of the additional section, until `visit`
    /// breaks.
    pub fn visit_records<'a>(
        &'a self,
        context: AnswerContext<'a>,
        mut visit: impl FnMut(Record<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Self::Data(view, rtype) => visit_view(view, *rtype, context, visit),
            Self::Soa(zone) => visit(Record::soa(Section::Answer, zone, context.serial)),
            Self::Ns(zone) => visit_name_server(zone, context, visit),
            Self::Address(zone, rtype) => addresses_of(zone, *rtype)
                .try_for_each(|ip| visit(Record::answer(context.question, zone.ttl, ip.into()))),
            Self::Text(zone) => {
                let text = match zone.grammar {
                    Grammar::Mcs => MCS_DNS_VERSION,
                    Grammar::Global => DNS_VERSION,
                };
                visit(Record::answer(context.question, zone.ttl, Data::Txt(text)))
            }
            Self::NoData(zone) | Self::NxDomain(zone) => {
                visit(Record::soa(Section::Authority, zone, context.serial))
            }
            Self::Refused | Self::NotReady | Self::Failed(_) => ControlFlow::Continue(()),
        }
    }

    /// Returns the records that [`Answer::visit_records`] visits.
    pub fn records<'a>(&'a self, context: AnswerContext<'a>) -> Vec<Record<'a>> {
        let mut records = Vec::new();
        let _ = self.visit_records(context, |record| {
            records.push(record);
            ControlFlow::Continue(())
        });
        records
    }
}

/// Visits a record for each row and then the addresses of the targets.
fn visit_view<'a>(
    view: &'a View<'_>,
    rtype: RecordType,
    context: AnswerContext<'a>,
    mut visit: impl FnMut(Record<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (question, ttl) = (context.question, view.service.ttl);
    visit_rows(view, rtype, context.order, context.turn, |row| {
        let data = match row.data {
            RowData::Address(ip) => ip.into(),
            RowData::Srv(port) => Data::Srv {
                port,
                target: RecordName::target(view, question, row.endpoint),
            },
        };
        visit(Record::answer(question, ttl, data))
    })?;
    match rtype {
        RecordType::SRV => visit_targets(view, context, visit),
        _ => ControlFlow::Continue(()),
    }
}

/// Visits the addresses of each SRV target, once for its first row.
fn visit_targets<'a>(
    view: &'a View<'_>,
    context: AnswerContext<'a>,
    mut visit: impl FnMut(Record<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (rtype, ttl) = (RecordType::SRV, view.service.ttl);
    let mut number = 0;
    visit_rows(view, rtype, context.order, context.turn, |row| {
        let section = Section::Additional { of: number };
        number += 1;
        if !row.is_first {
            return ControlFlow::Continue(());
        }
        let owner = RecordName::target(view, context.question, row.endpoint);
        let mut visit = |ip: IpAddr| {
            visit(Record {
                section,
                owner,
                ttl,
                data: ip.into(),
            })
        };
        let target = view.target_of(row.endpoint);
        let mut rrsets = [RecordType::A, RecordType::AAAA].into_iter();
        rrsets.try_for_each(|rtype| {
            target.visit_rows(rtype, &mut |row| match row.data {
                RowData::Address(ip) => visit(ip),
                RowData::Srv(_) => ControlFlow::Continue(()),
            })
        })
    })
}

/// Visits the NS record of a zone and the addresses of its target.
fn visit_name_server<'a>(
    zone: &'a Zone,
    context: AnswerContext<'a>,
    mut visit: impl FnMut(Record<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let owner = RecordName::ns_host(zone);
    visit(Record::answer(context.question, zone.ttl, Data::Ns(owner)))?;
    let rrsets = [RecordType::A, RecordType::AAAA].into_iter();
    let mut addresses = rrsets.flat_map(|rtype| addresses_of(zone, rtype));
    addresses.try_for_each(|ip| {
        visit(Record {
            section: Section::Additional { of: 0 },
            owner,
            ttl: zone.ttl,
            data: ip.into(),
        })
    })
}

// === impl Record ===

impl<'a> Record<'a> {
    /// Makes a record of the answer section.
    #[inline]
    pub fn answer(question: &'a Name, ttl: u32, data: Data<'a>) -> Self {
        Self {
            section: Section::Answer,
            owner: RecordName::from_wire(question.wire()),
            ttl,
            data,
        }
    }

    fn soa(section: Section, zone: &'a Zone, serial: u32) -> Self {
        Self {
            section,
            owner: RecordName::from_wire(zone.name.wire()),
            ttl: NEGATIVE_TTL,
            data: Data::Soa(Soa { zone, serial }),
        }
    }
}

// === impl Data ===

impl Data<'_> {
    /// Returns the record type.
    #[inline]
    pub fn rtype(&self) -> RecordType {
        match self {
            Self::A(_) => RecordType::A,
            Self::Aaaa(_) => RecordType::AAAA,
            Self::Srv { .. } => RecordType::SRV,
            Self::Ns(_) => RecordType::NS,
            Self::Soa(_) => RecordType::SOA,
            Self::Txt(_) => RecordType::TXT,
        }
    }
}

impl From<IpAddr> for Data<'_> {
    #[inline]
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::A(ip),
            IpAddr::V6(ip) => Self::Aaaa(ip),
        }
    }
}

// === impl Soa ===

impl<'a> Soa<'a> {
    /// Returns MNAME and RNAME (RFC 1035 section 3.3.13).
    pub fn names(&self) -> [RecordName<'a>; 2] {
        [
            RecordName::ns_host(self.zone),
            RecordName::hostmaster(self.zone),
        ]
    }

    /// Returns SERIAL, REFRESH, RETRY, EXPIRE and MINIMUM.
    pub fn numbers(&self) -> [u32; 5] {
        let [refresh, retry, expire] = SOA_TIMERS;
        [self.serial, refresh, retry, expire, NEGATIVE_TTL]
    }
}
