//! A token and certificates in files that rotate without notice, like those of kubelet and cert-manager.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::serve::Listener;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificates::Authority;
use crate::kubeconfig;

/// The credential to rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// The client's token.
    Token,
    /// The server's certificate and its authority.
    Certificates,
}

/// Files with a token and a certificate authority, and the matching server certificate.
pub struct Credentials {
    token_file: PathBuf,
    authority_file: PathBuf,
    /// The current server certificate.
    acceptor: CurrentAcceptor,
}

type CurrentAcceptor = Arc<Mutex<TlsAcceptor>>;

/// A listener that accepts connections over TLS.
pub struct TlsListener {
    listener: TcpListener,
    acceptor: CurrentAcceptor,
}

// === impl Credentials ===

impl Credentials {
    /// Writes the files into a directory.
    pub fn new(directory: &Path) -> Result<Self> {
        let token_file = directory.join("token");
        let authority_file = directory.join("ca.crt");
        fs::write(&token_file, new_token())?;
        let acceptor = new_certificates(&authority_file)?;
        Ok(Self {
            token_file,
            authority_file,
            acceptor: Arc::new(Mutex::new(acceptor)),
        })
    }

    /// Returns the current token.
    pub fn token(&self) -> String {
        fs::read_to_string(&self.token_file).unwrap_or_default()
    }

    /// Returns a kubeconfig for the API server at an address.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        let (authority, token) = (self.authority_file.display(), self.token_file.display());
        kubeconfig::text(
            &format!("https://{address}"),
            &format!("certificate-authority: '{authority}'"),
            &format!("tokenFile: '{token}'"),
        )
    }

    /// Wraps a listener. Each connection gets the certificate that is current at its start.
    pub fn listen(&self, listener: TcpListener) -> TlsListener {
        let acceptor = Arc::clone(&self.acceptor);
        TlsListener { listener, acceptor }
    }

    /// Rotates a credential. Returns the new token, or the unchanged one if the certificates rotate.
    pub fn rotate(&self, rotation: Rotation) -> Result<String> {
        match rotation {
            Rotation::Token => fs::write(&self.token_file, new_token())?,
            Rotation::Certificates => {
                let acceptor = new_certificates(&self.authority_file)?;
                let mut current = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
                *current = acceptor;
            }
        }
        Ok(self.token())
    }
}

fn new_token() -> String {
    format!("token-{:016x}", fastrand::u64(..))
}

/// Creates an authority and a server certificate for loopback. Writes the authority into the file.
fn new_certificates(authority_file: &Path) -> Result<TlsAcceptor> {
    let authority = Authority::new("the authority of the stand-in");
    fs::write(authority_file, &authority.certificate)?;
    let issued = authority.issue_server_for(&["127.0.0.1"]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![issued.der().clone()], issued.key_der())?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

// === impl TlsListener ===

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let acceptor = self
                .acceptor
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            // Fails if the client does not trust the new certificate yet.
            if let Ok(stream) = acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
