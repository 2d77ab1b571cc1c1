//! The answers for a name, record by record.

use std::ops::ControlFlow;
use std::{array, ptr};

use serde::Serialize;

use super::name::ReadName;
use crate::view::{Cells, ListedEndpoint, Report, text_of};
use crate::wire::records_within;
use crate::zone::answer::answer_question;
use crate::zone::{AnswerContext, MessageSection, Reading, RecordType};

/// The answer for one record type.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::view) struct AnswerReport {
    /// `A`, `AAAA` and `SRV`; at an apex `SOA` and `NS`; at `dns-version` `TXT`.
    rtype: String,
    /// `NOERROR`, `NODATA`, `NXDOMAIN`, `REFUSED`, `SERVFAIL`.
    result: &'static str,
    /// TTL of the records, or of the negative answer, in seconds.
    ttl: Option<u32>,
    /// Why it is SERVFAIL: the text of the extended error, or what its code means.
    reason: Option<String>,
    /// The number of records, and how many of them fit into a reply: over UDP with `answers.udpMax` octets, and over TCP.
    count: usize,
    over_udp: usize,
    over_tcp: usize,
    /// The first records.
    pub records: Vec<RecordReport>,
}

/// One record of an answer. Joined with tabs and the class, its fields are a line of a zone file.
#[derive(Serialize)]
pub(in crate::view) struct RecordReport {
    /// Owner name, with the final dot.
    name: String,
    /// Type, such as `A`.
    #[serde(rename = "type")]
    pub rtype: String,
    /// TTL, seconds.
    ttl: u32,
    /// Data, as in a zone file (RFC 1035 section 5.1).
    pub data: String,
    /// The index of the endpoint that the record comes from.
    endpoint: Option<usize>,
}

/// Maximum length of a reply over TCP, in octets.
const TCP_LIMIT: usize = u16::MAX as usize;

// === impl AnswerReport ===

impl AnswerReport {
    /// Returns the answers of the types that a name can have, each with as many records as a page has rows.
    pub(super) fn all(name: &ReadName<'_>) -> Vec<Self> {
        let types: &[RecordType] = match &name.reading {
            Reading::Apex(..) => &[RecordType::SOA, RecordType::NS],
            Reading::Version(_) => &[RecordType::TXT],
            _ => &RecordType::OF_SERVICES,
        };
        types.iter().map(|rtype| Self::new(name, *rtype)).collect()
    }

    fn new(name: &ReadName<'_>, rtype: RecordType) -> Self {
        let (zones, published) = (&name.shown.server.zones, &name.shown.published);
        let answer = answer_question(zones, published, name.name, rtype);
        let page = name.shown.filter.page_size();
        let sources = answer.endpoints(page);
        let (mut records, mut ttl, mut count) = (Vec::new(), None, 0);
        let _ = answer.visit_each(AnswerContext::new(name.name, published.serial), |record| {
            ttl = ttl.or(Some(record.ttl));
            if record.section != MessageSection::Answer {
                return ControlFlow::Break(());
            }
            if count < page {
                // Those that are returned come first, in the same order.
                let source = sources.get(count).map(|one| ptr::from_ref(*one));
                let is_source = |one: &ListedEndpoint<'_>| source == Some(one.endpoint);
                let endpoint = name.endpoints.iter().position(is_source);
                records.push(RecordReport::of_line(&record.to_string(), endpoint));
            }
            count += 1;
            ControlFlow::Continue(())
        });
        // Clients announce so much.
        let udp_max = name.shown.server.settings["answers"]["udpMax"]
            .as_u64()
            .and_then(|max| max.try_into().ok());
        let fitting = |limit| records_within(&answer, name.name, limit);
        Self {
            rtype: rtype.to_string(),
            result: answer.result().into(),
            ttl,
            reason: answer.failure(),
            records,
            count,
            over_udp: fitting(udp_max.unwrap_or(TCP_LIMIT)),
            over_tcp: fitting(TCP_LIMIT),
        }
    }

    /// Returns the number of records, and how many of them fit into a reply if not all do.
    fn sizes(&self) -> String {
        let (count, over_udp, over_tcp) = (self.count, self.over_udp, self.over_tcp);
        if count == 0 {
            String::new()
        } else if over_tcp < count {
            format!("{over_tcp} of {count} over TCP, {over_udp} over UDP (TC)")
        } else if over_udp < count {
            format!("{count}, {over_udp} over UDP (TC)")
        } else {
            count.to_string()
        }
    }
}

impl Report for AnswerReport {
    fn cells(columns: Cells<Self>) -> Cells<Self> {
        columns
            .text("TYPE", |one| one.rtype.clone())
            .text("RESULT", |one| one.result.to_owned())
            .text("TTL", |one| text_of(one.ttl.as_ref()))
            .text("RECORDS", Self::sizes)
            .text("REASON", |one| one.reason.clone().unwrap_or_default())
    }
}

// === impl RecordReport ===

impl RecordReport {
    /// Reads a line of a zone file.
    pub(in crate::view) fn of_line(line: &str, endpoint: Option<usize>) -> Self {
        let mut parts = line.splitn(5, '\t').map(str::to_owned);
        let [name, ttl, _, rtype, data] = array::from_fn(|_| parts.next().unwrap_or_default());
        Self {
            name,
            rtype,
            ttl: ttl.parse().unwrap_or_default(),
            data,
            endpoint,
        }
    }
}
