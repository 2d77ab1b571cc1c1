//! The flags that determine the members and names of a table.

use std::collections::{BTreeMap, BTreeSet};

use crate::mirror::{ClusterName, GatewayDown, Namespace, ServiceName, Skip, SkipReason};

/// The flags that determine the members of services and the names that exist.
#[derive(Clone, Debug)]
pub struct Rules {
    /// `--cluster-name`: the name of this cluster, which all clusters use.
    pub cluster_name: ClusterName,
    /// `--cluster-alias LINK=NAME`: the name of the cluster for each link.
    pub cluster_aliases: BTreeMap<ClusterName, ClusterName>,
    /// `--exclude-cluster`, as names after aliases.
    pub excluded_clusters: BTreeSet<ClusterName>,
    /// `--ttl`, seconds.
    pub ttl: u32,
    /// `--ttl-max`, seconds: the maximum TTL in an annotation.
    pub ttl_max: u32,
    /// `--gateway-down`.
    pub gateway_down: GatewayDown,
    /// `--local-members`.
    pub local_members: LocalMembers,
    /// `--short-names`.
    pub short_names: ShortNames,
    /// `--short-name S=N`.
    pub pinned_names: BTreeMap<ServiceName, Namespace>,
    /// `--default-namespace`.
    pub default_namespace: Option<Namespace>,
    /// Number of octets of the longest zone name in wire format. It limits the names below it (RFC 1035 section 2.3.4).
    pub longest_zone: usize,
    /// Whether `--reverse-zone` is given. Reverse zones need an index of addresses.
    pub has_reverse_zones: bool,
}

/// The headless Services of this cluster that are members (rule M5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalMembers {
    /// Those that are exported or have a headless mirror of the same name.
    Matching,
    /// Those that are exported.
    Exported,
    /// None.
    Off,
}

/// The names without a namespace that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortNames {
    /// The names of all services, unless several namespaces have a service of that name.
    On,
    /// Only the names that a flag assigns to a namespace.
    Pinned,
    /// None.
    Off,
}

// === impl Rules ===

impl Rules {
    /// Returns the name of the cluster of a link, after aliases.
    pub fn name_of(&self, link: &ClusterName) -> ClusterName {
        self.cluster_aliases.get(link).unwrap_or(link).clone()
    }

    /// Returns the skip of an object of a cluster, if the cluster is excluded.
    pub(super) fn exclusion(&self, cluster: &ClusterName) -> Option<Skip> {
        let detail = || format!("cluster '{cluster}' is excluded by --exclude-cluster");
        let is_excluded = self.excluded_clusters.contains(cluster);
        is_excluded.then(|| Skip::new(SkipReason::ExcludedCluster, detail()))
    }
}
