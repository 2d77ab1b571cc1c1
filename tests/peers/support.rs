//! What every module here needs: child processes, questions, and a reader of messages that shares nothing with ours.

pub mod message;
pub mod objects;
pub mod process;

// Shared with other suites.
#[path = "../support/command.rs"]
pub mod command;
#[path = "../support/differences.rs"]
pub mod differences;
#[path = "../support/environment.rs"]
pub mod environment;
#[path = "../support/http.rs"]
pub mod http;
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
#[path = "../support/repository.rs"]
pub mod repository;
#[path = "../support/running.rs"]
pub mod running;
#[path = "../support/signal.rs"]
pub mod signal;
#[path = "../support/tools.rs"]
pub mod tools;
#[path = "../support/wait.rs"]
pub mod wait;
#[path = "../support/wire.rs"]
pub mod wire;

pub use differences::assert_none;
pub use ports::free_port;
pub use repository::repository;
pub use wait::{PATIENCE, wait_for};

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
