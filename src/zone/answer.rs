//! The choice of an answer: data, NODATA, NXDOMAIN, REFUSED or SERVFAIL. No other module makes this choice.

use std::net::IpAddr;
use std::ops::ControlFlow;

use strum::IntoStaticStr;

use super::reading::{Failure, Reading, View};
use super::walk::{Walk, addresses_of, rtype_of, visit_addresses, visit_srv};
use super::{Name, RecordType, Zone, Zones, read};
use crate::table::{Endpoint, Property, Published};

/// The answer to a question. [`respond`](crate::wire::respond()) handles malformed and unsupported messages earlier.
#[derive(Debug)]
pub enum Answer<'t> {
    /// Rows of one type, at least one.
    Data(View<'t>, RecordType),
    /// The zone's SOA record.
    Soa(&'t Zone),
    /// The zone's NS record.
    Ns(&'t Zone),
    /// This server's addresses, A or AAAA.
    Address(&'t Zone, RecordType),
    /// The version of the Kubernetes DNS specification.
    Text(&'t Zone),
    /// The name exists, but not with this type (RFC 2308 section 2.2).
    NoData(&'t Zone),
    /// The name does not exist (RFC 2308 section 2.1).
    NxDomain(&'t Zone),
    /// The name is in no zone of this server.
    Refused,
    /// There is no table yet.
    NotReady,
    /// A name of a service fails.
    Failed(Failure<'t>),
}

/// The result of a query, as people name it, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE")]
pub enum AnswerResult {
    /// The reply has records.
    NoError,
    /// The name exists, but not with the type.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// The name is in no zone of this server.
    Refused,
    /// The name fails.
    ServFail,
}

/// Answers a question from the current table.
pub fn answer_question<'t>(
    zones: &'t Zones,
    now: &'t Published,
    name: &Name,
    rtype: RecordType,
) -> Answer<'t> {
    match &now.table {
        Some(table) => answer(read(zones, table, name), rtype),
        None if zones.find(name).is_none() => Answer::Refused,
        None => Answer::NotReady,
    }
}

/// Chooses the answer for the meaning of a name.
pub fn answer(reading: Reading<'_>, rtype: RecordType) -> Answer<'_> {
    match reading {
        Reading::Outside => Answer::Refused, // no zone of this server
        Reading::Missing(zone, _) => Answer::NxDomain(zone), // RFC 2308 section 2.1
        Reading::Failing(_, _, failure) if is_of_service(rtype) => Answer::Failed(failure),
        // A resolver that minimizes names (RFC 9156) asks for another type, such as NS, at each name above the one that it
        // needs. If it got SERVFAIL here, it could not resolve `C.S.N.Z`, which does not fail.
        Reading::Failing(zone, ..) => Answer::NoData(zone),
        Reading::Empty(zone) => Answer::NoData(zone), // RFC 8020: names exist below
        Reading::Apex(zone, parent) => match rtype {
            RecordType::DS => Answer::NoData(parent.unwrap_or(zone)), // RFC 4035 section 3.1.4.1
            RecordType::SOA | RecordType::ANY => Answer::Soa(zone),
            RecordType::NS => Answer::Ns(zone),
            _ => Answer::NoData(zone),
        },
        Reading::Version(zone) => match rtype {
            RecordType::TXT | RecordType::ANY => Answer::Text(zone),
            _ => Answer::NoData(zone),
        },
        Reading::NsHost(zone) => {
            match choose_type(rtype, |rtype| own_addresses(zone, *rtype).next().is_some()) {
                Some(rtype) => Answer::Address(zone, rtype),
                None => Answer::NoData(zone),
            }
        }
        Reading::View(zone, view) => {
            match choose_type(rtype, |rtype| has_records(&view, *rtype)) {
                Some(rtype) => Answer::Data(view, rtype),
                None => Answer::NoData(zone), // RFC 2308 section 2.2
            }
        }
    }
}

/// Returns whether a question can return records at service names.
fn is_of_service(rtype: RecordType) -> bool {
    rtype == RecordType::ANY || RecordType::OF_SERVICES.contains(&rtype)
}

/// Chooses the type of an answer: the type of the question, or for ANY the first type with records (RFC 8482 section
/// 4.1).
fn choose_type(rtype: RecordType, owns: impl Fn(&RecordType) -> bool) -> Option<RecordType> {
    let is_asked = |one: &RecordType| rtype == RecordType::ANY || rtype == *one;
    RecordType::OF_SERVICES
        .into_iter()
        .find(|one| is_asked(one) && owns(one))
}

/// Returns the addresses of `ns.dns.Z` of one type.
pub(super) fn own_addresses(zone: &Zone, rtype: RecordType) -> impl Iterator<Item = &IpAddr> {
    zone.ns_addresses
        .iter()
        .filter(move |ip| rtype_of(**ip) == rtype)
}

// === impl Answer ===

impl<'t> Answer<'t> {
    /// Returns the result of the query.
    pub fn result(&self) -> AnswerResult {
        match self {
            Self::NoData(_) => AnswerResult::NoData,
            Self::NxDomain(_) => AnswerResult::NxDomain,
            Self::Refused => AnswerResult::Refused,
            Self::NotReady | Self::Failed(_) => AnswerResult::ServFail,
            _ => AnswerResult::NoError,
        }
    }

    /// Returns the endpoints of the first records of the answer section, at most this many, in the order of the table. Records of the
    /// zone itself have none.
    pub fn endpoints(&self, count: usize) -> Vec<&'t Endpoint> {
        match self {
            Self::Data(view, RecordType::SRV) => {
                let mut endpoints = Vec::new();
                let _ = visit_srv(view, Walk::default(), |index, _, _| {
                    if endpoints.len() == count {
                        return ControlFlow::Break(());
                    }
                    endpoints.push(&view.service.endpoints[index]);
                    ControlFlow::Continue(())
                });
                endpoints
            }
            Self::Data(view, rtype) => view
                .endpoints()
                .flat_map(|endpoint| {
                    addresses_of(endpoint, *rtype, view.scope).map(move |_| endpoint)
                })
                .take(count)
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns why the answer is SERVFAIL, as part of a sentence.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::NotReady => Some("there is no table yet".to_owned()),
            Self::Failed(failure) => Some(failure.to_string()),
            _ => None,
        }
    }
}

/// Returns whether a view has records of a type.
fn has_records(view: &View<'_>, rtype: RecordType) -> bool {
    match rtype {
        RecordType::SRV => !view.members().requiring(Property::WithPorts).is_empty(),
        _ => visit_addresses(view, rtype, Walk::default(), |_| ControlFlow::Break(())).is_break(),
    }
}
