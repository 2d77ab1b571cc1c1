//! Several zones: each answers for itself, the longest match decides.

use crate::support::ask::{Expect, check, nodata, nxdomain, rrset};
use crate::support::binary::Server;
use crate::support::objects::{Manifest, mirror, objects};

fn sample() -> Manifest {
    objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(mirror("eu", "cache", "east").endpoint("cache-0", &["10.96.2.1"]))
}

#[test]
fn every_zone_has_the_same_names_and_targets_of_its_own() {
    let server = Server::of(sample(), &["--zone=a.test", "--zone=B.Example.Test."]);
    let mut cases = Vec::new();
    for zone in ["a.test.", "b.example.test."] {
        let owner = format!("db.prod.{zone}");
        let target = format!("0 10 26257 db-0.east.db.prod.{zone}");
        let ns = format!("ns.dns.{zone}");
        cases.push((format!("{owner} A"), rrset(&owner, "5 A", &["10.96.1.1"])));
        cases.push((format!("{owner} SRV"), rrset(&owner, "5 SRV", &[&target])));
        cases.push((format!("{zone} NS"), rrset(zone, "5 NS", &[&ns])));
        let zone: &'static str = if zone == "a.test." {
            "a.test."
        } else {
            "b.example.test."
        };
        cases.push((format!("nope.{zone} A"), Expect::NxDomain(zone)));
        cases.push((format!("prod.{zone} A"), Expect::NoData(zone)));
    }
    cases.push(("db.prod.global. A".to_owned(), Expect::Refused));
    cases.push(("test. A".to_owned(), Expect::Refused));
    cases.push(("example.test. A".to_owned(), Expect::Refused));
    let cases: Vec<(&str, &str, Expect)> = cases
        .iter()
        .map(|(asked, expected)| ("a zone", asked.as_str(), expected.clone()))
        .collect();
    check(server.dns, &cases);
}

#[test]
fn of_nested_zones_the_longest_match_decides() {
    for flags in [
        ["--zone=global", "--zone=eu.global"],
        ["--zone=eu.global", "--zone=global"],
    ] {
        let server = Server::of(sample(), &flags);
        let inner = Expect::NxDomain("eu.global.");
        let soa = "ns.dns.eu.global. hostmaster.eu.global. SERIAL 7200 1800 86400 5";
        check(
            server.dns,
            &[
                (
                    "outer",
                    "db.prod.global. A",
                    rrset("db.prod.global.", "5 A", &["10.96.1.1"]),
                ),
                (
                    "inner",
                    "db.prod.eu.global. A",
                    rrset("db.prod.eu.global.", "5 A", &["10.96.1.1"]),
                ),
                (
                    "inner, short",
                    "db.eu.global. A",
                    rrset("db.eu.global.", "5 A", &["10.96.1.1"]),
                ),
                // Not namespace `eu` of the outer zone, but the short name of the inner one: the same service here.
                (
                    "a name that both could have",
                    "cache.eu.global. A",
                    rrset("cache.eu.global.", "5 A", &["10.96.2.1"]),
                ),
                (
                    "a canonical name of the inner zone",
                    "cache.eu.eu.global. A",
                    rrset("cache.eu.eu.global.", "5 A", &["10.96.2.1"]),
                ),
                (
                    "the inner apex",
                    "eu.global. SOA",
                    rrset("eu.global.", "5 SOA", &[soa]),
                ),
                (
                    "no type at the inner apex",
                    "eu.global. A",
                    Expect::NoData("eu.global."),
                ),
                ("missing in the inner zone", "nope.eu.global. A", inner),
                ("missing in the outer zone", "nope.global. A", nxdomain()),
                ("alike, but outer", "xeu.global. A", nxdomain()),
                ("the outer apex", "global. A", nodata()),
            ],
        );
    }
}

#[test]
fn names_above_a_zone_within_a_zone_exist() {
    let manifest = sample().with(mirror("prod", "six", "east").endpoint("six-0", &["2001:db8::1"]));
    let flags = [
        "--zone=global",
        "--zone=a.b.c.global",
        "--reverse-zone=10.in-addr.arpa",
        "--reverse-zone=3.2.1.10.in-addr.arpa",
        "--reverse-zone=ip6.arpa",
        "--reverse-zone=1.0.0.f.ip6.arpa",
    ];
    let server = Server::of(manifest, &flags);
    let v4 = "10.in-addr.arpa.";
    let v6 = "ip6.arpa.";
    check(
        server.dns,
        &[
            ("just above", "b.c.global. A", nodata()),
            ("two above", "c.global. A", nodata()),
            ("every type", "c.global. SRV", nodata()),
            ("beside it", "d.global. A", nxdomain()),
            ("beside the names above", "x.c.global. A", nxdomain()),
            ("the same label lower", "a.c.global. A", nxdomain()),
            (
                "the inner apex",
                "a.b.c.global. A",
                Expect::NoData("a.b.c.global."),
            ),
            (
                "below the inner apex",
                "x.a.b.c.global. A",
                Expect::NxDomain("a.b.c.global."),
            ),
            (
                "an inner name",
                "db.prod.a.b.c.global. A",
                rrset("db.prod.a.b.c.global.", "5 A", &["10.96.1.1"]),
            ),
            // Reverse zones: without an address there.
            ("IPv4", "2.1.10.in-addr.arpa. PTR", Expect::NoData(v4)),
            ("IPv4, above", "1.10.in-addr.arpa. PTR", Expect::NoData(v4)),
            (
                "IPv4, beside",
                "2.10.in-addr.arpa. PTR",
                Expect::NxDomain(v4),
            ),
            ("IPv6", "0.0.f.ip6.arpa. PTR", Expect::NoData(v6)),
            ("IPv6, above", "f.ip6.arpa. PTR", Expect::NoData(v6)),
            ("IPv6, beside", "e.ip6.arpa. PTR", Expect::NxDomain(v6)),
            // And with one.
            ("IPv4, used", "96.10.in-addr.arpa. PTR", Expect::NoData(v4)),
            ("IPv6, used", "2.ip6.arpa. PTR", Expect::NoData(v6)),
        ],
    );
}
