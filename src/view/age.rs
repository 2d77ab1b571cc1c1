//! Since when something holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Problem, Timestamp};

/// Since when something holds, as far as the server knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Age {
    /// The time since which it holds, if it is known (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Whether it held in the first table of the process, so that it began at an unknown time before `since`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_older: bool,
}

// === impl Age ===

impl Age {
    /// Makes the age of something that holds since a time.
    pub fn new(since: Option<Timestamp>, is_older: bool) -> Self {
        let since = since.map(Timestamp::to_text);
        Self { since, is_older }
    }

    /// Returns the time as a cell: `TIME`, or `before TIME`. Empty: it is not known.
    pub fn cell(&self) -> String {
        let word = if self.is_older { "before " } else { "" };
        let since = self.since.as_ref();
        since.map_or_else(String::new, |time| format!("{word}{time}"))
    }
}

impl From<&Problem> for Age {
    fn from(problem: &Problem) -> Self {
        Self::new(problem.since(), problem.is_older())
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
