//! The certificate of the encrypted listeners: read from two PEM files, and read again when they change.
//!
//! A change that cannot be used leaves the last good one in place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tracing::{info, warn};
use x509_cert::Certificate as X509;
use x509_cert::der::Decode as _;

use crate::clock::unix_seconds;
use crate::log::sentence;
use crate::server::contents::{Content, content, look};

/// The last part of a certificate's life, in which it should have been replaced: a week, or of a short life the last
/// fifth. What renews certificates by itself does so with a third left, as a rule.
const LAST_DAYS: u64 = 7 * 24 * 60 * 60;
const LAST_PART: u64 = 5;

/// Why certificate files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("reading {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// A file is no PEM.
    #[error("{}: is no PEM file: {}", .0.display(), .1)]
    Pem(PathBuf, pem::Error),
    /// There is no certificate in the file.
    #[error("{}: holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// There is no private key in the file.
    #[error("{}: holds no private key, or one with a passphrase", .0.display())]
    NoKey(PathBuf),
    /// The first certificate is no X.509 certificate.
    #[error("{}: the first certificate cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, x509_cert::der::Error),
    /// The private key cannot be used, or is not the certificate's.
    #[error("{}: cannot be used with {}: {reason}", .key.display(), .certificate.display())]
    Key {
        /// File of the key.
        key: PathBuf,
        /// File of the certificate.
        certificate: PathBuf,
        /// What TLS says.
        reason: rustls::Error,
    },
    /// A certificate authority cannot be used.
    #[error("{}: cannot be used as certificate authorities: {}", .0.display(), .1)]
    Authority(PathBuf, String),
    /// TLS cannot be set up.
    #[error("setting up TLS")]
    Tls(#[source] rustls::Error),
}

/// The certificate that is in use; its files are followed.
#[derive(Debug)]
pub struct Certificate {
    files: Files,
    current: RwLock<Shown>,
    /// When the one in use expires, in Unix seconds.
    expiry: Arc<AtomicU64>,
}

/// Where a certificate is read from.
#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// A certificate that can be shown.
#[derive(Clone, Debug)]
struct Shown {
    key: Arc<CertifiedKey>,
    life: Life,
}

/// When a certificate is valid, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    begins: u64,
    ends: u64,
}

/// Where in its life a certificate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    NotYetValid,
    Good,
    Ending,
    Expired,
}

/// What the two files hold: certificate, key.
type Contents = [Content; 2];

// === impl Certificate ===

impl Certificate {
    /// Reads a certificate for the first time.
    ///
    /// # Errors
    ///
    /// If it cannot be used.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let files = Files {
            certificate: certificate.to_path_buf(),
            key: key.to_path_buf(),
        };
        let shown = files.parse(&files.read())?;
        Ok(Self {
            files,
            expiry: Arc::new(AtomicU64::new(shown.life.ends)),
            current: RwLock::new(shown),
        })
    }

    /// Returns when the certificate in use expires, in Unix seconds.
    pub fn expiry(&self) -> Arc<AtomicU64> {
        self.expiry.clone()
    }

    /// Follows the files for ever, and warns once of each trouble.
    pub async fn follow(self: Arc<Self>) {
        // What was read at the start may be old by now: then this is a change like any other.
        let mut seen = None;
        let mut age = Age::Good;
        loop {
            self.warn_of_age(&mut age);
            if let Some(new) = look(|| self.files.read(), seen.as_ref()).await {
                self.take(&new);
                seen = Some(new);
            }
        }
    }

    fn take(&self, contents: &Contents) {
        match self.files.parse(contents) {
            Ok(new) if new.key.cert == self.shown().key.cert => {}
            Ok(new) => {
                let expires = expiry_text(new.life);
                self.expiry.store(new.life.ends, Relaxed);
                *self.current.write() = new;
                let file = self.files.certificate.display();
                info!(%file, expires, "Reloaded the certificate");
            }
            Err(error) => {
                let problem = sentence(&error);
                warn!(
                    error = problem,
                    "Kept the last certificate: a file cannot be used"
                );
            }
        }
    }

    /// Warns when the age of the certificate in use has changed for the worse.
    fn warn_of_age(&self, last: &mut Age) {
        let life = self.shown().life;
        let age = life.age(u64::from(unix_seconds()));
        if age == *last {
            return;
        }
        *last = age;
        let (file, expires) = (self.files.certificate.display(), expiry_text(life));
        match age {
            Age::Good => {}
            Age::NotYetValid => warn!(%file, "The certificate is not valid yet"),
            Age::Ending => warn!(%file, expires, "The certificate expires soon"),
            Age::Expired => warn!(%file, expires, "The certificate has expired"),
        }
    }

    /// Returns the certificate in use, with its key.
    pub(super) fn key(&self) -> Arc<CertifiedKey> {
        self.shown().key
    }

    fn shown(&self) -> Shown {
        let current = self.current.read();
        current.clone()
    }
}

// === impl Files ===

impl Files {
    fn read(&self) -> Contents {
        [&self.certificate, &self.key].map(|path| content(path))
    }

    /// Reads the certificate and its key out of what the files hold.
    fn parse(&self, [certificate, key]: &Contents) -> Result<Shown, CertificateError> {
        let read = |path: &PathBuf, content: &Content| {
            content.clone().map_err(|failed| read_error(path, failed))
        };
        let (certificate, key) = (read(&self.certificate, certificate)?, read(&self.key, key)?);
        let (chain, life) = self.chain(&certificate)?;
        let key = PrivateKeyDer::pem_slice_iter(&key).next();
        let key = key.ok_or_else(|| CertificateError::NoKey(self.key.clone()))?;
        let key = key.map_err(|error| CertificateError::Pem(self.key.clone(), error))?;
        let key =
            CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|reason| {
                CertificateError::Key {
                    key: self.key.clone(),
                    certificate: self.certificate.clone(),
                    reason,
                }
            })?;
        let key = Arc::new(key);
        Ok(Shown { key, life })
    }

    /// Reads a chain of certificates, and when the first is valid.
    fn chain(&self, pem: &[u8]) -> Result<(Vec<CertificateDer<'static>>, Life), CertificateError> {
        let file = || self.certificate.clone();
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let chain = chain.map_err(|error| CertificateError::Pem(file(), error))?;
        let Some(first) = chain.first() else {
            return Err(CertificateError::NoCertificate(file()));
        };
        let life = Life::of(first).map_err(|error| CertificateError::Unreadable(file(), error))?;
        Ok((chain, life))
    }
}

/// Says that a file cannot be read.
pub(super) fn read_error(path: &Path, (kind, text): (io::ErrorKind, String)) -> CertificateError {
    CertificateError::Read(path.to_path_buf(), io::Error::new(kind, text))
}

// === impl Life ===

impl Life {
    fn of(certificate: &CertificateDer<'_>) -> Result<Self, x509_cert::der::Error> {
        let certificate = X509::from_der(certificate)?;
        let validity = certificate.tbs_certificate().validity();
        Ok(Self {
            begins: validity.not_before.to_unix_duration().as_secs(),
            ends: validity.not_after.to_unix_duration().as_secs(),
        })
    }

    fn age(self, now: u64) -> Age {
        let lasts = self.ends.saturating_sub(self.begins);
        let left = self.ends.saturating_sub(now);
        match left {
            _ if now < self.begins => Age::NotYetValid,
            0 => Age::Expired,
            _ if left < LAST_DAYS.min(lasts / LAST_PART) => Age::Ending,
            _ => Age::Good,
        }
    }
}

/// Writes when a certificate expires, for people.
fn expiry_text(life: Life) -> String {
    let seconds = i64::try_from(life.ends).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_second(seconds);
    time.map_or_else(|_| life.ends.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_ages() {
        const DAY: u64 = 24 * 60 * 60;
        let of_a_year = Life {
            begins: 1_000 * DAY,
            ends: 1_365 * DAY,
        };
        let of_a_day = Life {
            begins: 1_000 * DAY,
            ends: 1_001 * DAY,
        };
        for (life, now, age) in [
            (of_a_year, 1_000 * DAY - 1, Age::NotYetValid),
            (of_a_year, 1_000 * DAY, Age::Good),
            (of_a_year, 1_358 * DAY, Age::Good),
            (of_a_year, 1_358 * DAY + 1, Age::Ending),
            (of_a_year, 1_365 * DAY - 1, Age::Ending),
            (of_a_year, 1_365 * DAY, Age::Expired),
            (of_a_day, 1_000 * DAY + DAY / 2, Age::Good),
            (of_a_day, 1_001 * DAY - DAY / 6, Age::Ending),
        ] {
            assert_eq!(life.age(now), age, "{life:?} at {now}");
        }
    }
}
