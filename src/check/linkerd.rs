//! The findings of `check` as those of an extension of Linkerd (`pkg/healthcheck/healthcheck_output.go` of linkerd2).

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::json;

use super::finding::{Finding, FindingState};

/// The name of the program as an extension, which is that of its category of checks.
pub const EXTENSION: &str = "linkerd-globaldns";

/// What an extension prints.
pub struct CheckOutput {
    /// Whether no check has an error.
    pub success: bool,
    lines: Vec<CheckLine>,
}

/// A check.
#[derive(Serialize)]
struct CheckLine {
    description: String,
    /// Where to read more.
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
    /// What is wrong, and what to do. Linkerd takes a check without it as a success.
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    result: &'static str,
    /// What the text has for the result.
    #[serde(skip)]
    mark: char,
}

// === impl CheckOutput ===

impl CheckOutput {
    /// Makes the output. What could not be checked is left out, as Linkerd leaves out checks that it skips. `harmless` makes texts that a
    /// terminal can show, because Linkerd prints what it reads.
    pub fn new(findings: &[Finding], harmless: fn(&str) -> String) -> Self {
        let checked = findings
            .iter()
            .filter(|one| one.state != FindingState::Unknown);
        Self {
            success: FindingState::worst(findings) != FindingState::Failing,
            lines: checked.map(|one| CheckLine::new(one, harmless)).collect(),
        }
    }

    /// Returns the output that Linkerd reads.
    pub fn to_json(&self) -> String {
        let category = json!({"categoryName": EXTENSION, "checks": self.lines});
        let output = json!({"success": self.success, "categories": [category]});
        format!("{output:#}\n")
    }

    /// Returns the output as Linkerd prints its own; `is_short`: without what is right.
    pub fn to_text(&self, is_short: bool) -> String {
        let mut text = format!("{EXTENSION}\n{}\n", "-".repeat(EXTENSION.len()));
        for line in &self.lines {
            if !line.error.is_empty() {
                let CheckLine { error, hint, .. } = line;
                _ = writeln!(
                    text,
                    "{} {}\n    {error}\n    see {hint} for hints",
                    line.mark, line.description
                );
            } else if !is_short {
                _ = writeln!(text, "{} {}", line.mark, line.description);
            }
        }
        let mark = if self.success { '√' } else { '×' };
        text + &format!("\nStatus check results are {mark}\n")
    }
}

// === impl CheckLine ===

impl CheckLine {
    fn new(finding: &Finding, harmless: fn(&str) -> String) -> Self {
        let (name, sentence) = (harmless(&finding.name), harmless(&finding.sentence));
        let (result, mark) = match finding.state {
            FindingState::Failing => ("error", '×'),
            FindingState::Attention => ("warning", '‼'),
            FindingState::Ok | FindingState::Unknown => {
                return Self {
                    description: format!("{name}: {sentence}"),
                    hint: String::new(),
                    error: String::new(),
                    result: "success",
                    mark: '√',
                };
            }
        };
        Self {
            hint: match finding.manual_command() {
                Some(command) => harmless(&command),
                None => "section Checks of the manual".to_owned(),
            },
            error: format!("{sentence} → {}", harmless(&finding.hint)),
            description: name,
            result,
            mark,
        }
    }
}
