//! The clusters that a service expects (rule K8), as an annotation sets them.

use std::collections::BTreeSet;

use super::failover_order::{MaxSize, TermReader};
use super::fields::shorten;
use super::{ClusterName, ClusterTerm, Line, Timestamp};

/// Expected clusters, separated by `+` or `,` in text, and until when the name waits for them:
/// `local+east+west until 2026-12-01T12:00Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedClusters {
    terms: Box<[ClusterTerm]>,
    /// The time until which the name waits, if there is one.
    pub until: Option<Timestamp>,
    /// The first thing that is wrong, as a sentence.
    pub defect: Option<Line>,
}

/// The largest setting that is read: 128 names of 63 octets with what joins them, and a time.
const MAX_SIZE: MaxSize = MaxSize {
    octets: 8320,
    names: 128,
};

/// What is between the clusters and the time.
const UNTIL: &str = " until ";

// === impl ExpectedClusters ===

impl ExpectedClusters {
    /// Reads expected clusters from an annotation. Spaces are ignored, and upper case is lower case. A part that still cannot
    /// be read is a cluster that is missing, and so is a setting that is too large. Empty parts at the end are ignored.
    pub fn read(text: &str) -> Self {
        let mut reader = TermReader::default();
        let (clusters, time) = match text.to_ascii_lowercase().find(UNTIL) {
            Some(at) if text.len() <= MAX_SIZE.octets => {
                (&text[..at], Some(&text[at + UNTIL.len()..]))
            }
            _ => (text, None),
        };
        let mut terms: Box<[ClusterTerm]> = Box::default();
        if let Some(text) = reader.normalize(clusters, MAX_SIZE.octets) {
            let names = text.trim_end_matches(['+', ',']).split(['+', ',']);
            let mut read = |(index, term)| reader.read(term, &format!("cluster {}", index + 1));
            terms = names.enumerate().filter_map(&mut read).collect();
            reader.limit_names(terms.len(), MAX_SIZE.names);
        }
        if reader.is_too_large {
            terms = [ClusterTerm::too_large(clusters)].into();
        }
        let until = time.and_then(Timestamp::from_text);
        if let (Some(time), None) = (time, until) {
            let time = shorten(time);
            reader.note(format!(
                "the time is ignored: '{time}' is not written like 2026-12-01T12:00Z"
            ));
        }
        Self {
            defect: terms.iter().find_map(ClusterTerm::defect).or(reader.defect),
            terms,
            until,
        }
    }

    /// Returns the number of clusters, also of those that cannot be read.
    pub fn count(&self) -> usize {
        self.terms.len()
    }

    /// Returns the clusters as text, without the time.
    pub fn clusters(&self) -> String {
        ClusterTerm::join(&self.terms)
    }

    /// Returns the parts that are not one of these clusters.
    pub fn missing(&self, present: &BTreeSet<ClusterName>, local: &ClusterName) -> Box<[Line]> {
        let is_present = |term: &&ClusterTerm| present.iter().any(|one| term.is(one, local));
        let missing = self.terms.iter().filter(|term| !is_present(term));
        let name = |term: &ClusterTerm| match term {
            ClusterTerm::Local => local.as_str().into(),
            ClusterTerm::Unreadable(text) | ClusterTerm::Nothing(text) => {
                format!("'{text}'").into()
            }
            ClusterTerm::Named(_) | ClusterTerm::Others => term.to_string().into(),
        };
        missing.map(name).collect()
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
    fn time_follows_the_clusters() {
        for (text, expected) in [
            (
                "east + west until 2026-12-01T12:00Z",
                Some("2026-12-01T12:00:00Z"),
            ),
            (
                "East,west, UNTIL 2026-12-01T12:00:30Z ",
                Some("2026-12-01T12:00:30Z"),
            ),
            (
                "east+west until 2026-12-01T13:00+01:00",
                Some("2026-12-01T12:00:00Z"),
            ),
            ("east+west", None),
        ] {
            let read = ExpectedClusters::read(text);
            let until = read.until.map(Timestamp::to_text);
            assert_eq!(until.as_deref(), expected, "{text}");
            assert_eq!(
                (read.clusters(), read.defect.as_deref()),
                ("east+west".to_owned(), None)
            );
        }
        let read = ExpectedClusters::read("east until tomorrow");
        let defect = "the time is ignored: 'tomorrow' is not written like 2026-12-01T12:00Z";
        assert_eq!((read.until, read.defect.as_deref()), (None, Some(defect)));
        // Without a space, it is a part of a name.
        assert_eq!(missing("eastuntil 2026", &["east"]), ["eastuntil2026"]);
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
            assert_eq!(read.defect.as_deref(), Some(defect));
        }
        // A name that occurs twice may stand for another one. It is reported, and changes nothing.
        let twice = ExpectedClusters::read("east+west+east");
        assert_eq!(twice.defect.as_deref(), Some("'east' occurs twice"));
        assert_eq!(missing("east+west+east", &["east", "west"]), [""; 0]);
        let names: Vec<String> = (0..129).map(|number| format!("{number:063}")).collect();
        let until = " until 2026-12-01T12:00Z";
        for (text, defect) in [
            (
                "east+".repeat(40_000),
                "it has 200000 octets; at most 8320 are allowed",
            ),
            (
                (0..129).map(|one| format!("c{one}+")).collect(),
                "it has 129 names; at most 128 are allowed",
            ),
            (
                "é".repeat(4160) + until,
                "it has 8344 octets; at most 8320 are allowed",
            ),
        ] {
            let large = ExpectedClusters::read(&text);
            assert_eq!((large.until, large.defect.as_deref()), (None, Some(defect)));
            assert_eq!(missing(&text, &["east", "c1"]).len(), 1);
        }
        assert_eq!(ExpectedClusters::read(&names[..128].join("+")).defect, None);
    }
}
