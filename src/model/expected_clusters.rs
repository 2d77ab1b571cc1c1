//! The clusters that a service expects (rule K8), as an annotation sets them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::failover_order::{Defect, MaxSize, TermReader};
use super::fields::shorten;
use super::{ClusterName, ClusterTerm, Line, Timestamp};

/// Expected clusters, separated by `+` or `,` in text, and until when the name waits for them:
/// `local+east+west until 2026-12-01T12:00Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedClusters {
    terms: Box<[ClusterTerm]>,
    /// The time until which the name waits, if there is one.
    pub until: Option<Timestamp>,
    /// The first thing that is wrong.
    pub defect: Option<Defect>,
}

/// The largest setting that is read: 128 names of 63 octets with what joins them, and a time.
const MAX_SIZE: MaxSize = MaxSize {
    octets: 8320,
    names: 128,
};

/// The word between the clusters and the time.
const UNTIL: &str = "until";

// === impl ExpectedClusters ===

impl ExpectedClusters {
    /// Reads expected clusters from an annotation. Spaces are ignored, and upper case is lower case. A part that still cannot
    /// be read is a cluster that is missing, and so is a setting that is too large. Empty parts at the end are ignored.
    pub fn read(text: &str) -> Self {
        let mut reader = TermReader {
            effect: "counts as a missing cluster",
            ..TermReader::default()
        };
        let mut words = text.split_whitespace();
        let (clusters, time) = match words.position(|word| word.eq_ignore_ascii_case(UNTIL)) {
            Some(count) if text.len() <= MAX_SIZE.octets => {
                let clusters: String = text.split_whitespace().take(count).collect();
                (
                    Cow::Owned(clusters),
                    Some(words.collect::<Vec<_>>().join(" ")),
                )
            }
            _ => (Cow::Borrowed(text), None),
        };
        let mut terms: Box<[ClusterTerm]> = Box::default();
        if let Some(text) = reader.normalize(&clusters, MAX_SIZE.octets) {
            if text.is_empty() {
                let reason = "it names no cluster: remove it, if none is expected";
                reader.note(reader.effect, reason);
            }
            let names = text.trim_end_matches(['+', ',']).split(['+', ',']);
            let mut read = |(index, term)| reader.read(term, &format!("cluster {}", index + 1));
            terms = names.enumerate().filter_map(&mut read).collect();
            reader.limit_names(terms.len(), MAX_SIZE.names);
        }
        if reader.is_too_large {
            terms = [ClusterTerm::too_large(&clusters)].into();
        }
        let until = time.as_deref().and_then(Timestamp::from_text);
        if let (Some(time), None) = (time, until) {
            let time = shorten(&time);
            let reason = format!("'{time}' is not written like 2026-12-01T12:00Z");
            reader.note("the time is ignored", reason);
        }
        let effect = reader.effect;
        let unreadable = terms.iter().find_map(ClusterTerm::defect);
        let unreadable = unreadable.map(|reason| Defect { effect, reason });
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

    fn defect_of(text: &str) -> String {
        let defect = ExpectedClusters::read(text).defect;
        defect.map_or_else(String::new, |one| one.to_string())
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
                (read.clusters(), read.defect),
                ("east+west".to_owned(), None)
            );
        }
        for (text, time) in [("east until tomorrow", "tomorrow"), ("east UNTIL ", "")] {
            let ignored =
                format!("the time is ignored: '{time}' is not written like 2026-12-01T12:00Z");
            assert_eq!(
                (missing(text, &["east"]).len(), defect_of(text)),
                (0, ignored)
            );
        }
        // Without a space, it is a part of a name.
        assert_eq!(missing("eastuntil 2026", &["east"]), ["eastuntil2026"]);
    }

    #[test]
    fn unreadable_part_is_a_missing_cluster() {
        for (text, named, defect) in [
            (
                "",
                "''",
                "it names no cluster: remove it, if none is expected",
            ),
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
            let defect = format!("counts as a missing cluster: {defect}");
            assert_eq!(missing(text, &["east", "west"]), [named], "{text}");
            assert_eq!(defect_of(text), defect);
        }
        // A name that occurs twice may stand for another one. It is reported, and changes nothing.
        let twice = "corrected, its first place counts: 'east' occurs twice";
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
            let defect = format!("counts as a missing cluster: {defect}");
            assert_eq!((large.until, defect_of(&text)), (None, defect));
            assert_eq!(missing(&text, &["east", "c1"]).len(), 1);
        }
        assert_eq!(ExpectedClusters::read(&names[..128].join("+")).defect, None);
    }
}
