//! A token and certificates in files, as kubelet and cert-manager keep them: they rotate, and nobody is told.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::serve::Listener;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    Token,
    /// The server's certificate and the authority that it is of.
    Certificates,
}

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
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "the authority of the stand-in");
    let key = KeyPair::generate()?;
    fs::write(authority_file, params.self_signed(&key)?.pem())?;
    let authority = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let certificate =
        CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
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
