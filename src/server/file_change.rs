//! Reloads files when their contents change, whatever their times. Kubernetes changes a mounted Secret by replacing a
//! symbolic link above the files. A change is accepted when two successive reads agree.
//!
//! A read can take forever if the volume hangs. So each one has a thread of its own, and blocks neither DNS nor the probes.

use std::error::Error;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::log::error_chain;

/// Interval between two reads of a file. A new certificate is less urgent than a changed endpoint.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between the two reads that must agree.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// A file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {}: {reason}", path.display())]
pub struct ReadError {
    path: PathBuf,
    reason: String,
}

/// Reads whole files. Both the contents and the error are compared to detect a change.
pub(super) fn read_files(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, ReadError> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| ReadError {
            path: path.clone(),
            reason: error.to_string(),
        })
    };
    paths.iter().map(read).collect()
}

/// Calls `reload` with the contents of files when they change. If it replaced what they are for, `subject`, it returns a summary
/// for the log. If they are unusable, nothing is replaced. The files may have changed since they were opened, so the first
/// contents are a change. It never returns.
pub(super) async fn follow_files<E: Error + From<ReadError>>(
    subject: &str,
    paths: &[PathBuf],
    reload: impl Fn(&[Vec<u8>]) -> Result<Option<String>, E>,
) {
    let mut last = None;
    loop {
        let files = paths.to_vec();
        let Some(new) = wait_for_change(move || read_files(&files), last.as_ref()).await else {
            continue;
        };
        let contents = new.as_deref().map_err(|error| E::from(error.clone()));
        match contents.and_then(&reload) {
            Ok(None) => {}
            Ok(Some(summary)) => {
                let file = paths.first().map(|path| path.display());
                info!(
                    file = file.map(tracing::field::display),
                    summary, "Reloaded the {subject}"
                );
            }
            Err(error) => warn!(
                error = error_chain(&error),
                "Kept the last {subject}: a file cannot be used"
            ),
        }
        last = Some(new);
    }
}

/// Returns the result of `read` if it differs from `last` and is stable. Otherwise it waits a short time and returns
/// `None`, so that the caller can loop. It does not read again before the last read has ended.
async fn wait_for_change<T: PartialEq + Send + 'static>(
    read: impl Fn() -> T + Clone + Send + 'static,
    last: Option<&T>,
) -> Option<T> {
    let now = on_own_thread(read.clone()).await;
    if now.is_none() || now.as_ref() == last {
        sleep(POLL_INTERVAL).await;
        return None;
    }
    sleep(SETTLE_TIME).await;
    let again = on_own_thread(read).await;
    again.filter(|again| now.as_ref() == Some(again))
}

/// Runs `read` on a thread of its own. A thread of the runtime would delay the end of the process if the read hangs.
async fn on_own_thread<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, result) = oneshot::channel();
    let read = move || {
        let _ = sender.send(read()); // an error means that the process ends
    };
    if let Err(error) = thread::Builder::new().name("files".to_owned()).spawn(read) {
        warn!(%error, "Cannot start a thread to read files");
    }
    result.await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, mpsc};

    use super::*;

    /// The runtime has one thread. A read that blocked it would never end.
    #[tokio::test]
    async fn hanging_read_blocks_neither_the_runtime_nor_a_second_thread() {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (release, released) = mpsc::channel::<u8>();
        let released = Arc::new(parking_lot::Mutex::new(released));
        let reads = Arc::new(AtomicUsize::new(0));
        let read = {
            let reads = reads.clone();
            move || {
                reads.fetch_add(1, SeqCst);
                begun.send(()).unwrap();
                released.lock().recv().unwrap()
            }
        };
        let change = tokio::spawn(async move { wait_for_change(read, Some(&0)).await });
        begins.recv().await.unwrap();
        // The runtime works while the read hangs, for longer than the interval between two reads.
        sleep(SETTLE_TIME * 3).await;
        assert_eq!(reads.load(SeqCst), 1);
        release.send(7).unwrap();
        begins.recv().await.unwrap(); // the second read, which must agree
        release.send(7).unwrap();
        assert_eq!(change.await.unwrap(), Some(7));
        assert_eq!(reads.load(SeqCst), 2);
    }
}
