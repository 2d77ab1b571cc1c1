//! Several zones: the zone with the longest matching name answers (RFC 1034 section 4.3.2).

use support::names::FLAGS;
use support::objects::{Manifest, mirror, objects};
use support::server::Server;

use crate::conformance::cases::{
    Expectation, answer, check_with_edns_and_without, nodata, nxdomain, refused,
};

fn sample() -> Manifest {
    objects()
        .with(mirror("prod", "db", "east").endpoint("db-0", &["10.96.1.1"]))
        .with(mirror("eu", "cache", "east").endpoint("cache-0", &["10.96.2.1"]))
}

fn serve(manifest: Manifest, flags: &[&str]) -> Server {
    Server::with_objects(manifest, &[&FLAGS, flags].concat())
}

fn soa(zone: &str) -> String {
    format!("{zone} 5 IN SOA ns.dns.{zone} hostmaster.{zone} SERIAL 7200 1800 86400 5")
}

/// An answer with one address.
fn a(owner: &str, address: &str) -> Expectation {
    answer(&format!("{owner} 5 IN A {address}"))
}

#[test]
fn every_zone_has_all_names_with_targets_in_the_same_zone() {
    let server = serve(sample(), &["--zone=a.test", "--zone=B.Example.Test."]);
    for zone in ["a.test.", "b.example.test."] {
        let owner = format!("db.prod.{zone}");
        let target = format!("db-0.east.db.prod.{zone}");
        let srv = answer(&format!("{owner} 5 IN SRV 0 10 26257 {target}"));
        let ns = answer(&format!("{zone} 5 IN NS ns.dns.{zone}"));
        let own = format!("ns.dns.{zone} 5 IN A 192.0.2.53\nns.dns.{zone} 5 IN AAAA 2001:db8::53");
        check_with_edns_and_without(
            &server,
            &[
                (&format!("{owner} A"), a(&owner, "10.96.1.1")),
                (
                    &format!("{owner} SRV"),
                    srv.additional(&format!("{target} 5 IN A 10.96.1.1")),
                ),
                (&format!("{zone} NS"), ns.additional(&own)),
                (&format!("nope.{zone} A"), nxdomain().authority(&soa(zone))),
                (&format!("prod.{zone} A"), nodata().authority(&soa(zone))),
            ],
        );
    }
    let not_authoritative = || refused().option("EDE 20");
    check_with_edns_and_without(
        &server,
        &[
            ("db.prod.global. A", not_authoritative()),
            ("test. A", not_authoritative()),
            ("example.test. A", not_authoritative()),
        ],
    );
}

#[test]
fn longest_matching_zone_answers() {
    for flags in [
        ["--zone=global", "--zone=eu.global"],
        ["--zone=eu.global", "--zone=global"],
    ] {
        let inner = soa("eu.global.");
        check_with_edns_and_without(
            &serve(sample(), &flags),
            &[
                ("db.prod.global. A", a("db.prod.global.", "10.96.1.1")),
                ("db.prod.eu.global. A", a("db.prod.eu.global.", "10.96.1.1")),
                ("db.eu.global. A", a("db.eu.global.", "10.96.1.1")),
                // The short name in the inner zone, not namespace `eu` of the outer zone. The service is the same.
                ("cache.eu.global. A", a("cache.eu.global.", "10.96.2.1")),
                // A canonical name of the inner zone.
                (
                    "cache.eu.eu.global. A",
                    a("cache.eu.eu.global.", "10.96.2.1"),
                ),
                ("eu.global. SOA", answer(&inner)),
                ("eu.global. A", nodata().authority(&inner)),
                ("nope.eu.global. A", nxdomain().authority(&inner)),
                ("nope.global. A", nxdomain()),
                // Ends like the inner zone, but belongs to the outer zone.
                ("xeu.global. A", nxdomain()),
                ("global. A", nodata()),
            ],
        );
    }
}

/// The apex of an inner zone makes the names between it and the outer apex exist (RFC 4592 section 2.2.2).
#[test]
fn names_between_nested_zones_exist() {
    let manifest = sample().with(mirror("prod", "six", "east").endpoint("six-0", &["2001:db8::1"]));
    let flags = ["--zone=global", "--zone=a.b.c.global"];
    let inner = soa("a.b.c.global.");
    check_with_edns_and_without(
        &serve(manifest, &flags),
        &[
            ("b.c.global. A", nodata()),
            ("b.c.global. NS", nodata()),
            ("c.global. A", nodata()),
            ("c.global. SRV", nodata()),
            // Siblings of the empty non-terminals, a name below one, and the inner zone's first label in another place.
            ("d.global. A", nxdomain()),
            ("x.c.global. A", nxdomain()),
            ("a.x.c.global. A", nxdomain()),
            ("a.c.global. A", nxdomain()),
            ("a.b.c.global. SOA", answer(&inner)),
            ("a.b.c.global. A", nodata().authority(&inner)),
            ("x.a.b.c.global. A", nxdomain().authority(&inner)),
            (
                "db.prod.a.b.c.global. A",
                a("db.prod.a.b.c.global.", "10.96.1.1"),
            ),
        ],
    );
}

/// RFC 4035 section 3.1.4.1: a server with both zones answers DS at the apex of the inner one from the outer one.
#[test]
fn ds_at_the_apex_of_an_inner_zone_is_answered_from_the_outer_zone() {
    let flags = ["--zone=global", "--zone=eu.global"];
    let (outer, inner) = (soa("global."), soa("eu.global."));
    check_with_edns_and_without(
        &serve(sample(), &flags),
        &[
            ("eu.global. DS", nodata().authority(&outer)),
            ("global. DS", nodata().authority(&outer)),
            ("cache.eu.global. DS", nodata().authority(&inner)),
            ("eu.global. TXT", nodata().authority(&inner)),
        ],
    );
}
