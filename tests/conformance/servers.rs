//! The servers that questions are put to.

use std::net::SocketAddr;

use support::encrypted::Encrypted;
use support::names::{FLAGS, sample as objects};
use support::objects::Manifest;
use support::server::Server;

/// Serves the sample.
pub fn sample() -> Server {
    serve(&[])
}

/// Serves the sample, with more flags.
pub fn serve(flags: &[&str]) -> Server {
    serve_objects(objects(), flags)
}

/// Serves objects, and waits until they are answered.
pub fn serve_objects(objects: impl Into<Manifest>, flags: &[&str]) -> Server {
    Server::of(objects, &[&FLAGS, flags].concat())
}

/// Serves a cluster whose API server never answers, so that there is no table.
pub fn serve_nothing_yet(api_server: SocketAddr, flags: &[&str]) -> Server {
    Server::without_table(api_server, &[&FLAGS[..], flags].concat())
}

/// Serves the sample over TLS, HTTPS and QUIC, too.
pub fn encrypted(flags: &[&str]) -> Encrypted {
    encrypted_objects(objects(), flags)
}

/// Serves objects over TLS, HTTPS and QUIC, too.
pub fn encrypted_objects(objects: impl Into<Manifest>, flags: &[&str]) -> Encrypted {
    Encrypted::start(|own| serve_objects(objects, &[own, flags].concat()))
}

/// The same of a cluster whose API server never answers.
pub fn encrypted_nothing_yet(api_server: SocketAddr) -> Encrypted {
    Encrypted::start(|own| serve_nothing_yet(api_server, own))
}
