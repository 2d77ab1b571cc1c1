//! DNS messages: a strict parser for queries, the response policy, and the writer of replies. `src/wire/README.md`
//! lists the standards and deviations.
//!
//! ```text
//! bytes → parse → Query → respond → Reply → write → bytes
//! ```
//!
//! [`respond()`] applies the policy once, for every transport. Code that encodes a [`Reply`] makes no decisions.

pub mod access;
pub mod cookie;
pub mod query;
pub mod records;
pub mod respond;
pub mod write;

pub use access::{Access, Network};
pub use cookie::{CookieSecret, CookieSecrets};
pub use query::{Edns, Query, Reject, parse};
pub use records::{Sections, records};
pub use respond::{
    Body, PADDING_BLOCK, QueryContext, RateLimit, Reply, Settings, Transport, respond,
};
pub use write::{Written, whole_answer, write};

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

#[cfg(test)]
mod tests;
