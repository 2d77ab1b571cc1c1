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
    /// The first labels. Those that the name does not have are empty: a cluster IP has no `H`, and that of a federated service no `C`
    /// either (rule K2).
    pub labels: [&'a str; 4],
    /// The rest of the name, in wire format (RFC 1035 section 3.1).
    pub rest: &'a [u8],
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
            Self::Ns(zone) => {
                let owner = RecordName::ns_host(zone);
                visit(Record::answer(context.question, zone.ttl, Data::Ns(owner)))?;
                let rrsets = [RecordType::A, RecordType::AAAA].into_iter();
                rrsets
                    .flat_map(|rtype| own_addresses(zone, rtype))
                    .try_for_each(|ip| visit(Record::additional(0, owner, zone.ttl, ip.into())))
            }
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

    /// Visits the records that [`Answer::visit_records`] visits, each address alone.
    pub fn visit_each<'a>(
        &'a self,
        context: AnswerContext<'a>,
        mut visit: impl FnMut(Record<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.visit_records(context, |record| match record.data {
            Data::Addresses(addresses) => addresses.each().try_for_each(|one| {
                let data = Data::Addresses(one);
                visit(Record { data, ..record })
            }),
            _ => visit(record),
        })
    }

    /// Returns the records that [`Answer::visit_each`] visits. A service can have millions.
    pub fn records<'a>(&'a self, context: AnswerContext<'a>) -> Vec<Record<'a>> {
        let mut records = Vec::new();
        let _ = self.visit_each(context, |record| {
            records.push(record);
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

// === impl RecordName ===

impl<'a> RecordName<'a> {
    /// Returns the name with this wire format.
    #[inline]
    fn from_wire(rest: &'a [u8]) -> Self {
        Self {
            labels: [""; 4],
            rest,
        }
    }

    /// Returns the name of this server in a zone.
    fn ns_host(zone: &'a Zone) -> Self {
        Self {
            labels: ["ns", "dns", "", ""],
            rest: zone.name.wire(),
        }
    }

    /// Returns MNAME and RNAME of the SOA record of a zone (RFC 1035 section 3.3.13).
    pub fn of_soa(zone: &'a Zone) -> [Self; 2] {
        let mailbox = Self {
            labels: ["hostmaster", "", "", ""],
            rest: zone.name.wire(),
        };
        [Self::ns_host(zone), mailbox]
    }

    /// Returns the name of an endpoint as the target of an SRV record.
    #[inline]
    fn target(view: &'a View<'_>, question: &'a Name, index: usize) -> Self {
        let endpoint = &view.service.endpoints[index];
        let [host, cluster] = endpoint.labels();
        let (labels, at) = match view.targets {
            Targets::Canonical(at) => {
                let [service, namespace] = view.service.key.labels();
                ([host, cluster, service, namespace], at)
            }
            Targets::Mcs(at) if view.is_shared_target(endpoint) => ([""; 4], at),
            Targets::SameFamily(at) | Targets::Mcs(at) => ([host, cluster, "", ""], at),
            Targets::OfCluster(at) => ([host, "", "", ""], at),
        };
        Self {
            labels,
            rest: &question.wire()[at..],
        }
    }

    /// Returns all labels, without the root.
    pub fn all_labels(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let own = self.labels.into_iter().map(str::as_bytes);
        let own = own.filter(|label| !label.is_empty());
        own.chain(labels_of(self.rest))
    }
}

impl fmt::Display for RecordName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labels(f, self.all_labels())
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
