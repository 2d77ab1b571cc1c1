//! The settings that determine the members and names of a table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::alias::Aliases;
use crate::model::{
    ClusterName, Export, FailoverOrder, GatewayDown, Namespace, ServiceKey, ServiceName,
    ServiceSettings,
};

/// The settings that determine the members of services and the names that exist.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The name of this cluster, which all clusters use.
    pub cluster_name: ClusterName,
    /// The name of the cluster for each link.
    pub cluster_aliases: BTreeMap<ClusterName, ClusterName>,
    /// Names after aliases.
    pub excluded_clusters: BTreeSet<ClusterName>,
    /// Seconds.
    pub ttl: u32,
    /// The rule for services without their own.
    pub gateway_down: GatewayDown,
    /// Which headless Services of this cluster are members.
    pub local_members: LocalMembers,
    /// Which services have a short name.
    pub short_names: ShortNames,
    /// Namespaces of single short names.
    pub pinned_names: BTreeMap<ServiceName, Namespace>,
    /// The namespace whose services have the short names.
    pub default_namespace: Option<Namespace>,
    /// Number of octets of the longest zone name in wire format. It limits the names below it (RFC 1035 section 2.3.4).
    pub longest_zone: usize,
    /// Services that have the members of others, too.
    pub aliases: Aliases,
    /// The order of services without pods.
    pub failover: Option<FailoverOrder>,
    /// Settings of single services.
    pub services: BTreeMap<ServiceKey, ServiceSettings>,
    /// How long a step must be down until it stops counting as alive (rule K7).
    pub failover_delay: Duration,
    /// How long it must be alive until it counts as alive again (rule K7).
    pub failback_delay: Duration,
    /// How long no Link must name a cluster until it counts as unlinked (rule L2).
    pub unlinked_after: Duration,
    /// Whether a zone has the grammar `mcs`, which needs the common ports of services (rule K9).
    pub has_mcs_zones: bool,
    /// Zones below other ones.
    pub child_zones: Vec<ChildZone>,
}

/// A zone below another one. It hides names of that zone.
#[derive(Clone, Debug)]
pub struct ChildZone {
    /// Its name, with a final dot.
    pub name: String,
    /// The name of the nearest zone above it, with a final dot.
    pub parent: String,
    /// The grammar of that zone.
    pub parent_grammar: Grammar,
    /// Its labels that are not those of that zone.
    pub labels: Vec<String>,
}

/// The grammar of the names of services in a zone (rule K9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Grammar {
    /// The names of this server, such as `S.N.Z`.
    Global,
    /// The names of the Multi-Cluster Services API (KEP-1645), such as `S.N.svc.Z`.
    Mcs,
}

/// The headless Services of this cluster that are members (rule M5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LocalMembers {
    /// Those that are exported, have an annotation of this server, or have a mirror of the same name.
    #[default]
    Matching,
    /// Those that are exported.
    Exported,
    /// No Service.
    None,
}

/// The reason for which a headless Service of this cluster is not a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NonMember {
    /// Links do not select it by default, no mirror of its name exists, and it has no annotation of this server.
    NotExported(Export),
    /// `localMembers: none`.
    Off,
}

/// The services that have a short name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShortNames {
    /// All headless services, unless several namespaces have a service of that name; others as with `pinned`.
    #[default]
    All,
    /// Only those that `pinned` and `defaultNamespace` name.
    Pinned,
    /// No service.
    None,
}

// === impl Rules ===

impl Rules {
    /// Returns the name of the cluster of a link, after aliases.
    pub fn name_of(&self, link: &ClusterName) -> ClusterName {
        self.cluster_aliases.get(link).unwrap_or(link).clone()
    }

    /// Returns whether the cluster of a link is excluded.
    pub(super) fn excludes(&self, link: &ClusterName) -> bool {
        self.excluded_clusters.contains(&self.name_of(link))
    }

    /// Returns the order that the settings have for one service. `Some(None)`: it has none, whatever the default is.
    pub(super) fn order_of(&self, service: &ServiceKey) -> Option<Option<&FailoverOrder>> {
        let order = self.services.get(service)?.failover.as_ref()?;
        Some(order.as_ref())
    }

    /// Returns the services that have an order in the settings.
    pub(super) fn ordered_services(&self) -> impl Iterator<Item = &ServiceKey> {
        let has_order = |settings: &ServiceSettings| matches!(settings.failover, Some(Some(_)));
        let services = self.services.iter();
        services.filter_map(move |(key, settings)| has_order(settings).then_some(key))
    }
}
