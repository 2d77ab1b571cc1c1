//! DNS messages: a strict parser for queries, the response policy, and the writer of replies. `src/wire/README.md`
//! lists the standards and deviations.
//!
//! ```text
//! bytes → parse → Message → respond → Reply → write → bytes
//! ```
//!
//! [`respond()`] applies the policy once, for every transport. Code that encodes a [`Reply`] makes no decisions.

pub mod access;
pub mod query;
mod rcode;
pub mod respond;
pub mod write;

pub use access::{Access, Network};
pub use query::{Message, Query, parse};
pub use rcode::Rcode;
pub use respond::{Body, QueryContext, Reply, ResponseSettings, TCP_IDLE, Transport, respond};
pub use write::{records_within, write};
