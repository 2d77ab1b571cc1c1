//! A table with the numbers that identify it.

use super::Table;
use crate::model::{Problem, ProblemKind, Timestamp};

/// A table with the numbers that identify it.
#[derive(Debug, Default)]
pub struct Published {
    /// The table. `None` before the first complete table.
    pub table: Option<Table>,
    /// Number of swaps since the start of the process. It tells clients of the API whether their copy is current.
    pub version: u64,
    /// Number of published tables with other answers than the previous one, starting at 1.
    pub generation: u64,
    /// SOA serial (RFC 1035 section 3.3.13). It changes with the generation.
    pub serial: u32,
    /// The time since which there is a table, or none.
    pub since: Option<Timestamp>,
}

// === impl Published ===

impl Published {
    /// Returns the problem that there is no table, if there is none.
    pub fn problem(&self) -> Option<Problem> {
        let problem = || Problem::new(ProblemKind::NoTable, "refusing queries");
        self.table
            .is_none()
            .then(|| problem().holds_since(self.since))
    }
}
