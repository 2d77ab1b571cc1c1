//! Paths in this repository.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the absolute path of a file or folder of this repository.
pub fn repository(path: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here
        .ancestors()
        .find(|folder| folder.join("tests/run").exists());
    root.expect("the folder of the repository").join(path)
}

/// Returns the paths of all files of this repository that git tracks.
pub fn tracked_files() -> Vec<String> {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .current_dir(repository(""))
        .output()
        .unwrap_or_else(|error| panic!("git: {error}; install git"));
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listed = String::from_utf8(output.stdout).unwrap();
    let paths = listed.split('\0').filter(|path| !path.is_empty());
    paths.map(str::to_owned).collect()
}
