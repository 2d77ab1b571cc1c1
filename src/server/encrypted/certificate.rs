//! The files of the encrypted listeners: the certificate, its key, and the certificate authorities of clients.
//!
//! They are loaded together, and again when one of them changes, whatever their times: Kubernetes changes a mounted Secret by
//! replacing a symbolic link above the files. If a file is unusable, what was loaded before stays in use, and that is a problem.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoServerSessionStorage, ParsedCertificate, ServerConfig, WebPkiClientVerifier,
};
use rustls::{CertificateError, Error, RootCertStore};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::clock::{unix_milliseconds, unix_seconds};
use crate::model::{Problem, ProblemKind, Timestamp};
use crate::server::thread::start;
use crate::source::file::{MAX_MOUNTED, read_regular};
use crate::source::{log_ended, log_problem};

/// Interval between two reads of the files. A new certificate is less urgent than a changed endpoint.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between two reads that must agree. Two files are written one after the other.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// The warning time before a certificate expires: a week, or a fifth of the validity period if that is shorter.
/// Automatic renewal usually happens when a third is left, so it has failed by then.
const MAX_WARNING_TIME: u64 = 7 * 24 * 60 * 60;
const WARNING_PART: u64 = 5;

/// The PEM files.
#[derive(Debug)]
pub struct CertificateFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The certificate authorities of clients. If it is set, clients need a certificate from one of them.
    pub client_ca: Option<PathBuf>,
}

/// The contents of the files, or the problem that one is unusable.
type Contents = Result<Vec<Vec<u8>>, Problem>;

/// What the encrypted listeners use. It changes when the files change.
#[derive(Debug)]
pub struct Certificate {
    files: CertificateFiles,
    current: ArcSwap<Loaded>,
    /// The problem that new files are unusable.
    unusable: Mutex<Option<Problem>>,
    /// Cancelled when the server stops.
    pub(in crate::server) stop: CancellationToken,
}

/// What was loaded at once.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The configuration for DNS over TLS.
    pub(super) config: Arc<ServerConfig>,
    /// Cancelled when something else is loaded, or the server stops. Then connections end after the current query.
    pub(super) end: CancellationToken,
    /// The contents of the files.
    contents: Vec<Vec<u8>>,
    validity: Validity,
}

/// The validity period of a certificate in Unix seconds.
#[derive(Clone, Copy, Debug)]
struct Validity {
    begins: u64,
    ends: u64,
}

// === impl CertificateFiles ===

impl CertificateFiles {
    /// Reads the files. The contents are compared to detect a change.
    fn read(&self) -> Contents {
        let paths = [&self.certificate, &self.key]
            .into_iter()
            .chain(&self.client_ca);
        paths
            .map(|path| read_regular(path, MAX_MOUNTED).map_err(|error| unusable(path, error)))
            .collect()
    }

    /// Loads the contents of the files, for connections until `end`.
    fn load(&self, contents: Vec<Vec<u8>>, end: CancellationToken) -> Result<Loaded, Problem> {
        let [chain, key, authorities @ ..] = contents.as_slice() else {
            return Err(unusable(&self.key, "it was not read"));
        };
        let chain: Vec<CertificateDer<'_>> = parse(&self.certificate, chain, "certificate")?;
        let validity = Validity::of(&chain[0])
            .ok_or_else(|| unusable(&self.certificate, "its first certificate is invalid"))?;
        let key_name = "private key without a passphrase";
        let key: PrivateKeyDer<'static> = parse(&self.key, key, key_name)?.swap_remove(0);
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&self.certificate, error))?;
        let builder = match (&self.client_ca, authorities) {
            (Some(path), [authorities]) => {
                builder.with_client_cert_verifier(client_verifier(path, authorities, provider)?)
            }
            _ => builder.with_no_client_auth(),
        };
        let of_certificate = self.certificate.display();
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            let reason = format!("{error} (for the certificate in {of_certificate})");
            unusable(&self.key, reason)
        })?;
        config.alpn_protocols = vec![b"dot".to_vec()];
        // Sessions are resumed with tickets, which need no memory on the server (RFC 5077, RFC 8446 section 2.2).
        config.session_storage = Arc::new(NoServerSessionStorage {});
        match &self.client_ca {
            None => {
                config.ticketer = Ticketer::new().map_err(|error| unusable(&self.key, error))?
            }
            // Resumption would skip the verification of the client certificate. It may have expired, or its CA may be gone.
            Some(_) => config.send_tls13_tickets = 0,
        }
        Ok(Loaded {
            config: Arc::new(config),
            end,
            contents,
            validity,
        })
    }
}

/// Returns the verifier of clients that have a certificate of one of the authorities in a file.
fn client_verifier(
    path: &Path,
    authorities: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Problem> {
    let mut roots = RootCertStore::empty();
    for authority in parse(path, authorities, "certificate")? {
        roots
            .add(authority)
            .map_err(|error| unusable(path, error))?;
    }
    // Clients choose their certificate by configuration, not by the names of authorities.
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .clear_root_hint_subjects()
        .build()
        .map_err(|error| unusable(path, error))
}

/// Returns the problem that a file is unusable.
fn unusable(path: &Path, reason: impl ToString) -> Problem {
    Problem::new(ProblemKind::CertificateRenewal, reason.to_string())
        .of_name(path.display().to_string())
}

/// Parses the objects of a PEM file. There is at least one.
fn parse<T: PemObject>(path: &Path, text: &[u8], what: &str) -> Result<Vec<T>, Problem> {
    let objects: Result<Vec<T>, _> = T::pem_slice_iter(text).collect();
    match objects {
        Ok(objects) if !objects.is_empty() => Ok(objects),
        Ok(_) => Err(unusable(path, format!("it has no {what}"))),
        Err(error) => Err(unusable(path, format!("it is not a PEM file: {error}"))),
    }
}

// === impl Certificate ===

impl Certificate {
    /// Loads the files for the first time.
    ///
    /// # Errors
    ///
    /// If a file is unusable.
    pub fn open(files: CertificateFiles) -> io::Result<Arc<Self>> {
        let stop = CancellationToken::new();
        let loaded = files
            .read()
            .and_then(|contents| files.load(contents, stop.child_token()))
            .map_err(|problem| {
                let file = problem.subject();
                let reason = problem.detail;
                io::Error::other(format!("cannot use {file}: {reason}"))
            })?;
        Ok(Arc::new(Self {
            files,
            current: ArcSwap::from_pointee(loaded),
            unusable: Mutex::default(),
            stop,
        }))
    }

    /// Starts a thread that loads the files when they change: a volume that hangs blocks nothing else. Returns a future that
    /// completes when the thread ends.
    ///
    /// # Errors
    ///
    /// If the system has no thread.
    pub fn follow(self: Arc<Self>) -> io::Result<impl Future<Output = ()> + Send> {
        start("certificate", move || self.follow_files())
    }

    /// Returns the expiry of the certificate in use, in Unix seconds.
    pub fn expiry(&self) -> u64 {
        self.loaded().validity.ends
    }

    /// Returns the problems of the certificate in use and of its files.
    pub fn problems(&self) -> Vec<Problem> {
        let file = self.files.certificate.display().to_string();
        let of_validity = self.loaded().validity.problem(unix_seconds().into());
        let unusable = self.unusable.lock().clone();
        of_validity
            .map(|problem| problem.of_name(file))
            .into_iter()
            .chain(unusable)
            .collect()
    }

    /// Returns what is in use.
    pub(super) fn loaded(&self) -> Arc<Loaded> {
        self.current.load_full()
    }

    /// Loads the files when they change, and logs the begin and the end of each problem once. Never returns.
    fn follow_files(&self) {
        let mut last = Ok(self.loaded().contents.clone());
        let mut logged = Vec::new();
        loop {
            let problems = self.problems();
            problems
                .iter()
                .filter(|problem| !logged.contains(*problem))
                .for_each(log_problem);
            log_ended(&logged, &problems, Timestamp(unix_milliseconds()));
            logged = problems;
            thread::sleep(POLL_INTERVAL);
            let now = self.files.read();
            if now == last {
                continue;
            }
            thread::sleep(SETTLE_TIME);
            if self.files.read() == now {
                last = now.clone();
                self.reload(now);
            }
        }
    }

    fn reload(&self, contents: Contents) {
        let loaded =
            contents.and_then(|contents| self.files.load(contents, self.stop.child_token()));
        let mut unusable = self.unusable.lock();
        *unusable = match loaded {
            Ok(loaded) => {
                let file = self.files.certificate.display();
                let valid_until = Timestamp::from_seconds(loaded.validity.ends).to_text();
                let old = self.current.swap(Arc::new(loaded));
                old.end.cancel(); // after the change, so that new connections use the new files
                info!(%file, valid_until, "Reloaded the certificate");
                None
            }
            Err(problem) => {
                let mut problem = [problem];
                let now = Timestamp(unix_milliseconds());
                Problem::date(Some(unusable.as_slice()), &mut problem, now);
                problem.into_iter().next()
            }
        };
    }
}

// === impl Validity ===

impl Validity {
    /// Returns the validity of a certificate: rustls names it when it verifies the certificate at another time. Returns `None` if it
    /// cannot be read.
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        let verify = |seconds| {
            let roots = RootCertStore::empty();
            let time = Duration::from_secs(seconds);
            let time = UnixTime::since_unix_epoch(time);
            match verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], time, &[]) {
                Err(Error::InvalidCertificate(error)) => Some(error),
                _ => None,
            }
        };
        let begins = match verify(0)? {
            CertificateError::NotValidYetContext { not_before, .. } => not_before.as_secs(),
            _ => 0,
        };
        match verify(u64::MAX)? {
            CertificateError::ExpiredContext { not_after, .. } => Some(Self {
                begins,
                ends: not_after.as_secs(),
            }),
            _ => None,
        }
    }

    /// Returns the problem that a certificate with this validity has at a time, since it has it. One that is not valid yet never was.
    fn problem(self, now: u64) -> Option<Problem> {
        let Self { begins, ends } = self;
        let warning_time = MAX_WARNING_TIME.min(ends.saturating_sub(begins) / WARNING_PART);
        let (kind, since) = match ends.saturating_sub(now) {
            _ if now < begins => (ProblemKind::CertificateInvalid, None),
            0 => (ProblemKind::CertificateInvalid, Some(ends)),
            left if left < warning_time => {
                (ProblemKind::CertificateRenewal, Some(ends - warning_time))
            }
            _ => return None,
        };
        let text = |seconds| Timestamp::from_seconds(seconds).to_text();
        let detail = format!("valid from {} until {}", text(begins), text(ends));
        Some(Problem::new(kind, detail).holds_since(since.map(Timestamp::from_seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_follows_from_validity_and_time() {
        use ProblemKind::{CertificateInvalid, CertificateRenewal};
        const DAY: u64 = 24 * 60 * 60;
        let validity = |days: u64| Validity {
            begins: 1_000 * DAY,
            ends: (1_000 + days) * DAY,
        };
        for (days, now, problem) in [
            (365, 1_000 * DAY - 1, Some((CertificateInvalid, None))),
            (365, 1_000 * DAY, None),
            (365, 1_358 * DAY, None),
            (
                365,
                1_358 * DAY + 1,
                Some((CertificateRenewal, Some(1_358 * DAY))),
            ),
            (
                365,
                1_365 * DAY - 1,
                Some((CertificateRenewal, Some(1_358 * DAY))),
            ),
            (
                365,
                1_365 * DAY,
                Some((CertificateInvalid, Some(1_365 * DAY))),
            ),
            (1, 1_000 * DAY + DAY / 2, None),
            (
                1,
                1_001 * DAY - DAY / 6,
                Some((CertificateRenewal, Some(1_001 * DAY - DAY / 5))),
            ),
        ] {
            let found = validity(days).problem(now);
            let found = found.map(|one| (one.kind, one.since.map(|time| time.0 / 1000)));
            assert_eq!(found, problem, "{days} at {now}");
        }
    }
}
