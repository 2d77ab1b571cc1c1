//! Reads files, and says why they cannot be used.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::model::ObjectRef;

/// The reason why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {}{}", .0.display(), .1, way_out(.1))]
    Read(PathBuf, #[source] io::Error),
    /// The file is neither YAML nor JSON, or a list cannot be split into objects.
    #[error("{}:{place}: {reason}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Line and column, from 1, or 0 if unknown: `7:3`. For a list, the number of the document: ` document 2`.
        place: String,
        /// The cause.
        reason: String,
    },
    /// The file contains no relevant object.
    #[error("{}: contains no Service or EndpointSlice", .0.display())]
    Empty(PathBuf),
    /// One object occurs twice.
    #[error("{object} occurs twice, in {} and in {}", .first.display(), .second.display())]
    Duplicate {
        /// The object.
        object: ObjectRef,
        /// The file with the first occurrence.
        first: PathBuf,
        /// The file with the second occurrence.
        second: PathBuf,
    },
}

// === impl FileError ===

impl FileError {
    /// Makes the error of a list in the document with an index.
    pub(super) fn list(path: &Path, index: usize, reason: String) -> Self {
        let (path, place) = (path.to_path_buf(), format!(" document {}", index + 1));
        Self::Content {
            path,
            place,
            reason,
        }
    }
}

/// Returns what to do after a failed read, if the cause shows it.
fn way_out(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::IsADirectory {
        "; name each of its files with --file"
    } else {
        ""
    }
}

/// The path that means standard input.
const STANDARD_INPUT: &str = "-";

/// Reads a file, or standard input. The latter can be read only once, so its text is kept.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    static TEXT: OnceLock<String> = OnceLock::new();
    if path.as_os_str() != STANDARD_INPUT {
        return std::fs::read_to_string(path);
    }
    if let Some(text) = TEXT.get() {
        return Ok(text.clone());
    }
    let text = io::read_to_string(io::stdin())?;
    Ok(TEXT.get_or_init(|| text).clone())
}
