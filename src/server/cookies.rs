//! The secrets of DNS cookies: from the operating system and replaced every day (RFC 7873 section 7.1), or from a file
//! that replicas share and somebody else replaces.
//!
//! A client that knows a secret can make cookies for any address, and so have replies of any number sent there. Nothing
//! that is told about this process may lead to a secret.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tracing::{info, warn};

use super::contents::{Content, content, look};
use crate::log::sentence;
use crate::wire::cookie::{InvalidSecrets, OLDEST};
use crate::wire::{CookieSecret, CookieSecrets};

/// How long a secret makes cookies, at most, and at least: jitter takes away up to two fifths, so that the
/// time cannot be predicted and replicas do not do it together.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SHORTEST_DAY: f64 = 0.6;
/// How long the cookies of a replaced secret are accepted: as long as any cookie.
const KEPT: Duration = Duration::from_secs(OLDEST.unsigned_abs() as u64);

/// Why the secrets of cookies cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CookieError {
    /// The operating system has no random numbers.
    #[error("asking the operating system for random numbers")]
    Random(#[source] io::Error),
    /// The file cannot be read.
    #[error("reading {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file holds something else.
    #[error("{}: {}", .0.display(), .1)]
    Invalid(PathBuf, InvalidSecrets),
}

/// The secrets that are in use, and where the next ones come from.
#[derive(Debug)]
pub struct Cookies {
    /// `--cookie-secret-file`; without one, the operating system.
    file: Option<PathBuf>,
    current: RwLock<Arc<CookieSecrets>>,
}

// === impl Cookies ===

impl Cookies {
    /// Gets the first secrets: those of a file, or one that nobody else has.
    ///
    /// # Errors
    ///
    /// If they cannot be had.
    pub fn open(file: Option<PathBuf>) -> Result<Self, CookieError> {
        let secrets = match &file {
            Some(path) => parse(path, &content(path))?,
            None => CookieSecrets::new(random_secret()?, Vec::new()),
        };
        Ok(Self {
            file,
            current: RwLock::new(Arc::new(secrets)),
        })
    }

    /// Returns the secrets in use.
    pub(super) fn current(&self) -> Arc<CookieSecrets> {
        let current = self.current.read();
        current.clone()
    }

    /// Replaces the secrets until the process ends: when the file changes, or every day.
    pub async fn follow(self: Arc<Self>) {
        match &self.file {
            Some(path) => self.follow_file(path).await,
            None => self.rotate().await,
        }
    }

    async fn follow_file(&self, path: &Path) {
        let mut seen = None;
        loop {
            if let Some(new) = look(|| content(path), seen.as_ref()).await {
                self.take(path, &new);
                seen = Some(new);
            }
        }
    }

    fn take(&self, path: &Path, content: &Content) {
        match parse(path, content) {
            Ok(new) if new == *self.current() => {}
            Ok(new) => {
                let secrets = new.count();
                self.replace(new);
                info!(file = %path.display(), secrets, "Reloaded the cookie secrets");
            }
            Err(error) => warn!(
                error = sentence(&error),
                "Kept the last cookie secrets: the file cannot be used"
            ),
        }
    }

    async fn rotate(&self) {
        loop {
            tokio::time::sleep(random_day() - KEPT).await;
            let new = match random_secret() {
                Ok(new) => new,
                Err(error) => {
                    warn!(error = sentence(&error), "Kept the last cookie secret");
                    continue;
                }
            };
            let old = self.current().first();
            self.replace(CookieSecrets::new(new, vec![old]));
            tokio::time::sleep(KEPT).await;
            self.replace(CookieSecrets::new(new, Vec::new()));
        }
    }

    fn replace(&self, secrets: CookieSecrets) {
        *self.current.write() = Arc::new(secrets);
    }
}

fn parse(path: &Path, content: &Content) -> Result<CookieSecrets, CookieError> {
    let failed = |(kind, text)| CookieError::Read(path.to_owned(), io::Error::new(kind, text));
    let text = content.clone().map_err(failed)?;
    let secrets = String::from_utf8_lossy(&text).parse();
    secrets.map_err(|error| CookieError::Invalid(path.to_owned(), error))
}

fn random_secret() -> Result<CookieSecret, CookieError> {
    Ok(CookieSecret(random()?))
}

/// Returns a day less the jitter, and without random numbers the shortest one.
fn random_day() -> Duration {
    let share = random().map_or(0, u32::from_ne_bytes);
    let share = f64::from(share) / f64::from(u32::MAX);
    DAY.mul_f64(SHORTEST_DAY + (1.0 - SHORTEST_DAY) * share)
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], CookieError> {
    crate::random::octets().map_err(CookieError::Random)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    #[test]
    fn no_two_secrets_are_alike() {
        let secrets: Vec<CookieSecret> = (0..100).map(|_| random_secret().unwrap()).collect();
        for (index, one) in secrets.iter().enumerate() {
            assert!(!secrets[..index].contains(one));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_is_replaced_every_day_and_accepted_for_an_hour_more() {
        let cookies = Arc::new(Cookies::open(None).unwrap());
        tokio::spawn(cookies.clone().follow());
        let minute = Duration::from_secs(60);
        let mut intervals = Vec::new();
        let mut since = Instant::now();
        for _ in 0..10 {
            let old = cookies.current().first();
            assert_eq!(*cookies.current(), CookieSecrets::new(old, Vec::new()));
            while cookies.current().first() == old {
                sleep(minute).await;
            }
            intervals.push(since.elapsed());
            since = Instant::now();
            let new = cookies.current().first();
            let both = CookieSecrets::new(new, vec![old]);
            sleep(KEPT - 2 * minute).await;
            assert_eq!(*cookies.current(), both);
            sleep(3 * minute).await;
            assert_eq!(*cookies.current(), CookieSecrets::new(new, Vec::new()));
        }
        let sound = DAY.mul_f64(SHORTEST_DAY) - KEPT..=DAY + minute;
        assert!(intervals.iter().all(|interval| sound.contains(interval)));
        // The time cannot be predicted.
        let (least, most) = (intervals.iter().min(), intervals.iter().max());
        assert!(
            *most.unwrap() - *least.unwrap() > 10 * minute,
            "{intervals:?}"
        );
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_without_what_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cookies");
        let open = || Cookies::open(Some(path.clone()));
        let error = sentence(&open().unwrap_err());
        assert!(error.contains("cookies") && error.contains("No such file"));
        std::fs::write(&path, "e5e973e5a6b2a43f48e7dc849e37bfcf\nsecret\n").unwrap();
        let error = sentence(&open().unwrap_err());
        assert!(error.ends_with("/cookies: line 2: a secret is 32 hexadecimal digits"));
        assert!(!error.contains("e5e973"));
    }
}
