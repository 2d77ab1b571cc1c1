//! The order in which clusters answer for a service (rule K5), as an annotation or a flag sets it.

use std::fmt;
use std::str::FromStr;

use super::cluster_term::TermReader;
use super::fields::shorten;
use super::{ClusterName, ClusterTerm, Line, Weight};

/// A failover order: steps, separated by `:` in text, such as `local:east+west:*`. The clusters of a step may have weights
/// (rule K5w), such as `east=90+west=10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverOrder {
    /// At least one.
    steps: Box<[OrderStep]>,
    defects: Box<[Line]>,
}

/// A step of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OrderStep {
    /// Clusters, joined by `+`.
    Clusters(Box<[StepCluster]>),
    /// `*`: all clusters that no step names.
    Others,
}

/// A cluster of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StepCluster {
    term: ClusterTerm,
    weight: Option<StepWeight>,
}

/// The weight of a cluster of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StepWeight {
    Readable(Weight),
    /// A weight that cannot be read, shortened. The cluster keeps its place, and the step has no weights: then no load moves
    /// to the other clusters.
    Unreadable(Line),
}

/// The reason for which a value of a flag is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(pub Line);

// === impl FailoverOrder ===

impl FailoverOrder {
    /// Reads an order from an annotation. Spaces are ignored, `,` separates steps like `:`, and upper case is lower case. A
    /// part that still cannot be read stays in its place as a cluster without endpoints. Empty steps at the end are ignored.
    pub fn read(text: &str) -> Self {
        let mut reader = TermReader::default();
        let steps = match reader.normalize(text) {
            Ok(text) => read_steps(text.trim_end_matches([':', ',']), &mut reader),
            Err(term) => vec![OrderStep::Clusters([term.into()].into())],
        };
        Self {
            steps: steps.into(),
            defects: reader.defects.into(),
        }
    }

    /// Returns a sentence for each part that cannot be read.
    pub fn defects(&self) -> &[Line] {
        &self.defects
    }

    /// Returns the step of a cluster, or `None` if the order has no step for it. If the order names this cluster twice, by
    /// its name and as `local`, the first step counts.
    pub fn step_of(&self, cluster: &ClusterName, local: &ClusterName) -> Option<usize> {
        let has = |step: &OrderStep| match step {
            OrderStep::Clusters(clusters) => clusters.iter().any(|one| one.term.is(cluster, local)),
            OrderStep::Others => false,
        };
        let is_others = |step: &OrderStep| matches!(step, OrderStep::Others);
        let named = self.steps.iter().position(has);
        named.or_else(|| self.steps.iter().position(is_others))
    }

    /// Returns the weight of a cluster in its step. `None` if the step has no weights, or not for all of its clusters.
    pub fn weight_of(&self, cluster: &ClusterName, local: &ClusterName) -> Option<Weight> {
        let step = self.steps.get(self.step_of(cluster, local)?)?;
        let OrderStep::Clusters(clusters) = step else {
            return None;
        };
        let own = clusters.iter().find(|one| one.term.is(cluster, local))?;
        let all_have_weights = || clusters.iter().all(|one| one.readable_weight().is_some());
        own.readable_weight().filter(|_| all_have_weights())
    }

    /// Returns the number of steps, which is at least one.
    pub fn count(&self) -> usize {
        self.steps.len()
    }

    /// Returns the text of a step, counted from zero.
    pub fn step_text(&self, step: usize) -> String {
        let step = self.steps.get(step);
        step.map(ToString::to_string).unwrap_or_default()
    }

    /// Returns whether the order names a cluster. `*` names none.
    pub fn names(&self, cluster: &ClusterName, local: &ClusterName) -> bool {
        self.terms().any(|term| term.is(cluster, local))
    }

    /// Returns the clusters that the order names, except `local`.
    pub fn named(&self) -> impl Iterator<Item = &ClusterName> {
        self.terms().filter_map(|term| match term {
            ClusterTerm::Named(name) => Some(name),
            ClusterTerm::Local | ClusterTerm::Unreadable(_) => None,
        })
    }

    /// Returns whether the order names `local`.
    pub fn has_local(&self) -> bool {
        self.terms().any(|term| *term == ClusterTerm::Local)
    }

    fn terms(&self) -> impl Iterator<Item = &ClusterTerm> {
        let clusters = self.steps.iter().flat_map(|step| match step {
            OrderStep::Clusters(clusters) => &clusters[..],
            OrderStep::Others => &[],
        });
        clusters.map(|one| &one.term)
    }
}

/// Reads the steps of a normalized order.
fn read_steps(text: &str, reader: &mut TermReader) -> Vec<OrderStep> {
    let steps = text.split([':', ',']).enumerate();
    let step = |(index, step): (usize, &str)| {
        if step == "*" {
            return if reader.is_first(step) {
                OrderStep::Others
            } else {
                OrderStep::Clusters([ClusterTerm::Unreadable(step.into()).into()].into())
            };
        }
        let place = format!("step {}", index + 1);
        let clusters = step.split('+');
        let clusters: Box<[_]> = clusters
            .map(|one| read_cluster(one, &place, reader))
            .collect();
        let weighted = clusters.iter().filter(|one| one.weight.is_some()).count();
        if weighted > 0 && weighted < clusters.len() {
            let defect = format!("{place} has weights for some of its clusters only");
            reader.defects.push(defect.into());
        }
        OrderStep::Clusters(clusters)
    };
    steps.map(step).collect()
}

/// Reads a cluster of a step, such as `east` or `east=90`. `place` names the step for people.
fn read_cluster(text: &str, place: &str, reader: &mut TermReader) -> StepCluster {
    let (name, weight) = match text.split_once('=') {
        Some((name, weight)) => (name, Some(weight)),
        None => (text, None),
    };
    let again = || ClusterTerm::Unreadable(shorten(name).into());
    let term = reader.read(name, place).unwrap_or_else(again); // keeps its place
    let weight = weight.map(|weight| match weight.parse() {
        Ok(weight) => StepWeight::Readable(weight),
        Err(error) => {
            let defect = format!("the weight of '{term}': {error}");
            reader.defects.push(defect.into());
            StepWeight::Unreadable(shorten(weight).into())
        }
    });
    StepCluster { term, weight }
}

// === impl StepCluster ===

impl StepCluster {
    fn readable_weight(&self) -> Option<Weight> {
        match self.weight {
            Some(StepWeight::Readable(weight)) => Some(weight),
            Some(StepWeight::Unreadable(_)) | None => None,
        }
    }
}

/// A cluster without a weight.
impl From<ClusterTerm> for StepCluster {
    fn from(term: ClusterTerm) -> Self {
        Self { term, weight: None }
    }
}

/// Reads an order from a flag, which has no part that cannot be read.
impl FromStr for FailoverOrder {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        let order = Self::read(text);
        match order.defects.first() {
            Some(defect) => Err(InvalidSetting(defect.clone())),
            None => Ok(order),
        }
    }
}

impl fmt::Display for FailoverOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let separator = if index == 0 { "" } else { ":" };
            write!(f, "{separator}{step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for OrderStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Clusters(clusters) = self else {
            return f.write_str("*");
        };
        for (index, StepCluster { term, weight }) in clusters.iter().enumerate() {
            let separator = if index == 0 { "" } else { "+" };
            write!(f, "{separator}{term}")?;
            match weight {
                Some(StepWeight::Readable(weight)) => write!(f, "={weight}")?,
                Some(StepWeight::Unreadable(text)) => write!(f, "={text}")?,
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> FailoverOrder {
        text.parse().unwrap()
    }

    /// Reads an order, and returns it as text with its defects.
    fn read(text: &str) -> (String, Vec<String>) {
        let order = FailoverOrder::read(text);
        let defects = order.defects().iter().map(ToString::to_string).collect();
        (order.to_string(), defects)
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
            "east=90+west=10",
            "local=1+east=1000:west=0:*",
        ] {
            assert_eq!(order(text).to_string(), text);
        }
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
            (" East = 90 + west=010 ", "east=90+west=10"),
        ] {
            assert_eq!(read(text), (expected.to_owned(), Vec::new()), "{text}");
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
            (
                "east=9x+west=10:north",
                "east=9x+west=10:north",
                "the weight of 'east': '9x' is not a weight from 0 to 1000",
            ),
            (
                "east=1001",
                "east=1001",
                "the weight of 'east': '1001' is not a weight from 0 to 1000",
            ),
            (
                "east=4294967295+west=1",
                "east=4294967295+west=1",
                "the weight of 'east': '4294967295' is not a weight from 0 to 1000",
            ),
            (
                "east=+west=1",
                "east=+west=1",
                "the weight of 'east': '' is not a weight from 0 to 1000",
            ),
            (
                "east=5=5",
                "east=5=5",
                "the weight of 'east': '5=5' is not a weight from 0 to 1000",
            ),
            ("=5+west=1", "''=5+west=1", "step 1 is empty"),
            ("east=5+east=6", "east=5+east=6", "'east' occurs twice"),
            (
                "local:east=90+west",
                "local:east=90+west",
                "step 2 has weights for some of its clusters only",
            ),
            (
                "east:*=5",
                "east:*=5",
                "'*' stands for all other clusters of a failover order, as a step of its own",
            ),
        ] {
            assert_eq!(
                read(text),
                (expected.to_owned(), vec![defect.to_owned()]),
                "{text}"
            );
            let error = text.parse::<FailoverOrder>().unwrap_err();
            assert_eq!(error.to_string(), defect);
        }
        // The typing error is a cluster without endpoints. The standby stays where it is.
        let local: ClusterName = "hub".parse().unwrap();
        let step = |text, cluster: &str| {
            FailoverOrder::read(text).step_of(&cluster.parse().unwrap(), &local)
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
        let (text, defects) = read(&longer);
        assert_eq!(text.len(), 40);
        assert_eq!(defects, ["it has 4097 octets; at most 4096 are allowed"]);
        assert_eq!(FailoverOrder::read(&"east:".repeat(40_000)).count(), 1);
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
        let names = |cluster: &str| order(all).names(&cluster.parse().unwrap(), &local);
        assert_eq!(["hub", "west", "north"].map(names), [true, true, false]);
    }

    #[test]
    fn clusters_of_a_step_have_weights_if_all_are_readable() {
        let local: ClusterName = "hub".parse().unwrap();
        let weight = |text: &str, cluster: &str| {
            let weight = FailoverOrder::read(text).weight_of(&cluster.parse().unwrap(), &local);
            weight.map(Weight::get)
        };
        let text = "east=90+local=10:west:north=0:*";
        let clusters = ["east", "hub", "west", "north", "south"];
        let weights = clusters.map(|cluster| weight(text, cluster));
        assert_eq!(weights, [Some(90), Some(10), None, Some(0), None]);
        // A typing error moves no load: all clusters of the step answer, as without weights.
        for text in [
            "east=9x+west=10",
            "east=1001+west=0",
            "east=90+west",
            "east=+west=0",
        ] {
            assert_eq!(weight(text, "east"), None, "{text}");
            assert_eq!(weight(text, "west"), None, "{text}");
        }
        // This cluster by its name and as `local`: the first one counts.
        assert_eq!(weight("hub=1+local=2", "hub"), Some(1));
        // A name that cannot be read is a cluster without endpoints. The weights of the others count.
        assert_eq!(weight("e_st=90+west=10", "west"), Some(10));
    }

    #[test]
    fn only_local_stands_for_this_cluster() {
        for (text, has_local) in [("east:local+west", true), ("east+west:*", false)] {
            assert_eq!(order(text).has_local(), has_local, "{text}");
        }
    }
}
