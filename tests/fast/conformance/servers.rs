//! Starts the servers under test.

use support::encrypted::EncryptedServer;
use support::names::{FLAGS, sample as objects};
use support::objects::Manifest;
use support::server::Server;

/// Serves the sample objects.
pub fn serve_sample() -> Server {
    serve(&[])
}

/// Serves the sample objects, with additional flags.
pub fn serve(flags: &[&str]) -> Server {
    serve_objects(objects(), flags)
}

/// Serves the objects, and waits until the server answers for them.
pub fn serve_objects(objects: impl Into<Manifest>, flags: &[&str]) -> Server {
    Server::with_objects(objects, &[&FLAGS, flags].concat())
}

/// Serves the sample objects over TLS and QUIC as well.
pub fn serve_encrypted(flags: &[&str]) -> EncryptedServer {
    serve_encrypted_objects(objects(), flags)
}

/// Serves the objects over TLS and QUIC as well.
pub fn serve_encrypted_objects(objects: impl Into<Manifest>, flags: &[&str]) -> EncryptedServer {
    EncryptedServer::start(objects, &[&FLAGS, flags].concat())
}
