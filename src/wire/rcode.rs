//! Response codes.

/// A response code (RFC 1035 section 4.1.1, RFC 6891 section 6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rcode(pub u16);

impl Rcode {
    /// No error.
    pub const NOERROR: Self = Self(0);
    /// The query is malformed.
    pub const FORMERR: Self = Self(1);
    /// The server cannot answer now.
    pub const SERVFAIL: Self = Self(2);
    /// The name does not exist.
    pub const NXDOMAIN: Self = Self(3);
    /// The server does not implement this kind of query.
    pub const NOTIMP: Self = Self(4);
    /// The server refuses to answer.
    pub const REFUSED: Self = Self(5);
    /// The server does not support this EDNS version.
    pub const BADVERS: Self = Self(16);
}
