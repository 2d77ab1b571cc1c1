//! Since when something holds.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::{Problem, Timestamp};

/// Since when something holds, as far as the server knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Age {
    /// The time since which it holds to the second, if it is known (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// Whether it held in the first table of the process, so that it began at an unknown time before `since`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_older: bool,
}

// === impl Age ===

impl Age {
    /// Returns the age of what began first.
    pub(super) fn earliest(self, other: Self) -> Self {
        let known = [self, other].into_iter().filter(|age| age.since.is_some());
        let first = known.min_by_key(|age| (age.since, !age.is_older));
        first.unwrap_or_default()
    }

    /// Returns the time as a cell: `TIME`, or `before TIME`. Empty: it is not known.
    pub fn cell(&self) -> String {
        let word = if self.is_older { "before " } else { "" };
        let since = self.since.map(Timestamp::to_text);
        since.map_or_else(String::new, |time| format!("{word}{time}"))
    }
}

impl From<&Problem> for Age {
    fn from(problem: &Problem) -> Self {
        Self {
            since: problem.since().map(|time| Timestamp(time.0 / 1000 * 1000)),
            is_older: problem.is_older(),
        }
    }
}

/// Returns a problem as one sentence with its age.
pub fn problem_with_age(problem: &Problem) -> String {
    let age = Age::from(problem);
    let word = if age.is_older { "" } else { "since " };
    match age.since {
        Some(_) => format!("{problem} ({word}{})", age.cell()),
        None => problem.to_string(),
    }
}
