//! What other suites share.

#[path = "../support/environment.rs"]
pub mod environment;
#[path = "../support/local_objects.rs"]
pub mod local_objects;
#[path = "../support/mirror_objects.rs"]
pub mod mirror_objects;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/networks.rs"]
pub mod networks;
#[path = "../support/ports.rs"]
pub mod ports;
#[path = "../support/repository.rs"]
pub mod repository;
#[path = "../support/signal.rs"]
pub mod signal;
#[path = "../support/tools.rs"]
pub mod tools;
