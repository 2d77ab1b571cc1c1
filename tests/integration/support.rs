//! What every module here needs: Kubernetes objects, the binary as a child process, questions and their replies.

pub mod ask;
pub mod binary;
pub mod encrypted;
pub mod objects;
pub mod sockets;

// Shared with other suites.
#[path = "../support/certificates.rs"]
pub mod certificates;
#[path = "../support/command.rs"]
pub mod command;
#[path = "../support/differences.rs"]
pub mod differences;
#[path = "../support/environment.rs"]
pub mod environment;
#[path = "../support/http.rs"]
pub mod http;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/https.rs"]
pub mod https;
#[path = "../support/local_objects.rs"]
pub mod local_objects;
#[path = "../support/metrics.rs"]
pub mod metrics;
#[path = "../support/mirror_objects.rs"]
pub mod mirror_objects;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/networks.rs"]
pub mod networks;
#[path = "../support/ports.rs"]
pub mod ports;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/quic.rs"]
pub mod quic;
#[path = "../support/repository.rs"]
pub mod repository;
#[path = "../support/running.rs"]
pub mod running;
#[path = "../support/signal.rs"]
pub mod signal;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/tls.rs"]
pub mod tls;
#[path = "../support/tools.rs"]
pub mod tools;
#[path = "../support/wait.rs"]
pub mod wait;
#[path = "../support/wire.rs"]
pub mod wire;

use std::collections::BTreeSet;

pub use differences::assert_none;
pub use ports::free_port;
pub use repository::repository;
pub use wait::{PATIENCE, wait_for, wait_for_ok};

/// The sorted set of texts.
pub fn set<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> BTreeSet<String> {
    texts
        .into_iter()
        .map(|text| text.as_ref().to_owned())
        .collect()
}
