//! The binary with its encrypted listeners, and clients that trust it.

use std::net::SocketAddr;

use tempfile::TempDir;

use super::certificates::{Issued, issue_good};
use super::https::{Http1, Http2, PATH, get, post};
use super::question::{Packet, query};
use super::quic::Quic;
use super::reply::decode;
use super::server::{SAMPLE, Server, serve_nothing_yet, serve_objects};
use super::tls::{Client, Offer, Stream};

/// A server that listens for DNS over TLS, HTTPS and QUIC, too.
pub struct Encrypted {
    pub server: Server,
    issued: Issued,
    _folder: TempDir,
}

const LISTEN: [&str; 3] = [
    "--tls-listen=127.0.0.1:0",
    "--https-listen=127.0.0.1:0",
    "--quic-listen=127.0.0.1:0",
];

/// Serves the sample, with more flags.
pub fn encrypted(flags: &[&str]) -> Encrypted {
    encrypted_objects(SAMPLE, flags)
}

/// Serves objects.
pub fn encrypted_objects(yaml: &str, flags: &[&str]) -> Encrypted {
    Encrypted::start(|own| serve_objects(yaml, &[own, flags].concat()))
}

/// Serves a cluster whose API server never answers, so that there is no table.
pub fn encrypted_nothing_yet(api_server: SocketAddr) -> Encrypted {
    Encrypted::start(|own| serve_nothing_yet(api_server, own))
}

// === impl Encrypted ===

impl Encrypted {
    fn start(start: impl FnOnce(&[&str]) -> Server) -> Self {
        let (issued, folder) = (issue_good(), TempDir::new().unwrap());
        issued.write(folder.path());
        let files = Issued::flags(folder.path());
        let files = files.each_ref().map(String::as_str);
        Self {
            server: start(&[&LISTEN[..], &files].concat()),
            issued,
            _folder: folder,
        }
    }

    pub fn address(&self, listener: &str) -> SocketAddr {
        self.server.address(listener)
    }

    /// A client that trusts this server.
    pub fn client(&self, offer: Offer<'_>) -> Client {
        Client::new(&self.issued, offer)
    }

    /// Connects to the listener of DNS over TLS.
    pub fn tls(&self) -> Stream {
        let client = self.client(Offer::of(&["dot"]));
        client.connect(self.address("tls")).unwrap()
    }

    /// Connects to the listener of DNS over HTTPS, for HTTP/1.1.
    pub fn http1(&self) -> Http1 {
        let client = self.client(Offer::of(&["http/1.1"]));
        Http1::connect(&client, self.address("https")).unwrap()
    }

    /// Connects to the listener of DNS over HTTPS, for HTTP/2.
    pub fn http2(&self) -> Http2 {
        let client = self.client(Offer::of(&["h2"]));
        Http2::connect(&client, self.address("https")).unwrap()
    }

    /// Connects to the listener of DNS over QUIC.
    pub fn quic(&self) -> Quic {
        let client = self.client(Offer::of(&["doq"]));
        Quic::connect(&client, self.address("quic")).unwrap()
    }

    /// Fails unless an ordinary question is answered over every transport.
    pub fn assert_well(&self) {
        self.server.assert_well();
        let question = query("global. SOA");
        let tls = self.client(Offer::of(&["dot"]));
        let by_get = self.http1().send(&get(PATH, &question.0), &[]).unwrap();
        let by_post = self.http2().send(&post(PATH), &question.0).unwrap();
        for reply in [
            tls.ask(self.address("tls"), &question.0).unwrap(),
            by_get.message(),
            by_post.message(),
            self.quic().ask(&question.with_id(0).0).unwrap(),
        ] {
            assert_eq!(decode(&reply).answer.len(), 1);
        }
    }
}

impl Packet {
    /// The same query with another identifier.
    pub fn with_id(&self, id: u16) -> Self {
        let mut octets = self.0.clone();
        octets[..2].copy_from_slice(&id.to_be_bytes());
        Self(octets)
    }
}
