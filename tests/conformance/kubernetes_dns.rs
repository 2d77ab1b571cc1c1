//! DNS-based service discovery in Kubernetes, version 1.1.0, as far as it applies to headless services.

use crate::support::{SOA, answer, case, check, nodata, nxdomain, refused, sample, serve};

#[test]
fn s2_2_the_schema_version() {
    check(
        &sample(),
        &[
            case(
                "TXT",
                "dns-version.global. TXT",
                answer("dns-version.global. 5 IN TXT \"1.1.0\""),
            ),
            case("no address", "dns-version.global. A", nodata()),
            case(
                "at the zone only",
                "dns-version.prod.global. TXT",
                nxdomain(),
            ),
        ],
    );
    check(
        &serve(&["--zone", "svc.internal"]),
        &[case(
            "in a zone of another name",
            "dns-version.svc.internal. TXT",
            answer("dns-version.svc.internal. 5 IN TXT \"1.1.0\""),
        )],
    );
}

#[test]
fn s2_4_1_a_headless_service_has_the_addresses_of_its_ready_endpoints() {
    check(
        &sample(),
        &[
            case(
                "A, db-2 is not ready",
                "hub.db.prod.global. A",
                answer("hub.db.prod.global. 5 IN A 192.0.2.10"),
            ),
            case(
                "AAAA",
                "web.shop.global. AAAA",
                answer("web.shop.global. 5 IN AAAA 2001:db8:30::1"),
            ),
            case("no AAAA", "hub.db.prod.global. AAAA", nodata()),
            case(
                "an endpoint that is not ready",
                "db-2.hub.db.prod.global. A",
                nxdomain(),
            ),
            case("no endpoint is ready", "idle.prod.global. A", nxdomain()),
            case(
                "there is no endpoint at all",
                "void.spare.global. A",
                nxdomain(),
            ),
        ],
    );
}

#[test]
fn s2_4_1_an_endpoint_has_a_name() {
    check(
        &sample(),
        &[
            case(
                "its hostname",
                "db-0.hub.db.prod.global. A",
                answer("db-0.hub.db.prod.global. 5 IN A 192.0.2.10"),
            ),
            case(
                "dual stack, A",
                "web-0.east.web.shop.global. A",
                answer("web-0.east.web.shop.global. 5 IN A 10.96.30.1"),
            ),
            case(
                "dual stack, AAAA",
                "web-0.east.web.shop.global. AAAA",
                answer("web-0.east.web.shop.global. 5 IN AAAA 2001:db8:30::1"),
            ),
            case(
                "no hostname: its address with dashes",
                "192-0-2-30.hub.queue.prod.global. A",
                answer("192-0-2-30.hub.queue.prod.global. 5 IN A 192.0.2.30"),
            ),
            case(
                "a hostname goes before the address",
                "192-0-2-10.hub.db.prod.global. A",
                nxdomain(),
            ),
            case(
                "another address",
                "192-0-2-31.hub.queue.prod.global. A",
                nxdomain(),
            ),
        ],
    );
}

#[test]
fn s2_4_2_named_ports_have_srv_records() {
    check(
        &sample(),
        &[
            case("a port", "_amqp._tcp.queue.prod.global. SRV", answer(
                "_amqp._tcp.queue.prod.global. 5 IN SRV 0 10 5672 192-0-2-30.hub.queue.prod.global.",
            ).additional("192-0-2-30.hub.queue.prod.global. 5 IN A 192.0.2.30")),
            case("another port", "_http._tcp.queue.prod.global. SRV", nxdomain()),
            case("no endpoint is ready", "_http._tcp.idle.prod.global. SRV", nxdomain()),
            case("a port without a name", "_9000._tcp.six.shop.global. SRV", nxdomain()),
        ],
    );
}

#[test]
fn s2_4_a_query_of_the_cluster_itself_is_not_ours() {
    check(
        &sample(),
        &[
            case("cluster.local", "db.prod.svc.cluster.local. A", refused()),
            case("the zone", "global. SOA", answer(SOA)),
        ],
    );
}
