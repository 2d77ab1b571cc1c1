//! The earlier release: its commit, its binary and its chart.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use support::process::run_checked;
use support::repository::repository;

/// The commit. `tests/run` reads it here.
pub const COMMIT: &str = "e2368f158824aa759ceb4237d94bc1edb38bd9b7";

/// Returns the binary, which `tests/run upgrade` builds.
pub fn binary() -> Result<PathBuf> {
    let path = env::var_os("GLOBAL_DNS_TEST_PREVIOUS").context(
        "GLOBAL_DNS_TEST_PREVIOUS is not set; run tests/run upgrade, which builds the binary",
    )?;
    let path = PathBuf::from(path);
    ensure!(path.is_file(), "{} does not exist", path.display());
    Ok(path)
}

/// Writes the chart to a folder. Returns its path.
pub fn chart(folder: &Path) -> Result<PathBuf> {
    let archive = folder.join("chart.tar");
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "archive", "--output"])
        .arg(&archive);
    git.args([COMMIT, "charts/global-dns"])
        .current_dir(repository(""));
    run_checked(&mut git)?;
    run_checked(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(folder),
    )?;
    Ok(folder.join("charts/global-dns"))
}

/// Returns the path of a fixture.
pub fn fixture(name: &str) -> PathBuf {
    repository("tests/fixtures/upgrade").join(name)
}
