//! DNS over TLS and over HTTPS: certificates, a server that shows one, clients.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::PATIENCE;
use super::binary::{Await, Server};
use super::objects::Manifest;
use super::wire::{frame, read_framed};

/// A certificate that signs itself, and its key.
pub struct Issued {
    pub certificate: String,
    pub key: String,
    der: CertificateDer<'static>,
}

/// A TLS connection.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// What an HTTP request gets.
#[derive(Debug, PartialEq, Eq)]
pub enum Response {
    /// Status, content type, body.
    Page(u16, Option<String>, Vec<u8>),
    /// The stream is reset, with this reason.
    Reset(h2::Reason),
}

/// Issues a certificate for `localhost`, which was valid from `begins` on and is until `ends`, seconds from now.
pub fn issue(begins: i64, ends: i64) -> Issued {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = i64::try_from(now.unwrap().as_secs()).unwrap();
    let time = |seconds: i64| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(now + seconds).unwrap())
    };
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (time(begins), time(ends));
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Issued {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        der: certificate.der().clone(),
    }
}

/// Issues a certificate that is good for a month.
pub fn issue_good() -> Issued {
    issue(-3_600, 30 * 24 * 3_600)
}

/// Serves what a manifest holds, over UDP, TCP, TLS and HTTPS.
pub fn serve(manifest: impl Into<Manifest>, issued: &Issued, flags: &[&str]) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("objects.yaml");
    std::fs::write(&objects, manifest.into().text()).unwrap();
    issued.write(folder.path());
    let file = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let fixed = [
        file("file", &objects),
        file("tls-cert", &folder.path().join("tls.crt")),
        file("tls-key", &folder.path().join("tls.key")),
    ];
    let fixed = fixed.each_ref().map(String::as_str);
    let listen = ["--tls-listen=127.0.0.1:0", "--https-listen=127.0.0.1:0"];
    let flags = [&fixed[..], &listen, flags].concat();
    Server::start(folder, &flags, Await::Ready)
}

// === impl Issued ===

impl Issued {
    /// Writes `tls.crt` and `tls.key`, as in a Secret.
    pub fn write(&self, folder: &Path) {
        std::fs::write(folder.join("tls.crt"), &self.certificate).unwrap();
        std::fs::write(folder.join("tls.key"), &self.key).unwrap();
    }

    /// A client that trusts this certificate, and offers this protocol.
    fn client(&self, protocol: &str) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Arc::new(config)
    }

    /// Connects, offering a protocol. Fails unless the server shows this certificate.
    pub fn connect(&self, server: SocketAddr, protocol: &str) -> io::Result<Stream> {
        self.begin(TcpStream::connect(server)?, protocol)
    }

    /// The same over a TCP connection that is open.
    pub fn begin(&self, mut stream: TcpStream, protocol: &str) -> io::Result<Stream> {
        let connection = ClientConnection::new(self.client(protocol), localhost());
        let mut connection = connection.map_err(io::Error::other)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }

    /// Asks over TLS.
    pub fn ask_tls(&self, server: SocketAddr, packet: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = self.connect(server, "dot")?;
        send(&mut stream, packet)?;
        read_framed(&mut stream)
    }

    /// Asks over HTTPS, by POST.
    pub fn ask_https(&self, server: SocketAddr, packet: &[u8]) -> Response {
        self.request(server, post("/dns-query"), packet)
    }

    /// Sends an HTTP request.
    pub fn request(&self, server: SocketAddr, request: http::Request<()>, body: &[u8]) -> Response {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let exchange = self.exchange(server, request, body.to_vec());
        let response = runtime.block_on(async { tokio::time::timeout(PATIENCE, exchange).await });
        match response.expect("a response in time") {
            Ok(response) => response,
            Err(error) => Response::Reset(error.reason().expect("a reset")),
        }
    }

    async fn exchange(
        &self,
        server: SocketAddr,
        request: http::Request<()>,
        body: Vec<u8>,
    ) -> Result<Response, h2::Error> {
        let stream = tokio::net::TcpStream::connect(server).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(self.client("h2"));
        let stream = connector.connect(localhost(), stream).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await?;
        let connection = tokio::spawn(connection);
        let mut client = client.ready().await?;
        let (response, mut sender) = client.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            sender.send_data(Bytes::from(body), true)?;
        }
        let response = response.await?;
        let content_type = response.headers().get(http::header::CONTENT_TYPE);
        let content_type = content_type.map(|value| value.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut octets = Vec::new();
        while let Some(part) = body.data().await {
            let part = part?;
            body.flow_control().release_capacity(part.len())?;
            octets.extend(part);
        }
        connection.abort();
        Ok(Response::Page(status, content_type, octets))
    }
}

/// A request as RFC 8484 wants it.
pub fn post(path: &str) -> http::Request<()> {
    let request = http::Request::post(format!("https://localhost{path}"));
    let request = request.header("content-type", "application/dns-message");
    let request = request.header("accept", "application/dns-message");
    request.body(()).unwrap()
}

/// Sends a message behind its length.
pub fn send(stream: &mut Stream, packet: &[u8]) -> io::Result<()> {
    stream.write_all(&frame(packet))?;
    stream.flush()
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

// === impl Response ===

impl Response {
    /// The message, if it is one.
    pub fn message(self) -> Vec<u8> {
        match self {
            Self::Page(200, Some(content_type), body) => {
                assert_eq!(content_type, "application/dns-message");
                body
            }
            other @ (Self::Page(..) | Self::Reset(_)) => panic!("{other:?}"),
        }
    }
}
