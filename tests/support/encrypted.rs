//! A server with encrypted listeners, and clients that trust its certificate.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use crate::certificates::{Identity, issue_valid};
use crate::https::{Http1, Http2, PATH, Response, get, post};
use crate::objects::Manifest;
use crate::query::query;
use crate::quic::Quic;
use crate::reply::Reply;
use crate::server::{Server, WaitUntil};
use crate::tls::{Client, Offer, Stream};

/// Flag of the listener for DNS over QUIC, which only some tests need.
pub const QUIC: &str = "--quic-listen=127.0.0.1:0";

/// A server with listeners for DNS over TLS, HTTPS and QUIC.
#[derive(Debug)]
pub struct EncryptedServer {
    /// The server.
    pub server: Server,
    /// Its certificate.
    pub issued: Identity,
    _folder: TempDir,
}

/// Serves the objects of a manifest over UDP, TCP, TLS and HTTPS.
pub fn serve(manifest: impl Into<Manifest>, issued: &Identity, flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), manifest, issued);
    let files = files.each_ref().map(String::as_str);
    let listen = ["--tls-listen=127.0.0.1:0", "--https-listen=127.0.0.1:0"];
    let flags = [&files[..], &listen, flags].concat();
    Server::start(folder, &flags, WaitUntil::Ready)
}

/// Writes the objects, the certificate and the key into a folder. Returns the flags for these files.
pub fn files(folder: &Path, manifest: impl Into<Manifest>, issued: &Identity) -> [String; 3] {
    let objects = folder.join("objects.yaml");
    std::fs::write(&objects, manifest.into().text()).unwrap();
    issued.write(folder);
    let [certificate, key] = Identity::flags(folder);
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

    /// Sends a query over HTTP/2 with POST.
    pub fn ask_https(&self, server: SocketAddr, packet: &[u8]) -> Response {
        self.request(server, &post(PATH), packet)
    }

    /// Sends a request over HTTP/2.
    pub fn request(
        &self,
        server: SocketAddr,
        request: &http::Request<()>,
        body: &[u8],
    ) -> Response {
        let mut connection = self.http2(server);
        connection.send(request, body).unwrap()
    }

    /// Connects to a listener of DNS over TLS.
    pub fn tls(&self, server: SocketAddr) -> Stream {
        self.client(&["dot"]).connect(server).unwrap()
    }

    /// Connects to a listener of DNS over HTTPS with HTTP/1.1.
    pub fn http1(&self, server: SocketAddr) -> Http1 {
        Http1::connect(&self.client(&["http/1.1"]), server).unwrap()
    }

    /// Connects to a listener of DNS over HTTPS with HTTP/2.
    pub fn http2(&self, server: SocketAddr) -> Http2 {
        Http2::connect(&self.client(&["h2"]), server).unwrap()
    }

    /// Connects to a listener of DNS over QUIC.
    pub fn quic(&self, server: SocketAddr) -> Quic {
        Quic::connect(&self.client(&["doq"]), server).unwrap()
    }
}

// === impl Encrypted ===

impl EncryptedServer {
    /// Starts a server. `start` receives the flags of the encrypted listeners.
    pub fn start(start: impl FnOnce(&[&str]) -> Server) -> Self {
        let (issued, folder) = (issue_valid(), TempDir::new().unwrap());
        issued.write(folder.path());
        let [certificate, key] = Identity::flags(folder.path());
        let listen = ["--tls-listen=127.0.0.1:0", "--https-listen=127.0.0.1:0"];
        Self {
            server: start(&[listen[0], listen[1], QUIC, &certificate, &key]),
            issued,
            _folder: folder,
        }
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

    /// Connects to the listener of DNS over HTTPS with HTTP/1.1.
    pub fn http1(&self) -> Http1 {
        self.issued.http1(self.address("https"))
    }

    /// Connects to the listener of DNS over HTTPS with HTTP/2.
    pub fn http2(&self) -> Http2 {
        self.issued.http2(self.address("https"))
    }

    /// Connects to the listener of DNS over QUIC.
    pub fn quic(&self) -> Quic {
        self.issued.quic(self.address("quic"))
    }

    /// Fails unless the server answers a query over every transport.
    pub fn assert_answers(&self) {
        self.server.assert_answers();
        let question = query("global. SOA");
        let by_get = self.http1().send(&get(PATH, &question.0), &[]).unwrap();
        let by_post = self.http2().send(&post(PATH), &question.0).unwrap();
        for reply in [
            self.issued
                .ask_tls(self.address("tls"), &question.0)
                .unwrap(),
            by_get.message(),
            by_post.message(),
            self.quic().ask(&question.with_id(0).0).unwrap(),
        ] {
            assert_eq!(Reply::read(&reply).unwrap().answers.len(), 1);
        }
    }
}
