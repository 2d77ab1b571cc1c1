//! DNS-based service discovery in Kubernetes, version 1.1.0, as far as it applies to headless services: what the table of
//! owner names does not say.

use crate::cases::{answer, case, check};
use crate::servers::serve;

#[test]
fn s2_2_the_schema_version_is_in_a_zone_of_any_name() {
    check(
        &serve(&["--zone", "svc.internal"]),
        &[case(
            "in a zone of another name",
            "dns-version.svc.internal. TXT",
            answer("dns-version.svc.internal. 5 IN TXT \"1.1.0\""),
        )],
    );
}
