//! Programs, ours and those of others, as commands that see nothing of the environment's settings.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::say::suite;

/// The binary under test. Cargo names it to integration tests and benchmarks, and builds it before them.
pub fn binary() -> PathBuf {
    let path = env::var_os("CARGO_BIN_EXE_global-dns");
    PathBuf::from(path.expect("cargo, which runs the tests, names the binary"))
}

/// The binary under test, as a command.
pub fn global_dns(arguments: &[&str]) -> Command {
    let mut command = command(binary());
    command.args(arguments);
    command
}

/// A command without the environment's settings of the binary under test, and without its proxies.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let is_setting = text.starts_with("GLOBAL_DNS_") || text == "KUBECONFIG";
        if is_setting || text.to_ascii_lowercase().ends_with("_proxy") {
            command.env_remove(&name);
        }
    }
    command
}

/// The same for a process that the kernel kills when the thread that started it ends, however that happens.
pub fn guarded(program: impl AsRef<OsStr>) -> Command {
    let Some(setpriv) = find("setpriv") else {
        return command(program);
    };
    let mut command = command(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Finds a program: in the folders `KUBEBUILDER_ASSETS` and `GLOBAL_DNS_TEST_TOOLS`, then on the path, then where
/// daemons and Go live, which are not on every user's path.
pub fn find(name: &str) -> Option<PathBuf> {
    let named = ["KUBEBUILDER_ASSETS", "GLOBAL_DNS_TEST_TOOLS"];
    let named = named.into_iter().filter_map(env::var_os).map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let others = ["/usr/local/go/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];
    let folders = named
        .chain(env::split_paths(&path))
        .chain(others.map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// Finds a program, or says how to get it. A missing program is a failure, never a reason to skip.
pub fn tool(name: &str) -> Result<PathBuf> {
    find(name).with_context(|| {
        let suite = suite();
        let installer = match suite.as_str() {
            "bench" | "chaos" => format!("tests/{suite}/run"),
            _ => format!("tests/run {suite}"),
        };
        format!("{name} is not installed: run {installer}, which installs it")
    })
}
