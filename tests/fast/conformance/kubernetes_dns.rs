//! Kubernetes DNS-based service discovery, version 1.1.0, for headless services. Covers what the table of owner names
//! does not.

use crate::conformance::cases::{answer, check};
use crate::conformance::servers::serve;

#[test]
fn s2_2_every_zone_has_the_schema_version() {
    check(
        &serve(&["--zone", "svc.internal"]),
        &[(
            "dns-version.svc.internal. TXT",
            answer("dns-version.svc.internal. 5 IN TXT \"1.1.0\""),
        )],
    );
}
