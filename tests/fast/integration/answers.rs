//! Properties of answers over UDP and TCP that no standard defines: order, addresses of the name server,
//! counters, metrics of the process.

mod messages;
mod process;

use support::objects::{Gateway, Manifest, local, mirror, objects};

/// Returns `prod/db` in two remote clusters and the local one, `shop/cache` behind a gateway that is down, and `shop/idle`
/// without endpoints.
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
