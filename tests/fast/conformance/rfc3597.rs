//! RFC 3597: unknown types.

use crate::conformance::cases::{check_with_edns_and_without, notimp};
use crate::conformance::servers::serve_sample;

/// RFC 6895 section 3.1: meta types and query types are not record types.
#[test]
fn rfc6895_s3_1_meta_types_get_notimp() {
    check_with_edns_and_without(
        &serve_sample(),
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
