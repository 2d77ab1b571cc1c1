//! The manual's page on problems, for people who have only the program.

use crate::model::ProblemKind;

/// The page: a section for each kind, with its name as the heading.
const PROBLEMS: &str = include_str!("../../charts/global-dns/docs/src/problems.md");

/// Returns the section of a kind, with its heading.
pub fn manual_section(kind: ProblemKind) -> &'static str {
    let heading = format!("\n## {kind}\n");
    let start = PROBLEMS.find(&heading).map_or(PROBLEMS.len(), |at| at + 1);
    let section = &PROBLEMS[start..];
    let end = section.find("\n## ").map_or(section.len(), |at| at + 1);
    &section[..end]
}

/// Returns the command that prints the section of a kind. Another version of the program may have more kinds.
pub fn manual_command(kind: &str) -> String {
    format!("global-dns explain --kind {kind}")
}
