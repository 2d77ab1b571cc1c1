//! hickory-net, a Rust client with rustls, over TLS and QUIC.

use std::str::FromStr as _;
use std::sync::Arc;

use hickory_proto::rr::{DNSClass, Name, RecordType};
use hickory_server::net::NetError;
use hickory_server::net::client::{Client, ClientHandle as _};
use hickory_server::net::quic::QuicClientStream;
use hickory_server::net::runtime::TokioRuntimeProvider;
use hickory_server::net::tls::tls_client_connect;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use support::codes::{rcode_name, type_number};
use support::wait::TIMEOUT;

use super::Method::{self, Quic, Tls};
use super::{Case, Encrypted, NAME, Reading, cases, row};

/// Returns a configuration that trusts the server's authority and has this client certificate, if any.
fn config(server: &Encrypted, certificate: Option<&str>) -> ClientConfig {
    let certificates = |name: &str| -> Vec<CertificateDer<'static>> {
        let read = CertificateDer::pem_file_iter(server.files.path(name)).unwrap();
        read.map(Result::unwrap).collect()
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates("ca.crt"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    match certificate {
        None => config.with_no_client_auth(),
        Some(name) => {
            let key = server.files.path(&format!("{name}.key"));
            let key = PrivateKeyDer::from_pem_file(key).unwrap();
            let chain = certificates(&format!("{name}.crt"));
            config.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

async fn connect(
    server: &Encrypted,
    method: Method,
    mut config: ClientConfig,
) -> Result<Client<TokioRuntimeProvider>, NetError> {
    let address = server.address(method);
    Ok(match method {
        Quic => {
            let stream = QuicClientStream::builder().crypto_config(config);
            let stream = stream.build(address, NAME.into()).await?;
            let (client, background) = Client::from_sender(stream);
            tokio::spawn(background);
            client
        }
        _ => {
            config.alpn_protocols = vec![b"dot".to_vec()];
            let name = ServerName::try_from(NAME).unwrap();
            let provider = TokioRuntimeProvider::default();
            let (stream, handle) = tls_client_connect(address, name, Arc::new(config), provider);
            let (client, background) = Client::with_timeout(stream.await?, handle, TIMEOUT);
            tokio::spawn(background);
            client
        }
    })
}

/// Sends questions over one connection.
fn ask(
    server: &Encrypted,
    method: Method,
    certificate: Option<&str>,
    cases: &[Case],
) -> Result<Vec<Reading>, NetError> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = connect(server, method, config(server, certificate)).await?;
        let mut readings = Vec::new();
        for case in cases {
            let name = Name::from_str(case.name).unwrap();
            let rtype = RecordType::from(type_number(case.rtype));
            let reply = client.query(name, DNSClass::IN, rtype).await?;
            let records = reply.answers.iter();
            readings.push(Reading::new(
                rcode_name(reply.metadata.response_code.into()),
                records.map(|record| record.data.to_string()),
            ));
        }
        Ok(readings)
    })
}

#[test]
fn hickory_reads_every_answer_over_tls_and_quic() {
    let server = Encrypted::start();
    for (method, client) in [(Tls, "hickory-net, TLS"), (Quic, "hickory-net, QUIC")] {
        server.check(method, client, |cases| {
            ask(&server, method, None, cases).unwrap()
        });
    }
}

#[test]
fn hickory_uses_a_client_certificate() {
    let server = Encrypted::with_client_certificates();
    for (method, client) in [(Tls, "hickory-net, TLS"), (Quic, "hickory-net, QUIC")] {
        let label = format!("{client}, client certificate");
        server.check(method, &label, |cases| {
            ask(&server, method, Some("client"), cases).unwrap()
        });
        for (which, certificate) in [
            ("no certificate", None),
            ("an untrusted certificate", Some("stranger")),
        ] {
            let error = ask(&server, method, certificate, &cases()[..1]).unwrap_err();
            row(
                method,
                &format!("{client}, {which}"),
                &format!("refused: {error}"),
            );
        }
    }
}
