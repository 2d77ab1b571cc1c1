//! The binary under test, as a command.

use std::process::Command;

use super::environment::clean;

/// The binary, without a trace of the environment's settings.
pub fn global_dns() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_global-dns")))
}
