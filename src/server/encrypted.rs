//! DNS over TLS (RFC 7858) and QUIC (RFC 9250). They are off by default. Only this module uses rustls and hickory-server.
//!
//! All encrypted connections have one thread, from the handshake to the end: a handshake takes milliseconds of CPU time, and must
//! not delay other transports. After the TLS handshake, `tcp` serves DNS over TLS. hickory-server serves QUIC, with its own limits.

mod certificate;
mod quic;
mod tls;

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use socket2::Socket;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use certificate::{Certificate, CertificateFiles};

use super::accept::accept;
use super::answerer::Answerer;
use super::bind::{BACKLOG, BindError, ClosedUdp, bind, tcp};
use super::connections::Connections;
use super::listen_address::ListenAddress;
use super::thread;
use crate::heartbeat::Heartbeat;

/// The bound addresses of the encrypted listeners, which refuse clients, with the certificate.
pub struct Encrypted {
    /// Its token stops the listeners.
    pub(super) certificate: Arc<Certificate>,
    tls: Vec<Socket>,
    quic: Vec<ClosedUdp>,
}

// === impl Encrypted ===

impl Encrypted {
    /// Binds the addresses of DNS over TLS and QUIC.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound.
    pub fn bind(
        certificate: Arc<Certificate>,
        tls: &[ListenAddress],
        quic: &[ListenAddress],
    ) -> Result<Self, BindError> {
        Ok(Self {
            certificate,
            tls: bind(tls, "tls", tcp)?,
            quic: bind(quic, "quic", ClosedUdp::bind)?,
        })
    }

    /// Opens the addresses, and starts the thread of all listeners, which gives signs of its progress. Returns a future that
    /// completes when the server stops and all connections have ended, or when a listener ends.
    pub(super) fn start(
        self,
        answerer: Arc<Answerer>,
        connections: Arc<Connections>,
        heartbeat: Heartbeat,
    ) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        // These may fail. A runtime that is dropped here would panic.
        let quic = self.quic.into_iter().map(ClosedUdp::open);
        let quic: Vec<UdpSocket> = quic.collect::<io::Result<_>>()?;
        self.tls.iter().try_for_each(|one| one.listen(BACKLOG))?;
        let runtime = thread::runtime()?;
        let entered = runtime.enter(); // the sockets and tasks belong to it
        let certificate = self.certificate;
        let mut listeners = JoinSet::new();
        for socket in self.tls {
            let certificate = certificate.clone();
            let answerer = answerer.clone();
            let stop = certificate.stop.clone();
            let connections = connections.clone();
            let serve = move |place| tls::serve(place, certificate.loaded(), answerer.clone());
            let listener = TcpListener::from_std(socket.into())?;
            listeners.spawn(accept(listener, connections, stop, serve));
        }
        for socket in quic {
            let certificate = certificate.clone();
            listeners.spawn(quic::serve(socket, certificate, answerer.clone()));
        }
        tokio::spawn(heartbeat.follow_runtime());
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
