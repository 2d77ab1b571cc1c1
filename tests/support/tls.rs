//! Clients of DNS over TLS, and of all that is inside TLS.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion,
};

use crate::certificates::Issued;
use crate::wait::PATIENCE;
use crate::wire::{frame, read_framed};

/// A TLS connection.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// What a client says of itself.
#[derive(Clone, Copy)]
pub struct Offer<'o> {
    /// Protocols inside TLS (RFC 7301).
    pub protocols: &'o [&'o str],
    /// Versions of TLS.
    pub versions: &'o [&'static SupportedProtocolVersion],
    /// The client's certificate.
    pub identity: Option<&'o Issued>,
}

/// A client, which keeps its sessions for the next connection.
#[derive(Clone)]
pub struct Client(pub Arc<ClientConfig>);

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server said so (RFC 8446 section 6.1).
    CloseNotify,
    /// The server said what is wrong.
    Alert(AlertDescription),
    /// Without a word.
    Cut,
}

/// The name that every server here has.
pub fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

/// Sends a message behind its length, in one record.
pub fn send(stream: &mut Stream, packet: &[u8]) -> io::Result<()> {
    stream.write_all(&frame(packet))?;
    stream.flush()
}

/// Asks over a connection that is open.
pub fn ask(stream: &mut Stream, packet: &[u8]) -> io::Result<Vec<u8>> {
    send(stream, packet)?;
    read_framed(stream)
}

/// Reads to the end, and says which it was.
pub fn end_of(stream: &mut Stream) -> End {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => End::CloseNotify,
        Err(error) => alert(&error).map_or_else(|| cut(&error), End::Alert),
    }
}

fn cut(error: &io::Error) -> End {
    let kinds = [
        io::ErrorKind::UnexpectedEof,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::BrokenPipe,
    ];
    assert!(kinds.contains(&error.kind()), "still open: {error}");
    End::Cut
}

/// What the server said is wrong.
pub fn alert(error: &io::Error) -> Option<AlertDescription> {
    let rustls::Error::AlertReceived(alert) = error.get_ref()?.downcast_ref()? else {
        return None;
    };
    Some(*alert)
}

// === impl Offer ===

impl<'o> Offer<'o> {
    /// Offers these protocols, TLS 1.2 and 1.3, and no certificate.
    pub fn of(protocols: &'o [&'o str]) -> Self {
        Self {
            protocols,
            versions: rustls::ALL_VERSIONS,
            identity: None,
        }
    }

    /// Offers one version of TLS.
    pub fn only(self, version: &'o &'static SupportedProtocolVersion) -> Self {
        Self {
            versions: std::slice::from_ref(version),
            ..self
        }
    }

    /// Shows a certificate to who demands one.
    pub fn with(self, identity: &'o Issued) -> Self {
        Self {
            identity: Some(identity),
            ..self
        }
    }
}

// === impl Client ===

impl Client {
    /// A client that trusts what issued the server's certificate, and nothing else.
    pub fn new(server: &Issued, offer: Offer<'_>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_protocol_versions(offer.versions).unwrap();
        let config = config.with_root_certificates(server.roots());
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

    /// Connects. Fails unless the server shows its certificate and takes a protocol.
    ///
    /// With TLS 1.3 the server judges the client's certificate later: the first read shows it.
    pub fn connect(&self, server: SocketAddr) -> io::Result<Stream> {
        self.begin(TcpStream::connect(server)?)
    }

    /// The same over a TCP connection that is open.
    pub fn begin(&self, mut stream: TcpStream) -> io::Result<Stream> {
        let connection = ClientConnection::new(self.0.clone(), localhost());
        let mut connection = connection.map_err(io::Error::other)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }

    /// Asks over a connection of its own.
    pub fn ask(&self, server: SocketAddr, packet: &[u8]) -> io::Result<Vec<u8>> {
        ask(&mut self.connect(server)?, packet)
    }
}
