//! The clusters that a service expects while it is bootstrapped (rule K8), as an annotation or a flag sets them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::cluster_term::TermReader;
use super::failover_order::InvalidSetting;
use super::{ClusterName, ClusterTerm, Line};

/// Expected clusters, separated by `+` or `,` in text, such as `local+east+west`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedClusters {
    terms: Box<[ClusterTerm]>,
    defects: Box<[Line]>,
}

// === impl ExpectedClusters ===

impl ExpectedClusters {
    /// Reads expected clusters from an annotation. Spaces are ignored, and upper case is lower case. A part that still cannot
    /// be read is a cluster that is missing. Empty parts at the end are ignored.
    pub fn read(text: &str) -> Self {
        let mut reader = TermReader::default();
        let terms = match reader.normalize(text) {
            Ok(text) => {
                let terms = text.trim_end_matches(['+', ',']).split(['+', ',']);
                let mut read = |(index, term)| reader.read(term, &format!("cluster {}", index + 1));
                terms.enumerate().filter_map(&mut read).collect()
            }
            Err(term) => vec![term],
        };
        Self {
            terms: terms.into(),
            defects: reader.defects.into(),
        }
    }

    /// Returns a sentence for each part that cannot be read.
    pub fn defects(&self) -> &[Line] {
        &self.defects
    }

    /// Returns the parts that are not one of these clusters.
    pub fn missing(&self, present: &BTreeSet<ClusterName>, local: &ClusterName) -> Box<[Line]> {
        let is_present = |term: &&ClusterTerm| match term {
            ClusterTerm::Local => present.contains(local),
            ClusterTerm::Named(name) => present.contains(name),
            ClusterTerm::Unreadable(_) => false,
        };
        let missing = self.terms.iter().filter(|term| !is_present(term));
        let name = |term: &ClusterTerm| match term {
            ClusterTerm::Local => local.as_str().into(),
            ClusterTerm::Named(name) => name.as_str().into(),
            ClusterTerm::Unreadable(text) => Line::from(format!("'{text}'")),
        };
        missing.map(name).collect()
    }
}

/// Reads expected clusters from a flag, which has no part that cannot be read.
impl FromStr for ExpectedClusters {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        let expected = Self::read(text);
        match expected.defects.first() {
            Some(defect) => Err(InvalidSetting(defect.clone())),
            None => Ok(expected),
        }
    }
}

impl fmt::Display for ExpectedClusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<String> = self.terms.iter().map(ToString::to_string).collect();
        f.write_str(&terms.join("+"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<ClusterName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn missing(text: &str, present: &[&str]) -> Vec<String> {
        let local = "hub".parse().unwrap();
        let missing = ExpectedClusters::read(text).missing(&set(present), &local);
        missing.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn missing_clusters_are_those_without_presence() {
        assert_eq!(missing("east+west", &["east"]), ["west"]);
        assert_eq!(missing("East, west ,", &["east", "west"]), [""; 0]);
        assert_eq!(missing("local+east", &["east"]), ["hub"]);
        assert_eq!(missing("local+east", &["east", "hub"]), [""; 0]);
    }

    #[test]
    fn unreadable_part_is_a_missing_cluster() {
        for (text, named, defect) in [
            ("", "''", "cluster 1 is empty"),
            ("east++west", "''", "cluster 2 is empty"),
            (
                "east+we_st",
                "'we_st'",
                "'we_st' is not the name of a cluster",
            ),
            (
                "east:west",
                "'east:west'",
                "'east:west' is not the name of a cluster",
            ),
            (
                "*",
                "'*'",
                "'*' stands for all other clusters of a failover order, as a step of its own",
            ),
        ] {
            let read = ExpectedClusters::read(text);
            assert_eq!(missing(text, &["east", "west"]), [named], "{text}");
            assert_eq!(read.defects(), [Line::from(defect)]);
            let error = text.parse::<ExpectedClusters>().unwrap_err();
            assert_eq!(error.to_string(), defect);
        }
        // A name that occurs twice may stand for another one. It is reported, and changes nothing.
        let twice = ExpectedClusters::read("east+west+east");
        assert_eq!(twice.defects(), [Line::from("'east' occurs twice")]);
        assert_eq!(missing("east+west+east", &["east", "west"]), [""; 0]);
        let long = ExpectedClusters::read(&"east+".repeat(40_000));
        assert_eq!(long.defects().len(), 1);
    }
}
