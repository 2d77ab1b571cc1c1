//! Programs that people run, as clients of a global name: what each one does while clusters are linked, fail and fail
//! over, and how many endpoints it takes.
//!
//! Each program has a module and a directory of the same name. The directory has the configuration that a user would
//! copy, and a README with the name to use, the setting that decides how fast a change is seen, and what does not work.
//! Each test writes its results to `target/clients/PROGRAM.json`; `tests/clients/table` makes the table of
//! `tests/clients/README.md` from these files.
//!
//! Index:
//!
//! - `scenario`: starts three linked clusters and a program in `east`, applies the events, and measures
//! - `table`: the table of the README
//! - all others: programs

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "tests"
)]

mod envoy;
mod go;
mod grpc;
mod grpc_go;
mod grpc_python;
mod haproxy;
mod nginx;
mod prometheus;
mod scenario;
mod table;
mod unbound;

use crate::scenario::prove;

#[test]
#[ignore = "needs a real API server, root and Envoy"]
fn envoy() {
    prove(&envoy::Envoy);
}

#[test]
#[ignore = "needs a real API server, root and Go"]
fn go() {
    prove(&go::Go);
}

#[test]
#[ignore = "needs a real API server, root and Go"]
fn grpc_go() {
    prove(&grpc_go::GrpcGo);
}

#[test]
#[ignore = "needs a real API server, root and Go and Python"]
fn grpc_python() {
    prove(&grpc_python::GrpcPython);
}

#[test]
#[ignore = "needs a real API server, root and HAProxy"]
fn haproxy() {
    prove(&haproxy::Haproxy);
}

#[test]
#[ignore = "needs a real API server, root and nginx"]
fn nginx() {
    prove(&nginx::Nginx);
}

#[test]
#[ignore = "needs a real API server, root and Prometheus"]
fn prometheus() {
    prove(&prometheus::Prometheus);
}

#[test]
#[ignore = "needs a real API server, root and Unbound"]
fn unbound() {
    prove(&unbound::Unbound);
}
