//! What the tests share.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "shared with tests, which use more of it"
)]

#[path = "../support/environment.rs"]
pub mod environment;
#[path = "../support/http.rs"]
pub mod http;
#[path = "../peers/support/message.rs"]
pub mod message;
#[path = "../support/mirror_objects.rs"]
pub mod mirror_objects;
#[path = "../support/ports.rs"]
pub mod ports;
#[path = "../support/repository.rs"]
pub mod repository;
#[path = "../support/signal.rs"]
pub mod signal;
#[path = "../support/tools.rs"]
pub mod tools;
#[path = "../support/wait.rs"]
pub mod wait;
#[path = "../support/wire.rs"]
pub mod wire;

pub use wait::PATIENCE;
