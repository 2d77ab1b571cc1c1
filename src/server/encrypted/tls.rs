//! TLS for every encrypted listener: what is offered, and the handshake.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring::{self, Ticketer};
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedProtocolVersion, server::ClientHello, server::ResolvesServerCert};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::certificate::{Certificate, CertificateError};
use super::client_ca::ClientCa;
use crate::server::connections::Place;
use crate::server::counters::Ended;
use crate::server::framing::OUTBOX;
use crate::server::tcp::{LONGEST_LEAVE, PATIENCE, Stream};

/// Versions over TCP.
pub(super) const OVER_TCP: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];
/// Versions inside QUIC (RFC 9001 section 4.2).
pub(super) const OVER_QUIC: &[&SupportedProtocolVersion] = &[&TLS13];

/// How long a client may take to read why its handshake failed.
const ALERT: Duration = Duration::from_secs(1);

/// Makes what a listener offers: these protocols by ALPN (RFC 7301), or none.
///
/// # Errors
///
/// If the system has no random numbers for the keys of session tickets.
pub(super) fn config(
    protocols: &[&[u8]],
    versions: &[&'static SupportedProtocolVersion],
    certificate: &Arc<Certificate>,
    client_ca: Option<&Arc<ClientCa>>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .map_err(CertificateError::Tls)?;
    let config = match client_ca {
        None => config.with_no_client_auth(),
        Some(client_ca) => config.with_client_cert_verifier(client_ca.clone()),
    };
    let mut config = config.with_cert_resolver(certificate.clone());
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    // Sessions are resumed by tickets, which take no memory here (RFC 5077, RFC 8446 section 2.2).
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match client_ca {
        None => config.ticketer = Ticketer::new().map_err(CertificateError::Tls)?,
        // Resuming a session skips the look at the client's certificate, which may have expired or lost its authority.
        Some(_) => config.send_tls13_tickets = 0,
    }
    Ok(Arc::new(config))
}

/// Does the handshake on a connection that was accepted; otherwise says why it ends.
pub(super) async fn handshake(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    place: &Place,
    stop: &CancellationToken,
) -> Result<TlsStream<TcpStream>, Ended> {
    if stream.set_nodelay(true).is_err() {
        return Err(Ended::Broken);
    }
    let stopped = async {
        stop.cancelled().await;
        sleep(LONGEST_LEAVE).await;
    };
    let done = tokio::select! {
        done = timeout(PATIENCE, acceptor.accept(stream).into_fallible()) => done,
        () = place.displaced() => return Err(Ended::Displaced),
        () = stopped => return Err(Ended::Stopped),
    };
    match done.map_err(|_| Ended::Handshake)? {
        Ok(mut stream) => {
            // What is encrypted and waits for a slow client; TLS would hold 64 KiB on top of the replies.
            stream.get_mut().1.set_buffer_limit(Some(OUTBOX));
            Ok(stream)
        }
        Err((error, stream)) => {
            debug!(%error, "A TLS handshake failed");
            wait_for_alert(stream, place).await;
            Err(Ended::Handshake)
        }
    }
}

/// Waits, for a moment, until a client has read why its handshake failed.
async fn wait_for_alert(stream: TcpStream, place: &Place) {
    tokio::select! {
        _ = timeout(ALERT, let_the_alert_arrive(stream)) => {}
        () = place.displaced() => {}
    }
}

/// Reads what the client still sends, until it has closed its side. A socket that is closed with unread octets resets the
/// connection, and a client that is about to send its first query then sees the reset in place of the alert.
async fn let_the_alert_arrive(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    let mut octets = [0; 1024];
    while stream.read(&mut octets).await? > 0 {}
    Ok(())
}

impl Stream for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(self.key())
    }
}
