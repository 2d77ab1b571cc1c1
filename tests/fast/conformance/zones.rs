//! Several zones: the zone with the longest matching name answers (RFC 1034 section 4.3.2).

use support::differences::assert_none;
use support::names::FLAGS;
use support::objects::{
    Manifest, exported, federated, flat_mirror, gateway_mirror, mirror, objects,
};
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

/// Questions about the zone `@` of cluster west, each with the outcome.
const OF_WEST: &str = "
db.prod.@ A = 10.96.3.1 10.96.3.3
db.prod.@ AAAA = 2001:db8::1
db.prod.@ SRV = 0 10 26257 db-0.db.prod.@ 0 10 26257 db-2.db.prod.@
db-0.db.prod.@ A = 10.96.3.1
db-0.db.prod.@ SRV = 0 10 26257 db-0.db.prod.@
_sql._tcp.db.prod.@ SRV = 0 10 26257 db-0.db.prod.@ 0 10 26257 db-2.db.prod.@
_sql._tcp.db.prod.@ A = NODATA
_tcp.db.prod.@ SRV = NODATA
_sql._udp.db.prod.@ SRV = NXDOMAIN
db-1.db.prod.@ A = NXDOMAIN
# The only host has no endpoint mirror at the moment.
cache.prod.@ A = SERVFAIL
cache-0.cache.prod.@ A = SERVFAIL
cache-1.cache.prod.@ A = NXDOMAIN
# One address: its own name is the target.
web.prod.@ A = 10.96.4.1
_http._tcp.web.prod.@ SRV = 0 10 80 web.prod.@
api.shop.@ A = 10.96.4.2
# Of other clusters, of this one, of no single one.
cache.eu.@ A = NXDOMAIN
own.prod.@ A = NXDOMAIN
all.prod.@ A = NXDOMAIN
# No label of a cluster, and no short name.
west.db.prod.@ A = NXDOMAIN
db-0.west.db.prod.@ A = NXDOMAIN
db.@ A = NXDOMAIN
prod.@ A = NODATA
shop.@ A = NODATA
eu.@ A = NXDOMAIN
dns.@ A = NODATA
_tcp.ns.dns.@ A = NXDOMAIN
@ NS = ns.dns.@
ns.dns.@ A = 192.0.2.53
dns-version.@ TXT = \"1.1.0\"";

/// A zone of one cluster has Kubernetes' own names of what Linkerd mirrors from it (DNS specification of Kubernetes, sections 2.3
/// and 2.4), and nothing else. A second zone has the same.
#[test]
fn zone_of_one_cluster_has_the_names_of_its_own_dns() {
    let db = mirror("prod", "db", "west").endpoint("db-0", &["10.96.3.1", "2001:db8::1"]);
    let cache = mirror("prod", "cache", "west");
    let manifest = sample()
        .with(db.endpoint("db-2", &["10.96.3.3"]))
        .with(cache.listing(&[("cache-0", "10.96.3.4")]))
        .with(cache.service())
        .with(gateway_mirror("prod", "web", "west", "10.96.4.1"))
        .with(flat_mirror("shop", "api", "west", "10.96.4.2"))
        .with(federated("prod", "web", "10.96.4.3", "web@west,web@east"))
        .with(federated("prod", "all", "10.96.4.4", "all@west"))
        .with(exported("prod", "own", "10.96.4.5"));
    let zones = ["svc.west.test.", "other.test."];
    let [one, other] = zones.map(|zone| format!("{{name: {zone}, cluster: west}}"));
    let server = serve(manifest, &[&format!("zones=[global, {one}, {other}]")]);
    let mut differences = Vec::new();
    for zone in zones {
        for line in OF_WEST.replace('@', zone).lines() {
            if let Some((question, expected)) = line.split_once(" = ") {
                let outcome = server.outcome(question);
                differences.extend((outcome != expected).then(|| format!("{line}, not {outcome}")));
            }
        }
        let target = format!("db-2.db.prod.{zone}");
        let srv = answer(&format!("_sql._tcp.{target} 5 IN SRV 0 10 26257 {target}"));
        check_with_edns_and_without(
            &server,
            &[
                (
                    &format!("_sql._tcp.{target} SRV"),
                    srv.additional(&format!("{target} 5 IN A 10.96.3.3")),
                ),
                (&format!("nope.{zone} A"), nxdomain().authority(&soa(zone))),
            ],
        );
    }
    assert_none(&differences);
}
