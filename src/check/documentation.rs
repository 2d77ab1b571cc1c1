//! The documentation of each check: a section of `README.md` beside this file, and the link to it.

use super::finding::Check;

/// The document, with one section for each check.
const README: &str = include_str!("README.md");
/// The path of the document in the repository.
const PATH: &str = "src/check/README.md";

impl Check {
    /// Returns the anchor that GitHub generates for the heading.
    pub fn anchor(self) -> String {
        self.row().heading.to_lowercase().replace(' ', "-")
    }

    /// Returns the section of the check, with its heading.
    pub fn documentation(self) -> String {
        let heading = self.row().heading;
        let (_, rest) = README
            .split_once(&format!("\n## {heading}\n"))
            .unwrap_or_default();
        let text = rest.split("\n## ").next().unwrap_or_default().trim();
        format!("{heading}\n\n{text}\n")
    }

    /// Returns the link to the section: a URL if Cargo.toml names a repository, and otherwise a path in the repository.
    pub fn link(self) -> String {
        self.link_in(crate::REPOSITORY)
    }

    pub(super) fn link_in(self, repository: &str) -> String {
        let anchor = self.anchor();
        match repository {
            "" => format!("{PATH}#{anchor}"),
            repository => format!("{repository}/blob/main/{PATH}#{anchor}"),
        }
    }

    /// Returns the command that prints the section.
    pub(super) fn reference(self) -> String {
        format!("global-dns check --explain {}", self.name())
    }
}
