//! Converts a [`Reply`] to records of hickory. They are sent over QUIC, and tests compare them with
//! [`write`](super::write()).

use std::ops::ControlFlow;

use hickory_proto::rr::rdata::{A, AAAA, NS, SOA, SRV, TXT};
use hickory_proto::rr::{DNSClass, Name as HickoryName, RData, Record as HickoryRecord};

use super::query::Query;
use super::respond::Reply;
use crate::zone::{Data, Record, RecordName, SRV_WEIGHT, Section};

/// The records of a reply, section by section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sections {
    /// Answer section.
    pub answers: Vec<HickoryRecord>,
    /// Authority section: SOA record of a negative answer (RFC 2308 section 3).
    pub soa: Vec<HickoryRecord>,
    /// Additional section: addresses of targets, grouped by RRset.
    pub additionals: Vec<HickoryRecord>,
}

/// Returns the records of a reply.
pub fn records(reply: &Reply<'_>, query: &Query) -> Sections {
    let mut sections = Sections::default();
    let class = DNSClass::from(reply.class());
    let _ = reply.visit_records(&query.name, |record| {
        let to = match record.section {
            Section::Answer => &mut sections.answers,
            Section::Authority => &mut sections.soa,
            Section::Additional { .. } => &mut sections.additionals,
        };
        to.push(hickory_record(&record, class));
        ControlFlow::Continue(())
    });
    sections
}

fn hickory_record(record: &Record<'_>, class: DNSClass) -> HickoryRecord {
    let data = match record.data {
        Data::A(ip) => RData::A(A(ip)),
        Data::Aaaa(ip) => RData::AAAA(AAAA(ip)),
        Data::Srv { port, target } => {
            RData::SRV(SRV::new(0, SRV_WEIGHT, port, hickory_name(target)))
        }
        Data::Ns(target) => RData::NS(NS(hickory_name(target))),
        Data::Soa(soa) => {
            let ([primary, mailbox], [serial, refresh, retry, expire, minimum]) =
                (soa.names().map(hickory_name), soa.numbers());
            // The timers are a few hours, so they fit.
            let [refresh, retry, expire] = [refresh, retry, expire].map(|timer| timer as i32);
            let soa = SOA::new(primary, mailbox, serial, refresh, retry, expire, minimum);
            RData::SOA(soa)
        }
        Data::Txt(text) => RData::TXT(TXT::from_bytes(vec![text])),
    };
    let mut made = HickoryRecord::from_rdata(hickory_name(record.owner), record.ttl, data);
    made.dns_class = class;
    made
}

/// Converts a name. All names are valid: they come from a question, or were checked at creation.
fn hickory_name(name: RecordName<'_>) -> HickoryName {
    HickoryName::from_labels(name.labels()).unwrap_or_else(|_| HickoryName::root())
}
