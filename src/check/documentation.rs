//! The link to the documentation of each check, a section of the manual.

use super::finding::Check;

/// The path of the page in the repository.
const PATH: &str = "charts/global-dns/docs/src/operate.md";

impl Check {
    /// Returns the anchor that GitHub and mdBook generate for the heading.
    pub fn anchor(self) -> String {
        self.row().heading.to_lowercase().replace(' ', "-")
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
}
