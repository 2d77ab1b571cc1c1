//! Problems in JSON documents and as text.

use serde::{Deserialize, Serialize};

use super::Style;
use crate::model::{Level, Line, Problem, ProblemKind, Timestamp};

/// The report on one problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemReport {
    /// The kind. The manual has a section for it.
    pub kind: ProblemKind,
    /// How bad it is.
    pub level: Level,
    /// What is wrong with every problem of the kind.
    #[serde(default)]
    pub sentence: Line,
    /// The object, name, service or cluster that it concerns. Empty: the server.
    pub subject: Line,
    /// The service, as `namespace/name`, if it concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The cluster, if it concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// What is wrong in this case.
    pub detail: Line,
    /// Since when it holds.
    #[serde(flatten)]
    pub age: Age,
    /// What a person does.
    #[serde(default)]
    pub hint: Line,
    /// The section of the manual for the kind: a page and its anchor.
    #[serde(default)]
    pub anchor: String,
}

/// Since when something holds, as far as the server knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Age {
    /// The time since which it holds, if it is known (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Whether it held in the first table of the process, so that it began at an unknown time before `since`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_older: bool,
}

/// The report on one skipped object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SkipReport {
    /// The object, such as `Service/prod/db-0-west`.
    pub object: String,
    /// The reason.
    pub reason: ProblemKind,
    /// An explanation.
    pub detail: Line,
}

/// The report on a conflict between objects or between names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConflictReport {
    /// The kind.
    pub kind: ProblemKind,
    /// The service (`namespace/service`), object or owner name that the conflict concerns.
    pub name: Line,
    /// An explanation.
    pub detail: Line,
}

// === impl ProblemReport ===

impl ProblemReport {
    /// Returns the problem as a row of text.
    pub fn row(&self, style: Style) -> [String; 5] {
        let row = self.kind.row();
        let text = if self.detail.is_empty() {
            row.sentence.to_owned()
        } else {
            format!("{}: {}", row.sentence, self.detail)
        };
        let level = style.colors.paint(self.level.into(), self.level.into());
        let [kind, subject] = [row.kind.name(), &self.subject].map(str::to_owned);
        let age = self.age.to_text(style);
        [level, kind, subject, age, text]
    }
}

impl From<&Problem> for ProblemReport {
    fn from(problem: &Problem) -> Self {
        let row = problem.kind.row();
        Self {
            kind: problem.kind,
            level: row.level,
            sentence: row.sentence.into(),
            subject: problem.subject(),
            service: problem.service.as_ref().map(ToString::to_string),
            cluster: problem.cluster.as_ref().map(ToString::to_string),
            detail: problem.detail.clone(),
            age: problem.into(),
            hint: problem.hint().into(),
            anchor: problem.kind.anchor(),
        }
    }
}

// === impl Age ===

impl Age {
    /// Makes the age of something that holds since a time.
    pub fn new(since: Option<Timestamp>, is_older: bool) -> Self {
        let since = since.map(Timestamp::to_text);
        Self { since, is_older }
    }

    /// Returns `since TIME` or `before TIME`, or nothing if the time is not known.
    pub fn to_text(&self, style: Style) -> String {
        let word = if self.is_older { "before" } else { "since" };
        let since = self.since.as_ref();
        since.map_or_else(String::new, |time| format!("{word} {}", style.time(time)))
    }
}

/// Returns a problem as one sentence with its age.
pub fn problem_with_age(problem: &Problem) -> String {
    let age = Age::from(problem).to_text(Style::default());
    if age.is_empty() {
        problem.to_string()
    } else {
        format!("{problem} ({age})")
    }
}

impl From<&Problem> for Age {
    fn from(problem: &Problem) -> Self {
        Self::new(problem.since(), problem.is_older())
    }
}

// === impl SkipReport ===

impl From<&Problem> for SkipReport {
    fn from(problem: &Problem) -> Self {
        Self {
            object: problem.subject().into(),
            reason: problem.kind,
            detail: problem.detail.clone(),
        }
    }
}

// === impl ConflictReport ===

impl From<&Problem> for ConflictReport {
    fn from(problem: &Problem) -> Self {
        Self {
            kind: problem.kind,
            name: problem.subject(),
            detail: problem.detail.clone(),
        }
    }
}
