//! Names and their records: both families, the apex, and what does not exist.

use super::{FLAGS, sample};
use crate::support::ask::{Expect, Over, check, nodata, nxdomain, question, rrset};
use crate::support::binary::{Await, Server, global_dns};
use crate::support::objects::mirror;

const DB: [&str; 5] = [
    "10.96.1.1",
    "10.96.1.2",
    "10.96.2.1",
    "192.0.2.1",
    "192.0.2.9",
];

/// SRV data of `prod/db`: every endpoint and port, below a base name.
fn srv(base: &str, hosts_and_ports: &[(&str, u16)]) -> Vec<String> {
    let data = hosts_and_ports.iter();
    data.map(|(host, port)| format!("0 10 {port} {host}.{base}"))
        .collect()
}

fn srv_set(owner: &str, base: &str, hosts_and_ports: &[(&str, u16)]) -> Expect {
    let data = srv(base, hosts_and_ports);
    rrset(
        owner,
        "5 SRV",
        &data.iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

#[test]
fn both_families_answer_for_services_clusters_hosts_and_their_ports() {
    let server = Server::of(sample(), &FLAGS);
    for base in ["db.prod.global.", "db.global."] {
        let all = [
            ("db-0.east", 26257),
            ("db-1.east", 26257),
            ("db-0.west", 26257),
            ("db-0.hub", 26257),
            ("192-0-2-9.hub", 26257),
            ("db-0.east", 7946),
            ("db-1.east", 7946),
        ];
        let (sql, gossip) = (&all[..5], &all[5..]);
        let east = [all[0], all[1], all[5], all[6]];
        let srv_case = |owner: &str, data: &[(&str, u16)]| srv_set(owner, base, data);
        let name = |prefix: &str| format!("{prefix}{base}");
        let mut cases = vec![
            ("all: A", name(""), "A", rrset(base, "5 A", &DB)),
            (
                "all: AAAA",
                name(""),
                "AAAA",
                rrset(base, "5 AAAA", &["2001:db8::1"]),
            ),
            ("all: SRV", name(""), "SRV", srv_case(base, &all)),
        ];
        let mut add = |what, prefix: &str, rtype, expect: &dyn Fn(&str) -> Expect| {
            let owner = name(prefix);
            let expected = expect(&owner);
            cases.push((what, owner, rtype, expected));
        };
        add("a cluster: A", "east.", "A", &|o| rrset(o, "5 A", &DB[..2]));
        add("a cluster: AAAA", "east.", "AAAA", &|o| {
            rrset(o, "5 AAAA", &["2001:db8::1"])
        });
        add("a cluster: SRV", "east.", "SRV", &|o| srv_case(o, &east));
        add("a cluster without IPv6", "west.", "AAAA", &|_| nodata());
        add("this cluster", "hub.", "A", &|o| rrset(o, "5 A", &DB[3..]));
        add("no such cluster", "south.", "A", &|_| nxdomain());
        add("a host: A", "db-0.east.", "A", &|o| {
            rrset(o, "5 A", &DB[..1])
        });
        add("a host: AAAA", "db-0.east.", "AAAA", &|o| {
            rrset(o, "5 AAAA", &["2001:db8::1"])
        });
        add("a host: SRV", "db-0.west.", "SRV", &|o| {
            srv_case(o, &[("db-0.west", 26257)])
        });
        add("a host without name", "192-0-2-9.hub.", "A", &|o| {
            rrset(o, "5 A", &DB[4..])
        });
        add("a host without IPv6", "db-1.east.", "AAAA", &|_| nodata());
        add("a host of another cluster", "db-1.west.", "A", &|_| {
            nxdomain()
        });
        add("a host that is not ready", "db-2.hub.", "A", &|_| {
            nxdomain()
        });
        add("a host by its address", "10-96-1-1.east.", "A", &|_| {
            nxdomain()
        });
        add("a host without cluster", "db-1.", "A", &|_| nxdomain());
        add("a port: SRV", "_sql._tcp.", "SRV", &|o| srv_case(o, sql));
        add("a port over UDP", "_gossip._udp.", "SRV", &|o| {
            srv_case(o, gossip)
        });
        add("a port: A", "_sql._tcp.", "A", &|_| nodata());
        add("a port: AAAA", "_sql._tcp.", "AAAA", &|_| nodata());
        add("a port of the other protocol", "_sql._udp.", "SRV", &|_| {
            nxdomain()
        });
        add("no such port", "_http._tcp.", "SRV", &|_| nxdomain());
        add("a port of a cluster", "_sql._tcp.west.", "SRV", &|o| {
            srv_case(o, &all[2..3])
        });
        add(
            "a port that a cluster lacks",
            "_gossip._udp.west.",
            "SRV",
            &|_| nxdomain(),
        );
        add("a port of a host", "_gossip._udp.db-1.east.", "SRV", &|o| {
            srv_case(o, &all[6..])
        });
        add(
            "a port that a host lacks",
            "_gossip._udp.db-0.hub.",
            "SRV",
            &|_| nxdomain(),
        );
        add("a port of no host", "_sql._tcp.db-9.east.", "SRV", &|_| {
            nxdomain()
        });
        add("a protocol alone", "_tcp.", "SRV", &|_| nodata());
        add("a protocol alone: A", "_udp.", "A", &|_| nodata());
        add(
            "a protocol that a cluster lacks",
            "_udp.west.",
            "SRV",
            &|_| nxdomain(),
        );
        add("a protocol of a host", "_udp.db-0.east.", "SRV", &|_| {
            nodata()
        });
        add("no such protocol", "_sctp.", "SRV", &|_| nxdomain());
        add("an underscore too much", "_x._sql._tcp.", "SRV", &|_| {
            nxdomain()
        });
        add("an underscore missing", "_sql.tcp.", "SRV", &|_| nxdomain());
        add(
            "a port below a host's place",
            "db-0._sql._tcp.",
            "SRV",
            &|_| nxdomain(),
        );
        add("deeper than any name", "x.db-0.east.", "A", &|_| nxdomain());
        add("a type that nobody has", "", "MX", &|_| nodata());
        add("TXT, which drivers would misread", "", "TXT", &|_| nodata());
        add("an alias", "", "CNAME", &|_| nodata());
        add("SOA below the apex", "", "SOA", &|_| nodata());
        add("NS below the apex", "", "NS", &|_| nodata());
        add("HTTPS", "", "HTTPS", &|_| nodata());
        add("an unknown type", "", "TYPE666", &|_| nodata());
        add(
            "an unknown type of a host",
            "db-0.east.",
            "TYPE666",
            &|_| nodata(),
        );
        add("an unknown type of no name", "south.", "TYPE666", &|_| {
            nxdomain()
        });
        let asked: Vec<String> = cases
            .iter()
            .map(|(_, owner, rtype, _)| format!("{owner} {rtype}"))
            .collect();
        let cases = cases.iter().zip(&asked);
        let cases: Vec<_> = cases
            .map(|((what, _, _, expected), asked)| (*what, asked.as_str(), expected.clone()))
            .collect();
        check(server.dns, &cases);
    }
}

#[test]
fn what_owns_nothing_exists_only_with_something_below() {
    let server = Server::of(sample(), &FLAGS);
    check(
        server.dns,
        &[
            ("a namespace", "prod.global. A", nodata()),
            ("a namespace: any type", "prod.global. TYPE666", nodata()),
            (
                "a namespace with one that has endpoints",
                "shop.global. A",
                nodata(),
            ),
            (
                "a namespace without endpoints",
                "void.global. A",
                nxdomain(),
            ),
            ("no namespace", "nowhere.global. A", nxdomain()),
            (
                "a service without endpoints",
                "idle.shop.global. A",
                nxdomain(),
            ),
            ("its short name", "idle.global. A", nxdomain()),
            ("its cluster", "west.idle.shop.global. A", nxdomain()),
            ("no service", "nope.prod.global. A", nxdomain()),
            (
                "a service of another namespace",
                "cache.prod.global. A",
                nxdomain(),
            ),
            ("a mirror's name", "db-east.prod.global. A", nxdomain()),
            (
                "an endpoint mirror's name",
                "db-0-east.prod.global. A",
                nxdomain(),
            ),
            ("above ns.dns", "dns.global. A", nodata()),
            ("beside ns.dns", "www.dns.global. A", nxdomain()),
            ("below ns.dns", "x.ns.dns.global. A", nxdomain()),
            ("below dns-version", "x.dns-version.global. TXT", nxdomain()),
            ("a name of spaces", "a\\032b.global. A", nxdomain()),
            ("an octet that is no letter", "\\255.global. A", nxdomain()),
            ("a dot in a label", "db\\.prod.global. A", nxdomain()),
        ],
    );
}

#[test]
fn the_apex_owns_soa_and_ns_and_the_server_has_an_address() {
    let server = Server::of(sample(), &FLAGS);
    let soa = "ns.dns.global. hostmaster.global. SERIAL 7200 1800 86400 5";
    check(
        server.dns,
        &[
            ("SOA", "global. SOA", rrset("global.", "5 SOA", &[soa])),
            (
                "NS",
                "global. NS",
                rrset("global.", "5 NS", &["ns.dns.global."]),
            ),
            ("A at the apex", "global. A", nodata()),
            ("SRV at the apex", "global. SRV", nodata()),
            ("unknown type at the apex", "global. TYPE666", nodata()),
            // It listens at another port than 53, where nobody would ask.
            ("the server's address", "ns.dns.global. A", nodata()),
            ("its other family", "ns.dns.global. AAAA", nodata()),
            ("its SRV", "ns.dns.global. SRV", nodata()),
            (
                "version",
                "dns-version.global. TXT",
                rrset("dns-version.global.", "5 TXT", &["1.1.0"]),
            ),
            ("version: A", "dns-version.global. A", nodata()),
        ],
    );
    let ns = server.ask("global. NS", Over::Udp);
    assert!(ns.additional.is_empty(), "{:?}", ns.additional);
}

#[test]
fn ns_addresses_are_those_given_each_once_and_never_those_of_a_wildcard_or_a_pod() {
    let given = [
        "--ns-address=192.0.2.53",
        "--ns-address=192.0.2.54,2001:db8::53,192.0.2.53",
    ];
    let server = Server::of(sample(), &given);
    let ns = "ns.dns.global.";
    check(
        server.dns,
        &[
            (
                "A",
                "ns.dns.global. A",
                rrset(ns, "5 A", &["192.0.2.53", "192.0.2.54"]),
            ),
            (
                "AAAA",
                "ns.dns.global. AAAA",
                rrset(ns, "5 AAAA", &["2001:db8::53"]),
            ),
        ],
    );
    let ns = server.ask("global. NS", Over::Udp);
    assert_eq!(
        ns.additional,
        [
            "ns.dns.global. 5 IN A 192.0.2.53",
            "ns.dns.global. 5 IN A 192.0.2.54",
            "ns.dns.global. 5 IN AAAA 2001:db8::53"
        ]
    );
    // A pod's address is not that of its replicas, and nobody listens at its port 53.
    for pod in [Some("192.0.2.77"), None] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objects.yaml");
        std::fs::write(&file, sample().text()).unwrap();
        let mut command = global_dns(&[
            "serve",
            "--listen=0.0.0.0:0",
            "--admin-listen=127.0.0.1:0",
            "--api-listen=127.0.0.1:0",
            "--log-format=json",
            &format!("--file={}", file.display()),
        ]);
        if let Some(pod) = pod {
            command.env("GLOBAL_DNS_POD_IPS", pod);
        }
        let server = Server::start_command(folder, command, Await::Ready);
        let here = ([127, 0, 0, 1], server.dns.port()).into();
        for asked in ["ns.dns.global. A", "ns.dns.global. AAAA"] {
            let reply = question(asked).ask(here, Over::Udp);
            assert_eq!(reply.outcome(), "NODATA", "{asked}, {pod:?}");
        }
        let reply = question("global. NS").ask(here, Over::Udp);
        assert_eq!(
            (reply.outcome().as_str(), reply.additional.len()),
            ("ns.dns.global.", 0)
        );
    }
}

#[test]
fn srv_targets_resolve_to_what_the_additional_section_says() {
    let server = Server::of(sample(), &FLAGS);
    for base in ["db.prod.global.", "db.global."] {
        for owner in ["", "_sql._tcp.", "east.", "_gossip._udp.db-0.east."] {
            let asked = format!("{owner}{base} SRV");
            let reply = server.ask(&asked, Over::Tcp);
            let mut told: Vec<String> = reply.additional.clone();
            told.sort();
            let mut resolved = Vec::new();
            let targets = reply.data();
            let targets: std::collections::BTreeSet<&str> = targets
                .iter()
                .map(|data| data.rsplit(' ').next().unwrap())
                .collect();
            for target in targets {
                assert!(target.ends_with(&format!(".{base}")), "{target}");
                for rtype in ["A", "AAAA"] {
                    let reply = server.ask(&format!("{target} {rtype}"), Over::Udp);
                    resolved.extend(reply.answers);
                }
            }
            resolved.sort();
            assert_eq!(told, resolved, "{asked}");
        }
    }
}

#[test]
fn any_gets_one_rrset() {
    let server = Server::of(
        sample().0.into_iter().fold(
            mirror("six", "db", "east")
                .endpoint("db-0", &["2001:db8::6"])
                .into(),
            |all: crate::support::objects::Manifest, object| all.with(object),
        ),
        &["--cluster-name=hub", "--short-names=off"],
    );
    let soa = "ns.dns.global. hostmaster.global. SERIAL 7200 1800 86400 5";
    check(
        server.dns,
        &[
            (
                "addresses first",
                "db.prod.global. ANY",
                rrset("db.prod.global.", "5 A", &DB),
            ),
            (
                "else IPv6",
                "db.six.global. ANY",
                rrset("db.six.global.", "5 AAAA", &["2001:db8::6"]),
            ),
            (
                "else SRV",
                "_gossip._udp.db-1.east.db.prod.global. ANY",
                srv_set(
                    "_gossip._udp.db-1.east.db.prod.global.",
                    "db.prod.global.",
                    &[("db-1.east", 7946)],
                ),
            ),
            ("nothing to choose from", "prod.global. ANY", nodata()),
            ("no name", "nope.prod.global. ANY", nxdomain()),
            ("the apex", "global. ANY", rrset("global.", "5 SOA", &[soa])),
            ("the server", "ns.dns.global. ANY", nodata()),
        ],
    );
}

#[test]
fn outside_the_zones_is_refused() {
    let server = Server::of(sample(), &FLAGS);
    check(
        server.dns,
        &[
            ("CoreDNS's health probe", ". NS", Expect::Refused),
            ("the root", ". A", Expect::Refused),
            ("another zone", "www.example.org. A", Expect::Refused),
            (
                "a zone that ends alike",
                "db.prod.xglobal. A",
                Expect::Refused,
            ),
            (
                "our zone in the middle",
                "db.global.example. A",
                Expect::Refused,
            ),
            (
                "the cluster's own zone",
                "db.prod.svc.cluster.local. A",
                Expect::Refused,
            ),
            (
                "reverse lookups",
                "1.1.96.10.in-addr.arpa. PTR",
                Expect::Refused,
            ),
        ],
    );
}
