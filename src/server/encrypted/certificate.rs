//! The files of the encrypted listeners: the certificate, its key, and the certificate authorities of clients.
//!
//! They are loaded together, and again when one of them changes, whatever their times: Kubernetes changes a mounted Secret by
//! replacing a symbolic link above the files. If a file is unusable, what was loaded before stays in use, and that is a problem.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::clock::{unix_milliseconds, unix_seconds};
use crate::model::{Problem, ProblemKind, Timestamp};
use crate::server::thread::start;
use crate::source::log_problem;

/// Interval between two reads of the files. A new certificate is less urgent than a changed endpoint.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between two reads that must agree. Two files are written one after the other.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Maximum size of a file in octets.
const MAX_FILE: u64 = 1 << 20;
/// The warning time before a certificate expires: a week, or a fifth of the validity period if that is shorter.
/// Automatic renewal usually happens when a third is left, so it has failed by then.
const MAX_WARNING_TIME: u64 = 7 * 24 * 60 * 60;
const WARNING_PART: u64 = 5;

/// The PEM files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The certificate authorities of clients. If it is set, clients need a certificate from one of them.
    pub client_ca: Option<PathBuf>,
}

/// A file is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use {}: {reason}", path.display())]
pub struct CertificateError {
    path: PathBuf,
    reason: String,
}

/// What the encrypted listeners use. It changes when the files change.
#[derive(Debug)]
pub struct Certificate {
    files: Files,
    current: RwLock<Arc<Loaded>>,
    /// The problem that new files are unusable.
    unusable: RwLock<Option<Problem>>,
    /// Cancelled when the server stops.
    pub(super) stop: CancellationToken,
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
    since: Timestamp,
}

/// The validity period of a certificate in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Validity {
    begins: u64,
    ends: u64,
}

// === impl Files ===

impl Files {
    /// Reads the files. The contents are compared to detect a change.
    fn read(&self) -> Result<Vec<Vec<u8>>, CertificateError> {
        let paths = [&self.certificate, &self.key];
        let paths = paths.into_iter().chain(&self.client_ca);
        let read = |path: &PathBuf| read(path).map_err(|reason| unusable(path, reason));
        paths.map(read).collect()
    }

    /// Loads the contents of the files, for connections until `end`.
    fn load(
        &self,
        contents: Vec<Vec<u8>>,
        end: CancellationToken,
    ) -> Result<Loaded, CertificateError> {
        let [chain, key, authorities @ ..] = contents.as_slice() else {
            return Err(unusable(&self.key, "it was not read"));
        };
        let chain: Vec<CertificateDer<'_>> = parse(&self.certificate, chain, "certificate")?;
        let validity = Validity::of(&chain[0]);
        let unreadable = || unusable(&self.certificate, "its first certificate is invalid");
        let validity = validity.ok_or_else(unreadable)?;
        let key_name = "private key without a passphrase";
        let key: PrivateKeyDer<'_> = parse(&self.key, key, key_name)?.swap_remove(0);
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
        let certified = builder.with_single_cert(chain, key.clone_key());
        let mut config = certified.map_err(|error| {
            let reason = format!(
                "{error} (for the certificate in {})",
                self.certificate.display()
            );
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
            since: Timestamp(unix_milliseconds()),
        })
    }
}

/// Returns the verifier of clients that have a certificate of one of the authorities in a file.
fn client_verifier(
    path: &Path,
    authorities: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let mut roots = RootCertStore::empty();
    for authority in parse(path, authorities, "certificate")? {
        roots
            .add(authority)
            .map_err(|error| unusable(path, error))?;
    }
    // Clients choose their certificate by configuration, not by the names of authorities.
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .clear_root_hint_subjects()
        .build();
    verifier.map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, reason: impl ToString) -> CertificateError {
    CertificateError {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}

/// Reads a regular file of limited size. Another one may have no end, or nobody who writes it.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let read = || {
        let is_regular = fs::metadata(path)?.is_file();
        let mut contents = Vec::new();
        if is_regular {
            File::open(path)?
                .take(MAX_FILE + 1)
                .read_to_end(&mut contents)?;
        }
        Ok((is_regular, contents))
    };
    match read().map_err(|error: io::Error| error.to_string())? {
        (true, contents) if contents.len() as u64 <= MAX_FILE => Ok(contents),
        _ => Err("it is not a regular file of at most 1 MiB".to_owned()),
    }
}

/// Parses the objects of a PEM file. There is at least one.
fn parse<T: PemObject>(path: &Path, text: &[u8], what: &str) -> Result<Vec<T>, CertificateError> {
    let objects: Result<Vec<T>, _> = T::pem_slice_iter(text).collect();
    match objects {
        Ok(objects) if objects.is_empty() => Err(unusable(path, format!("it has no {what}"))),
        Ok(objects) => Ok(objects),
        Err(error) => Err(unusable(path, format!("it is not a PEM file: {error}"))),
    }
}

// === impl Certificate ===

impl Certificate {
    /// Loads the files for the first time.
    pub(super) fn open(files: Files) -> Result<Self, CertificateError> {
        let stop = CancellationToken::new();
        let loaded = files.load(files.read()?, stop.child_token())?;
        Ok(Self {
            files,
            current: RwLock::new(Arc::new(loaded)),
            unusable: RwLock::default(),
            stop,
        })
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
        let loaded = self.loaded();
        let Validity { begins, ends } = loaded.validity;
        let of_validity = loaded.validity.problem(unix_seconds().into());
        let of_validity = of_validity.map(|(kind, since)| {
            let (detail, since) = match since {
                None => (format!("valid from {}", time_text(begins)), loaded.since),
                Some(since) => {
                    let detail = format!("valid until {}", time_text(ends));
                    (detail, Timestamp::from_seconds(since))
                }
            };
            let file = self.files.certificate.display().to_string();
            Problem::new(kind, detail).of_name(file).holds_since(since)
        });
        of_validity
            .into_iter()
            .chain(self.unusable.read().clone())
            .collect()
    }

    /// Returns what is in use.
    pub(super) fn loaded(&self) -> Arc<Loaded> {
        self.current.read().clone()
    }

    /// Loads the files when they change, and logs each problem once. Never returns.
    fn follow_files(&self) {
        let mut last = Ok(self.loaded().contents.clone());
        let mut logged = Vec::new();
        loop {
            let problems = self.problems();
            let new = problems.iter().filter(|problem| !logged.contains(*problem));
            new.for_each(log_problem);
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

    fn reload(&self, contents: Result<Vec<Vec<u8>>, CertificateError>) {
        let load = |contents| self.files.load(contents, self.stop.child_token());
        *self.unusable.write() = match contents.and_then(load) {
            Ok(loaded) => {
                let file = self.files.certificate.display();
                let valid_until = time_text(loaded.validity.ends);
                let old = mem::replace(&mut *self.current.write(), Arc::new(loaded));
                old.end.cancel(); // after the change, so that new connections use the new files
                info!(%file, valid_until, "Reloaded the certificate");
                None
            }
            Err(CertificateError { path, reason }) => {
                let problem = Problem::new(ProblemKind::CertificateRenewal, reason);
                let problem = problem.of_name(path.display().to_string());
                Some(problem.holds_since(Timestamp(unix_milliseconds())))
            }
        };
    }
}

// === impl Validity ===

impl Validity {
    /// Reads the validity of a certificate (RFC 5280 section 4.1). Returns `None` if it cannot be read.
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        const VERSION: u8 = 0xa0;
        let (_, certificate, _) = element(certificate)?;
        let (_, mut fields, _) = element(certificate)?;
        let (tag, _, after) = element(fields)?;
        if tag == VERSION {
            fields = after;
        }
        // The serial number, the algorithm of the signature, and the issuer.
        for _ in 0..3 {
            fields = element(fields)?.2;
        }
        let (_, validity, _) = element(fields)?;
        let (_, begins, after) = element(validity)?;
        let (_, ends, _) = element(after)?;
        Some(Self {
            begins: unix_time(begins)?,
            ends: unix_time(ends)?,
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
                Some((ProblemKind::CertificateRenewal, Some(since)))
            }
            _ => None,
        }
    }
}

/// Splits off the first element of DER (X.690 section 8.1). Returns its tag, its content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    const LONG: u8 = 0x80;
    let (&[tag, length], rest) = der.split_first_chunk()?;
    let (length, rest) = if length < LONG {
        (usize::from(length), rest)
    } else {
        let (octets, rest) = rest.split_at_checked(usize::from(length - LONG))?;
        let octets = octets.iter().try_fold(0_usize, |length, octet| {
            Some(length.checked_mul(256)? + usize::from(*octet))
        });
        (octets?, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Returns the Unix seconds of a time, whose year has two digits from 1950 to 2049 (RFC 5280 section 4.1.2.5).
fn unix_time(text: &[u8]) -> Option<u64> {
    const TWO_DIGITS: usize = "YYMMDDHHMMSSZ".len();
    let text = str::from_utf8(text).ok()?;
    let century = match text.chars().next()? {
        _ if text.len() != TWO_DIGITS => "",
        '0'..='4' => "20",
        _ => "19",
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", format!("{century}{text}")).ok()?;
    let time = TimeZone::UTC.to_timestamp(time).ok()?;
    u64::try_from(time.as_second()).ok()
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
    fn times_of_certificates_have_two_or_four_digits_of_the_year() {
        for (text, expected) in [
            ("700101000001Z", Some(1)),
            ("491231235959Z", Some(2_524_607_999)),
            ("20500101000000Z", Some(2_524_608_000)),
            ("500101000000Z", None), // 1950
            ("700101000001", None),
            ("", None),
        ] {
            assert_eq!(unix_time(text.as_bytes()), expected, "{text}");
        }
    }

    /// The length of an element has one octet, or says how many it has.
    #[test]
    fn elements_of_der_are_split() {
        let long = [&[0x30, 0x81, 0x80][..], &[7; 0x80], &[9]].concat();
        assert_eq!(element(&long), Some((0x30, &[7; 0x80][..], &[9][..])));
        assert_eq!(element(&[2, 1, 5]), Some((2, &[5][..], &[][..])));
        for broken in [
            &[][..],
            &[2],
            &[2, 1],
            &[2, 0x82, 1],
            &[2, 0x89, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(element(broken), None, "{broken:?}");
        }
    }

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
                Some((ProblemKind::CertificateRenewal, Some(1_358 * DAY))),
            ),
            (
                of_a_year,
                1_365 * DAY - 1,
                Some((ProblemKind::CertificateRenewal, Some(1_358 * DAY))),
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
                Some((ProblemKind::CertificateRenewal, Some(1_001 * DAY - DAY / 5))),
            ),
        ] {
            assert_eq!(validity.problem(now), problem, "{validity:?} at {now}");
        }
    }
}
