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
    /// A name that cannot be read, shortened.
    Unreadable(Line),
}

/// Reads the terms of one setting, and collects a sentence for each defect.
#[derive(Debug, Default)]
pub(super) struct TermReader {
    seen: BTreeSet<String>,
    /// What is wrong, each as a sentence without a full stop.
    pub(super) defects: Vec<Line>,
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
            Self::Unreadable(_) => false,
        }
    }
}

impl fmt::Display for ClusterTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Named(name) => write!(f, "{name}"),
            Self::Unreadable(text) if text.is_empty() => f.write_str(EMPTY),
            Self::Unreadable(text) => write!(f, "{text}"),
        }
    }
}

// === impl TermReader ===

impl TermReader {
    /// Returns a setting without spaces and in lower case. Returns the one term that stands for it if it is too long.
    pub(super) fn normalize(&mut self, text: &str) -> Result<String, ClusterTerm> {
        if text.len() > MAX_LENGTH {
            let length = text.len();
            self.defects
                .push(format!("it has {length} octets; at most {MAX_LENGTH} are allowed").into());
            return Err(ClusterTerm::Unreadable(shorten(text).into()));
        }
        let letters = text.chars().filter(|c| !c.is_whitespace());
        Ok(letters.flat_map(char::to_lowercase).collect())
    }

    /// Reads one term of a normalized setting. `place` names its place for people, such as `step 2`. Returns `None` if the term
    /// occurs for the second time.
    pub(super) fn read(&mut self, text: &str, place: &str) -> Option<ClusterTerm> {
        let text = if text == EMPTY { "" } else { text };
        if !self.is_first(text) {
            return None;
        }
        let shown = shorten(text);
        let defect = match text {
            "local" => return Some(ClusterTerm::Local),
            "" => format!("{place} is empty"),
            "auto" => "'auto' begins a failover order, and is no name of a cluster".to_owned(),
            "*" => "'*' stands for all other clusters of a failover order, as a step of its own"
                .to_owned(),
            name => match ClusterName::interned(name) {
                Ok(name) => return Some(ClusterTerm::Named(name)),
                Err(_) => format!("'{shown}' is not the name of a cluster"),
            },
        };
        self.defects.push(defect.into());
        Some(ClusterTerm::Unreadable(shown.into()))
    }

    /// Notes a text. Returns whether it is the first one of its setting; the others have no effect.
    pub(super) fn is_first(&mut self, text: &str) -> bool {
        let is_first = text.is_empty() || self.seen.insert(text.to_owned());
        if !is_first {
            let text = shorten(text);
            self.defects.push(format!("'{text}' occurs twice").into());
        }
        is_first
    }
}
