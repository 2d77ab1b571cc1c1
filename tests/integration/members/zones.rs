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
