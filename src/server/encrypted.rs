//! DNS over TLS (RFC 7858) and QUIC (RFC 9250). They are off by default. Only this module uses rustls and hickory-server.
//!
//! All encrypted connections have one thread, from the handshake to the end: a handshake takes milliseconds of CPU time, and must
//! not delay other transports. After the TLS handshake, `tcp` serves DNS over TLS. hickory-server serves QUIC, with its own limits.

mod certificate;
mod quic;
mod tls;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use socket2::Socket;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use certificate::{Certificate, CertificateError, Files};

use super::answerer::Answerer;
use super::bind::{BindError, bind_quic, bind_tls, plain_udp};
use super::connections::Connections;
use super::listen_address::ListenAddress;
use super::opening::Opening;
use super::thread;
use crate::heartbeat::Heartbeat;

/// Settings of the encrypted listeners.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of DNS over TLS.
    pub tls: Vec<ListenAddress>,
    /// Addresses of DNS over QUIC.
    pub quic: Vec<ListenAddress>,
    /// The files of the certificate.
    pub files: Files,
}

/// The encrypted listeners cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum EncryptedError {
    /// A file is unusable.
    Certificate(#[from] CertificateError),
    /// An address cannot be bound.
    Bind(#[from] BindError),
}

/// The encrypted listeners with their certificate.
pub struct Encrypted {
    certificate: Arc<Certificate>,
    tls: Vec<Socket>,
    /// Those that refuse clients.
    quic: Vec<(UdpSocket, SocketAddr)>,
}

// === impl Encrypted ===

impl Encrypted {
    /// Loads the files of the certificate, and binds the addresses.
    ///
    /// # Errors
    ///
    /// If a file is unusable, or an address cannot be bound.
    pub fn open(options: Options) -> Result<Self, EncryptedError> {
        Ok(Self {
            certificate: Arc::new(Certificate::open(options.files)?),
            tls: bind_tls(&options.tls)?,
            quic: bind_quic(&options.quic)?,
        })
    }

    /// Returns the certificate. It changes when the files change.
    pub fn certificate(&self) -> Arc<Certificate> {
        self.certificate.clone()
    }

    /// Starts the thread of all listeners, which gives signs of its progress. Returns a future that completes after `stop`, when all
    /// connections have ended, or when a listener ends.
    pub(super) fn start(
        self,
        answerer: &Arc<Answerer>,
        connections: &Connections,
        opening: &mut Opening,
        heartbeat: Heartbeat,
        stop: CancellationToken,
    ) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter(); // the tasks belong to it
        let certificate = self.certificate;
        let mut listeners = JoinSet::new();
        for socket in self.tls {
            let (answerer, connections) = (answerer.clone(), connections.clone());
            let opened = opening.add_tcp(socket);
            listeners.spawn(tls::serve(
                opened,
                certificate.clone(),
                answerer,
                connections,
            ));
        }
        for closed in self.quic {
            let (sender, socket) = oneshot::channel();
            opening.add_udp(closed, plain_udp, |socket| {
                let _ = sender.send(socket); // it has ended if the server stops
                Ok(())
            });
            listeners.spawn(quic::serve(socket, certificate.clone(), answerer.clone()));
        }
        tokio::spawn(heartbeat.follow_runtime());
        let of_listeners = certificate.stop.clone();
        tokio::spawn(async move {
            stop.cancelled().await;
            of_listeners.cancel();
        });
        drop(entered);
        let run = async move {
            while let Some(ended) = listeners.join_next().await {
                if ended.is_err() || !certificate.stop.is_cancelled() {
                    return; // it ended early, and so do the others
                }
            }
        };
        thread::start("encrypted", move || runtime.block_on(run))
    }
}
