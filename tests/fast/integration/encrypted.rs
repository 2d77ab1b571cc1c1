//! DNS over TLS (RFC 7858) and over QUIC (RFC 9250).

mod certificate;
mod client_certificates;
mod connections;
mod rotation;
mod same_answers;
mod shutdown;
mod slow;
mod transports;
mod volumes;

use support::objects::{Manifest, mirror};
use support::query::query;

/// Returns one small service.
fn small() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .into()
}

/// Returns a query for it.
fn packet() -> Vec<u8> {
    query("db.prod.global. A").0
}
