//! The order in which clusters answer for a service (rule K5), as an annotation or a flag sets it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ClusterName;

/// A failover order: steps, separated by `:` in text, such as `local:east+west:*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FailoverOrder(Box<[Step]>);

/// A step of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Clusters, joined by `+`.
    Clusters(Box<[Member]>),
    /// `*`: all clusters that no step names.
    Others,
}

/// A cluster in a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Member {
    /// `local`: this cluster.
    Local,
    /// A cluster by its name, after aliases.
    Named(ClusterName),
}

/// The reason for which a text is not a failover order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOrder {
    /// There is no step.
    #[error("a failover order needs a step, such as local:*")]
    Empty,
    /// A step has no cluster.
    #[error("step {0} of the failover order is empty")]
    EmptyStep(usize),
    /// The text is too long.
    #[error("a failover order has at most {MAX_LENGTH} octets, found {0}")]
    TooLong(usize),
    /// An item of a step is not the name of a cluster.
    #[error(
        "'{0}' is not the name of a cluster; a step is a cluster, several joined by '+', 'local' or '*'"
    )]
    BadName(String),
    /// `*` is combined with clusters.
    #[error("'*' stands for all other clusters, so it must be a step of its own")]
    CombinedOthers,
    /// A cluster or `*` is in the order twice.
    #[error("'{0}' is in the failover order twice")]
    Duplicate(String),
}

/// The longest text that is parsed. An annotation may have 256 KiB.
const MAX_LENGTH: usize = 4096;

// === impl FailoverOrder ===

impl FailoverOrder {
    /// Returns the step of a cluster, or `None` if the order has no step for it. If the order names this cluster twice, by
    /// its name and as `local`, the first step counts.
    pub fn step_of(&self, cluster: &ClusterName, local: &ClusterName) -> Option<usize> {
        let is_it = |member: &Member| match member {
            Member::Local => cluster == local,
            Member::Named(name) => name == cluster,
        };
        let has = |step: &Step| match step {
            Step::Clusters(members) => members.iter().any(is_it),
            Step::Others => false,
        };
        let others = |step: &Step| matches!(step, Step::Others);
        let named = self.0.iter().position(has);
        named.or_else(|| self.0.iter().position(others))
    }

    /// Returns the number of steps, which is at least one.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the text of a step, counted from zero.
    pub fn step_text(&self, step: usize) -> String {
        self.0
            .get(step)
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// Returns the clusters that the order names, except `local`.
    pub fn named(&self) -> impl Iterator<Item = &ClusterName> {
        self.members().filter_map(|member| match member {
            Member::Named(name) => Some(name),
            Member::Local => None,
        })
    }

    /// Returns whether the order names `local`.
    pub fn has_local(&self) -> bool {
        self.members().any(|member| *member == Member::Local)
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        self.0.iter().flat_map(|step| match step {
            Step::Clusters(members) => &members[..],
            Step::Others => &[],
        })
    }
}

impl FromStr for FailoverOrder {
    type Err = InvalidOrder;

    fn from_str(text: &str) -> Result<Self, InvalidOrder> {
        let text = text.trim();
        if text.is_empty() {
            return Err(InvalidOrder::Empty);
        }
        if text.len() > MAX_LENGTH {
            return Err(InvalidOrder::TooLong(text.len()));
        }
        let mut seen = BTreeSet::new();
        let steps = text.split(':').enumerate();
        let steps = steps.map(|(index, step)| Step::parse(index + 1, step.trim(), &mut seen));
        Ok(Self(steps.collect::<Result<_, _>>()?))
    }
}

impl TryFrom<String> for FailoverOrder {
    type Error = InvalidOrder;

    fn try_from(text: String) -> Result<Self, InvalidOrder> {
        text.parse()
    }
}

impl From<FailoverOrder> for String {
    fn from(order: FailoverOrder) -> Self {
        order.to_string()
    }
}

impl fmt::Display for FailoverOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ":" };
            write!(f, "{separator}{step}")?;
        }
        Ok(())
    }
}

// === impl Step ===

impl Step {
    /// Parses a step. `number` counts from one; `seen` are the items of earlier steps.
    fn parse<'t>(
        number: usize,
        text: &'t str,
        seen: &mut BTreeSet<&'t str>,
    ) -> Result<Self, InvalidOrder> {
        let items: Vec<&str> = text.split('+').map(str::trim).collect();
        let mut members = Vec::with_capacity(items.len());
        for item in &items {
            if item.is_empty() {
                return Err(InvalidOrder::EmptyStep(number));
            }
            if !seen.insert(item) {
                return Err(InvalidOrder::Duplicate((*item).to_owned()));
            }
            members.push(match *item {
                "*" if items.len() == 1 => return Ok(Self::Others),
                "*" => return Err(InvalidOrder::CombinedOthers),
                "local" => Member::Local,
                name => Member::Named(ClusterName::from_str(name).map_err(|_| bad_name(name))?),
            });
        }
        Ok(Self::Clusters(members.into()))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Clusters(members) = self else {
            return f.write_str("*");
        };
        for (index, member) in members.iter().enumerate() {
            let separator = if index == 0 { "" } else { "+" };
            match member {
                Member::Local => write!(f, "{separator}local")?,
                Member::Named(name) => write!(f, "{separator}{name}")?,
            }
        }
        Ok(())
    }
}

fn bad_name(text: &str) -> InvalidOrder {
    InvalidOrder::BadName(text.chars().take(40).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> FailoverOrder {
        text.parse().unwrap()
    }

    #[test]
    fn order_is_parsed_and_printed() {
        for text in [
            "local",
            "*",
            "east",
            "local:*",
            "local:east+west:*",
            "east+local:west",
            "*:local",
        ] {
            assert_eq!(order(text).to_string(), text);
        }
        assert_eq!(
            order(" local : east + west ").to_string(),
            "local:east+west"
        );
    }

    #[test]
    fn invalid_order_is_an_error_that_names_the_part() {
        let error = |text: &str| text.parse::<FailoverOrder>().unwrap_err();
        assert_eq!(error(""), InvalidOrder::Empty);
        assert_eq!(error("  "), InvalidOrder::Empty);
        assert_eq!(error("east::west"), InvalidOrder::EmptyStep(2));
        assert_eq!(error("east:"), InvalidOrder::EmptyStep(2));
        assert_eq!(error("east+"), InvalidOrder::EmptyStep(1));
        assert_eq!(error("East"), InvalidOrder::BadName("East".to_owned()));
        assert_eq!(
            error("east,west"),
            InvalidOrder::BadName("east,west".to_owned())
        );
        assert_eq!(error("east+*"), InvalidOrder::CombinedOthers);
        assert_eq!(
            error("east:west+east"),
            InvalidOrder::Duplicate("east".to_owned())
        );
        assert_eq!(error("*:east:*"), InvalidOrder::Duplicate("*".to_owned()));
        // An annotation of 200 KB.
        let long = error(&"east:".repeat(40_000));
        assert!(long.to_string().len() < 200, "{long}");
    }

    #[test]
    fn order_has_at_most_4096_octets() {
        let names: Vec<String> = (0..64).map(|number| format!("{number:063}")).collect();
        let text = names.join(":").replacen(':', ": ", 1);
        assert_eq!((text.len(), order(&text).count()), (MAX_LENGTH, 64));
        let longer = text.replacen(':', " :", 1);
        let error = longer.parse::<FailoverOrder>().unwrap_err();
        assert_eq!(error, InvalidOrder::TooLong(4097));
        assert_eq!(
            error.to_string(),
            "a failover order has at most 4096 octets, found 4097"
        );
    }

    #[test]
    fn order_is_a_text_in_json() {
        let json = serde_json::to_string(&order("local:east+west:*")).unwrap();
        assert_eq!(json, "\"local:east+west:*\"");
        assert_eq!(
            serde_json::from_str::<FailoverOrder>(&json).unwrap(),
            order("local:east+west:*")
        );
        assert!(serde_json::from_str::<FailoverOrder>("\"east::\"").is_err());
    }

    #[test]
    fn each_cluster_has_one_step() {
        let local: ClusterName = "hub".parse().unwrap();
        let step =
            |text: &str, cluster: &str| order(text).step_of(&cluster.parse().unwrap(), &local);
        let all = "local:east+west:*";
        let steps = ["hub", "east", "west", "north"].map(|cluster| step(all, cluster));
        assert_eq!(steps, [Some(0), Some(1), Some(1), Some(2)]);
        assert_eq!(step("east", "west"), None);
        assert_eq!(step("*:east", "east"), Some(1));
        // This cluster by its name and as `local`.
        assert_eq!(step("hub:east:local", "hub"), Some(0));
        assert_eq!(step("local:hub", "hub"), Some(0));
        let named: Vec<String> = order(all).named().map(ToString::to_string).collect();
        assert_eq!(named, ["east", "west"]);
    }
}
