//! A token and certificates in files, as kubelet and cert-manager keep them: they rotate, and nobody is told.

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

/// What is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// The token.
    Token,
    /// The server's certificate and the authority that it is of.
    Certificates,
}

/// Files of a token and of an authority, and who shows and takes what is in them.
pub struct Credentials {
    token_file: PathBuf,
    authority_file: PathBuf,
    /// What the server shows of itself.
    shown: Shown,
}

type Shown = Arc<Mutex<TlsAcceptor>>;

/// Takes connections over TLS.
pub struct TlsListener {
    listener: TcpListener,
    shown: Shown,
}

// === impl Credentials ===

impl Credentials {
    /// Makes the files, in a directory.
    pub fn new(directory: &Path) -> Result<Self> {
        let token_file = directory.join("token");
        let authority_file = directory.join("ca.crt");
        fs::write(&token_file, new_token())?;
        let acceptor = new_certificates(&authority_file)?;
        Ok(Self {
            token_file,
            authority_file,
            shown: Arc::new(Mutex::new(acceptor)),
        })
    }

    /// The token that holds now.
    pub fn token(&self) -> String {
        fs::read_to_string(&self.token_file).unwrap_or_default()
    }

    /// The cluster and the user of a kubeconfig.
    pub fn of_kubeconfig(&self, address: SocketAddr) -> (String, String) {
        let (authority, token) = (self.authority_file.display(), self.token_file.display());
        let cluster =
            format!("server: \"https://{address}\", certificate-authority: \"{authority}\"");
        (cluster, format!("tokenFile: \"{token}\""))
    }

    /// Takes connections with the certificate that holds then.
    pub fn listen(&self, listener: TcpListener) -> TlsListener {
        let shown = Arc::clone(&self.shown);
        TlsListener { listener, shown }
    }

    /// Returns the token that holds from now on.
    pub fn rotate(&self, what: Rotated) -> Result<String> {
        match what {
            Rotated::Token => fs::write(&self.token_file, new_token())?,
            Rotated::Certificates => {
                let acceptor = new_certificates(&self.authority_file)?;
                *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = acceptor;
            }
        }
        Ok(self.token())
    }
}

fn new_token() -> String {
    format!("token-{:016x}", fastrand::u64(..))
}

/// Makes an authority, which goes into the file, and a certificate of it for this machine.
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
            let shown = self
                .shown
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            // Fails if the other side does not trust us, which it may learn to.
            if let Ok(stream) = shown.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
