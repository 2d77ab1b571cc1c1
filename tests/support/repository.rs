//! Paths in this repository.

use std::path::{Path, PathBuf};

/// Returns the absolute path of a file or folder of this repository.
pub fn repository(path: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2);
    root.expect("a folder two levels deep").join(path)
}
