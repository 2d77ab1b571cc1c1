//! Explanation of the answer for a name, or of its absence: `global-dns explain`.
//!
//! An explanation starts with [`read()`](crate::zone::read()) and [`answer_question()`](crate::zone::answer::answer_question), as every answer does, so it cannot differ from the
//! answer. It adds the objects behind the answer. This module is pure.

mod context;
pub mod explanation;
mod failover;
mod kinds;
mod missing;
mod names;
mod nearest;
mod subject;
mod wide;

pub use context::{Context, Observer, PlainService};
pub use explanation::{Explanation, service_of};
pub use subject::Subject;
