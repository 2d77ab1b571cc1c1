//! Floods, faults and bad luck, with figures. `tests/chaos/run` runs it; some of it wants root.
//!
//! Index:
//!
//! - `floods`: floods and slow peers, while an honest client goes on asking
//! - `support`: what other suites share

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod floods;
mod support;
