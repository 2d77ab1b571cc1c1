//! What other suites share.

#[path = "../support/command.rs"]
pub mod command;
#[path = "../support/environment.rs"]
pub mod environment;
#[path = "../support/http.rs"]
pub mod http;
#[path = "../support/metrics.rs"]
pub mod metrics;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/mirror_objects.rs"]
pub mod mirror_objects;
#[allow(dead_code, reason = "other suites use the rest")]
#[path = "../support/networks.rs"]
pub mod networks;
#[path = "../support/repository.rs"]
pub mod repository;
#[allow(dead_code, reason = "other suites use the rest")]
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
