//! A [`Published`] table.

use std::time::Duration;

use super::Table;
use crate::model::{Problem, ProblemKind, Timestamp};

/// A table with the numbers that identify it.
#[derive(Debug, Default)]
pub struct Published {
    /// The table. `None` before the first complete table.
    pub table: Option<Table>,
    /// Number of published tables that differ from the previous one, starting at 1.
    pub generation: u64,
    /// SOA serial (RFC 1035 section 3.3.13). It changes with the generation.
    pub serial: u32,
    /// Whether the table comes from a snapshot of an earlier process (`--snapshot`) and is not confirmed yet.
    pub is_from_snapshot: bool,
    /// The time since which there is no table, or it is from a snapshot or ready: the first of these that holds.
    pub since: Option<Timestamp>,
    /// The time since which the table comes from a snapshot, if it does.
    pub from_snapshot_since: Option<Timestamp>,
}

/// Returns the problem of a table from a snapshot.
pub fn snapshot_problem(age: Option<Duration>) -> Problem {
    let age = age.map(|age| format!("its age is {} s", age.as_secs()));
    Problem::new(ProblemKind::TableFromSnapshot, age.unwrap_or_default())
}

// === impl Published ===

impl Published {
    /// Returns the same numbers and times without the table.
    pub(crate) fn copy_without_table(&self) -> Self {
        Self {
            table: None,
            ..*self
        }
    }

    /// Returns the problems of the table as a whole. `age` is the time since its source was heard from, if it is known.
    pub fn problems(&self, age: Option<Duration>) -> impl Iterator<Item = Problem> {
        let none = || Problem::new(ProblemKind::NoTable, "answering SERVFAIL");
        let none = self.table.is_none().then(|| none().holds_since(self.since));
        let restored = || snapshot_problem(age).holds_since(self.from_snapshot_since);
        let restored = self.is_from_snapshot.then(restored);
        [none, restored].into_iter().flatten()
    }

    /// Sets the times of its states. They go on if `last` had these states.
    pub(super) fn with_times(self, last: &Self, now: Timestamp) -> Self {
        let state = |one: &Self| (one.table.is_some(), one.is_from_snapshot);
        let is_same = state(&self) == state(last);
        let from_snapshot_since = last.from_snapshot_since.unwrap_or(now);
        Self {
            since: if is_same { last.since } else { Some(now) },
            from_snapshot_since: self.is_from_snapshot.then_some(from_snapshot_since),
            ..self
        }
    }
}
