//! The order in which clusters answer for a service (rule K5), as an annotation or the settings have it, and a cluster as it and a list
//! of expected clusters name it (rule K8).
//!
//! People write these settings during an outage. So they are read kindly: spaces are ignored, and upper case is lower case.
//! A name that still cannot be read keeps its place. A cluster without endpoints stands there, so that a typing error
//! neither promotes a standby nor ends the wait for a cluster.

mod expected_clusters;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

pub use expected_clusters::ExpectedClusters;

use super::{ClusterName, Line, join_texts, shorten};

/// A failover order: steps, separated by `:` in text, such as `local:east+west:*`. It is held, unless it
/// begins with `auto:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverOrder {
    /// Whether it moves by itself: it begins with `auto:` (rule K5a).
    pub is_auto: bool,
    /// The clusters of each step, joined by `+` in text. At least one step.
    steps: Box<[Box<[ClusterTerm]>]>,
    /// The first thing that is wrong, besides names that cannot be read, as a sentence with what becomes of it.
    pub defect: Option<Line>,
}

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
struct TermReader {
    /// What becomes of a term that names nothing, before the reason. Empty in a setting that is refused then.
    effect: &'static str,
    seen: BTreeSet<String>,
    /// The first thing that is wrong, besides names that cannot be read, as a sentence without a full stop.
    defect: Option<Line>,
}

/// What becomes of a term that occurs again.
const TWICE: &str = "corrected, its first place counts: ";

/// A term without a name, in text.
const EMPTY: &str = "''";

/// The largest order that is read: 32 names of 63 octets with what joins them, and spaces. An annotation may have 256 KiB.
const MAX_ORDER: MaxSize = MaxSize {
    octets: 2560,
    names: 32,
};

/// The largest setting of clusters that is read.
#[derive(Clone, Copy, Debug)]
struct MaxSize {
    /// Octets of the text.
    octets: usize,
    /// Names of clusters.
    names: usize,
}

// === impl FailoverOrder ===

impl FailoverOrder {
    /// Reads an order from an annotation. Spaces are ignored, `,` separates steps like `:`, and upper case is lower case. A
    /// part that still cannot be read stays in its place as a cluster without endpoints. Empty steps at the end are ignored.
    /// An empty annotation is no order. One that is too large is a held order of one step without endpoints, also if it begins with
    /// `auto:` (rule K5a).
    pub fn read(text: &str) -> Option<Self> {
        let effect = "counts as a cluster without endpoints: ";
        (!text.trim().is_empty()).then(|| Self::of_text(text, effect))
    }

    fn of_text(text: &str, effect: &'static str) -> Self {
        let normal = normalized(text);
        let normal = normal.trim_end_matches([':', ',']);
        let (first, rest) = normal.split_once([':', ',']).unwrap_or((normal, ""));
        let is_auto = first == "auto";
        let order = if is_auto { rest } else { normal };
        let names = order.split([':', ',', '+']).count();
        if let Some(excess) = MAX_ORDER.excess(text, names) {
            return Self {
                is_auto: false,
                steps: [[ClusterTerm::nothing(text)].into()].into(),
                defect: Some(format!("{effect}{excess}").into()),
            };
        }
        let mut reader = TermReader {
            effect,
            ..TermReader::default()
        };
        Self {
            is_auto,
            steps: read_steps(order, &mut reader),
            defect: reader.defect,
        }
    }

    /// Returns the step of a cluster, or `None` if the order has no step for it. If the order names this cluster twice, by
    /// its name and as `local`, the first step counts.
    pub fn step_of(&self, cluster: &ClusterName, local: &ClusterName) -> Option<usize> {
        let mut steps = self.steps.iter();
        let named = steps.position(|step| step.iter().any(|term| term.is(cluster, local)));
        let mut steps = self.steps.iter();
        named.or_else(|| steps.position(|step| step.contains(&ClusterTerm::Others)))
    }

    /// Returns the number of steps, which is at least one.
    pub fn count(&self) -> usize {
        self.steps.len()
    }

    /// Returns the text of a step, counted from zero.
    pub fn step_text(&self, step: usize) -> String {
        join_texts(self.steps.get(step).into_iter().flatten(), "+")
    }

    /// Returns the terms of all steps.
    pub fn terms(&self) -> impl Iterator<Item = &ClusterTerm> {
        self.steps.iter().flatten()
    }
}

/// Reads the steps of a normalized order.
fn read_steps(text: &str, reader: &mut TermReader) -> Box<[Box<[ClusterTerm]>]> {
    let steps = text.split([':', ',']).enumerate();
    let step = |(index, step): (usize, &str)| {
        if step == "*" && reader.seen.insert(step.to_owned()) {
            return [ClusterTerm::Others].into();
        }
        let place = format!("step {}", index + 1);
        // A term that occurs again keeps its place.
        step.split('+')
            .map(|one| {
                let term = reader.read(one, &place);
                term.unwrap_or_else(|| ClusterTerm::nothing(one))
            })
            .collect()
    };
    steps.map(step).collect()
}

/// Reads an order from the settings, which has no part that cannot be read.
impl FromStr for FailoverOrder {
    type Err = Line;

    fn from_str(text: &str) -> Result<Self, Line> {
        let order = Self::of_text(text, "");
        let defect = order.terms().find_map(ClusterTerm::defect);
        match order.defect.clone().or(defect) {
            Some(defect) => Err(defect),
            None => Ok(order),
        }
    }
}

impl fmt::Display for FailoverOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auto = if self.is_auto { "auto:" } else { "" };
        let steps = self.steps.iter().map(|step| join_texts(step, "+"));
        write!(f, "{auto}{}", join_texts(steps, ":"))
    }
}

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

    /// Returns the term of a text that stands for no cluster, shortened.
    fn nothing(text: &str) -> Self {
        Self::Nothing(shorten(text).into())
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

// === impl MaxSize ===

impl MaxSize {
    /// Returns why a setting is not read, if it is too large: each name costs work in every build.
    fn excess(&self, text: &str, names: usize) -> Option<String> {
        let sizes = [
            (text.len(), self.octets, "octets"),
            (names, self.names, "names"),
        ];
        let (size, max, unit) = sizes.into_iter().find(|(size, max, _)| size > max)?;
        Some(format!("it has {size} {unit}; at most {max} are allowed"))
    }
}

/// Returns a setting without spaces and in lower case.
fn normalized(text: &str) -> String {
    let letters = text.chars().filter(|c| !c.is_whitespace());
    letters.flat_map(char::to_lowercase).collect()
}

// === impl TermReader ===

impl TermReader {
    /// Reads one term of a normalized setting. `place` names its place for people, such as `step 2`. Returns `None` if the term
    /// occurs for the second time.
    fn read(&mut self, text: &str, place: &str) -> Option<ClusterTerm> {
        let text = if text == EMPTY { "" } else { text };
        let shown = Line::from(shorten(text));
        let defect = match text {
            "" => format!("{place} is empty"),
            _ if !self.seen.insert(text.to_owned()) => {
                let effect = if self.effect.is_empty() { "" } else { TWICE };
                self.note(effect, &format!("'{shown}' occurs twice"));
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
        self.note(self.effect, &defect);
        Some(ClusterTerm::Nothing(shown))
    }

    /// Notes what is wrong, behind what becomes of it.
    fn note(&mut self, effect: &str, reason: &str) {
        self.defect
            .get_or_insert_with(|| format!("{effect}{reason}").into());
    }
}

#[cfg(test)]
mod tests;
