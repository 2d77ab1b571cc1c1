//! The settings that determine the members and names of a table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{
    ClusterName, FailoverOrder, GatewayDown, Namespace, ServiceKey, ServiceName, ServiceSettings,
};

/// The default of `--cluster-name`. It is suitable for trials only: databases that store the names of their peers need
/// a unique name (rule M6).
pub const DEFAULT_CLUSTER_NAME: &str = "local";

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
    /// The clusters with a zone of their own, by their names after aliases.
    pub zone_clusters: BTreeSet<ClusterName>,
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

    /// Returns the names that a cluster can have in Links: those that an alias translates to it, and its own unless that is translated.
    pub(super) fn links_of<'r>(
        &'r self,
        cluster: &'r ClusterName,
    ) -> impl Iterator<Item = &'r ClusterName> {
        let aliases = self
            .cluster_aliases
            .iter()
            .filter(move |(_, name)| *name == cluster);
        let own = Some(cluster).filter(|one| !self.cluster_aliases.contains_key(*one));
        aliases.map(|(link, _)| link).chain(own)
    }

    /// Returns whether the cluster of a link is excluded.
    pub(super) fn excludes(&self, link: &ClusterName) -> bool {
        !self.excluded_clusters.is_empty() && self.excluded_clusters.contains(&self.name_of(link))
    }

    /// Returns the order that the settings have for one service. `Some(None)`: it has none, whatever the default is.
    pub(super) fn order_of(&self, service: &ServiceKey) -> Option<Option<&FailoverOrder>> {
        Some(self.services.get(service)?.failover.as_ref()?.as_ref())
    }

    /// Returns the services that have an order in the settings.
    pub(super) fn ordered_services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.services
            .keys()
            .filter(|key| self.order_of(key).flatten().is_some())
    }
}

/// The aliases. Only the settings have them: a tenant must not name a service like another one.
#[derive(Clone, Debug, Default)]
pub struct Aliases {
    sources: BTreeMap<ServiceKey, Vec<ServiceKey>>,
    /// The aliases of each source.
    of_sources: BTreeMap<ServiceKey, Vec<ServiceKey>>,
}

/// The maximum number of services of one alias.
const MAX_SOURCES: usize = 32;

// === impl Aliases ===

impl Aliases {
    /// Makes aliases of their names and services.
    ///
    /// # Errors
    ///
    /// A sentence, if an alias names itself or another alias, or has a service twice or too many services.
    pub fn new(aliases: BTreeMap<ServiceKey, Vec<ServiceKey>>) -> Result<Self, String> {
        let mut of_sources: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (alias, sources) in &aliases {
            let count = sources.len();
            if count > MAX_SOURCES {
                return Err(format!(
                    "the alias {alias} has {count} services; at most {MAX_SOURCES} are allowed"
                ));
            }
            for (index, source) in sources.iter().enumerate() {
                if source == alias {
                    return Err(format!(
                        "{alias} is an alias of itself; its own members always belong to it"
                    ));
                } else if aliases.contains_key(source) {
                    return Err(format!(
                        "{alias} is an alias of {source}, which is an alias, too: name the services of that one"
                    ));
                } else if sources[..index].contains(source) {
                    return Err(format!("the alias {alias} has the service {source} twice"));
                }
                of_sources
                    .entry(source.clone())
                    .or_default()
                    .push(alias.clone());
            }
        }
        Ok(Self {
            sources: aliases,
            of_sources,
        })
    }

    /// Returns the names of the aliases.
    pub fn names(&self) -> impl Iterator<Item = &ServiceKey> {
        self.sources.keys()
    }

    /// Returns the sources of an alias.
    pub fn sources_of(&self, alias: &ServiceKey) -> &[ServiceKey] {
        self.sources.get(alias).map_or(&[], |sources| sources)
    }

    /// Returns the aliases of a service.
    pub fn of_source(&self, service: &ServiceKey) -> &[ServiceKey] {
        self.of_sources.get(service).map_or(&[], |aliases| aliases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ServiceKey {
        text.parse().unwrap()
    }

    fn aliases(texts: &[(&str, &[&str])]) -> Result<Aliases, String> {
        let aliases = texts.iter().map(|(alias, sources)| {
            let sources = sources.iter().map(|source| key(source)).collect();
            (key(alias), sources)
        });
        Aliases::new(aliases.collect())
    }

    #[test]
    fn contradictions_are_errors() {
        for (texts, error) in [
            (
                &[("prod/db", &["prod/db"][..])][..],
                "prod/db is an alias of itself; its own members always belong to it",
            ),
            (
                &[("n/a", &["n/b"]), ("n/b", &["n/c"])],
                "n/a is an alias of n/b, which is an alias, too: name the services of that one",
            ),
            (
                &[("n/b", &["n/c"]), ("n/a", &["n/b"])],
                "n/a is an alias of n/b, which is an alias, too: name the services of that one",
            ),
            (
                &[("n/a", &["n/b", "n/b"])],
                "the alias n/a has the service n/b twice",
            ),
        ] {
            assert_eq!(aliases(texts).unwrap_err(), error);
        }
    }

    #[test]
    fn alias_has_at_most_32_services() {
        let with = |count: usize| {
            let names: Vec<String> = (0..count).map(|number| format!("n/db{number}")).collect();
            let sources: Vec<&str> = names.iter().map(String::as_str).collect();
            aliases(&[("prod/db", &sources)])
        };
        assert!(with(32).is_ok());
        assert_eq!(
            with(33).unwrap_err(),
            "the alias prod/db has 33 services; at most 32 are allowed"
        );
    }
}
