//! What a child process gets to see of the environment.

use std::env;
use std::process::Command;

/// Takes the environment's settings of the binary under test away.
pub fn clean(mut command: Command) -> Command {
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("GLOBAL_DNS_") || name == "KUBECONFIG" {
            command.env_remove(name);
        }
    }
    command
}
