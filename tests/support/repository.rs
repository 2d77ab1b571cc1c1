//! Files of this repository.

use std::path::{Path, PathBuf};

/// A file or folder of this repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
