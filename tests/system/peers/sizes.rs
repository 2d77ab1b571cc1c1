//! Answers of every size through CoreDNS, which forwards the complete set.

pub mod coredns;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use support::codes::type_name;
use support::differences::assert_none;
use support::objects::{Manifest, local};
use support::reply::rtype::{A, AAAA, SRV};
use support::server::Server;
use support::wire::{Transport, ask};

use crate::peers::serve;

/// Numbers of endpoints around the limits: 29 addresses fit into 512 octets, and 73 into 1,232.
const COUNTS: [usize; 12] = [1, 2, 10, 28, 29, 30, 73, 74, 75, 100, 500, 1000];

/// Starts a server with one service for each count, with both address families.
fn server() -> Server {
    let service = |count: usize| {
        let service = local("prod", &format!("db-{count}")).exported();
        (0..count).fold(service, |service, n| {
            let (host, v4, v6) = (format!("db-{n}"), data(A, count, n), data(AAAA, count, n));
            service.pod(Some(&host), Some(&host), &[&v4, &v6], true)
        })
    };
    serve(COUNTS.into_iter().map(service).collect::<Manifest>(), &[])
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

#[test]
fn coredns_forwards_the_complete_set_with_and_without_force_tcp() {
    let server = server();
    for options in ["", "force_tcp"] {
        let front = coredns::start(server.dns, options);
        let (mut questions, mut over_tcp) = (0, 0);
        let mut wrong = Vec::new();
        for count in COUNTS {
            for rtype in [A, AAAA, SRV] {
                let (owner, name) = (owner(rtype, count), type_name(rtype));
                let asked = format!("{owner} {name} +edns");
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
