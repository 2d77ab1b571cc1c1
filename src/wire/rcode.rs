//! Response codes.

use strum::{IntoStaticStr, VariantArray};

/// A response code, with its number (RFC 1035 section 4.1.1, RFC 6891 section 6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Rcode {
    /// No error.
    NoError = 0,
    /// The query is malformed.
    FormErr = 1,
    /// The server cannot answer now.
    ServFail = 2,
    /// The name does not exist.
    NxDomain = 3,
    /// The server does not implement this kind of query.
    NotImp = 4,
    /// The server refuses to answer.
    Refused = 5,
    /// The server does not support this EDNS version.
    BadVers = 16,
}
