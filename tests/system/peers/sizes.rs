//! Answers of every size: TC is set exactly if records are missing, OPT is present if the query has it, no record is
//! incomplete, and CoreDNS also forwards the complete set.

pub mod coredns;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use support::codes::type_name;
use support::differences::assert_none;
use support::objects::{Manifest, local};
use support::output::with_separators;
use support::reply::rtype::{A, AAAA, SRV};
use support::reply::{Record, Reply};
use support::server::Server;
use support::wire::{Transport, ask};

use crate::peers::serve;

/// Numbers of endpoints around the limits: 29 addresses fit into 512 octets, 73 into 1,232, 4,092 into 65,535, and
/// fewer with a longer name.
const COUNTS: [usize; 16] = [
    1, 2, 10, 28, 29, 30, 73, 74, 75, 100, 500, 1000, 4093, 4094, 5000, 10_000,
];

const SIZES: [Option<u16>; 4] = [None, Some(512), Some(1232), Some(4096)];

/// The server's default of the maximum UDP reply in octets, which no client can increase.
const UDP_MAX: u16 = 1232;

const HEADER: usize = 12;
const OPT: usize = 11;
/// Size of a record without its data, with a compressed owner name.
const RECORD: usize = 12;

/// Starts a server with one service for each count, with both address families.
fn server(counts: &[usize]) -> Server {
    let service = |count: &usize| {
        let service = local("prod", &format!("db-{count}")).exported();
        (0..*count).fold(service, |service, n| {
            let (host, v4, v6) = (format!("db-{n}"), data(A, *count, n), data(AAAA, *count, n));
            service.pod(Some(&host), Some(&host), &[&v4, &v6], true)
        })
    };
    serve(counts.iter().map(service).collect::<Manifest>(), &[])
}

/// A query: its type, its number of endpoints, and its EDNS size.
#[derive(Clone, Copy)]
struct Asked {
    count: usize,
    rtype: u16,
    edns: Option<u16>,
}

// === impl Asked ===

impl Asked {
    fn question(self) -> String {
        let (owner, rtype) = (owner(self.rtype, self.count), type_name(self.rtype));
        let size = self.edns.map(|size| format!(" +bufsize={size}"));
        format!("{owner} {rtype}{}", size.unwrap_or_default())
    }
}

/// Returns the owner name of a query.
fn owner(rtype: u16, count: usize) -> String {
    let prefix = if rtype == SRV { "_sql._tcp." } else { "" };
    format!("{prefix}db-{count}.prod.global.")
}

/// Returns the data of record `n`.
fn data(rtype: u16, count: usize, n: usize) -> String {
    let number = u32::try_from(n + 1).unwrap();
    match rtype {
        A => Ipv4Addr::from(0x0a60_0000 + number).to_string(),
        AAAA => format!("2001:db8::{number:x}"),
        _ => format!("0 10 26257 db-{n}.hub.db-{count}.prod.global."),
    }
}

/// Returns the size of a record with this data in octets.
fn octets(rtype: u16, data: &str) -> usize {
    RECORD
        + match rtype {
            A => 4,
            AAAA => 16,
            _ => 6 + data.rsplit(' ').next().unwrap().len() + 1,
        }
}

#[test]
fn tc_is_set_exactly_if_records_are_missing() {
    let server = server(&COUNTS);
    let metric = |proto: &str| {
        let labels = format!("{{proto=\"{proto}\"}}");
        server.count(&format!("global_dns_truncated_responses_total{labels}"))
    };
    assert_eq!((metric("udp"), metric("tcp")), (0, 0));
    let (mut replies, mut truncated) = (0, [0, 0]);
    let mut wrong = Vec::new();
    for count in COUNTS {
        for rtype in [A, AAAA, SRV] {
            let all: BTreeSet<String> = (0..count).map(|n| data(rtype, count, n)).collect();
            for edns in SIZES {
                for over in Transport::BOTH {
                    let asked = Asked { count, rtype, edns };
                    let reply = ask(server.dns, &asked.question(), over);
                    replies += 1;
                    truncated[over as usize] += u64::from(reply.is_truncated());
                    let faults = faults(asked, over, &all, &reply);
                    wrong.extend(faults.iter().map(|fault| {
                        format!("{count} endpoints, type {rtype}, EDNS {edns:?}, {over:?}: {fault}")
                    }));
                }
            }
        }
    }
    println!(
        "peers: sizes: {} replies, truncated {} over UDP and {} over TCP, {} wrong",
        with_separators(replies),
        truncated[0],
        truncated[1],
        wrong.len()
    );
    assert_none(&wrong);
    assert_eq!(
        [metric("udp"), metric("tcp")],
        truncated,
        "the metric differs from the number of truncated replies"
    );
}

/// Returns the errors of a reply. The parser has already checked for incomplete records and trailing octets.
fn faults(asked: Asked, over: Transport, all: &BTreeSet<String>, reply: &Reply) -> Vec<String> {
    let limit = usize::from(match (over, asked.edns) {
        (Transport::Tcp, _) => u16::MAX,
        (Transport::Udp, None) => 512,
        (Transport::Udp, Some(size)) => size.clamp(512, UDP_MAX),
    });
    let opt = if asked.edns.is_some() { OPT } else { 0 };
    let question = owner(asked.rtype, asked.count).len() + 1 + 4;
    let room = limit - HEADER - question - opt;
    let size = |data: &str| octets(asked.rtype, data);
    let (needed, largest) = all.iter().fold((0, 0), |(sum, largest), data| {
        (sum + size(data), size(data).max(largest))
    });
    let given: BTreeSet<String> = reply.data().into_iter().map(str::to_owned).collect();
    let used: usize = reply.data().into_iter().map(size).sum();
    let additional = &reply.additional;
    let is_complete = given == *all;
    let checks = [
        (
            reply.rcode == 0 && reply.is_authoritative(),
            "the answer is not authoritative",
        ),
        (reply.octets <= limit, "the reply exceeds its limit"),
        (reply.opt.is_some() == asked.edns.is_some(), "OPT"),
        (given.len() == reply.answers.len(), "a duplicate record"),
        (given.is_subset(all), "an unexpected record"),
        (
            reply.is_truncated() != is_complete,
            "TC does not match the missing records",
        ),
        (
            is_complete == (needed <= room),
            "records are missing although all fit",
        ),
        (
            is_complete || room - used < largest,
            "another record would fit",
        ),
        (
            is_complete || additional.is_empty(),
            "additional records, but missing answers",
        ),
        (
            additional.iter().all(|own| is_of_target(own, all.len())),
            "an unexpected additional record",
        ),
        (
            asked.rtype != SRV || all.len() > 1 || additional.len() == 2,
            "the addresses of the only target are missing",
        ),
        (reply.authority.is_empty(), "unexpected authority section"),
    ];
    let faults = checks.into_iter().filter(|(is_right, _)| !is_right);
    let numbers = format!(
        "{} of {} records, {} octets of {limit}, TC {}",
        given.len(),
        all.len(),
        reply.octets,
        reply.is_truncated()
    );
    faults
        .map(|(_, fault)| format!("{fault}: {numbers}"))
        .collect()
}

/// Returns whether a record is an address of one of the targets.
fn is_of_target(record: &Record, count: usize) -> bool {
    let n = record.owner.trim_start_matches("db-").split('.').next();
    let n = n
        .and_then(|n| n.parse::<usize>().ok())
        .filter(|n| *n < count);
    n.is_some_and(|n| {
        let owner = format!("db-{n}.hub.{}", owner(A, count));
        (&record.owner, &record.data) == (&owner, &data(record.rtype, count, n))
    })
}

#[test]
fn coredns_forwards_the_complete_set_with_and_without_force_tcp() {
    let counts: Vec<usize> = COUNTS.into_iter().filter(|count| *count <= 1000).collect();
    let server = server(&counts);
    for options in ["", "force_tcp"] {
        let front = coredns::start(server.dns, options);
        let (mut questions, mut over_tcp) = (0, 0);
        let mut wrong = Vec::new();
        for &count in &counts {
            for rtype in [A, AAAA, SRV] {
                let edns = Some(1232);
                let asked = Asked { count, rtype, edns }.question();
                let mut reply = ask(front.address, &asked, Transport::Udp);
                if reply.is_truncated() {
                    over_tcp += 1;
                    reply = ask(front.address, &asked, Transport::Tcp);
                }
                questions += 1;
                let all: BTreeSet<String> = (0..count).map(|n| data(rtype, count, n)).collect();
                let given: BTreeSet<String> = reply.data().into_iter().map(str::to_owned).collect();
                if given != all || reply.is_truncated() || reply.answers.len() != count {
                    let (got, octets) = (reply.answers.len(), reply.octets);
                    let tc = reply.is_truncated();
                    wrong.push(format!(
                        "{count} endpoints, type {rtype}, '{options}': {got} records, {octets} octets, TC {tc}"
                    ));
                }
            }
        }
        println!(
            "peers: CoreDNS, forward with '{options}': {questions} questions, {over_tcp} of them over TCP, {} wrong",
            wrong.len()
        );
        assert!(over_tcp > 0);
        assert_none(&wrong);
    }
}
