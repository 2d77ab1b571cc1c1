//! Why there is no document.

use crate::model::ProblemKind;

/// Maximum number of characters of a text in the sentence about it.
const MAX_SHOWN: usize = 100;

/// Why there is no document.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The request cannot be understood.
    #[error("{0}")]
    Invalid(String),
    /// This server does not know what the request selects: a time before its history.
    #[error("{0}")]
    NotKnown(String),
    /// The table that the list began in is not kept any more.
    #[error("the list has changed since its first page; begin again without continue")]
    Gone,
    /// There is no complete table yet.
    #[error("{}", ProblemKind::NoTable.row().sentence)]
    NoTable,
}

// === impl ViewError ===

impl ViewError {
    /// Makes the error of a parameter whose value cannot be used.
    pub fn invalid(parameter: &str, value: &str, why: &str) -> Self {
        let shown: String = value.chars().take(MAX_SHOWN).collect();
        let shown = shown.escape_debug();
        Self::Invalid(format!("{parameter}: '{shown}' cannot be used: {why}"))
    }
}
