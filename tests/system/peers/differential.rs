//! Thousands of questions to global-dns, Knot, NSD and BIND with the same zone. Each kind of difference has a reason.

mod questions;
mod servers;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use support::codes::type_number;
use support::differences::assert_none;
use support::names;
use support::output::with_separators;
use support::reply::rtype::{A, AAAA, ANY, SOA, SRV};
use support::reply::{Record, Reply};
use support::server::Server;
use support::wire::{Transport, ask, resolve};

use crate::peers::{serve, zone_of};

const QUESTIONS: usize = 6000;

/// A part of a reply that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Rcode,
    Flags,
    Question,
    Answers,
    Order,
    Authority,
    Additional,
    Opt,
}

/// An expected kind of difference.
struct Explained {
    part: Part,
    kind: &'static str,
    reason: &'static str,
    holds: fn(&Case<'_>) -> bool,
}

/// A question with two replies, the one of global-dns first.
struct Case<'c> {
    zone: &'c Zone,
    question: &'c str,
    peer: &'static str,
    ours: &'c Reply,
    theirs: &'c Reply,
}

/// The expected differences. Any other difference fails the test.
const EXPLAINED: [Explained; 3] = [
    Explained {
        part: Part::Order,
        kind: "rotation",
        reason: "an RRset has no order (RFC 2181 section 5); global-dns rotates it to spread clients of the first address",
        holds: |_| true,
    },
    Explained {
        part: Part::Answers,
        kind: "ANY",
        reason: "global-dns answers with one complete RRset (RFC 8482 section 4.1); the peers with all RRsets or another one",
        holds: |case| {
            let ours: Vec<&Record> = case.ours.answers.iter().collect();
            case.ours.questions[0].rtype == ANY && case.zone.is_rrset(&ours)
        },
    },
    Explained {
        part: Part::Additional,
        kind: "additional section",
        reason: "addresses of targets are optional (RFC 2782): each server adds those that fit, in its own order, or none",
        holds: |case| {
            let targets: Vec<&str> = case.ours.answers.iter().map(target).collect();
            let ours = &case.ours.additional;
            ours.iter().all(|record| {
                matches!(record.rtype, A | AAAA)
                    && targets.contains(&record.owner.as_str())
                    && case.zone.records.contains(record)
            })
        },
    },
];

/// A parsed zone file.
struct Zone {
    records: BTreeSet<Record>,
    owners: BTreeSet<String>,
    /// RRsets that exceed any message and are not given to the peers: owner, type and number of records.
    left_out: Vec<(String, u16, usize)>,
    /// The other RRsets as a zone file.
    text: String,
}

#[test]
fn every_difference_to_knot_nsd_and_bind_is_explained() {
    let (manifest, size) = table::manifest();
    let addresses = "answers.nsAddresses=[192.0.2.53, '2001:db8::53']";
    // Namespace db has all services with ambiguous names, so that these services have short names.
    let short_names = "shortNames.defaultNamespace=db";
    let server = serve(manifest, &[addresses, short_names]);
    let zone = Zone::read(&zone_of(&server, "global"));
    for (owner, rtype, count) in &zone.left_out {
        let count = with_separators(*count);
        println!(
            "peers: left out of the zone file, beyond 64 KiB: {owner} type {rtype}, {count} records"
        );
    }
    assert!(
        !zone.left_out.is_empty(),
        "no service is too large for a message"
    );

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("global.zone");
    fs::write(&file, &zone.text).unwrap();
    let peers = servers::start(&file, folder.path());

    let questions = questions::questions(&zone.owners, &zone.not_asked(), QUESTIONS);
    let mut seen: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    let mut differences = Vec::new();
    let mut rcodes: BTreeMap<u16, usize> = BTreeMap::new();
    for question in &questions {
        let ours = resolve(server.dns, question).in_lower_case();
        *rcodes.entry(ours.rcode).or_default() += 1;
        for peer in &peers {
            let case = Case {
                zone: &zone,
                question,
                peer: peer.name,
                ours: &ours,
                theirs: &resolve(peer.address, question).in_lower_case(),
            };
            for part in case.differing() {
                match explanation(&case, part) {
                    Some(explained) => {
                        let by_peer = seen.entry(explained.kind).or_default();
                        *by_peer.entry(peer.name).or_default() += 1;
                    }
                    None => differences.push(case.to_string(part)),
                }
            }
        }
    }
    check_truncated_rrsets(&server, &zone);
    for explained in &EXPLAINED {
        let Some(count) = seen.get(explained.kind) else {
            continue;
        };
        println!(
            "peers: explained: {} {count:?}: {}",
            explained.kind, explained.reason
        );
    }
    let unused: Vec<&str> = EXPLAINED
        .iter()
        .map(|e| e.kind)
        .filter(|kind| !seen.contains_key(kind))
        .collect();
    println!(
        "peers: differential: {} services, {} endpoints, {} records; {} questions to {} servers (rcodes {rcodes:?}); \
         {} explained kinds of difference; {} unexplained",
        size.services,
        with_separators(size.endpoints),
        with_separators(zone.records.len()),
        with_separators(questions.len()),
        peers.len() + 1,
        seen.len(),
        differences.len(),
    );
    assert_none(&differences);
    assert_eq!(unused, [""; 0], "these explanations match no difference");
}

/// The peers give the answers of the table of owner names if they have the same zone.
#[test]
fn knot_nsd_and_bind_answer_as_the_table_of_owner_names() {
    let server = Server::with_objects(names::sample(), &names::FLAGS);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("global.zone");
    fs::write(&file, zone_of(&server, "global")).unwrap();
    let peers = servers::start(&file, folder.path());
    // The peers answer ANY with all RRsets, and types that no record can have with an error.
    let is_comparable =
        |case: &names::Case| !["ANY", "TYPE0", "TYPE200", "TYPE248"].contains(&&*case.rtype);
    let mut cases = names::cases();
    cases.retain(is_comparable);
    let mut differences: Vec<String> = cases
        .iter()
        .filter_map(|case| case.ask(server.dns))
        .collect();
    for peer in &peers {
        let differing = cases.iter().filter_map(|case| case.ask(peer.address));
        differences.extend(differing.map(|difference| format!("{}: {difference}", peer.name)));
    }
    println!(
        "peers: owner names: {} questions to {} servers; {} differences to the table",
        cases.len(),
        peers.len() + 1,
        differences.len()
    );
    assert_none(&differences);
}

/// Checks the RRsets that the peers do not have: complete records up to the limit of TCP, and TC.
fn check_truncated_rrsets(server: &Server, zone: &Zone) {
    for (owner, rtype, count) in &zone.left_out {
        let question = format!("{owner} TYPE{rtype} +edns");
        let reply = ask(server.dns, &question, Transport::Tcp);
        assert!(reply.is_truncated(), "{owner} {rtype}");
        assert!(reply.answers.len() < *count, "{owner} {rtype}");
        assert!(reply.octets > 65_000, "{owner} {rtype}: {}", reply.octets);
    }
}

fn explanation(case: &Case<'_>, part: Part) -> Option<&'static Explained> {
    EXPLAINED
        .iter()
        .find(|explained| explained.part == part && (explained.holds)(case))
}

fn target(record: &Record) -> &str {
    record.data.rsplit(' ').next().unwrap()
}

// === impl Case ===

impl Case<'_> {
    fn differing(&self) -> Vec<Part> {
        let (ours, theirs) = (self.ours, self.theirs);
        let set = |records: &[Record]| -> BTreeSet<Record> { records.iter().cloned().collect() };
        let same_set = |a: &[Record], b: &[Record]| a.len() == b.len() && set(a) == set(b);
        let same_answers = same_set(&ours.answers, &theirs.answers);
        let parts = [
            (Part::Rcode, ours.rcode == theirs.rcode),
            (
                Part::Flags,
                (ours.bits, ours.opcode) == (theirs.bits, theirs.opcode),
            ),
            (Part::Question, ours.questions == theirs.questions),
            (Part::Answers, same_answers),
            (Part::Order, !same_answers || ours.answers == theirs.answers),
            (
                Part::Authority,
                same_set(&ours.authority, &theirs.authority),
            ),
            (
                Part::Additional,
                same_set(&ours.additional, &theirs.additional),
            ),
            (Part::Opt, edns(ours) == edns(theirs)),
        ];
        let differing = parts.into_iter().filter(|(_, is_same)| !is_same);
        differing.map(|(part, _)| part).collect()
    }

    fn to_string(&self, part: Part) -> String {
        let show = |message: &Reply| match part {
            Part::Rcode => format!("{} {:?}", message.rcode, message.authority),
            Part::Flags => format!("{}, rcode {}", message.flags(), message.rcode),
            Part::Question => format!("{:?}", message.questions),
            Part::Answers | Part::Order => shorten(&message.answers),
            Part::Authority => shorten(&message.authority),
            Part::Additional => shorten(&message.additional),
            Part::Opt => format!("{:?}", message.opt),
        };
        let (question, peer) = (self.question, self.peer);
        let (ours, theirs) = (show(self.ours), show(self.theirs));
        format!("{part:?} of {question}\n  global-dns {ours}\n  {peer:10} {theirs}")
    }
}

/// Returns version and flags of the OPT record. Sizes and options depend on the configuration.
fn edns(reply: &Reply) -> Option<(u8, u16)> {
    let opt = reply.opt.as_ref();
    opt.map(|opt| (opt.version, opt.flags))
}

fn shorten(records: &[Record]) -> String {
    let shown: Vec<String> = records.iter().take(12).map(Record::text).collect();
    format!("{} records: {}", records.len(), shown.join(" | "))
}

// === impl Zone ===

impl Zone {
    fn read(text: &str) -> Self {
        let mut rrsets: BTreeMap<(String, u16), Vec<(&str, Record)>> = BTreeMap::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [owner, ttl, "IN", rtype, data] = fields[..] else {
                panic!("not a record: {line}")
            };
            let rtype = type_number(rtype);
            let record = Record {
                owner: owner.to_owned(),
                rtype,
                class: 1,
                ttl: ttl.parse().unwrap(),
                data: data.to_owned(),
            };
            let rrset = rrsets.entry((owner.to_owned(), rtype)).or_default();
            rrset.push((line, record));
        }
        let mut zone = Self {
            records: BTreeSet::new(),
            owners: BTreeSet::new(),
            left_out: Vec::new(),
            text: String::new(),
        };
        // A zone file starts with the SOA record.
        let apex = rrsets.remove_entry(&("global.".to_owned(), SOA)).unwrap();
        let rrsets: Vec<_> = std::iter::once(apex).chain(rrsets).collect();
        let too_big = |rrset: &[(&str, Record)]| octets(rrset) > 65_535;
        for ((owner, rtype), rrset) in &rrsets {
            if too_big(rrset) {
                zone.left_out.push((owner.clone(), *rtype, rrset.len()));
            }
        }
        let left_out: BTreeSet<&str> = zone
            .left_out
            .iter()
            .map(|(owner, ..)| owner.as_str())
            .collect();
        for ((owner, _), rrset) in &rrsets {
            if left_out.contains(owner.as_str()) {
                continue; // the complete name, so that answers to ANY and NODATA do not change
            }
            zone.owners.insert(owner.clone());
            for (line, record) in rrset {
                zone.text.push_str(line);
                zone.text.push('\n');
                zone.records.insert(record.clone());
            }
        }
        zone
    }

    /// Returns the names that the peers lack: omitted names, and empty non-terminals above them.
    fn not_asked(&self) -> BTreeSet<String> {
        let owners = self.left_out.iter().map(|(owner, ..)| owner.as_str());
        let with_parent = owners.flat_map(|owner| {
            let parent = owner.split_once('.').filter(|_| owner.starts_with('_'));
            [Some(owner), parent.map(|(_, parent)| parent)]
        });
        with_parent.flatten().map(str::to_owned).collect()
    }

    /// Returns whether these records are exactly one RRset.
    fn is_rrset(&self, records: &[&Record]) -> bool {
        let Some(first) = records.first() else {
            return false;
        };
        let key = |record: &Record| (record.owner.clone(), record.rtype);
        let all: BTreeSet<&Record> = self
            .records
            .iter()
            .filter(|record| key(record) == key(first))
            .collect();
        all == records.iter().copied().collect() && all.len() == records.len()
    }
}

/// Returns the size in octets of a message with an RRset, its question and an OPT record.
fn octets(rrset: &[(&str, Record)]) -> usize {
    let data = |record: &Record| match record.rtype {
        A => 4,
        AAAA => 16,
        SRV => 6 + target(record).len() + 1,
        _ => record.data.len(),
    };
    let owner = rrset[0].1.owner.len() + 1;
    12 + owner
        + 4
        + rrset
            .iter()
            .map(|(_, record)| 12 + data(record))
            .sum::<usize>()
        + 11
}
