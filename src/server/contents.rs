//! Files that are followed by their contents, not by their times: Kubernetes changes a mounted Secret by swapping a
//! symbolic link above the files. A change is taken when two reads a moment apart agree.

use std::io;
use std::path::Path;
use std::time::Duration;

/// Between two looks at the files: nobody waits for a new certificate as for a changed endpoint.
const POLL: Duration = Duration::from_secs(2);
/// Between the two reads that must agree.
const SETTLE: Duration = Duration::from_millis(100);

/// What a file holds, or why it cannot be read. Kept to be compared, errors too.
pub(super) type Content = Result<Vec<u8>, (io::ErrorKind, String)>;

/// Reads a file whole.
pub(super) fn content(path: &Path) -> Content {
    std::fs::read(path).map_err(|error| (error.kind(), error.to_string()))
}

/// Returns what `read` does, if that is not what was `seen` and is no longer being written. Takes a moment either way.
pub(super) async fn look<T: PartialEq>(read: impl Fn() -> T, seen: Option<&T>) -> Option<T> {
    let now = read();
    if seen == Some(&now) {
        tokio::time::sleep(POLL).await;
        return None;
    }
    tokio::time::sleep(SETTLE).await;
    (read() == now).then_some(now)
}
