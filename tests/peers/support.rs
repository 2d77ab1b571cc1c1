//! What every module here needs: child processes, questions, and a reader of messages that shares nothing with ours.

pub mod message;
pub mod objects;
pub mod process;

use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long any single event may take before a test gives up: long, because machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Tries until there is a value, or fails with what was awaited.
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        let seconds = PATIENCE.as_secs();
        assert!(Instant::now() < deadline, "{what}: not within {seconds} s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port that was free over UDP and TCP a moment ago, for programs that cannot be told to choose one; below those that
/// questions are sent from.
pub fn free_port() -> u16 {
    wait_for("a port that is free over UDP and TCP", || {
        let address = ("127.0.0.1", fastrand::u16(10_000..32_000));
        let is_free = UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok();
        is_free.then_some(address.1)
    })
}

/// A file or folder of this repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Fails with one message that lists the first differences.
pub fn assert_none(differences: &[String]) {
    let shown = &differences[..differences.len().min(40)];
    assert!(
        differences.is_empty(),
        "{} differences, the first of them:\n{}",
        differences.len(),
        shown.join("\n")
    );
}

/// A number as people write it: `5,214`.
pub fn figure(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
