//! Reads files, and says why they cannot be used.

use std::fs::{File, metadata};
use std::io::{Error, ErrorKind, Read};
use std::path::Path;
use std::sync::OnceLock;
use std::{fmt, io};

/// Maximum size of the objects of a file in octets: 100,000 objects of 2.5 KiB.
const MAX_OBJECTS: u64 = 256 << 20;
/// Maximum size of another file in octets: that of a ConfigMap or a Secret.
pub const MAX_MOUNTED: u64 = 1 << 20;

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

    fn of_read(path: &Path, error: &Error) -> Self {
        let remedy = match error.kind() {
            ErrorKind::IsADirectory => "; name each of its files with --file",
            ErrorKind::Unsupported => "; --file - reads standard input",
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

/// Reads the objects of a file, or of standard input. The latter can be read only once, so its text is kept.
pub(super) fn read_objects(path: &Path) -> Result<String, FileError> {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = match TEXT.get() {
        _ if path.as_os_str() != STANDARD_INPUT => read_text(path, MAX_OBJECTS),
        Some(text) => Ok(text.clone()),
        None => io::read_to_string(io::stdin()).map(|text| TEXT.get_or_init(|| text).clone()),
    };
    text.map_err(|error| FileError::of_read(path, &error))
}

/// Reads a text as [`read_regular`].
///
/// # Errors
///
/// As [`read_regular`], and if it is no UTF-8.
pub fn read_text(path: &Path, max: u64) -> io::Result<String> {
    String::from_utf8(read_regular(path, max)?).map_err(Error::other)
}

/// Reads a regular file of at most `max` octets. Another one may have no end, or nobody who writes it.
///
/// # Errors
///
/// If it is not such a file, or cannot be read.
pub fn read_regular(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let metadata = metadata(path)?;
    // To read a directory is an error of the system.
    if metadata.is_dir() || metadata.is_file() && metadata.len() <= max {
        let mut contents = Vec::new();
        // A file that grows meanwhile is read again.
        File::open(path)?.take(max).read_to_end(&mut contents)?;
        return Ok(contents);
    }
    let why = format!("it is not a regular file of at most {} MiB", max >> 20);
    Err(Error::new(ErrorKind::Unsupported, why))
}
