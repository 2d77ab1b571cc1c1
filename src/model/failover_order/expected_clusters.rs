//! The clusters that a service expects (rule K8), as an annotation sets them.

use std::collections::BTreeSet;

use super::{ClusterTerm, MaxSize, TermReader, join_texts, normalized, shorten};
use crate::model::{ClusterName, Line, Timestamp};

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

/// What becomes of a part that cannot be read.
const MISSING: &str = "counts as a missing cluster: ";

// === impl ExpectedClusters ===

impl ExpectedClusters {
    /// Reads expected clusters from an annotation. Spaces are ignored, and upper case is lower case. A part that still cannot
    /// be read is a cluster that is missing, and so is a setting that is too large. Empty parts at the end are ignored.
    pub fn read(text: &str) -> Self {
        let mut reader = TermReader {
            effect: MISSING,
            ..TermReader::default()
        };
        // The time may be missing.
        let whole = text.to_ascii_lowercase() + " ";
        let (clusters, time) = match whole.find(UNTIL) {
            Some(at) => {
                let time = text.get(at + UNTIL.len()..);
                (&text[..at], Some(time.unwrap_or_default()))
            }
            None => (text, None),
        };
        let normal = normalized(clusters);
        if normal.is_empty() {
            reader.note(MISSING, "it names none; remove it if none is expected");
        }
        let names = normal.trim_end_matches(['+', ',']).split(['+', ',']);
        if let Some(excess) = MAX_SIZE.excess(text, names.clone().count()) {
            return Self {
                terms: [ClusterTerm::nothing(clusters)].into(),
                until: None,
                defect: Some(format!("{MISSING}{excess}").into()),
            };
        }
        let mut read = |(index, term)| reader.read(term, &format!("cluster {}", index + 1));
        let terms: Box<[ClusterTerm]> = names.enumerate().filter_map(&mut read).collect();
        let until = time.and_then(Timestamp::from_text);
        if let (Some(time), None) = (time, until) {
            let reason = format!("'{}' is not written like 2026-12-01T12:00Z", shorten(time));
            reader.note("the time is ignored: ", &reason);
        }
        let unreadable = terms.iter().find_map(ClusterTerm::defect);
        let unreadable = unreadable.map(|why| format!("{MISSING}{why}").into());
        Self {
            defect: unreadable.or(reader.defect),
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
        join_texts(&self.terms, "+")
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
    use super::super::TWICE;
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<ClusterName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn defect_of(text: &str) -> String {
        let defect = ExpectedClusters::read(text).defect;
        defect.unwrap_or_default().to_string()
    }

    fn missing(text: &str, present: &[&str]) -> Vec<String> {
        let local = "hub".parse().unwrap();
        let missing = ExpectedClusters::read(text).missing(&set(present), &local);
        missing.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn time_follows_the_clusters() {
        for case in [
            "east + west until 2026-12-01T12:00Z = 2026-12-01T12:00:00Z",
            "East,west, UNTIL 2026-12-01T12:00:30Z  = 2026-12-01T12:00:30Z",
            "east+west until 2026-12-01T13:00+01:00 = 2026-12-01T12:00:00Z",
            "east+west = ",
        ] {
            let (text, expected) = case.split_once(" = ").unwrap();
            let read = ExpectedClusters::read(text);
            let until = read.until.map(Timestamp::to_text).unwrap_or_default();
            assert_eq!((&*read.clusters(), &*until), ("east+west", expected));
            assert_eq!(read.defect, None);
        }
        for (text, time) in [("east until tomorrow", "tomorrow"), ("east UNTIL", "")] {
            let ignored = format!("'{time}' is not written like 2026-12-01T12:00Z");
            assert_eq!(defect_of(text), format!("the time is ignored: {ignored}"));
            assert_eq!(missing(text, &["east"]), [""; 0]);
        }
        // Without a space, it is a part of a name.
        assert_eq!(missing("eastuntil 2026", &["east"]), ["eastuntil2026"]);
    }

    #[test]
    fn unreadable_part_is_a_missing_cluster() {
        for case in [
            " | '' | it names none; remove it if none is expected",
            "east++west | '' | cluster 2 is empty",
            "east+we_st | 'we_st' | 'we_st' is not the name of a cluster",
            "east:west | 'east:west' | 'east:west' is not the name of a cluster",
            "* | '*' | '*' stands for all other clusters of a failover order, as a step of its own",
        ] {
            let parts: Vec<&str> = case.split(" | ").collect();
            assert_eq!(missing(parts[0], &["east", "west"]), [parts[1]], "{case}");
            assert_eq!(defect_of(parts[0]), format!("{MISSING}{}", parts[2]));
        }
        // A name that occurs twice may stand for another one. It is reported, and changes nothing.
        let twice = format!("{TWICE}'east' occurs twice");
        assert_eq!(defect_of("east+west+east"), twice);
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
            assert_eq!(
                (large.until, defect_of(&text)),
                (None, format!("{MISSING}{defect}"))
            );
            assert_eq!(missing(&text, &["east", "c1"]).len(), 1);
        }
        assert_eq!(ExpectedClusters::read(&names[..128].join("+")).defect, None);
    }
}
