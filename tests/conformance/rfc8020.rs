//! RFC 8020: NXDOMAIN means that there is nothing below, and a name with something below exists.

use crate::support::{answer, case, check, nodata, nxdomain, sample, serve};

#[test]
fn s2_nothing_is_below_a_name_that_does_not_exist() {
    check(
        &sample(),
        &[
            case(
                "a namespace without a name of ours",
                "spare.global. A",
                nxdomain(),
            ),
            case("below it", "void.spare.global. A", nxdomain()),
            case(
                "a cluster that a service is not in",
                "hub.cache.prod.global. A",
                nxdomain(),
            ),
            case("below it", "cache-0.hub.cache.prod.global. A", nxdomain()),
            case(
                "a cluster that it is in",
                "west.cache.prod.global. A",
                answer("west.cache.prod.global. 5 IN A 10.96.40.1"),
            ),
            case(
                "a protocol that a service has no port of",
                "_udp.db.prod.global. A",
                nxdomain(),
            ),
            case("below it", "_sql._udp.db.prod.global. SRV", nxdomain()),
            case("below a host", "x.db-0.east.db.prod.global. A", nxdomain()),
            case("below a port", "x._sql._tcp.db.prod.global. A", nxdomain()),
            case("below dns-version", "x.dns-version.global. TXT", nxdomain()),
            case("below the name server", "x.ns.dns.global. A", nxdomain()),
            case("a protocol below the apex", "_tcp.global. A", nxdomain()),
            case("one below a namespace", "_tcp.prod.global. A", nxdomain()),
            case("many labels", "a.b.c.d.e.f.g.h.prod.global. A", nxdomain()),
        ],
    );
}

#[test]
fn s2_empty_non_terminals_exist() {
    check(
        &sample(),
        &[
            case("a namespace", "prod.global. A", nodata()),
            case("for every type", "prod.global. SRV", nodata()),
            case("above the name server", "dns.global. A", nodata()),
            case("a protocol", "_tcp.db.prod.global. SRV", nodata()),
            case(
                "a protocol of a cluster",
                "_tcp.west.db.prod.global. A",
                nodata(),
            ),
            case(
                "a protocol of a host",
                "_tcp.db-0.west.db.prod.global. A",
                nodata(),
            ),
            case("a protocol of a short name", "_tcp.db.global. A", nodata()),
            case("UDP", "_udp.web.shop.global. A", nodata()),
            case("not a namespace", "nope.global. A", nxdomain()),
        ],
    );
}

/// The apex of another zone that is served is a name below, too (RFC 4592 section 2.2.2).
#[test]
fn s2_names_above_the_apex_of_another_zone_exist() {
    const APEX: &str = "a.b.c.global. 5 IN SOA ns.dns.a.b.c.global. hostmaster.a.b.c.global. SERIAL 7200 1800 86400 5";
    check(
        &serve(&["--zone", "global", "--zone", "a.b.c.global"]),
        &[
            case("the apex", "a.b.c.global. SOA", answer(APEX)),
            case("above it", "b.c.global. A", nodata()),
            case("for every type", "b.c.global. NS", nodata()),
            case("the next one", "c.global. A", nodata()),
            case("beside them", "x.c.global. A", nxdomain()),
            case("below that", "a.x.c.global. A", nxdomain()),
            case(
                "below the apex",
                "x.a.b.c.global. A",
                nxdomain().authority(APEX),
            ),
        ],
    );
}
