//! What others make of our answers: real servers with the same zone, a real CoreDNS in front, and real clients.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

// Thousands of questions to global-dns, Knot, NSD and BIND, all with the same zone: what differs has a reason.
mod differential;
// One to ten thousand endpoints: when TC is set, and what comes through a CoreDNS.
mod sizes;
// MongoDB's, etcd's, Go's and gRPC's ways to look names up.
mod clients;

use support::objects::Manifest;
use support::server::Server;

/// Serves objects as the cluster `hub`.
fn serve(objects: impl Into<Manifest>, flags: &[&str]) -> Server {
    let own = ["--cluster-name=hub", "--grace=0s"];
    Server::with_text(&objects.into().list(), &[&own, flags].concat())
}
