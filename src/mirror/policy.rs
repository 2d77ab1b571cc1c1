//! Annotations that this server reads from Services of this cluster only (rules K6, K8).
//!
//! Linkerd copies the annotations of an exported Service to its mirrors in all clusters. A mirror must not decide what
//! this cluster answers, so these annotations are ignored there.

use serde::{Deserialize, Serialize};

use super::fields::shorten;
use super::{ClusterName, FailoverOrder, KubeObject, Line, key};

/// The annotations of a Service of this cluster that mirrors cannot set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// `global-dns/failover`.
    pub failover: Option<FailoverOrder>,
    /// `global-dns/expected-clusters`: the clusters, sorted, after aliases. `None` without a valid annotation.
    pub expected: Option<Box<[ClusterName]>>,
    /// Invalid annotations, as `name=value`, with the reason.
    pub invalid: Vec<Line>,
}

impl Policy {
    /// Reads the annotations of a Service of this cluster.
    pub(super) fn of(service: &KubeObject<'_>) -> Self {
        let mut invalid = Vec::new();
        let mut note = |key: &str, value: &str, error: String| {
            invalid.push(format!("{key}={} is invalid: {error}", shorten(value)).into());
        };
        let failover = service.annotation(key::FAILOVER).and_then(|value| {
            let order = value.parse();
            order
                .map_err(|error: super::InvalidOrder| note(key::FAILOVER, value, error.to_string()))
                .ok()
        });
        let expected = service.annotation(key::EXPECTED_CLUSTERS);
        let expected = expected.and_then(|value| {
            let clusters = expected_clusters(value);
            clusters
                .map_err(|error| note(key::EXPECTED_CLUSTERS, value, error))
                .ok()
        });
        Self {
            failover,
            expected,
            invalid,
        }
    }

    /// Lists the annotations of a mirror that are ignored, as `name=value`.
    pub(super) fn ignored(mirror: &KubeObject<'_>) -> Vec<Line> {
        let keys = [key::FAILOVER, key::EXPECTED_CLUSTERS].into_iter();
        let ignored = keys.filter_map(|key| {
            let value = mirror.annotation(key)?;
            Some(format!("{key}={}", shorten(value)).into())
        });
        ignored.collect()
    }
}

/// Parses a list of clusters that a service waits for: `east+west`. Returns them sorted.
///
/// # Errors
///
/// A sentence that names the invalid part.
pub fn expected_clusters(text: &str) -> Result<Box<[ClusterName]>, String> {
    let parse = |name: &str| {
        let name = name.trim();
        ClusterName::interned(name).map_err(|_| {
            let name = shorten(name);
            format!("'{name}' is not the name of a cluster; join names with '+', such as east+west")
        })
    };
    // The longest list that makes sense is shorter. An annotation may have 256 KiB.
    const MAX_CLUSTERS: usize = 1000;
    if text.split('+').nth(MAX_CLUSTERS).is_some() {
        return Err(format!("it has more than {MAX_CLUSTERS} clusters"));
    }
    let mut clusters: Vec<ClusterName> = text.split('+').map(parse).collect::<Result<_, _>>()?;
    clusters.sort();
    if let Some(pair) = clusters.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("'{}' is in the list twice", pair[0]));
    }
    Ok(clusters.into())
}

#[cfg(test)]
mod tests {
    use super::expected_clusters;

    #[test]
    fn list_of_clusters_is_sorted() {
        let clusters = expected_clusters("west + east").unwrap();
        let names: Vec<&str> = clusters.iter().map(|name| name.as_str()).collect();
        assert_eq!(names, ["east", "west"]);
    }

    #[test]
    fn invalid_list_is_an_error_that_names_the_part() {
        for (text, part) in [
            ("", "''"),
            ("east+", "''"),
            ("east,west", "'east,west'"),
            ("East", "'East'"),
            ("*", "'*'"),
            ("east+west+east", "'east' is in the list twice"),
        ] {
            let error = expected_clusters(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let long = "east+".repeat(40_000); // 200 KB
        assert!(expected_clusters(&long).unwrap_err().len() < 200);
    }
}
