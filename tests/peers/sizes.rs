//! Answers of every size: TC exactly when records are missing, OPT whenever it was asked for, never half a record, and
//! the whole set in the end, through a CoreDNS too.

mod coredns;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use support::codes::type_name;
use support::differences::assert_none;
use support::objects::{Manifest, local};
use support::reply::rtype::{A, AAAA, SRV};
use support::reply::{Record, Reply};
use support::say::figure;
use support::server::Server;
use support::wire::{Over, ask};

use crate::serve;

/// Around what fits: 29 addresses into 512 octets, 73 into 1,232, 4,092 into 65,535, and less with a longer name.
const COUNTS: [usize; 16] = [
    1, 2, 10, 28, 29, 30, 73, 74, 75, 100, 500, 1000, 4093, 4094, 5000, 10_000,
];

const SIZES: [Option<u16>; 4] = [None, Some(512), Some(1232), Some(4096)];

/// Octets that a reply over UDP takes at most, whatever the client says; the server's default.
const UDP_MAX: u16 = 1232;

const HEADER: usize = 12;
const OPT: usize = 11;
/// A record without its data, when its owner is a pointer.
const RECORD: usize = 12;

/// One service for each count, with both families.
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

/// What is asked: the type, and the size of datagrams that the question says it takes.
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

/// The owner name that is asked for.
fn owner(rtype: u16, count: usize) -> String {
    let prefix = if rtype == SRV { "_sql._tcp." } else { "" };
    format!("{prefix}db-{count}.prod.global.")
}

/// The data of record `n`.
fn data(rtype: u16, count: usize, n: usize) -> String {
    let number = u32::try_from(n + 1).unwrap();
    match rtype {
        A => Ipv4Addr::from(0x0a60_0000 + number).to_string(),
        AAAA => format!("2001:db8::{number:x}"),
        _ => format!("0 10 26257 db-{n}.hub.db-{count}.prod.global."),
    }
}

/// Octets of a record with these data.
fn octets(rtype: u16, data: &str) -> usize {
    RECORD
        + match rtype {
            A => 4,
            AAAA => 16,
            _ => 6 + data.rsplit(' ').next().unwrap().len() + 1,
        }
}

#[test]
fn tc_is_set_exactly_when_records_are_missing_and_opt_is_always_there() {
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
                for over in Over::BOTH {
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
        figure(replies),
        truncated[0],
        truncated[1],
        wrong.len()
    );
    assert_none(&wrong);
    assert_eq!(
        [metric("udp"), metric("tcp")],
        truncated,
        "what the metric counted"
    );
}

/// What is wrong with a reply. That each record is whole, and nothing behind the last, was seen when it was read.
fn faults(asked: Asked, over: Over, all: &BTreeSet<String>, reply: &Reply) -> Vec<String> {
    let limit = usize::from(match (over, asked.edns) {
        (Over::Tcp, _) => u16::MAX,
        (Over::Udp, None) => 512,
        (Over::Udp, Some(size)) => size.clamp(512, UDP_MAX),
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
            "no answer with authority",
        ),
        (reply.octets <= limit, "longer than its limit"),
        (reply.opt.is_some() == asked.edns.is_some(), "OPT"),
        (given.len() == reply.answers.len(), "a record twice"),
        (given.is_subset(all), "a foreign record"),
        (
            reply.is_truncated() != is_complete,
            "TC does not tell whether records are missing",
        ),
        (
            is_complete == (needed <= room),
            "incomplete although there is room",
        ),
        (
            is_complete || room - used < largest,
            "room for another record",
        ),
        (
            is_complete || additional.is_empty(),
            "additional records instead of answers",
        ),
        (
            additional.iter().all(|own| is_of_target(own, all.len())),
            "a foreign additional record",
        ),
        (
            asked.rtype != SRV || all.len() > 1 || additional.len() == 2,
            "no addresses of the only target",
        ),
        (reply.authority.is_empty(), "an authority section"),
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

/// Whether a record is the address of one of the targets.
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
#[ignore = "needs CoreDNS"]
fn the_whole_set_comes_through_coredns_with_and_without_force_tcp() {
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
                let mut reply = ask(front.address, &asked, Over::Udp);
                if reply.is_truncated() {
                    over_tcp += 1;
                    reply = ask(front.address, &asked, Over::Tcp);
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
