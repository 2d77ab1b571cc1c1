//! Commands that run without the settings of the test's environment.

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::output::suite_name;
use crate::settings::add_arguments;

/// Returns the path of the binary under test. Cargo builds it and sets the variable for integration tests and
/// benchmarks.
pub fn binary() -> PathBuf {
    let path = env::var_os("CARGO_BIN_EXE_global-dns-under-test");
    PathBuf::from(path.expect("cargo sets CARGO_BIN_EXE_global-dns-under-test"))
}

/// Returns a command that runs the binary under test. Arguments like `ttl=7` are settings.
pub fn global_dns(arguments: &[&str]) -> Command {
    let mut command = command(binary());
    // Help and errors name the program as it was called.
    command.arg0("global-dns");
    add_arguments(&mut command, arguments);
    command
}

/// Returns a command without the environment variables of the binary under test and without proxies.
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

/// Like [`command`], but the kernel kills the process when the thread that started it ends.
pub fn guarded(program: impl AsRef<OsStr>) -> Command {
    let Some(setpriv) = find("setpriv") else {
        return command(program);
    };
    let mut command = command(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Finds a program: in the folders `KUBEBUILDER_ASSETS` and `GLOBAL_DNS_TEST_TOOLS`, then in `PATH`, then in the usual
/// folders of daemons and Go, which are not in every user's `PATH`.
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

/// Finds a program. The error explains how to install it. A missing program is a failure, never a reason to skip.
pub fn tool(name: &str) -> Result<PathBuf> {
    find(name).with_context(|| {
        let suite = suite_name();
        let installer = match suite.as_str() {
            "bench" | "chaos" => format!("tests/{suite}/run"),
            _ => format!("tests/run {suite}"),
        };
        format!("{name} is not installed; run {installer} to install it")
    })
}
