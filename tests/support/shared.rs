//! Queries, replies, objects and owner names. The unit tests in `src` include this file, too.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_errors_doc,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

pub mod codes;
pub mod names;
pub mod objects;
pub mod query;
mod reader;
pub mod reply;
pub mod repository;
pub mod rounds;
pub mod wait;
pub mod wire;
