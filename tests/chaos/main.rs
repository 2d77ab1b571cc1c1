//! Faults and floods, and what they do to somebody who asks all the while. `tests/chaos/run` runs it; it is no part of
//! `tests/run`.
//!
//! Index:
//!
//! - `api_server`: an API server that refuses, falls silent, forgets, cuts, garbles and rotates
//! - `cluster`: services larger than they should be
//! - `floods`: floods and slow peers, while an honest client goes on asking
//! - `support`: what suites share; from `tests/e2e`: the stand-in, its faults, the binary, an observer that never stops asking

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
mod support;

// What the end-to-end tests stand on, too.
#[allow(dead_code, reason = "the e2e suite uses the rest")]
#[path = "../e2e/ask.rs"]
mod ask;
#[path = "../e2e/credentials.rs"]
mod credentials;
#[allow(dead_code, reason = "the e2e suite uses the rest")]
#[path = "../e2e/faults.rs"]
mod faults;
#[allow(dead_code, reason = "the e2e suite uses the rest")]
#[path = "../e2e/harness.rs"]
mod harness;
#[allow(dead_code, reason = "the e2e suite uses the rest")]
#[path = "../e2e/recordings.rs"]
mod recordings;
#[allow(dead_code, reason = "the e2e suite uses the rest")]
#[path = "../e2e/server.rs"]
mod server;
#[allow(dead_code, reason = "the e2e suite uses the rest")]
#[path = "../e2e/standin.rs"]
mod standin;
#[allow(dead_code, reason = "the e2e suite uses the rest")]
#[path = "../e2e/steps.rs"]
mod steps;
