//! Renegotiation, a feature of TLS 1.2 that DNS does not need (RFC 9325 section 3.5). The client library cannot request
//! it, so the test extracts the keys after the handshake and writes the records itself.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustls::crypto::cipher::{
    InboundOpaqueMessage, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundPlainMessage,
};
use rustls::version::TLS12;
use rustls::{ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite};
use support::query::query;
use support::tls::{Client, Offer, Stream};

use super::client_hello;
use crate::conformance::servers::serve_encrypted;

/// A TLS 1.2 connection that sends and receives single records.
struct Records {
    stream: TcpStream,
    encrypter: Box<dyn MessageEncrypter>,
    decrypter: Box<dyn MessageDecrypter>,
    sent: u64,
    received: u64,
}

#[test]
fn s3_2_renegotiation_is_refused() {
    const WARNING: u8 = 1;
    const NO_RENEGOTIATION: u8 = 100;
    let server = serve_encrypted(&[]);
    let client = server.client(Offer::of(&["dot"]).only(&&TLS12));
    let mut config = rustls::ClientConfig::clone(&client.0);
    config.enable_secret_extraction = true;
    let stream = Client(config.into()).connect(server.address("tls"));
    let mut records = Records::from_stream(stream.unwrap());

    let question = query("global. SOA");
    records.send(ContentType::ApplicationData, &question.framed());
    let (kind, reply) = records.receive().unwrap();
    assert_eq!(
        kind,
        ContentType::ApplicationData,
        "the extracted keys must work"
    );
    assert_eq!(reply[2..4], question.0[..2]);

    // The refusal is sent with the next reply, under the same keys.
    records.send(ContentType::Handshake, &client_hello([3, 3]));
    records.send(ContentType::ApplicationData, &question.framed());
    let refused = (ContentType::Alert, vec![WARNING, NO_RENEGOTIATION]);
    assert_eq!(records.receive(), Some(refused));
    let (kind, reply) = records.receive().unwrap();
    assert_eq!(kind, ContentType::ApplicationData);
    assert_eq!(reply[2..4], question.0[..2]);

    // Repeated attempts cost the server work, so it may close the connection.
    for _ in 0..16 {
        records.send(ContentType::Handshake, &client_hello([3, 3]));
    }
    while let Some((kind, _)) = records.receive() {
        assert_eq!(kind, ContentType::Alert);
    }
    server.assert_answers();
}

// === impl Records ===

impl Records {
    /// Extracts the keys of a connection after its handshake.
    fn from_stream(stream: Stream) -> Self {
        let Some(SupportedCipherSuite::Tls12(suite)) = stream.conn.negotiated_cipher_suite() else {
            panic!("the cipher suite is not of TLS 1.2");
        };
        let (stream, secrets) = (stream.sock, stream.conn.dangerous_extract_secrets());
        let secrets = secrets.unwrap();
        let keys = |secrets| match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv }
            | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
            | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key, iv),
            _ => panic!("unknown cipher"),
        };
        let shape = suite.aead_alg.key_block_shape();
        let ((sent, client), (received, server)) = (secrets.tx, secrets.rx);
        let ((tx_key, tx_iv), (rx_key, rx_iv)) = (keys(client), keys(server));
        let (fixed, explicit) = tx_iv.as_ref().split_at(shape.fixed_iv_len);
        let explicit = &explicit[..shape.explicit_nonce_len];
        let encrypter = suite.aead_alg.encrypter(tx_key, fixed, explicit);
        let fixed = &rx_iv.as_ref()[..shape.fixed_iv_len];
        Self {
            stream,
            encrypter,
            decrypter: suite.aead_alg.decrypter(rx_key, fixed),
            sent,
            received,
        }
    }

    /// Writes a record. The server may have closed the connection.
    fn send(&mut self, typ: ContentType, payload: &[u8]) {
        let message = OutboundPlainMessage {
            typ,
            version: ProtocolVersion::TLSv1_2,
            payload: OutboundChunks::Single(payload),
        };
        let record = self.encrypter.encrypt(message, self.sent).unwrap();
        self.sent += 1;
        let _ = self.stream.write_all(&record.encode());
    }

    /// Reads a record. Returns `None` at the end of the connection.
    fn receive(&mut self) -> Option<(ContentType, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        self.stream.read_exact(&mut payload).ok()?;
        let typ = ContentType::from(head[0]);
        let record = InboundOpaqueMessage::new(typ, ProtocolVersion::TLSv1_2, &mut payload);
        let message = self.decrypter.decrypt(record, self.received).unwrap();
        self.received += 1;
        Some((typ, message.payload.to_vec()))
    }
}
