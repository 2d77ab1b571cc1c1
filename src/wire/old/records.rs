//! [`Reply`] → hickory's records: what [`write`](super::write()) is tested against.

use std::net::IpAddr;
use std::ops::ControlFlow;

use hickory_proto::rr::rdata::{A, AAAA, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{DNSClass, Name as HickoryName, RData, Record};

use super::order::visit_rows;
use crate::wire::query::Query;
use crate::wire::respond::{Body, Reply};
use crate::table::Endpoint;
use crate::zone::answer::addresses_of;
use super::print::{DNS_VERSION, SOA_TIMERS, SRV_WEIGHT};
use crate::zone::{Answer, RecordType, Row, RowData, View, Zone, ZoneKind};

/// The records of a reply, section by section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sections {
    /// Answer section.
    pub answers: Vec<Record>,
    /// Authority section: the SOA record of a negative answer (RFC 2308 section 3).
    pub soa: Vec<Record>,
    /// Additional section: addresses of targets, RRset after RRset.
    pub additionals: Vec<Record>,
}

/// Makes the records of a reply.
pub fn records(reply: &Reply<'_>, query: &Query) -> Sections {
    let mut sections = Sections::default();
    let qname = hickory_name(query.name.wire());
    let answer = match &reply.body {
        Body::Code | Body::ByTcp => return sections,
        Body::Chaos(text) => {
            let text = RData::TXT(TXT::from_bytes(vec![text]));
            let mut record = Record::from_rdata(qname, 0, text);
            record.dns_class = DNSClass::CH;
            sections.answers.push(record);
            return sections;
        }
        Body::Answer(answer) => answer,
    };
    match answer {
        Answer::Refused | Answer::NotReady | Answer::Expired => {}
        Answer::Data(_, view, rtype) => {
            let _ = visit_rows(view, *rtype, reply.order, reply.turn, |row| {
                sections.push_row(&qname, query, view, row);
                ControlFlow::Continue(())
            });
        }
        Answer::Soa(zone) => sections.answers.push(soa(zone, reply.serial)),
        Answer::Ns(zone) => {
            let ns = name_below(zone, b"\x02ns\x03dns");
            sections.answers.push(Record::from_rdata(
                qname,
                zone.ttl,
                RData::NS(NS(ns.clone())),
            ));
            let rrsets = [RecordType::A, RecordType::AAAA].map(|rtype| addresses_of(zone, rtype));
            sections.additionals.extend(
                rrsets
                    .into_iter()
                    .flatten()
                    .map(|ip| address(ns.clone(), zone.ttl, ip)),
            );
        }
        Answer::Address(zone, rtype) => {
            sections
                .answers
                .extend(addresses_of(zone, *rtype).map(|ip| address(qname.clone(), zone.ttl, ip)));
        }
        Answer::Text(zone) => {
            let text = RData::TXT(TXT::new(vec![DNS_VERSION.to_owned()]));
            sections
                .answers
                .push(Record::from_rdata(qname, zone.ttl, text));
        }
        Answer::Pointers(zone, pointers) => {
            let ZoneKind::Reverse(below) = &zone.kind else {
                return sections;
            };
            let ttl = pointers.ttl();
            sections
                .answers
                .extend(pointers.endpoints().map(|(service, endpoint)| {
                    let [name, namespace] = service.key.labels();
                    let (host, cluster) = (endpoint.hostname.as_str(), endpoint.cluster.as_str());
                    let labels = [host, cluster, name, namespace];
                    let mut wire: Vec<u8> = Vec::new();
                    for label in labels {
                        wire.push(label.len() as u8); // a label has at most 63 octets
                        wire.extend(label.as_bytes());
                    }
                    wire.extend(below.wire());
                    let target = RData::PTR(PTR(hickory_name(&wire)));
                    Record::from_rdata(qname.clone(), ttl, target)
                }));
        }
        Answer::NoData(zone) | Answer::NxDomain(zone) => {
            sections.soa.push(soa(zone, reply.serial));
        }
    }
    sections
}

impl Sections {
    fn push_row(&mut self, qname: &HickoryName, query: &Query, view: &View<'_>, row: Row<'_>) {
        let (ttl, endpoint) = (view.service.ttl, row.endpoint);
        match row.data {
            RowData::Address(ip) => self.answers.push(address(qname.clone(), ttl, ip)),
            RowData::Srv(port) => {
                let target = target(query, view, endpoint);
                let srv = RData::SRV(SRV::new(0, SRV_WEIGHT, port, target.clone()));
                self.answers
                    .push(Record::from_rdata(qname.clone(), ttl, srv));
                if row.is_first {
                    let ips = endpoint.addresses.iter().map(|own| own.ip);
                    self.additionals
                        .extend(ips.map(|ip| address(target.clone(), ttl, ip)));
                }
            }
        }
    }
}

/// Makes an SRV target, lower case.
fn target(query: &Query, view: &View<'_>, endpoint: &Endpoint) -> HickoryName {
    let mut wire = Vec::with_capacity(255);
    for label in [endpoint.hostname.as_str(), endpoint.cluster.as_str()] {
        wire.push(label.len() as u8); // a label has at most 63 octets
        wire.extend(label.as_bytes());
    }
    wire.extend(&*super::target_tail(view, &query.name));
    hickory_name(&wire)
}

fn soa(zone: &Zone, serial: u32) -> Record {
    let (refresh, retry, expire) = SOA_TIMERS;
    let soa = SOA::new(
        name_below(zone, b"\x02ns\x03dns"),
        name_below(zone, b"\x0ahostmaster"),
        serial,
        refresh as i32, // a few hours
        retry as i32,
        expire as i32,
        zone.negative_ttl,
    );
    Record::from_rdata(
        hickory_name(zone.name.wire()),
        zone.negative_ttl,
        RData::SOA(soa),
    )
}

fn address(owner: HickoryName, ttl: u32, ip: IpAddr) -> Record {
    let data = match ip {
        IpAddr::V4(ip) => RData::A(A(ip)),
        IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
    };
    Record::from_rdata(owner, ttl, data)
}

fn name_below(zone: &Zone, labels: &[u8]) -> HickoryName {
    hickory_name(&[labels, zone.name.wire()].concat())
}

/// Converts a name in wire format. Ours are valid: they were read from a question or checked when they were made.
fn hickory_name(wire: &[u8]) -> HickoryName {
    let mut labels = Vec::new();
    let mut rest = wire;
    while let [length @ 1..=63, after @ ..] = rest {
        let (label, after) = after.split_at(usize::from(*length).min(after.len()));
        labels.push(label);
        rest = after;
    }
    HickoryName::from_labels(labels).unwrap_or_else(|_| HickoryName::root())
}
