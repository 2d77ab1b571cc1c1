//! The order in which clusters answer for a service (rule K5), as an annotation or the settings have it.

use std::fmt;
use std::str::FromStr;

use super::cluster_term::TermReader;
use super::fields::shorten;
use super::{ClusterName, ClusterTerm, Line};

/// A failover order: steps, separated by `:` in text, such as `local:east+west:*`. It is held, unless it
/// begins with `auto:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverOrder {
    /// Whether it moves by itself: it begins with `auto:` (rule K5a).
    pub is_auto: bool,
    /// The clusters of each step, joined by `+` in text. At least one step.
    steps: Box<[Box<[ClusterTerm]>]>,
    /// The first thing that is wrong, besides names that cannot be read, as a sentence.
    pub defect: Option<Line>,
}

// === impl FailoverOrder ===

impl FailoverOrder {
    /// Reads an order from an annotation. Spaces are ignored, `,` separates steps like `:`, and upper case is lower case. A
    /// part that still cannot be read stays in its place as a cluster without endpoints. Empty steps at the end are ignored.
    /// An empty annotation is no order.
    pub fn read(text: &str) -> Option<Self> {
        (!text.trim().is_empty()).then(|| Self::of_text(text))
    }

    fn of_text(text: &str) -> Self {
        let mut reader = TermReader::default();
        let (is_auto, steps) = match reader.normalize(text) {
            Ok(text) => {
                let text = text.trim_end_matches([':', ',']);
                let (first, rest) = text.split_once([':', ',']).unwrap_or((text, ""));
                let is_auto = first == "auto";
                let steps = if is_auto { rest } else { text };
                (is_auto, read_steps(steps, &mut reader))
            }
            Err(term) => (false, [[term].into()].into()),
        };
        Self {
            is_auto,
            steps,
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

    /// Returns the texts of the steps.
    pub fn step_texts(&self) -> Vec<String> {
        let steps = self.steps.iter();
        steps.map(|step| ClusterTerm::join(step)).collect()
    }

    /// Returns the text of a step, counted from zero.
    pub fn step_text(&self, step: usize) -> String {
        let step = self.steps.get(step);
        step.map_or(String::new(), |step| ClusterTerm::join(step))
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
        let again = |term: &str| ClusterTerm::Nothing(shorten(term).into()); // keeps its place
        let clusters = step.split('+');
        clusters
            .map(|one| reader.read(one, &place).unwrap_or_else(|| again(one)))
            .collect()
    };
    steps.map(step).collect()
}

/// Reads an order from the settings, which has no part that cannot be read.
impl FromStr for FailoverOrder {
    type Err = Line;

    fn from_str(text: &str) -> Result<Self, Line> {
        let order = Self::of_text(text);
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
        write!(f, "{auto}{}", self.step_texts().join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> FailoverOrder {
        text.parse().unwrap()
    }

    /// Reads an order, and returns it as text, with what is wrong with it.
    fn read(text: &str) -> (String, Option<String>) {
        let order = FailoverOrder::of_text(text);
        let defect = text.parse::<FailoverOrder>().err();
        (order.to_string(), defect.map(|one| one.to_string()))
    }

    #[test]
    fn order_is_read_kindly() {
        for (text, expected) in [
            (" local : east + west ", "local:east+west"),
            ("west,east", "west:east"),
            ("West:EAST", "west:east"),
            ("Local:*", "local:*"),
            ("west:", "west"),
            ("west : ,", "west"),
            (" Auto, east :*:", "auto:east:*"),
        ] {
            assert_eq!(read(text), (expected.to_owned(), None), "{text}");
            assert_eq!(order(text).to_string(), expected);
        }
    }

    #[test]
    fn unreadable_part_keeps_its_place() {
        for (text, expected, defect) in [
            ("", "''", "step 1 is empty"),
            ("  ", "''", "step 1 is empty"),
            (":", "''", "step 1 is empty"),
            ("east::west", "east:'':west", "step 2 is empty"),
            (":east", "'':east", "step 1 is empty"),
            ("east+:west", "east+'':west", "step 1 is empty"),
            (
                "we_st:east",
                "we_st:east",
                "'we_st' is not the name of a cluster",
            ),
            (
                "east+*",
                "east+*",
                "'*' stands for all other clusters of a failover order, as a step of its own",
            ),
            ("east:west+east", "east:west+east", "'east' occurs twice"),
            ("*:east:*", "*:east:*", "'*' occurs twice"),
            ("auto", "auto:''", "step 1 is empty"),
            (
                "east:auto",
                "east:auto",
                "'auto' begins a failover order, and is no name of a cluster",
            ),
            (
                "auto:auto+east",
                "auto:auto+east",
                "'auto' begins a failover order, and is no name of a cluster",
            ),
            (
                "east=90+west",
                "east=90+west",
                "'east=90' is not the name of a cluster",
            ),
        ] {
            assert_eq!(
                read(text),
                (expected.to_owned(), Some(defect.to_owned())),
                "{text}"
            );
        }
        // The build reports names that cannot be read.
        let defect = |text| FailoverOrder::of_text(text).defect;
        assert_eq!(defect("we_st:east"), None);
        assert_eq!(
            defect("we_st:east:east"),
            Some("'east' occurs twice".into())
        );
        // The typing error is a cluster without endpoints. The standby stays where it is.
        let local: ClusterName = "hub".parse().unwrap();
        let step = |text, cluster: &str| {
            FailoverOrder::of_text(text).step_of(&cluster.parse().unwrap(), &local)
        };
        assert_eq!(step("we_st:east", "east"), Some(1));
        assert_eq!(step("east:east+west", "east"), Some(0));
        assert_eq!(step("*:east:*", "north"), Some(0));
    }

    #[test]
    fn long_order_is_one_unreadable_step() {
        let names: Vec<String> = (0..64).map(|number| format!("{number:063}")).collect();
        let text = names.join(":").replacen(':', ": ", 1);
        assert_eq!((text.len(), order(&text).count()), (4096, 64));
        let longer = text.replacen(':', " :", 1);
        let (text, defect) = read(&longer);
        assert_eq!(text.len(), 40);
        let expected = "it has 4097 octets; at most 4096 are allowed";
        assert_eq!(defect.as_deref(), Some(expected));
        assert_eq!(FailoverOrder::of_text(&"east:".repeat(40_000)).count(), 1);
    }
}
