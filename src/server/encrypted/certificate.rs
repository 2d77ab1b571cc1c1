//! The certificate of the encrypted listeners. It is read from two PEM files, and reloaded when they change.
//!
//! If the new files are unusable, the last certificate stays in use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::time::sleep;
use x509_cert::Certificate as X509;
use x509_cert::der::Decode as _;

use crate::clock::{unix_milliseconds, unix_seconds};
use crate::model::{Problem, ProblemKind, Timestamp};
use crate::server::file_change::{POLL_INTERVAL, ReadError, follow_files, read_files};
use crate::source::log_problem;

/// The warning time before a certificate expires: a week, or a fifth of the validity period if that is shorter.
/// Automatic renewal usually happens when a third is left, so it has failed by then.
const MAX_WARNING_TIME: u64 = 7 * 24 * 60 * 60;
const WARNING_PART: u64 = 5;

/// The reason why certificate files are unusable.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file is not PEM.
    #[error("cannot use {}: it is not a PEM file: {}", .0.display(), .1)]
    Pem(PathBuf, pem::Error),
    /// There is no certificate in the file.
    #[error("cannot use {}: it has no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// There is no private key in the file.
    #[error("cannot use {}: it has no private key without a passphrase", .0.display())]
    NoKey(PathBuf),
    /// The first certificate is not an X.509 certificate.
    #[error("cannot use {}: its first certificate is invalid: {}", .0.display(), .1)]
    Unreadable(PathBuf, x509_cert::der::Error),
    /// The private key is unusable, or does not match the certificate.
    #[error("cannot use {} with {}: {reason}", .key.display(), .certificate.display())]
    Key {
        /// File of the key.
        key: PathBuf,
        /// File of the certificate.
        certificate: PathBuf,
        /// The error of the TLS library.
        reason: rustls::Error,
    },
    /// A certificate authority is unusable.
    #[error("cannot use {} as certificate authorities: {}", .0.display(), .1)]
    Authority(PathBuf, String),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// The certificate in use. It changes when its files change.
#[derive(Debug)]
pub struct Certificate {
    /// The files of the certificate and of its key.
    files: [PathBuf; 2],
    current: RwLock<Active>,
}

/// A usable certificate with its key.
#[derive(Clone, Debug)]
struct Active {
    key: Arc<CertifiedKey>,
    validity: Validity,
    /// The time at which it was read.
    read: Timestamp,
}

/// The validity period of a certificate in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Validity {
    begins: u64,
    ends: u64,
}

// === impl Certificate ===

impl Certificate {
    /// Reads the files for the first time.
    ///
    /// # Errors
    ///
    /// If a file is unusable.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let files = [certificate, key].map(Path::to_path_buf);
        let active = Active::parse(&files, &read_files(&files)?)?;
        Ok(Self {
            files,
            current: RwLock::new(active),
        })
    }

    /// Returns the expiry of the certificate in use, in Unix seconds.
    pub fn expiry(&self) -> u64 {
        self.active().validity.ends
    }

    /// Returns the problem of the certificate in use.
    pub fn problem(&self) -> Option<Problem> {
        let Active { validity, read, .. } = self.active();
        let (kind, since) = validity.problem(u64::from(unix_seconds()))?;
        let Validity { begins, ends } = validity;
        let detail = if since.is_none() {
            format!("valid from {}", time_text(begins))
        } else {
            format!("valid until {}", time_text(ends))
        };
        let file = self.files[0].display().to_string();
        let since = since.map_or(read, Timestamp::from_seconds);
        Some(Problem::new(kind, detail).of_name(file).holds_since(since))
    }

    /// Reloads the files when they change, and logs each problem once. It never returns.
    pub async fn follow(self: Arc<Self>) {
        let reload = |contents: &[Vec<u8>]| self.reload(contents);
        let reloads = follow_files("certificate", &self.files, reload);
        tokio::join!(reloads, self.log_problems());
    }

    async fn log_problems(&self) {
        let mut last = None;
        loop {
            let problem = self.problem();
            if problem != last {
                problem.iter().for_each(log_problem);
                last = problem;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    fn reload(&self, contents: &[Vec<u8>]) -> Result<Option<String>, CertificateError> {
        let new = Active::parse(&self.files, contents)?;
        if new.key.cert == self.active().key.cert {
            return Ok(None);
        }
        let summary = format!("valid until {}", time_text(new.validity.ends));
        *self.current.write() = new;
        Ok(Some(summary))
    }

    /// Returns the certificate in use, with its key.
    pub(super) fn key(&self) -> Arc<CertifiedKey> {
        self.active().key
    }

    fn active(&self) -> Active {
        let current = self.current.read();
        current.clone()
    }
}

// === impl Active ===

impl Active {
    /// Parses the contents of the files of a certificate chain and of its key.
    fn parse(files: &[PathBuf; 2], contents: &[Vec<u8>]) -> Result<Self, CertificateError> {
        let [file, key_file] = files;
        let [chain, key] = contents else {
            return Err(CertificateError::NoKey(key_file.clone()));
        };
        let chain = parse_certificates(file, chain)?;
        let validity = Validity::of(&chain[0])
            .map_err(|error| CertificateError::Unreadable(file.clone(), error))?;
        let private = PrivateKeyDer::pem_slice_iter(key)
            .next()
            .ok_or_else(|| CertificateError::NoKey(key_file.clone()))?
            .map_err(|error| CertificateError::Pem(key_file.clone(), error))?;
        let certified = CertifiedKey::from_der(chain, private, &ring::default_provider()).map_err(
            |reason| CertificateError::Key {
                key: key_file.clone(),
                certificate: file.clone(),
                reason,
            },
        )?;
        Ok(Self {
            key: Arc::new(certified),
            validity,
            read: Timestamp(unix_milliseconds()),
        })
    }
}

/// Parses the certificates of a PEM file. There is at least one.
pub(super) fn parse_certificates(
    file: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| CertificateError::Pem(file.to_path_buf(), error))?;
    if certificates.is_empty() {
        return Err(CertificateError::NoCertificate(file.to_path_buf()));
    }
    Ok(certificates)
}

// === impl Validity ===

impl Validity {
    fn of(certificate: &CertificateDer<'_>) -> Result<Self, x509_cert::der::Error> {
        let certificate = X509::from_der(certificate)?;
        let validity = certificate.tbs_certificate().validity();
        Ok(Self {
            begins: validity.not_before.to_unix_duration().as_secs(),
            ends: validity.not_after.to_unix_duration().as_secs(),
        })
    }

    /// Returns the kind of problem that a certificate with this validity has at a time, and the time since which it has it. One
    /// that is not valid yet never was.
    fn problem(self, now: u64) -> Option<(ProblemKind, Option<u64>)> {
        let lasts = self.ends.saturating_sub(self.begins);
        let warning_time = MAX_WARNING_TIME.min(lasts / WARNING_PART);
        match self.ends.saturating_sub(now) {
            _ if now < self.begins => Some((ProblemKind::CertificateInvalid, None)),
            0 => Some((ProblemKind::CertificateInvalid, Some(self.ends))),
            left if left < warning_time => {
                let since = self.ends - warning_time;
                Some((ProblemKind::CertificateExpires, Some(since)))
            }
            _ => None,
        }
    }
}

/// Returns a time in Unix seconds as text for people.
fn time_text(seconds: u64) -> String {
    let time = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX));
    time.map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_follows_from_validity_and_time() {
        const DAY: u64 = 24 * 60 * 60;
        let of_a_year = Validity {
            begins: 1_000 * DAY,
            ends: 1_365 * DAY,
        };
        let of_a_day = Validity {
            begins: 1_000 * DAY,
            ends: 1_001 * DAY,
        };
        for (validity, now, problem) in [
            (
                of_a_year,
                1_000 * DAY - 1,
                Some((ProblemKind::CertificateInvalid, None)),
            ),
            (of_a_year, 1_000 * DAY, None),
            (of_a_year, 1_358 * DAY, None),
            (
                of_a_year,
                1_358 * DAY + 1,
                Some((ProblemKind::CertificateExpires, Some(1_358 * DAY))),
            ),
            (
                of_a_year,
                1_365 * DAY - 1,
                Some((ProblemKind::CertificateExpires, Some(1_358 * DAY))),
            ),
            (
                of_a_year,
                1_365 * DAY,
                Some((ProblemKind::CertificateInvalid, Some(1_365 * DAY))),
            ),
            (of_a_day, 1_000 * DAY + DAY / 2, None),
            (
                of_a_day,
                1_001 * DAY - DAY / 6,
                Some((ProblemKind::CertificateExpires, Some(1_001 * DAY - DAY / 5))),
            ),
        ] {
            assert_eq!(validity.problem(now), problem, "{validity:?} at {now}");
        }
    }
}
