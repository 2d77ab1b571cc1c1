//! RFC 3597: unknown types.

use crate::cases::{check_with_edns_and_without, notimp};
use crate::servers::sample;

/// RFC 6895 section 3.1: these are no types of records.
#[test]
fn rfc6895_s3_1_meta_types_are_not_implemented() {
    check_with_edns_and_without(
        &sample(),
        &[
            ("global. OPT", notimp()),
            ("global. TKEY", notimp()),
            ("db.prod.global. TKEY", notimp()),
            ("global. TSIG", notimp()),
            ("global. MAILB", notimp()),
            ("global. MAILA", notimp()),
        ],
    );
}
