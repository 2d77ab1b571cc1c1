//! What every module here needs: Kubernetes objects, the binary as a child process, questions and their replies.

pub mod ask;
pub mod binary;
pub mod objects;

use std::collections::BTreeSet;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long any single event may take before a test gives up: long, because machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Tries until there is a value, or fails with what was awaited.
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(
            Instant::now() < deadline,
            "{what}: not within {} s",
            PATIENCE.as_secs()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The sorted set of texts.
pub fn set<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> BTreeSet<String> {
    texts
        .into_iter()
        .map(|text| text.as_ref().to_owned())
        .collect()
}

/// A port that was free over UDP and TCP a moment ago, for programs that cannot be told to choose one.
pub fn free_port() -> u16 {
    let both = || {
        let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
        let port = udp.local_addr().ok()?.port();
        TcpListener::bind(("127.0.0.1", port)).ok().map(|_| port)
    };
    wait_for("a port that is free over UDP and TCP", both)
}

/// A file or folder of this repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Fails with one message that lists every difference.
pub fn assert_none(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}
