//! Faults and floods, and what they do to somebody who asks all the while. `tests/chaos/run` runs it; it is no part of
//! `tests/run`.
//!
//! Index:
//!
//! - `api_server`: an API server that refuses, falls silent, forgets, cuts, garbles and rotates
//! - `cluster`: services larger than they should be
//! - `floods`: floods and slow peers, while an honest client goes on asking

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod api_server;
mod cluster;
mod floods;
