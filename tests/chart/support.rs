//! What other suites share.

#[path = "../support/command.rs"]
pub mod command;
#[path = "../support/environment.rs"]
pub mod environment;
#[path = "../support/http.rs"]
pub mod http;
#[allow(dead_code, reason = "shared with suites that use more of it")]
#[path = "../support/mirror_objects.rs"]
pub mod mirror_objects;
#[path = "../support/ports.rs"]
pub mod ports;
#[path = "../support/repository.rs"]
pub mod repository;
#[allow(dead_code, reason = "shared with suites that use more of it")]
#[path = "../support/running.rs"]
pub mod running;
#[path = "../support/signal.rs"]
pub mod signal;
#[path = "../support/tools.rs"]
pub mod tools;
#[path = "../support/wait.rs"]
pub mod wait;
