//! [`Reply`] → hickory's records: what the adapter sends, and what other writers are tested against.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::rr::rdata::{A, AAAA, NS, SOA, SRV, TXT};
use hickory_proto::rr::{Name as HickoryName, RData, Record};

use super::query::Query;
use super::respond::{Order, Reply};
use crate::table::{Endpoint, Origin};
use crate::zone::answer::rtype_of;
use crate::zone::print::{DNS_VERSION, SOA_TIMERS, SRV_WEIGHT};
use crate::zone::{Answer, Row, RowData, View, Zone};

/// The records of a reply, section by section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sections {
    /// Answer section.
    pub answers: Vec<Record>,
    /// Authority section: the SOA record of a negative answer (RFC 2308 section 3).
    pub soa: Vec<Record>,
    /// Additional section: addresses of targets.
    pub additionals: Vec<Record>,
}

/// Makes the records of a reply.
pub fn records(reply: &Reply<'_>, query: &Query) -> Sections {
    let mut sections = Sections::default();
    let qname = hickory_name(query.name.wire());
    match &reply.answer {
        None | Some(Answer::Refused | Answer::NotReady) => {}
        Some(Answer::Data(_, view, rtype)) => {
            let rows = arrange(view.rows(*rtype).collect(), reply.order, reply.turn);
            let mut seen = BTreeSet::new();
            for row in rows {
                sections.push_row(&qname, query, view, row, &mut seen);
            }
        }
        Some(Answer::Soa(zone)) => sections.answers.push(soa(zone, reply.serial)),
        Some(Answer::Ns(zone)) => {
            let ns = name_below(zone, b"\x02ns\x03dns");
            sections.answers.push(Record::from_rdata(
                qname,
                zone.ttl,
                RData::NS(NS(ns.clone())),
            ));
            let addresses = zone.ns_addresses.iter();
            sections
                .additionals
                .extend(addresses.map(|ip| address(ns.clone(), zone.ttl, *ip)));
        }
        Some(Answer::Address(zone, rtype)) => {
            let addresses = zone
                .ns_addresses
                .iter()
                .filter(|ip| rtype_of(**ip) == *rtype);
            sections
                .answers
                .extend(addresses.map(|ip| address(qname.clone(), zone.ttl, *ip)));
        }
        Some(Answer::Text(zone)) => {
            let text = RData::TXT(TXT::new(vec![DNS_VERSION.to_owned()]));
            sections
                .answers
                .push(Record::from_rdata(qname, zone.ttl, text));
        }
        Some(Answer::NoData(zone) | Answer::NxDomain(zone)) => {
            sections.soa.push(soa(zone, reply.serial));
        }
    }
    sections
}

impl Sections {
    /// Adds a row, and the addresses of a target that is not in `seen`.
    fn push_row<'t>(
        &mut self,
        qname: &HickoryName,
        query: &Query,
        view: &View<'_>,
        row: Row<'t>,
        seen: &mut BTreeSet<(&'t str, &'t str)>,
    ) {
        let (ttl, endpoint) = (view.service.ttl, row.endpoint);
        match row.data {
            RowData::Address(ip) => self.answers.push(address(qname.clone(), ttl, ip)),
            RowData::Srv(port) => {
                let target = target(query, view, endpoint);
                let srv = RData::SRV(SRV::new(0, SRV_WEIGHT, port, target.clone()));
                self.answers
                    .push(Record::from_rdata(qname.clone(), ttl, srv));
                if seen.insert((endpoint.cluster.as_str(), endpoint.hostname.as_str())) {
                    let ips = endpoint.addresses.iter().map(|own| own.ip);
                    self.additionals
                        .extend(ips.map(|ip| address(target.clone(), ttl, ip)));
                }
            }
        }
    }
}

/// Puts rows into the order that was asked for. `turn` differs from reply to reply.
fn arrange<'t>(rows: Vec<Row<'t>>, order: Order, turn: u32) -> Vec<Row<'t>> {
    let rotate = |mut rows: Vec<Row<'t>>| {
        let by = turn as usize % rows.len().max(1);
        rows.rotate_left(by);
        rows
    };
    match order {
        Order::Stable => rows,
        Order::Rotate => rotate(rows),
        Order::Shuffle => {
            let mut rows = rows;
            let mut state = turn.wrapping_mul(0x9e37_79b9) | 1;
            for last in (1..rows.len()).rev() {
                state = xorshift(state);
                rows.swap(last, state as usize % (last + 1));
            }
            rows
        }
        Order::LocalFirst => {
            let is_local = |row: &Row<'_>| row.endpoint.origin == Origin::Local;
            let (local, remote) = rows.into_iter().partition(is_local);
            [rotate(local), rotate(remote)].concat()
        }
    }
}

/// Steps a generator that is good enough to spread load (Marsaglia 2003); nothing secret depends on it.
fn xorshift(mut state: u32) -> u32 {
    state ^= state << 13;
    state ^= state >> 17;
    state ^ state << 5
}

/// Makes an SRV target: `H.C.` and the question's name from `S` on, lower case.
fn target(query: &Query, view: &View<'_>, endpoint: &Endpoint) -> HickoryName {
    let mut wire = Vec::with_capacity(255);
    for label in [endpoint.hostname.as_str(), endpoint.cluster.as_str()] {
        wire.push(label.len() as u8); // a label has at most 63 octets
        wire.extend(label.as_bytes());
    }
    wire.extend(&query.name.wire()[view.tail..]);
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
