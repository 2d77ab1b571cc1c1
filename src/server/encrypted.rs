//! DNS over TLS (RFC 7858) and over HTTPS (RFC 8484), off by default; the only door to hickory-server and rustls.
//!
//! hickory-server does the transports: accepting, TLS, framing, HTTP/2. What a message means and what it gets is
//! decided where it is for UDP and TCP, behind the `adapter`. What hickory does on its own stays as it is, and is
//! listed in the README and in `tests/integration/encrypted`: it reads a message before we see it, answers FORMERR to
//! what it cannot read, knows no GET, resets a stream instead of an HTTP error, and has no limit on connections.

mod adapter;
mod certificate;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hickory_server::Server;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::ResolvesServerCert;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use certificate::{Certificate, CertificateError};

use super::bind::{Addresses, BindError};
use super::{Answerer, TCP_IDLE};
use adapter::Adapter;

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
    listeners: Vec<(TcpListener, Kind)>,
}

/// What is inside TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dns,
    Http,
}

// === impl Encrypted ===

impl Encrypted {
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
            let bound = Addresses::Given(addresses.clone()).bind_tcp(name)?;
            self.listeners
                .extend(bound.into_iter().map(|listener| (listener, kind)));
        }
        Ok(self)
    }

    /// Returns the certificate, which changes when its files do.
    pub fn certificate(&self) -> Arc<Certificate> {
        self.certificate.clone()
    }

    /// Makes one task for each listener, which ends after `stop`, or when its listener does.
    pub(super) fn start(
        self,
        answerer: Arc<Answerer>,
        stop: &CancellationToken,
    ) -> impl Iterator<Item = impl Future<Output = ()> + use<>> + use<> {
        let Self {
            options,
            certificate,
            listeners,
        } = self;
        let stop = stop.clone();
        listeners.into_iter().map(move |(listener, kind)| {
            // A server of its own for each, because a server ends when its last listener does.
            let mut server = Server::new(Adapter::new(answerer.clone()));
            let registered = register(
                &mut server,
                listener,
                kind,
                certificate.clone(),
                options.https_path.clone(),
            );
            serve(server, registered, stop.clone())
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
