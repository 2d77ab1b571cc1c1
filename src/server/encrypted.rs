//! DNS over TLS (RFC 7858) and QUIC (RFC 9250). They are off by default. Only this module uses rustls and hickory-server.
//!
//! After the TLS handshake, `tcp` serves DNS over TLS. hickory-server serves QUIC, with its own limits.

mod certificate;
mod client_ca;
mod quic;
mod tls;

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Either, OptionFuture, select};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use certificate::{Certificate, CertificateError};

use super::accept::accept;
use super::answerer::Answerer;
use super::bind::{BindError, bind_tcp, bind_udp};
use super::connections::Connections;
use super::listen_address::ListenAddress;
use super::socket::Socket;
use super::tcp::{self, Connection};
use crate::wire::Transport;
use client_ca::ClientCa;
use quic::QuicListener;
use tls::{OVER_QUIC, OVER_TCP, handshake};

/// Settings of the encrypted listeners.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of DNS over TLS.
    pub tls: Vec<ListenAddress>,
    /// Addresses of DNS over QUIC.
    pub quic: Vec<ListenAddress>,
    /// PEM file of the certificate chain.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
    /// PEM file of the certificate authorities of clients. If it is set, clients need a certificate from one of them.
    pub client_ca: Option<PathBuf>,
}

/// The encrypted listeners with their certificate.
pub struct Encrypted {
    options: Options,
    certificate: Arc<Certificate>,
    client_ca: Option<Arc<ClientCa>>,
    /// TLS configurations for TLS and QUIC.
    configs: [Arc<ServerConfig>; 2],
    listeners: Vec<TcpListener>,
    quic: Vec<UdpSocket>,
}

/// Serves the connections of a TLS listener.
#[derive(Clone)]
struct TlsService {
    acceptor: TlsAcceptor,
    answerer: Arc<Answerer>,
    client_ca: Option<Arc<ClientCa>>,
    stop: CancellationToken,
}

// === impl Encrypted ===

impl Encrypted {
    /// Reads the certificate, its key and the certificate authorities of clients.
    ///
    /// # Errors
    ///
    /// If a file is unusable.
    pub fn open(options: Options) -> Result<Self, CertificateError> {
        let certificate = Arc::new(Certificate::open(&options.certificate, &options.key)?);
        let client_ca = options
            .client_ca
            .as_deref()
            .map(ClientCa::open)
            .transpose()?
            .map(Arc::new);
        let config =
            |protocol, versions| tls::config(protocol, versions, &certificate, client_ca.as_ref());
        let configs = [config(b"dot", OVER_TCP)?, config(b"doq", OVER_QUIC)?];
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
    /// If an address cannot be bound.
    pub fn bind(mut self) -> Result<Self, BindError> {
        self.listeners = bind_tcp(&self.options.tls, "tls")?;
        self.quic = bind_udp(&self.options.quic, "quic")?;
        Ok(self)
    }

    /// Returns the certificate. It changes when the files change.
    pub fn certificate(&self) -> Arc<Certificate> {
        self.certificate.clone()
    }

    /// Reloads the files when they change. It never returns.
    pub fn follow(&self) -> impl Future<Output = ()> + use<> {
        let certificate = self.certificate.clone().follow();
        let client_ca = OptionFuture::from(self.client_ca.clone().map(ClientCa::follow));
        async move {
            tokio::join!(certificate, client_ca);
        }
    }

    /// Returns a task for each listener. A task ends after `stop`, or when its listener ends.
    pub(super) fn start(
        self,
        answerer: &Arc<Answerer>,
        connections: &Connections,
        stop: &CancellationToken,
    ) -> Vec<BoxFuture<'static, ()>> {
        let [tls, quic] = self.configs;
        let mut tasks = Vec::new();
        for listener in self.listeners {
            let service = TlsService {
                acceptor: TlsAcceptor::from(tls.clone()),
                answerer: answerer.clone(),
                client_ca: self.client_ca.clone(),
                stop: stop.clone(),
            };
            tasks.push(service.accept(listener, connections.clone()).boxed());
        }
        let memory = quic::memory(quic::DEFAULT_BUDGET);
        for socket in self.quic {
            let listener = QuicListener {
                socket,
                config: quic.clone(),
                answerer: answerer.clone(),
                memory: memory.clone(),
                client_ca: self.client_ca.clone(),
                stop: stop.clone(),
            };
            tasks.push(listener.serve().boxed());
        }
        tasks
    }
}

// === impl TlsService ===

impl TlsService {
    /// Accepts connections until `stop`, and serves each until it ends.
    async fn accept(self, listener: TcpListener, connections: Connections) {
        let serve = |socket, client| self.clone().serve(socket, client);
        let note_end = |ended| tcp::note_end(&self.answerer, Transport::Tls, ended);
        accept(listener, connections, self.stop.clone(), serve, note_end).await;
    }

    /// Serves a connection until it ends. If its certificate authority is removed, the connection ends as if the server
    /// stopped: queries that the client has already sent are still answered.
    async fn serve(mut self, socket: Socket, client: SocketAddr) {
        let Some(client_ca) = self.client_ca.take() else {
            return self.serve_until_stop(socket, client).await;
        };
        let (stop, is_trusted) = (self.stop.child_token(), client_ca.trust());
        self.stop = stop.clone();
        let serving = pin!(self.serve_until_stop(socket, client));
        let distrusted = pin!(is_trusted.cancelled());
        if let Either::Right(((), serving)) = select(serving, distrusted).await {
            stop.cancel();
            serving.await;
        }
    }

    /// Serves a connection until it ends, and counts the reason.
    async fn serve_until_stop(self, socket: Socket, client: SocketAddr) {
        let stream = match handshake(&self.acceptor, socket, &self.stop).await {
            Ok(stream) => stream,
            Err((ended, socket)) => {
                self.answerer.counters.count_ended(ended);
                // The client may have sent its first query, and must see the alert.
                if let Some(socket) = socket {
                    socket.close(ended).await;
                }
                return;
            }
        };
        let (answerer, stop) = (self.answerer, self.stop);
        let connection = Connection::new(stream, Transport::Tls, client, answerer, stop);
        connection.serve().await;
    }
}
