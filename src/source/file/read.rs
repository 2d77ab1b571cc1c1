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
    /// The file is neither YAML nor JSON.
    #[error("{}:{line}:{column}: {reason}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1; 0 if unknown.
        line: u64,
        /// Column, from 1; 0 if unknown.
        column: u64,
        /// The message of the parser.
        reason: String,
    },
    /// A list cannot be split into objects.
    #[error("{}: document {document}: {reason}", .path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// The number of the document, from 1.
        document: usize,
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
    pub(super) fn list(path: &Path, index: usize, reason: String) -> Self {
        let (path, document) = (path.to_path_buf(), index + 1);
        Self::List {
            path,
            document,
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
