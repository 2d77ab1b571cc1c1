//! TLS clients of attackers and of the honest client.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
};

/// A TLS connection.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Verifier that accepts any certificate, because attackers do not verify certificates.
#[derive(Debug)]
struct AnyCertificate;

// === impl AnyCertificate ===

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

// === Clients ===

/// Returns the configuration of a client that offers one protocol and one version, and never resumes a session.
pub fn config(protocol: &str, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Performs a handshake over a blocking connection.
pub fn begin(mut stream: TcpStream, config: &Arc<ClientConfig>) -> io::Result<Stream> {
    let mut client = client(config);
    while client.is_handshaking() {
        client.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(client, stream))
}

/// Returns the first record of a client.
pub fn hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let mut hello = Vec::new();
    client(config).write_tls(&mut hello).unwrap();
    hello
}

fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(config.clone(), name).unwrap()
}

/// Sends as much as a non-blocking connection accepts. Returns whether it is still open.
pub fn push(stream: &mut Stream, octets: &[u8]) -> bool {
    // Octets beyond the limit of the library's buffer are not sent.
    let _ = stream.conn.writer().write(octets);
    while stream.conn.wants_write() {
        match stream.conn.write_tls(&mut stream.sock) {
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}

/// Reads and discards available data of a non-blocking connection. Returns whether it is still open.
pub fn drain(stream: &mut Stream) -> bool {
    loop {
        match stream.conn.read_tls(&mut stream.sock) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
        let Ok(state) = stream.conn.process_new_packets() else {
            return false;
        };
        let mut octets = vec![0; state.plaintext_bytes_to_read()];
        if stream.conn.reader().read_exact(&mut octets).is_err() || state.peer_has_closed() {
            return false;
        }
    }
}
