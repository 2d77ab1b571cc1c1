//! Signals by name.

use std::io;
use std::process::{Child, Command};

/// Sends a signal: `TERM`, `INT`, `STOP`. `Child` itself knows only SIGKILL.
pub fn signal(child: &Child, name: &str) -> io::Result<()> {
    let kill = format!("kill -{name} {}", child.id());
    let status = Command::new("sh").args(["-c", &kill]).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{kill}: {status}"))),
    }
}
