//! Verifies client certificates against the certificate authorities in a PEM file, and reloads the file when it
//! changes.
//!
//! If the new file is unusable, the last certificate authorities stay in use. If an authority is removed, all open
//! connections end, so that their clients are verified again.

use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use tokio_util::sync::CancellationToken;

use super::certificate::{CertificateError, parse_certificates};
use crate::server::file_change::{follow_files, read_files};

/// The certificate authorities of clients. They change when the file changes.
#[derive(Debug)]
pub(super) struct ClientCa {
    file: PathBuf,
    current: RwLock<Trusted>,
}

/// The content of the file.
#[derive(Clone, Debug)]
struct Trusted {
    authorities: Vec<CertificateDer<'static>>,
    /// Cancelled when one of the authorities is removed.
    trust: CancellationToken,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCa {
    /// Reads the file for the first time.
    ///
    /// # Errors
    ///
    /// If it is unusable.
    pub(super) fn open(file: &Path) -> Result<Self, CertificateError> {
        let file = file.to_path_buf();
        let trusted = parse(&file, &read_files(slice::from_ref(&file))?)?;
        Ok(Self {
            file,
            current: RwLock::new(trusted),
        })
    }

    /// Reloads the file when it changes. It never returns.
    pub(super) async fn follow(self: Arc<Self>) {
        let reload = |contents: &[Vec<u8>]| self.reload(contents);
        let subject = "certificate authorities of clients";
        follow_files(subject, slice::from_ref(&self.file), reload).await;
    }

    fn reload(&self, contents: &[Vec<u8>]) -> Result<Option<String>, CertificateError> {
        let mut new = parse(&self.file, contents)?;
        let old = self.trusted();
        if new.authorities == old.authorities {
            return Ok(None);
        }
        let summary = format!("authorities: {}", new.authorities.len());
        let is_kept = |authority| new.authorities.contains(authority);
        let are_kept = old.authorities.iter().all(is_kept);
        if are_kept {
            new.trust = old.trust.clone();
        }
        *self.current.write() = new;
        if !are_kept {
            old.trust.cancel(); // after the change, so that new handshakes use the new authorities
        }
        Ok(Some(summary))
    }

    /// Returns a token that is cancelled when an authority of now is removed. Then a client that was verified after this
    /// call must be verified again.
    pub(super) fn trust(&self) -> CancellationToken {
        self.trusted().trust
    }

    fn trusted(&self) -> Trusted {
        let current = self.current.read();
        current.clone()
    }
}

fn parse(file: &Path, contents: &[Vec<u8>]) -> Result<Trusted, CertificateError> {
    let authorities = parse_certificates(file, &contents.concat())?;
    let unusable = |reason: String| CertificateError::Authority(file.to_path_buf(), reason);
    let mut roots = RootCertStore::empty();
    for authority in &authorities {
        let added = roots.add(authority.clone());
        added.map_err(|error| unusable(error.to_string()))?;
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    Ok(Trusted {
        authorities,
        trust: CancellationToken::new(),
        verifier: verifier.map_err(|error| unusable(error.to_string()))?,
    })
}

impl ClientCertVerifier for ClientCa {
    /// Returns none. Clients choose their certificate by configuration, and the list may change.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verifier = self.trusted().verifier;
        verifier.verify_client_cert(certificate, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verifier = self.trusted().verifier;
        verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verifier = self.trusted().verifier;
        verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusted().verifier.supported_verify_schemes()
    }
}
