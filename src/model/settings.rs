//! Annotations of a Service that set something for it.
//!
//! Linkerd copies the annotations of an exported Service to its mirrors in all clusters. The TTL and the treatment of
//! gateways that are down are read from mirrors, too. A failover order and expected clusters are read from Services of
//! this cluster only, because a mirror must not decide what this cluster answers (rules K6, K8).

use serde::{Deserialize, Serialize};

use super::fields::shorten;
use super::{ClusterName, FailoverOrder, InvalidOrder, KubeObject, Line, key};

/// The annotations of this server on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// `global-dns/ttl`: seconds.
    pub ttl: Option<u32>,
    /// `global-dns/gateway-down`.
    pub gateway_down: Option<GatewayDown>,
    /// `global-dns/failover`.
    pub failover: Option<FailoverOrder>,
    /// `global-dns/expected-clusters`: the clusters, sorted, after aliases.
    pub expected: Option<Box<[ClusterName]>>,
    /// A sentence without its subject for each invalid annotation: `global-dns/ttl=x is invalid`.
    pub invalid: Vec<Line>,
    /// Annotations of a mirror that count on Services of this cluster only, as `name=value`.
    pub ignored: Vec<Line>,
}

/// The treatment of endpoints with a gateway that is down (rule M4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayDown {
    /// They are omitted, even if a name then has no endpoint.
    Exclude,
    /// They are omitted, unless the name would then have no endpoint.
    LastResort,
    /// They are included.
    Include,
}

// === impl Settings ===

impl Settings {
    /// Reads the annotations of a Service of this cluster.
    pub(super) fn of_own(service: &KubeObject<'_>) -> Self {
        let mut settings = Self::common(service);
        settings.failover = settings.read(service, key::FAILOVER, |value| {
            let order: Result<FailoverOrder, InvalidOrder> = value.parse();
            order.map_err(|error| format!(": {error}"))
        });
        settings.expected = settings.read(service, key::EXPECTED_CLUSTERS, |value| {
            expected_clusters(value).map_err(|error| format!(": {error}"))
        });
        settings
    }

    /// Reads the annotations of a mirror or a ServiceImport.
    pub(super) fn of_mirror(mirror: &KubeObject<'_>) -> Self {
        let ignored = [key::FAILOVER, key::EXPECTED_CLUSTERS].into_iter();
        let ignored = ignored.filter_map(|key| {
            let value = mirror.annotation(key)?;
            Some(format!("{key}={}", shorten(value)).into())
        });
        Self {
            ignored: ignored.collect(),
            ..Self::common(mirror)
        }
    }

    /// Reads the annotations that count on every object.
    fn common(object: &KubeObject<'_>) -> Self {
        let mut settings = Self::default();
        settings.ttl = settings.read(object, key::TTL, |value| {
            value.trim().parse().map_err(|_| String::new())
        });
        settings.gateway_down = settings.read(object, key::GATEWAY_DOWN, |value| {
            GatewayDown::from_value(value.trim()).ok_or_else(String::new)
        });
        settings
    }

    /// Reads one annotation. Notes an invalid value, with the reason that `parse` returns.
    fn read<T>(
        &mut self,
        object: &KubeObject<'_>,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = object.annotation(key)?;
        let parsed = parse(value);
        parsed
            .map_err(|reason| self.note_invalid(&format!("{key}={}", shorten(value)), &reason))
            .ok()
    }

    /// Notes an invalid annotation.
    pub(super) fn note_invalid(&mut self, annotation: &str, reason: &str) {
        self.invalid
            .push(format!("{annotation} is invalid{reason}").into());
    }

    /// Returns the settings if there is any.
    pub(super) fn if_any(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

// === impl GatewayDown ===

impl GatewayDown {
    /// Parses the value of `--gateway-down` or of annotation `global-dns/gateway-down`.
    pub fn from_value(value: &str) -> Option<Self> {
        match value {
            "last-resort" => Some(Self::LastResort),
            "include" => Some(Self::Include),
            "exclude" => Some(Self::Exclude),
            _ => None,
        }
    }
}

// === Expected clusters ===

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
