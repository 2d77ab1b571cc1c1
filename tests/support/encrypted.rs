//! A server with encrypted listeners, and clients that trust its certificate.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;

use socket2::{Domain, Socket, Type};

use crate::certificates::{Identity, issue_valid};
use crate::objects::Manifest;
use crate::query::query;
use crate::quic::Quic;
use crate::reply::Reply;
use crate::server::{Server, WaitUntil};
use crate::tls::{Client, Offer, Stream};

/// Setting of the listener for DNS over TLS.
const TLS: &str = "listen.tls=['127.0.0.1:0']";
/// Setting of the listener for DNS over QUIC, which only some tests need.
pub const QUIC: &str = "listen.quic=['127.0.0.1:0']";

/// A server with listeners for DNS over TLS and QUIC.
#[derive(Debug)]
pub struct EncryptedServer {
    /// The server.
    pub server: Server,
    /// Its certificate.
    pub issued: Identity,
}

/// Serves the objects of a manifest over UDP, TCP and TLS.
pub fn serve(manifest: impl Into<Manifest>, issued: &Identity, flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), manifest, issued);
    let files = files.each_ref().map(String::as_str);
    let flags = [&files[..], &[TLS], flags].concat();
    Server::start(folder, &flags, WaitUntil::Ready)
}

/// Writes the objects, the certificate and the key into a folder. Returns the flags for these files.
pub fn files(folder: &Path, manifest: impl Into<Manifest>, issued: &Identity) -> [String; 3] {
    let objects = folder.join("objects.yaml");
    std::fs::write(&objects, manifest.into().text()).unwrap();
    issued.write(folder);
    let [certificate, key] = Identity::settings(folder);
    [format!("--file={}", objects.display()), certificate, key]
}

/// Connects over TCP from a given local address.
pub fn connect_from(own: IpAddr, server: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((own, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    TcpStream::from(socket)
}

// === impl Issued ===

impl Identity {
    /// Returns a client that trusts this certificate and offers the protocols.
    pub fn client(&self, protocols: &[&str]) -> Client {
        Client::new(self, Offer::of(protocols))
    }

    /// Sends a query over TLS.
    pub fn ask_tls(&self, server: SocketAddr, packet: &[u8]) -> io::Result<Vec<u8>> {
        self.client(&["dot"]).ask(server, packet)
    }

    /// Connects to a listener of DNS over TLS.
    pub fn tls(&self, server: SocketAddr) -> Stream {
        self.client(&["dot"]).connect(server).unwrap()
    }

    /// Connects to a listener of DNS over QUIC.
    pub fn quic(&self, server: SocketAddr) -> Quic {
        Quic::connect(&self.client(&["doq"]), server).unwrap()
    }
}

// === impl Encrypted ===

impl EncryptedServer {
    /// Serves the objects of a manifest over each transport.
    pub fn start(manifest: impl Into<Manifest>, flags: &[&str]) -> Self {
        let issued = issue_valid();
        let server = serve(manifest, &issued, &[&[QUIC], flags].concat());
        Self { server, issued }
    }

    /// Returns the address of a listener.
    pub fn address(&self, listener: &str) -> SocketAddr {
        self.server.address(listener)
    }

    /// Returns a client that trusts this server.
    pub fn client(&self, offer: Offer<'_>) -> Client {
        Client::new(&self.issued, offer)
    }

    /// Connects to the listener of DNS over TLS.
    pub fn tls(&self) -> Stream {
        self.issued.tls(self.address("tls"))
    }

    /// Connects to the listener of DNS over QUIC.
    pub fn quic(&self) -> Quic {
        self.issued.quic(self.address("quic"))
    }

    /// Fails unless the server answers a query over every transport.
    pub fn assert_answers(&self) {
        self.server.assert_answers();
        let question = query("global. SOA");
        for reply in [
            self.issued
                .ask_tls(self.address("tls"), &question.0)
                .unwrap(),
            self.quic().ask(&question.with_id(0).0).unwrap(),
        ] {
            assert_eq!(Reply::read(&reply).unwrap().answers.len(), 1);
        }
    }
}
