//! A server with encrypted listeners, and what holds of all of them.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;

use socket2::{Domain, Socket, Type};

use super::binary::{Await, Server};
pub use super::certificates::{Authority, Issued, issue, issue_good};
pub use super::https::{Http1, Http2, PATH, Response, get, post, request};
use super::objects::Manifest;
pub use super::quic::Quic;
pub use super::tls::{Client, Offer, Stream, ask, send};
use super::wait::wait_for_ok;

/// What listens for DNS over QUIC; not everybody needs it.
pub const QUIC: &str = "--quic-listen=127.0.0.1:0";

/// Serves what a manifest holds, over UDP, TCP, TLS and HTTPS.
pub fn serve(manifest: impl Into<Manifest>, issued: &Issued, flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), manifest, issued);
    let files = files.each_ref().map(String::as_str);
    let listen = ["--tls-listen=127.0.0.1:0", "--https-listen=127.0.0.1:0"];
    let flags = [&files[..], &listen, flags].concat();
    Server::start(folder, &flags, Await::Ready)
}

/// Writes what a server reads, and returns the flags that name it.
pub fn files(folder: &Path, manifest: impl Into<Manifest>, issued: &Issued) -> [String; 3] {
    let objects = folder.join("objects.yaml");
    std::fs::write(&objects, manifest.into().text()).unwrap();
    issued.write(folder);
    let [certificate, key] = Issued::flags(folder);
    [format!("--file={}", objects.display()), certificate, key]
}

/// Connects over TCP from an address of the host.
pub fn connect_from(own: IpAddr, server: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((own, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    TcpStream::from(socket)
}

// === impl Issued ===

impl Issued {
    /// A client that trusts this certificate, and offers these protocols.
    pub fn client(&self, protocols: &[&str]) -> Client {
        Client::new(self, Offer::of(protocols))
    }

    /// Asks over TLS.
    pub fn ask_tls(&self, server: SocketAddr, packet: &[u8]) -> std::io::Result<Vec<u8>> {
        self.client(&["dot"]).ask(server, packet)
    }

    /// Asks over HTTP/2, by POST.
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

    pub fn tls(&self, server: SocketAddr) -> Stream {
        self.client(&["dot"]).connect(server).unwrap()
    }

    pub fn http1(&self, server: SocketAddr) -> Http1 {
        Http1::connect(&self.client(&["http/1.1"]), server).unwrap()
    }

    pub fn http2(&self, server: SocketAddr) -> Http2 {
        Http2::connect(&self.client(&["h2"]), server).unwrap()
    }

    pub fn quic(&self, server: SocketAddr) -> Quic {
        Quic::connect(&self.client(&["doq"]), server).unwrap()
    }
}

// === impl Server ===

impl Server {
    /// How many connections have ended for a reason.
    pub fn ended(&self, reason: &str) -> f64 {
        self.metric(&format!(
            "global_dns_tcp_connections_ended_total{{reason=\"{reason}\"}}"
        ))
    }

    /// Waits until so many connections have ended for a reason.
    pub fn wait_for_ended(&self, reason: &str, count: usize) {
        wait_for_ok(&format!("{count} ended by {reason}"), || {
            let ended = self.ended(reason);
            (ended == count as f64)
                .then_some(())
                .ok_or_else(|| format!("{ended} are"))
        });
    }

    /// How many log lines have this message.
    pub fn count_logged(&self, message: &str) -> usize {
        let events = self.log.events();
        let of_message = events.iter();
        of_message
            .filter(|event| event["fields"]["message"] == message)
            .count()
    }
}
