//! Detects changes of files by their contents, not by their times. Kubernetes changes a mounted Secret by replacing a
//! symbolic link above the files. A change is accepted when two successive reads agree.

use std::io;
use std::path::Path;
use std::time::Duration;

/// Interval between two reads of a file. A new certificate is less urgent than a changed endpoint.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between the two reads that must agree.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// The content of a file, or the error of reading it. Both are compared to detect a change.
pub(super) type Content = Result<Vec<u8>, (io::ErrorKind, String)>;

/// Reads a whole file.
pub(super) fn read_content(path: &Path) -> Content {
    std::fs::read(path).map_err(|error| (error.kind(), error.to_string()))
}

/// Returns the result of `read` if it differs from `last` and is stable. Otherwise it waits a short time and returns
/// `None`, so that the caller can loop.
pub(super) async fn wait_for_change<T: PartialEq>(
    read: impl Fn() -> T,
    last: Option<&T>,
) -> Option<T> {
    let now = read();
    if last == Some(&now) {
        tokio::time::sleep(POLL_INTERVAL).await;
        return None;
    }
    tokio::time::sleep(SETTLE_TIME).await;
    (read() == now).then_some(now)
}
