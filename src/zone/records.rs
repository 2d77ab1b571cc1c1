//! Lists the records of an answer. The writer of replies, the conversion to hickory's records, zone files and `explain`
//! all use this list.
//!
//! Names consist of borrowed parts, so that an answer needs no allocation.

use std::fmt;
use std::ops::ControlFlow;

use super::answer::own_addresses;
use super::name::{labels_of, write_labels};
use super::reading::Targets;
use super::walk::{self, Addresses, Walk, visit_addresses};
use super::zones::NEGATIVE_TTL;
use super::{Answer, Grammar, Name, RecordType, View, Zone};
use crate::model::ServiceKey;
use crate::table::Endpoint;

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
    pub walk: Walk,
}

impl<'q> AnswerContext<'q> {
    /// Makes a context with all records in the order of the table.
    pub fn new(question: &'q Name, serial: u32) -> Self {
        Self {
            question,
            serial,
            walk: Walk::default(),
        }
    }
}

/// A lower-case name in a record, as its parts.
#[derive(Clone, Copy, Debug)]
pub struct RecordName<'a> {
    /// The first labels.
    labels: Labels<'a>,
    /// The rest of the name, in wire format (RFC 1035 section 3.1).
    pub rest: &'a [u8],
}

/// The first labels of a name in a record.
#[derive(Clone, Copy, Debug)]
enum Labels<'a> {
    /// Fixed labels, in wire format.
    Fixed(&'static [u8]),
    /// `H.C` of an endpoint. A cluster IP has no `H`, and that of a federated service no `C` either (rule K2).
    Host(&'a Endpoint),
    /// `H` of an endpoint, if it has one.
    Hostname(&'a Endpoint),
    /// `H.C.S.N` of an endpoint.
    HostOf(&'a Endpoint, &'a ServiceKey),
}

/// A record of class IN, or address records with the same owner. Only the texts about this server that
/// [`Reply`](crate::wire::Reply) adds have another class.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its section.
    pub section: MessageSection,
    /// Its owner name.
    pub owner: RecordName<'a>,
    /// Its TTL, seconds.
    pub ttl: u32,
    /// Its type and data.
    pub data: Data<'a>,
}

/// A section of a message (RFC 1035 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSection {
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
    /// Addresses, each in a record.
    Addresses(Addresses<'a>),
    /// Service location: priority 0, weight [`SRV_WEIGHT`].
    Srv {
        /// Port number.
        port: u16,
        /// Name of the host.
        target: RecordName<'a>,
    },
    /// Name server.
    Ns(RecordName<'a>),
    /// Start of authority: the zone and SERIAL.
    Soa(&'a Zone, u32),
    /// One character string.
    Txt(&'a [u8]),
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
            Self::Data(view, RecordType::SRV) => visit_srv(view, context, visit),
            Self::Data(view, rtype) => visit_addresses(view, *rtype, context.walk, |addresses| {
                let data = Data::Addresses(addresses);
                visit(Record::answer(context.question, view.service.ttl, data))
            }),
            Self::Soa(zone) => visit(Record::soa(MessageSection::Answer, zone, context.serial)),
            Self::Ns(zone) => visit_name_server(zone, context, visit),
            Self::Address(zone, rtype) => own_addresses(zone, *rtype)
                .map(|ip| Data::Addresses(ip.into()))
                .try_for_each(|data| visit(Record::answer(context.question, zone.ttl, data))),
            Self::Text(zone) => {
                let text = match &zone.grammar {
                    Grammar::Mcs => MCS_DNS_VERSION,
                    Grammar::Global | Grammar::Cluster(_) => DNS_VERSION,
                };
                visit(Record::answer(context.question, zone.ttl, Data::Txt(text)))
            }
            Self::NoData(zone) | Self::NxDomain(zone) => {
                visit(Record::soa(MessageSection::Authority, zone, context.serial))
            }
            Self::Refused | Self::NotReady | Self::Failed(_) => ControlFlow::Continue(()),
        }
    }

    /// Returns the records that [`Answer::visit_records`] visits, each address alone.
    pub fn records<'a>(&'a self, context: AnswerContext<'a>) -> Vec<Record<'a>> {
        let mut records = Vec::new();
        let _ = self.visit_records(context, |record| {
            match record.data {
                Data::Addresses(addresses) => records.extend(addresses.each().map(|one| Record {
                    data: Data::Addresses(one),
                    ..record
                })),
                _ => records.push(record),
            }
            ControlFlow::Continue(())
        });
        records
    }
}

/// Visits the SRV records of a view, and then the addresses of each target.
fn visit_srv<'a>(
    view: &'a View<'_>,
    context: AnswerContext<'a>,
    mut visit: impl FnMut(Record<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let question = context.question;
    let ttl = view.service.ttl;
    walk::visit_srv(view, context.walk, |index, port, _| {
        let target = RecordName::target(view, question, index);
        visit(Record::answer(question, ttl, Data::Srv { port, target }))
    })?;
    let mut number = 0;
    walk::visit_srv(view, context.walk, |index, _, is_first| {
        number += 1;
        if !is_first {
            return ControlFlow::Continue(());
        }
        let owner = RecordName::target(view, question, index);
        let target = view.target_of(index);
        let mut rrsets = [RecordType::A, RecordType::AAAA].into_iter();
        rrsets.try_for_each(|rtype| {
            visit_addresses(&target, rtype, Walk::default(), |addresses| {
                visit(Record::additional(number - 1, owner, ttl, addresses))
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
    rrsets
        .flat_map(|rtype| own_addresses(zone, rtype))
        .try_for_each(|ip| visit(Record::additional(0, owner, zone.ttl, ip.into())))
}

// === impl RecordName ===

impl<'a> RecordName<'a> {
    /// Returns the name with this wire format.
    #[inline]
    fn from_wire(rest: &'a [u8]) -> Self {
        Self {
            labels: Labels::Fixed(b""),
            rest,
        }
    }

    /// Returns the name of this server in a zone.
    fn ns_host(zone: &'a Zone) -> Self {
        Self::in_zone(b"\x02ns\x03dns", zone)
    }

    /// Returns MNAME and RNAME of the SOA record of a zone (RFC 1035 section 3.3.13).
    pub fn of_soa(zone: &'a Zone) -> [Self; 2] {
        [Self::ns_host(zone), Self::in_zone(b"\x0ahostmaster", zone)]
    }

    fn in_zone(labels: &'static [u8], zone: &'a Zone) -> Self {
        let labels = Labels::Fixed(labels);
        Self {
            labels,
            rest: zone.name.wire(),
        }
    }

    /// Returns the name of an endpoint as the target of an SRV record.
    #[inline]
    fn target(view: &'a View<'_>, question: &'a Name, index: usize) -> Self {
        let endpoint = &view.service.endpoints[index];
        let (labels, at) = match view.targets {
            Targets::SameFamily(at) => (Labels::Host(endpoint), at),
            Targets::Canonical(at) => (Labels::HostOf(endpoint, &view.service.key), at),
            Targets::Mcs(at) if view.is_shared_target(endpoint) => (Labels::Fixed(b""), at),
            Targets::Mcs(at) => (Labels::Host(endpoint), at),
            Targets::OfCluster(at) => (Labels::Hostname(endpoint), at),
        };
        Self {
            labels,
            rest: &question.wire()[at..],
        }
    }

    /// Returns the first labels: fixed ones in wire format, and `H`, `C`, `S` and `N`. Those that the name does not have are empty.
    #[inline]
    pub fn first_labels(&self) -> (&'static [u8], [&'a str; 4]) {
        let (endpoint, [service, namespace]) = match self.labels {
            Labels::Fixed(labels) => return (labels, [""; 4]),
            Labels::Hostname(endpoint) => return (b"", [endpoint.labels()[0], "", "", ""]),
            Labels::Host(endpoint) => (endpoint, ["", ""]),
            Labels::HostOf(endpoint, key) => (endpoint, key.labels()),
        };
        let [hostname, cluster] = endpoint.labels();
        (b"", [hostname, cluster, service, namespace])
    }

    /// Returns all labels, without the root.
    pub fn labels(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (fixed, own) = self.first_labels();
        let own = own
            .into_iter()
            .map(str::as_bytes)
            .filter(|label| !label.is_empty());
        labels_of(fixed).chain(own).chain(labels_of(self.rest))
    }
}

impl fmt::Display for RecordName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labels(f, self.labels())
    }
}

// === impl Record ===

impl<'a> Record<'a> {
    /// Makes a record of the answer section.
    #[inline]
    pub fn answer(question: &'a Name, ttl: u32, data: Data<'a>) -> Self {
        Self {
            section: MessageSection::Answer,
            owner: RecordName::from_wire(question.wire()),
            ttl,
            data,
        }
    }

    /// Makes the record of an address of a target.
    fn additional(of: usize, owner: RecordName<'a>, ttl: u32, address: Addresses<'a>) -> Self {
        Self {
            section: MessageSection::Additional { of },
            owner,
            ttl,
            data: Data::Addresses(address),
        }
    }

    fn soa(section: MessageSection, zone: &'a Zone, serial: u32) -> Self {
        Self {
            section,
            owner: RecordName::from_wire(zone.name.wire()),
            ttl: NEGATIVE_TTL,
            data: Data::Soa(zone, serial),
        }
    }
}

// === impl Data ===

impl Data<'_> {
    /// Returns the record type.
    #[inline]
    pub fn rtype(&self) -> RecordType {
        match self {
            Self::Addresses(Addresses::V4(_)) => RecordType::A,
            Self::Addresses(Addresses::V6(_)) => RecordType::AAAA,
            Self::Srv { .. } => RecordType::SRV,
            Self::Ns(_) => RecordType::NS,
            Self::Soa(..) => RecordType::SOA,
            Self::Txt(_) => RecordType::TXT,
        }
    }
}

/// Returns SERIAL, REFRESH, RETRY, EXPIRE and MINIMUM of an SOA record.
pub fn soa_numbers(serial: u32) -> [u32; 5] {
    let [refresh, retry, expire] = SOA_TIMERS;
    [serial, refresh, retry, expire, NEGATIVE_TTL]
}
