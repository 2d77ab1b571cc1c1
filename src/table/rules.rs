//! What the operator decides about members and names: the flags that a table depends on.

use std::collections::{BTreeMap, BTreeSet};

use crate::mirror::{ClusterName, GatewayDown, Namespace, ServiceName};

/// The flags that decide who is a member and which names are answered.
#[derive(Clone, Debug)]
pub struct Rules {
    /// `--cluster-name`: this cluster's name, in every cluster the same.
    pub cluster_name: ClusterName,
    /// `--cluster-alias LINK=NAME`: names of links → names of clusters.
    pub cluster_aliases: BTreeMap<ClusterName, ClusterName>,
    /// `--exclude-cluster`, by the name after aliases.
    pub excluded_clusters: BTreeSet<ClusterName>,
    /// `--ttl`, seconds.
    pub ttl: u32,
    /// `--ttl-max`, seconds: what an annotation may ask for.
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
    /// Octets of the longest zone's name on the wire: decides which names exceed DNS limits (RFC 1035 section 2.3.4).
    pub longest_zone: usize,
    /// `--reverse-zone`: names of addresses are asked for, which takes an index.
    pub has_reverse_zones: bool,
}

/// Which headless Services of this cluster join (rule M5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalMembers {
    /// Those that are exported or have a mirror of the same name.
    Matching,
    /// Those that are exported.
    Exported,
    /// None.
    Off,
}

/// Which names without a namespace are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortNames {
    /// Every service's, unless several namespaces have it.
    On,
    /// Only those that a flag assigns to a namespace.
    Pinned,
    /// None.
    Off,
}

// === impl Rules ===

impl Rules {
    /// Returns the name of the cluster that a link leads to.
    pub fn name_of(&self, link: &ClusterName) -> ClusterName {
        self.cluster_aliases.get(link).unwrap_or(link).clone()
    }
}
