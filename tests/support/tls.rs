//! TLS clients, for DNS over TLS and for the protocols inside TLS.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion,
};

use crate::certificates::Identity;
use crate::wait::TIMEOUT;
use crate::wire::{frame, read_framed};

/// A TLS connection.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// The protocols, versions and certificate that a client offers.
#[derive(Clone, Copy)]
pub struct Offer<'o> {
    /// Application protocols (ALPN, RFC 7301).
    pub protocols: &'o [&'o str],
    /// TLS versions.
    pub versions: &'o [&'static SupportedProtocolVersion],
    /// The client's certificate.
    pub identity: Option<&'o Identity>,
}

/// A client that resumes sessions in later connections.
#[derive(Clone)]
pub struct Client(pub Arc<ClientConfig>);

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// With a `close_notify` alert (RFC 8446 section 6.1).
    CloseNotify,
    /// With a fatal alert.
    Alert(AlertDescription),
    /// Without an alert.
    Cut,
}

/// Returns the name in the certificate of every test server.
pub fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

/// Sends a message with a length prefix in one TLS record.
pub fn send(stream: &mut Stream, packet: &[u8]) -> io::Result<()> {
    stream.write_all(&frame(packet))?;
    stream.flush()
}

/// Sends a query over an open connection and returns the reply.
pub fn ask(stream: &mut Stream, packet: &[u8]) -> io::Result<Vec<u8>> {
    send(stream, packet)?;
    read_framed(stream)
}

/// Reads until the connection ends. Returns how it ended.
pub fn read_end(stream: &mut Stream) -> ConnectionEnd {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => ConnectionEnd::CloseNotify,
        Err(error) => alert(&error).map_or_else(|| cut(&error), ConnectionEnd::Alert),
    }
}

fn cut(error: &io::Error) -> ConnectionEnd {
    let kinds = [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::BrokenPipe,
    ];
    assert!(kinds.contains(&error.kind()), "still open: {error}");
    ConnectionEnd::Cut
}

/// Returns the alert that caused an error, if there is one.
pub fn alert(error: &io::Error) -> Option<AlertDescription> {
    let rustls::Error::AlertReceived(alert) = error.get_ref()?.downcast_ref()? else {
        return None;
    };
    Some(*alert)
}

// === impl Offer ===

impl<'o> Offer<'o> {
    /// Offers the protocols, TLS 1.2 and 1.3, and no certificate.
    pub fn of(protocols: &'o [&'o str]) -> Self {
        Self {
            protocols,
            versions: rustls::ALL_VERSIONS,
            identity: None,
        }
    }

    /// Restricts the offer to one TLS version.
    pub fn only(self, version: &'o &'static SupportedProtocolVersion) -> Self {
        Self {
            versions: std::slice::from_ref(version),
            ..self
        }
    }

    /// Adds a client certificate.
    pub fn with(self, identity: &'o Identity) -> Self {
        Self {
            identity: Some(identity),
            ..self
        }
    }
}

// === impl Client ===

impl Client {
    /// Creates a client that trusts only the issuer of the server's certificate.
    pub fn new(server: &Identity, offer: Offer<'_>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(offer.versions)
            .unwrap()
            .with_root_certificates(server.roots());
        let mut config = match offer.identity {
            None => config.with_no_client_auth(),
            Some(own) => config
                .with_client_auth_cert(vec![own.der().clone()], own.key_der())
                .unwrap(),
        };
        let protocols = offer.protocols.iter();
        config.alpn_protocols = protocols.map(|name| name.as_bytes().to_vec()).collect();
        Self(Arc::new(config))
    }

    /// Connects. Fails unless the server has a trusted certificate and accepts a protocol.
    ///
    /// With TLS 1.3, the server checks the client's certificate after the handshake. The first read returns the result.
    pub fn connect(&self, server: SocketAddr) -> io::Result<Stream> {
        let stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        self.handshake(stream)
    }

    /// Does the TLS handshake over an open TCP connection.
    pub fn handshake(&self, mut stream: TcpStream) -> io::Result<Stream> {
        let mut connection =
            ClientConnection::new(self.0.clone(), localhost()).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }

    /// Begins the TLS handshake over an open TCP connection. The first read or write completes it.
    pub fn begin(&self, mut stream: TcpStream) -> io::Result<Stream> {
        let connection = ClientConnection::new(self.0.clone(), localhost());
        let mut connection = connection.map_err(io::Error::other)?;
        connection.write_tls(&mut stream)?;
        Ok(StreamOwned::new(connection, stream))
    }

    /// Sends a query over a new connection and returns the reply.
    pub fn ask(&self, server: SocketAddr, packet: &[u8]) -> io::Result<Vec<u8>> {
        ask(&mut self.connect(server)?, packet)
    }
}
