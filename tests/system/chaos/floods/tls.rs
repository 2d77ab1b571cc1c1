//! TLS clients: normal ones, and ones that send data that no TLS library would send.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::crypto::ring;
use rustls::crypto::ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 as CHACHA20;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS12;
use rustls::{
    ClientConfig, ClientConnection, ConnectionTrafficSecrets, ContentType, DigitallySignedStruct,
    Error, ProtocolVersion, SignatureScheme, StreamOwned, SupportedCipherSuite,
    SupportedProtocolVersion,
};

/// A TLS connection.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Verifier that accepts any certificate, because attackers do not verify certificates.
#[derive(Debug)]
struct AnyCertificate;

/// A TLS 1.2 connection with custom records.
pub struct Forger {
    pub stream: TcpStream,
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
}

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
    let suites = ring::ALL_CIPHER_SUITES.to_vec();
    Arc::new(config_with(protocol, version, suites))
}

fn config_with(
    protocol: &str,
    version: &'static SupportedProtocolVersion,
    suites: Vec<SupportedCipherSuite>,
) -> ClientConfig {
    let mut provider = ring::default_provider();
    provider.cipher_suites = suites;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    config.resumption = Resumption::disabled();
    config
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

// === impl Forger ===

impl Forger {
    /// Performs a handshake over a blocking connection.
    pub fn begin(stream: TcpStream, protocol: &str) -> io::Result<Self> {
        let mut config = config_with(protocol, &TLS12, vec![CHACHA20]);
        config.enable_secret_extraction = true;
        let (client, stream) = begin(stream, &Arc::new(config))?.into_parts();
        let secrets = client.dangerous_extract_secrets();
        let (sequence, secrets) = secrets.map_err(io::Error::other)?.tx;
        let (
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
            SupportedCipherSuite::Tls12(suite),
        ) = (secrets, CHACHA20)
        else {
            panic!("the client offers only one cipher suite")
        };
        Ok(Self {
            stream,
            encrypter: suite.aead_alg.encrypter(key, iv.as_ref(), &[]),
            sequence,
        })
    }

    /// The next record.
    pub fn record(&mut self, typ: ContentType, payload: &[u8]) -> Vec<u8> {
        let message = OutboundPlainMessage {
            typ,
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(payload),
        };
        let record = self.encrypter.encrypt(message, self.sequence).unwrap();
        self.sequence += 1;
        record.encode()
    }
}
