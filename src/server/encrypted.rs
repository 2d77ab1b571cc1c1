//! DNS over TLS (RFC 7858) and over HTTPS (RFC 8484), off by default; the only door to hickory-server and rustls.
//!
//! hickory-server does the transports: TLS, framing, HTTP/2. Connections come to it by the `relay`, because it has no
//! limit on them. What a message means and what it gets is decided where it is for UDP and TCP, behind the `adapter`.
//! What hickory does on its own stays as it is, and is listed in the README and in `tests/integration/encrypted`: it
//! reads a message before we see it, answers FORMERR to what it cannot read, knows no GET, and resets a stream instead
//! of an HTTP error.

mod adapter;
mod certificate;
mod relay;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hickory_server::Server;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::ResolvesServerCert;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use certificate::{Certificate, CertificateError};

use super::accept::accept;
use super::bind::{Addresses, BindError};
use super::connections::Connections;
use super::{Answerer, TCP_IDLE};
use adapter::Adapter;
use relay::{Clients, carry};

/// What is served encrypted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of DNS over TLS.
    pub tls: Vec<SocketAddr>,
    /// Addresses of DNS over HTTPS.
    pub https: Vec<SocketAddr>,
    /// Path of DNS over HTTPS.
    pub https_path: String,
    /// PEM file of the certificate chain.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
}

/// A certificate that can be used, and where it will be shown.
pub struct Encrypted {
    options: Options,
    certificate: Arc<Certificate>,
    listeners: Vec<Listener>,
}

/// An address of clients, and the one on loopback where hickory gets their connections.
struct Listener {
    kind: Kind,
    outer: TcpListener,
    inner: TcpListener,
    inner_address: SocketAddr,
}

/// Where hickory listens.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What is inside TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dns,
    Http,
}

// === impl Encrypted ===

impl Encrypted {
    /// Descriptors of a connection: the client's, and both ends of the one on loopback.
    pub const DESCRIPTORS: usize = 3;

    /// Reads the certificate.
    ///
    /// # Errors
    ///
    /// If it cannot be used.
    pub fn open(options: Options) -> Result<Self, CertificateError> {
        let certificate = Certificate::open(&options.certificate, &options.key)?;
        Ok(Self {
            options,
            certificate: Arc::new(certificate),
            listeners: Vec::new(),
        })
    }

    /// Binds the addresses.
    ///
    /// # Errors
    ///
    /// If an address cannot be had.
    pub fn bind(mut self) -> Result<Self, BindError> {
        let wanted = [
            ("tls", Kind::Dns, &self.options.tls),
            ("https", Kind::Http, &self.options.https),
        ];
        for (name, kind, addresses) in wanted {
            for outer in Addresses::Given(addresses.clone()).bind_tcp(name)? {
                let listener = Listener::new(kind, outer).map_err(|source| BindError {
                    listener: name,
                    address: LOOPBACK,
                    source,
                })?;
                self.listeners.push(listener);
            }
        }
        Ok(self)
    }

    /// Returns the certificate, which changes when its files do.
    pub fn certificate(&self) -> Arc<Certificate> {
        self.certificate.clone()
    }

    /// Makes two tasks for each listener, which end after `stop`, or when a listener does.
    pub(super) fn start(
        self,
        answerer: &Arc<Answerer>,
        connections: &Connections,
        stop: &CancellationToken,
    ) -> Vec<BoxFuture<'static, ()>> {
        let clients = Clients::default();
        let mut tasks = Vec::new();
        for listener in self.listeners {
            // A server of its own for each, because a server ends when its last listener does.
            let mut server = Server::new(Adapter::new(answerer.clone(), clients.clone()));
            let registered = register(
                &mut server,
                listener.inner,
                listener.kind,
                self.certificate.clone(),
                self.options.https_path.clone(),
            );
            tasks.push(serve(server, registered, stop.clone()).boxed());
            let (counters, clients) = (answerer.counters.clone(), clients.clone());
            let to = listener.inner_address;
            let carry = move |stream, client, place| {
                carry(stream, client, place, to, clients.clone(), counters.clone())
            };
            let note_end = |ended: Result<(), _>| {
                if let Err(error) = ended {
                    warn!(%error, "An encrypted connection ended in an error");
                }
            };
            let (connections, stop) = (connections.clone(), stop.clone());
            tasks.push(accept(listener.outer, connections, stop, carry, note_end).boxed());
        }
        tasks
    }
}

// === impl Listener ===

impl Listener {
    fn new(kind: Kind, outer: TcpListener) -> io::Result<Self> {
        let inner = std::net::TcpListener::bind(LOOPBACK)?;
        inner.set_nonblocking(true)?;
        Ok(Self {
            kind,
            outer,
            inner_address: inner.local_addr()?,
            inner: TcpListener::from_std(inner)?,
        })
    }
}

fn register(
    server: &mut Server<Adapter>,
    listener: TcpListener,
    kind: Kind,
    certificate: Arc<Certificate>,
    path: String,
) -> io::Result<()> {
    // One time limit is all that hickory takes: for the handshake, and for a connection that is idle.
    match kind {
        Kind::Dns => {
            let tls = tls_config(b"dot", certificate)?;
            server.register_tls_listener_with_tls_config(listener, TCP_IDLE, tls)
        }
        Kind::Http => {
            let tls = tls_config(b"h2", certificate)?;
            // Requests may name us as they like: the certificate says who we are.
            server.register_https_listener_with_tls_config(listener, TCP_IDLE, tls, None, path)
        }
    }
}

/// TLS 1.2 and 1.3, with ring.
fn tls_config(
    protocol: &[u8],
    certificate: Arc<dyn ResolvesServerCert>,
) -> io::Result<Arc<ServerConfig>> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(Arc::new(config))
}

/// Runs one server. Ending although nobody stopped it is for the caller to notice.
async fn serve(mut server: Server<Adapter>, registered: io::Result<()>, stop: CancellationToken) {
    if let Err(error) = registered {
        warn!(%error, "An encrypted listener could not start");
        return;
    }
    tokio::select! {
        ended = server.block_until_done() => {
            let error = ended.err().map(|error| error.to_string());
            warn!(error, "An encrypted listener ended");
        }
        () = stop.cancelled() => {
            if let Err(error) = server.shutdown_gracefully().await {
                warn!(%error, "An encrypted listener had ended in an error");
            }
        }
    }
}
