//! Answers over real UDP and TCP, as far as they are no matter of a standard: their order and sizes, the name server's
//! own addresses, counters.

mod messages;
mod name_server;
mod order;
mod sizes;

use support::objects::{Gateway, Manifest, local, mirror, objects};

/// `prod/db` in two clusters and this one, `shop/cache` behind a dead gateway, `shop/idle` without an endpoint.
fn sample() -> Manifest {
    objects()
        .with(
            mirror("prod", "db", "east")
                .ports(&[("sql", "TCP", 26257), ("gossip", "UDP", 7946)])
                .endpoint("db-0", &["10.96.1.1", "2001:db8::1"])
                .endpoint("db-1", &["10.96.1.2"]),
        )
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(
            local("prod", "db")
                .endpoint(Some("db-0"), "192.0.2.1", true)
                .endpoint(None, "192.0.2.9", true)
                .endpoint(Some("db-2"), "192.0.2.2", false),
        )
        .with(
            mirror("shop", "cache", "west")
                .ports(&[("redis", "TCP", 6379)])
                .endpoint_behind(Gateway::Down, "cache-0", &["10.96.3.1"]),
        )
        .with(mirror("shop", "idle", "west"))
        .with(mirror("void", "idle", "west"))
}

const FLAGS: [&str; 1] = ["--cluster-name=hub"];
