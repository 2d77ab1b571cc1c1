//! Reads files, and says why they cannot be used.

use std::path::Path;
use std::sync::OnceLock;
use std::{fmt, fs, io};

/// The reason why the files cannot be used, as a sentence that names the file.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct FileError {
    reason: String,
    /// Whether a file could not be read. It is read again, also without a change.
    pub(super) is_unread: bool,
}

// === impl FileError ===

impl FileError {
    /// Makes the error of a file that was read.
    pub(super) fn of_content(reason: String) -> Self {
        Self {
            reason,
            is_unread: false,
        }
    }

    /// Makes the error of a place in a file: `:7:3`, or the number of a document.
    pub(super) fn at(path: &Path, place: fmt::Arguments<'_>, reason: &str) -> Self {
        Self::of_content(format!("{}:{place}: {reason}", path.display()))
    }

    fn of_read(path: &Path, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::IsADirectory => "; name each of its files with --file",
            _ => "",
        };
        Self {
            reason: format!("cannot read {}: {error}{remedy}", path.display()),
            is_unread: true,
        }
    }
}

/// The path that means standard input.
const STANDARD_INPUT: &str = "-";

/// Reads a file, or standard input. The latter can be read only once, so its text is kept.
pub(super) fn read_text(path: &Path) -> Result<String, FileError> {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = match TEXT.get() {
        _ if path.as_os_str() != STANDARD_INPUT => fs::read_to_string(path),
        Some(text) => Ok(text.clone()),
        None => io::read_to_string(io::stdin()).map(|text| TEXT.get_or_init(|| text).clone()),
    };
    text.map_err(|error| FileError::of_read(path, &error))
}
