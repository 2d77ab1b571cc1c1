//! A cluster as a failover order or a list of expected clusters names it (rules K5, K8).
//!
//! People write these settings during an outage. So they are read kindly: spaces are ignored, and upper case is lower case.
//! A name that still cannot be read keeps its place. A cluster without endpoints stands there, so that a typing error
//! neither promotes a standby nor ends the wait for a cluster.

use std::collections::BTreeSet;
use std::fmt;

use super::fields::shorten;
use super::{ClusterName, Line};

/// A cluster as a setting names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterTerm {
    /// `local`: this cluster.
    Local,
    /// A cluster by its name, after aliases.
    Named(ClusterName),
    /// `*`, a step of an order: all clusters that no step names.
    Others,
    /// A name that cannot be read, shortened.
    Unreadable(Line),
    /// Another text, which stands for no cluster: it is empty, in the wrong place, or occurs for the second time.
    Nothing(Line),
}

/// Reads the terms of one setting.
#[derive(Debug, Default)]
pub(super) struct TermReader {
    pub(super) seen: BTreeSet<String>,
    /// The first thing that is wrong, besides names that cannot be read, as a sentence without a full stop.
    pub(super) defect: Option<Line>,
}

/// A term without a name, in text.
const EMPTY: &str = "''";

/// The longest setting that is read. An annotation may have 256 KiB.
const MAX_LENGTH: usize = 4096;

// === impl ClusterTerm ===

impl ClusterTerm {
    /// Returns whether it stands for a cluster. `local` is the name of this cluster.
    pub fn is(&self, cluster: &ClusterName, local: &ClusterName) -> bool {
        match self {
            Self::Local => cluster == local,
            Self::Named(name) => name == cluster,
            Self::Others | Self::Unreadable(_) | Self::Nothing(_) => false,
        }
    }

    /// Returns what is wrong with a name that cannot be read, as a sentence.
    pub fn defect(&self) -> Option<Line> {
        match self {
            Self::Unreadable(name) => Some(format!("'{name}' is not the name of a cluster").into()),
            Self::Local | Self::Named(_) | Self::Others | Self::Nothing(_) => None,
        }
    }

    /// Returns terms as text.
    pub(super) fn join(terms: &[Self]) -> String {
        let terms: Vec<String> = terms.iter().map(ToString::to_string).collect();
        terms.join("+")
    }
}

impl fmt::Display for ClusterTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Named(name) => name.as_str(),
            Self::Others => "*",
            Self::Nothing(text) if text.is_empty() => EMPTY,
            Self::Unreadable(text) | Self::Nothing(text) => text.as_str(),
        })
    }
}

// === impl TermReader ===

impl TermReader {
    /// Returns a setting without spaces and in lower case. Returns the one term that stands for it if it is too long.
    pub(super) fn normalize(&mut self, text: &str) -> Result<String, ClusterTerm> {
        if text.len() > MAX_LENGTH {
            let length = text.len();
            self.note(format!(
                "it has {length} octets; at most {MAX_LENGTH} are allowed"
            ));
            return Err(ClusterTerm::Nothing(shorten(text).into()));
        }
        let letters = text.chars().filter(|c| !c.is_whitespace());
        Ok(letters.flat_map(char::to_lowercase).collect())
    }

    /// Reads one term of a normalized setting. `place` names its place for people, such as `step 2`. Returns `None` if the term
    /// occurs for the second time.
    pub(super) fn read(&mut self, text: &str, place: &str) -> Option<ClusterTerm> {
        let text = if text == EMPTY { "" } else { text };
        let shown = Line::from(shorten(text));
        let defect = match text {
            "" => format!("{place} is empty"),
            _ if !self.seen.insert(text.to_owned()) => {
                self.note(format!("'{shown}' occurs twice"));
                return None;
            }
            "local" => return Some(ClusterTerm::Local),
            "auto" => "'auto' begins a failover order, and is no name of a cluster".to_owned(),
            "*" => "'*' stands for all other clusters of a failover order, as a step of its own"
                .to_owned(),
            name => {
                let name = ClusterName::interned(name).map(ClusterTerm::Named);
                return Some(name.unwrap_or(ClusterTerm::Unreadable(shown)));
            }
        };
        self.note(defect);
        Some(ClusterTerm::Nothing(shown))
    }

    /// Notes what is wrong.
    pub(super) fn note(&mut self, defect: String) {
        self.defect.get_or_insert(defect.into());
    }
}
