//! DNS over TLS (RFC 7858) and over HTTPS (RFC 8484).

mod certificate;
mod connections;
mod on_its_own;
mod same_answers;
mod switches;

use crate::support::objects::{Manifest, local, mirror, objects};

/// `prod/db` in two clusters, `prod/many` with 200 endpoints, `prod/huge` with more than a message holds.
fn sample() -> Manifest {
    let mut many = mirror("prod", "many", "east");
    for index in 0..200 {
        many = many.endpoint(&format!("many-{index}"), &[&address(index)]);
    }
    let mut huge = local("prod", "huge").exported();
    for index in 0..3_000 {
        huge = huge.endpoint(None, &address(index), true);
    }
    objects()
        .with(
            mirror("prod", "db", "east")
                .endpoint("db-0", &["10.96.1.1", "2001:db8::1"])
                .endpoint("db-1", &["10.96.1.2"]),
        )
        .with(mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]))
        .with(many)
        .with(huge)
}

fn address(index: u32) -> String {
    std::net::Ipv4Addr::from(0x0a60_1001 + index).to_string()
}

/// One small service.
fn small() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1"])
        .into()
}
