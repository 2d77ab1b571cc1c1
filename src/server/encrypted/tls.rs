//! TLS for every encrypted listener: the configuration and the handshake.

use std::sync::Arc;

use rustls::crypto::ring::{self, Ticketer};
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedProtocolVersion, server::ClientHello, server::ResolvesServerCert};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::certificate::{Certificate, CertificateError};
use super::client_ca::ClientCa;
use crate::server::counters::EndReason;
use crate::server::framing::MAX_OUTBOX;
use crate::server::socket::Socket;
use crate::server::tcp::Stream;
use crate::server::time_limits::{MESSAGE_TIMEOUT, STOP_TIMEOUT};

/// Versions over TCP.
pub(super) const OVER_TCP: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];
/// Versions inside QUIC (RFC 9001 section 4.2).
pub(super) const OVER_QUIC: &[&SupportedProtocolVersion] = &[&TLS13];

/// Returns the TLS configuration of a listener. `protocol` is offered by ALPN (RFC 7301). Over TCP, clients may omit
/// ALPN.
///
/// # Errors
///
/// If the system has no random numbers for the keys of session tickets.
pub(super) fn config(
    protocol: &[u8],
    versions: &[&'static SupportedProtocolVersion],
    certificate: &Arc<Certificate>,
    client_ca: Option<&Arc<ClientCa>>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .map_err(CertificateError::Tls)?;
    let authenticated = match client_ca {
        None => builder.with_no_client_auth(),
        Some(client_ca) => builder.with_client_cert_verifier(client_ca.clone()),
    };
    let mut config = authenticated.with_cert_resolver(certificate.clone());
    config.alpn_protocols = vec![protocol.to_vec()];
    // Sessions are resumed with tickets, which need no memory on the server (RFC 5077, RFC 8446 section 2.2).
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match client_ca {
        None => config.ticketer = Ticketer::new().map_err(CertificateError::Tls)?,
        // Resumption would skip the verification of the client certificate. It may have expired, or its CA may be gone.
        Some(_) => config.send_tls13_tickets = 0,
    }
    Ok(Arc::new(config))
}

/// Performs the handshake on an accepted connection. On failure, returns the reason why the connection ends, and the connection
/// if it is not closed yet.
pub(super) async fn handshake(
    acceptor: &TlsAcceptor,
    socket: Socket,
    stop: &CancellationToken,
) -> Result<TlsStream<Socket>, (EndReason, Option<Socket>)> {
    let shared = socket.shared().clone();
    if shared.stream.set_nodelay(true).is_err() {
        return Err((EndReason::Broken, None));
    }
    let stopped = async {
        stop.cancelled().await;
        sleep(STOP_TIMEOUT).await;
    };
    let handshake = acceptor.accept(socket).into_fallible();
    let done = tokio::select! {
        done = timeout(MESSAGE_TIMEOUT, handshake) => done,
        () = shared.replaced() => return Err((EndReason::Replaced, None)),
        () = stopped => return Err((EndReason::Stopped, None)),
    };
    match done.map_err(|_| (EndReason::Handshake, None))? {
        Ok(mut stream) => {
            // Limits the encrypted octets for a slow client. By default, TLS buffers 64 KiB in addition to the replies.
            stream.get_mut().1.set_buffer_limit(Some(MAX_OUTBOX));
            Ok(stream)
        }
        Err((error, socket)) => {
            debug!(%error, "A TLS handshake failed");
            Err((EndReason::Handshake, Some(socket)))
        }
    }
}

impl Stream for TlsStream<Socket> {
    fn socket(&mut self) -> &mut Socket {
        self.get_mut().0
    }

    fn into_socket(self) -> Socket {
        self.into_inner().0
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(self.key())
    }
}
