//! DNS messages: a strict parser for queries, the response policy, and the writer of replies.
//!
//! ```text
//! bytes → parse → Query → respond → Reply → write → bytes
//! ```
//!
//! [`respond()`] applies the policy once, for every transport. What renders a [`Reply`] has no rules of its own.

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
pub use respond::{Arrival, Body, PADDING_BLOCK, RateLimit, Reply, Settings, Transport, respond};
pub use write::{Written, whole_answer, write};

/// A response code (RFC 1035 section 4.1.1, RFC 6891 section 6.1.3), as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rcode(pub u16);

impl Rcode {
    /// No error.
    pub const NOERROR: Self = Self(0);
    /// The query makes no sense.
    pub const FORMERR: Self = Self(1);
    /// We cannot say.
    pub const SERVFAIL: Self = Self(2);
    /// The name does not exist.
    pub const NXDOMAIN: Self = Self(3);
    /// We do not do this.
    pub const NOTIMP: Self = Self(4);
    /// We will not do this.
    pub const REFUSED: Self = Self(5);
    /// An EDNS version that we do not know.
    pub const BADVERS: Self = Self(16);
}

#[cfg(test)]
mod tests;
