//! DNS over TLS (RFC 7858), over HTTPS (RFC 8484) and over QUIC (RFC 9250), off by default; the only door to rustls, to
//! HTTP/2 and to hickory-server.
//!
//! TLS lies between the accepted connection and what serves it, which is `tcp` for DNS over TLS, and `https`.
//! QUIC is hickory-server's, which brings limits of its own.

mod certificate;
mod client_ca;
mod https;
mod quic;
pub mod request;
mod tls;

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use certificate::{Certificate, CertificateError};

use super::Answerer;
use super::accept::accept;
use super::bind::{Addresses, BindError};
use super::connections::{Connections, Place};
use super::tcp::{self, Connection};
use crate::wire::Transport;
use client_ca::ClientCa;
use https::Exchange;
use tls::{OVER_QUIC, OVER_TCP, handshake};

/// What is served encrypted.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of DNS over TLS.
    pub tls: Vec<SocketAddr>,
    /// Addresses of DNS over HTTPS.
    pub https: Vec<SocketAddr>,
    /// Addresses of DNS over QUIC.
    pub quic: Vec<SocketAddr>,
    /// Path of DNS over HTTPS.
    pub https_path: String,
    /// PEM file of the certificate chain.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
    /// PEM file of the authorities that clients must have a certificate of.
    pub client_ca: Option<PathBuf>,
}

/// A certificate that can be used, and where it will be shown.
pub struct Encrypted {
    options: Options,
    certificate: Arc<Certificate>,
    client_ca: Option<Arc<ClientCa>>,
    /// What is offered over TLS, HTTPS and QUIC.
    configs: [Arc<ServerConfig>; 3],
    listeners: Vec<(Kind, TcpListener)>,
    quic: Vec<UdpSocket>,
}

/// What is inside TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Dns,
    Http,
}

/// What serves the connections of a listener.
#[derive(Clone)]
struct Service {
    kind: Kind,
    acceptor: TlsAcceptor,
    answerer: Arc<Answerer>,
    /// `--https-path`.
    path: Arc<str>,
    /// Octets that the requests of all connections hold.
    held: Arc<AtomicUsize>,
    stop: CancellationToken,
}

// === impl Encrypted ===

impl Encrypted {
    /// Reads the certificate, and the authorities of clients.
    ///
    /// # Errors
    ///
    /// If one of them cannot be used.
    pub fn open(options: Options) -> Result<Self, CertificateError> {
        let certificate = Certificate::open(&options.certificate, &options.key)?;
        let certificate = Arc::new(certificate);
        let client_ca = options.client_ca.as_deref().map(ClientCa::open);
        let client_ca = client_ca.transpose()?.map(Arc::new);
        let config = |protocols, versions| {
            tls::config(protocols, versions, &certificate, client_ca.as_ref())
        };
        let configs = [
            config(&[b"dot"], OVER_TCP)?,
            config(&[b"h2", b"http/1.1"], OVER_TCP)?,
            config(&[b"doq"], OVER_QUIC)?,
        ];
        Ok(Self {
            options,
            certificate,
            client_ca,
            configs,
            listeners: Vec::new(),
            quic: Vec::new(),
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
            let bound = bound.into_iter().map(|listener| (kind, listener));
            self.listeners.extend(bound);
        }
        self.quic = Addresses::Given(self.options.quic.clone()).bind_udp("quic")?;
        Ok(self)
    }

    /// Returns how many descriptors are needed for each connection that is allowed: one, if there can be any.
    pub fn descriptors(&self) -> usize {
        usize::from(!self.listeners.is_empty())
    }

    /// Returns when the certificate in use expires, in Unix seconds: it changes when the files do.
    pub fn certificate_expiry(&self) -> Arc<AtomicU64> {
        self.certificate.expiry()
    }

    /// Follows the files for ever.
    pub fn follow(&self) -> impl Future<Output = ()> + use<> {
        let certificate = self.certificate.clone().follow();
        let client_ca = self.client_ca.clone().map(ClientCa::follow);
        async move {
            match client_ca {
                None => certificate.await,
                Some(client_ca) => {
                    tokio::join!(certificate, client_ca);
                }
            }
        }
    }

    /// Makes a task for each listener, which ends after `stop`, or when the listener does.
    pub(super) fn start(
        self,
        answerer: &Arc<Answerer>,
        connections: &Connections,
        stop: &CancellationToken,
    ) -> Vec<BoxFuture<'static, ()>> {
        let [dns, http, quic] = self.configs;
        let path = Arc::from(self.options.https_path);
        let held = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for (kind, listener) in self.listeners {
            let config = match kind {
                Kind::Dns => &dns,
                Kind::Http => &http,
            };
            let service = Service {
                kind,
                acceptor: TlsAcceptor::from(config.clone()),
                answerer: answerer.clone(),
                path: Arc::clone(&path),
                held: held.clone(),
                stop: stop.clone(),
            };
            tasks.push(service.accept(listener, connections.clone()).boxed());
        }
        for socket in self.quic {
            let serving = quic::serve(socket, quic.clone(), answerer.clone(), stop.clone());
            tasks.push(serving.boxed());
        }
        tasks
    }
}

// === impl Service ===

impl Service {
    /// Serves the connections of a listener until `stop`, and to their ends.
    async fn accept(self, listener: TcpListener, connections: Connections) {
        let over = match self.kind {
            Kind::Dns => Transport::Tls,
            Kind::Http => Transport::Https,
        };
        let serve = |stream, client, place| self.clone().serve(stream, client, place);
        let note_end = |ended| tcp::note_end(&self.answerer, over, ended);
        accept(listener, connections, self.stop.clone(), serve, note_end).await;
    }

    /// Serves a connection to its end, and counts that.
    async fn serve(self, stream: TcpStream, client: SocketAddr, place: Place) {
        let stream = match handshake(&self.acceptor, stream, &place, &self.stop).await {
            Ok(stream) => stream,
            Err(ended) => return self.answerer.counters.count_ended(ended),
        };
        match self.kind {
            Kind::Dns => {
                let (answerer, stop) = (self.answerer, self.stop);
                let connection =
                    Connection::new(stream, Transport::Tls, client, place, answerer, stop);
                connection.serve().await;
            }
            Kind::Http => {
                let exchange = Exchange::new(self.answerer, client, place, self.path, self.held);
                https::serve(stream, exchange, self.stop).await;
            }
        }
    }
}
