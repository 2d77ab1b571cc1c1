//! The secrets of DNS cookies. They come from the operating system and are replaced every day (RFC 7873 section 7.1),
//! or from a file that replicas share and the operator replaces.
//!
//! A client that knows a secret can make cookies for any address, and so send any number of replies there. Logs and
//! errors must never reveal a secret.

use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tracing::warn;

use super::file_change::{ReadError, follow_files, read_files};
use crate::log::error_chain;
use crate::wire::cookie::{InvalidSecrets, MAX_AGE};
use crate::wire::{CookieSecret, CookieSecrets};

/// Maximum lifetime of a secret, and the minimum as a share of it. The lifetime is random, so that it cannot be
/// predicted and replicas do not replace their secrets together.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
const MIN_LIFETIME_SHARE: f64 = 0.6;
/// Time for which the cookies of a replaced secret are accepted. It is the maximum age of a cookie.
const GRACE: Duration = Duration::from_secs(MAX_AGE.unsigned_abs() as u64);

/// The reason why there are no cookie secrets.
#[derive(Debug, thiserror::Error)]
pub enum CookieError {
    /// The operating system has no random numbers.
    #[error("cannot get random numbers from the operating system")]
    Random(#[source] io::Error),
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The content of the file is invalid.
    #[error("cannot use {}: {}", .0.display(), .1)]
    Invalid(PathBuf, InvalidSecrets),
}

/// The secrets in use, and the source of the next ones.
#[derive(Debug)]
pub struct Cookies {
    /// `--cookie-secret-file`. If there is none, the operating system provides secrets.
    file: Option<PathBuf>,
    current: RwLock<Arc<CookieSecrets>>,
}

// === impl Cookies ===

impl Cookies {
    /// Reads the first secrets from a file, or creates a random one.
    ///
    /// # Errors
    ///
    /// If the file is unusable, or the operating system has no random numbers.
    pub fn open(file: Option<PathBuf>) -> Result<Self, CookieError> {
        let secrets = match &file {
            Some(path) => parse(path, &read_files(slice::from_ref(path))?)?,
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

    /// Replaces the secrets when the file changes, or every day. It runs until the process ends.
    pub async fn follow(self: Arc<Self>) {
        match &self.file {
            Some(path) => {
                let reload = |contents: &[Vec<u8>]| self.reload(path, contents);
                follow_files("cookie secrets", slice::from_ref(path), reload).await;
            }
            None => self.rotate().await,
        }
    }

    fn reload(&self, path: &Path, contents: &[Vec<u8>]) -> Result<Option<String>, CookieError> {
        let new = parse(path, contents)?;
        if new == *self.current() {
            return Ok(None);
        }
        let summary = format!("secrets: {}", new.count());
        self.replace(new);
        Ok(Some(summary))
    }

    async fn rotate(&self) {
        loop {
            tokio::time::sleep(random_lifetime() - GRACE).await;
            let new = match random_secret() {
                Ok(new) => new,
                Err(error) => {
                    warn!(error = error_chain(&error), "Kept the last cookie secret");
                    continue;
                }
            };
            let old = self.current().first();
            self.replace(CookieSecrets::new(new, vec![old]));
            tokio::time::sleep(GRACE).await;
            self.replace(CookieSecrets::new(new, Vec::new()));
        }
    }

    fn replace(&self, secrets: CookieSecrets) {
        *self.current.write() = Arc::new(secrets);
    }
}

fn parse(path: &Path, contents: &[Vec<u8>]) -> Result<CookieSecrets, CookieError> {
    let secrets = String::from_utf8_lossy(&contents.concat()).parse();
    secrets.map_err(|error| CookieError::Invalid(path.to_owned(), error))
}

fn random_secret() -> Result<CookieSecret, CookieError> {
    let secret = crate::random::octets().map(CookieSecret);
    secret.map_err(CookieError::Random)
}

/// Returns a random lifetime of a secret. Without random numbers, it is the minimum.
fn random_lifetime() -> Duration {
    let share = crate::random::octets().map_or(0, u32::from_ne_bytes);
    let share = f64::from(share) / f64::from(u32::MAX);
    MAX_LIFETIME.mul_f64(MIN_LIFETIME_SHARE + (1.0 - MIN_LIFETIME_SHARE) * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    #[test]
    fn random_secrets_differ() {
        let secrets: Vec<CookieSecret> = (0..100).map(|_| random_secret().unwrap()).collect();
        for (index, one) in secrets.iter().enumerate() {
            assert!(!secrets[..index].contains(one));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn secret_is_replaced_every_day_and_accepted_for_another_hour() {
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
            sleep(GRACE - 2 * minute).await;
            assert_eq!(*cookies.current(), both);
            sleep(3 * minute).await;
            assert_eq!(*cookies.current(), CookieSecrets::new(new, Vec::new()));
        }
        let expected = MAX_LIFETIME.mul_f64(MIN_LIFETIME_SHARE) - GRACE..=MAX_LIFETIME + minute;
        assert!(intervals.iter().all(|interval| expected.contains(interval)));
        // The lifetime is random.
        let (least, most) = (intervals.iter().min(), intervals.iter().max());
        assert!(
            *most.unwrap() - *least.unwrap() > 10 * minute,
            "{intervals:?}"
        );
    }

    #[test]
    fn file_errors_do_not_contain_the_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cookies");
        let open = || Cookies::open(Some(path.clone()));
        let error = error_chain(&open().unwrap_err());
        assert!(error.contains("cookies") && error.contains("No such file"));
        std::fs::write(&path, "e5e973e5a6b2a43f48e7dc849e37bfcf\nsecret\n").unwrap();
        let error = error_chain(&open().unwrap_err());
        assert!(error.ends_with("/cookies: line 2: a secret is 32 hexadecimal digits"));
        assert!(!error.contains("e5e973"));
    }
}
