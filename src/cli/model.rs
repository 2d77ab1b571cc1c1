//! Flags of names and members. The server and the commands that read a table share them.

use clap::Args;

use super::failover::{ServiceSetting, by_service, parse_failover};
use super::links::LinkArgs;
use super::values::{ZoneArg, parse_alias, parse_pair, parse_ttl, parse_zone};
use crate::model::{ClusterName, FailoverOrder, GatewayDown, Namespace, ServiceKey, ServiceName};
use crate::table::{
    Aliases, ChildZone, DEFAULT_CLUSTER_NAME, Grammar, InvalidAlias, LocalMembers, Rules,
    ShortNames,
};
use crate::zone::ZoneName;

/// The default of `--zone`.
const DEFAULT_ZONE: &str = "global";

/// Returns the zones of `--zone`, or the default.
pub(super) fn zones_or_default(given: &[ZoneArg]) -> Vec<ZoneArg> {
    match given {
        [] => vec![ZoneArg {
            name: DEFAULT_ZONE.parse().expect("'global' is a valid name"),
            grammar: Grammar::Global,
        }],
        given => given.to_vec(),
    }
}

/// Names and members.
#[derive(Debug, Args)]
#[command(next_help_heading = "Names and members")]
pub struct ModelArgs {
    /// Zone to answer for; the longest match decides (repeatable, each zone once); clusterset.local=mcs: a zone with the names of the Multi-Cluster Services API [default: global]
    #[arg(long, value_name = "ZONE[=mcs]", value_delimiter = ',', value_parser = parse_zone)]
    pub zone: Vec<ZoneArg>,

    /// Name of this cluster; use the name that the Links of the other clusters use
    #[arg(long, value_name = "NAME", default_value = DEFAULT_CLUSTER_NAME)]
    pub cluster_name: ClusterName,

    /// Name to use for the cluster of a Link instead of the name in the Link (repeatable)
    #[arg(long, value_name = "LINK=NAME", value_delimiter = ',', value_parser = parse_pair::<ClusterName, ClusterName>)]
    pub cluster_alias: Vec<(ClusterName, ClusterName)>,

    /// Cluster to omit: its mirrors are ignored; members of this cluster stay, see --local-members (repeatable)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub exclude_cluster: Vec<ClusterName>,

    /// TTL of records, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = parse_ttl)]
    pub ttl: u32,

    /// Maximum TTL that the annotation of a Service can set, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = parse_ttl)]
    pub ttl_max: u32,

    /// TTL of negative answers, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = parse_ttl)]
    pub negative_ttl: u32,

    /// Namespace whose services have the short names
    #[arg(long, value_name = "NAMESPACE")]
    pub default_namespace: Option<Namespace>,

    /// Short name of a service, and the namespace that it stands for (repeatable)
    #[arg(long, value_name = "SERVICE=NAMESPACE", value_delimiter = ',', value_parser = parse_pair::<ServiceName, Namespace>)]
    pub short_name: Vec<(ServiceName, Namespace)>,

    /// Short names to answer: names without a namespace
    #[arg(long, value_name = "WHICH", default_value = "on")]
    pub short_names: ShortNames,

    /// Rule for endpoints behind a gateway that is down
    #[arg(long, value_name = "RULE", default_value = "last-resort")]
    pub gateway_down: GatewayDown,

    /// Headless Services of this cluster that are members of names
    #[arg(long, value_name = "WHICH", default_value = "matching")]
    pub local_members: LocalMembers,

    /// Name with the members of several services, such as crdb.prod=crdb.crdb-east+crdb.crdb-west (repeatable, each name once)
    #[arg(long, value_name = "S.N=S1.N1+S2.N2", value_delimiter = ',', value_parser = parse_alias)]
    pub alias: Vec<(ServiceKey, Vec<ServiceKey>)>,

    /// Failover order, such as east:west (the first step answers until a person changes the order) or auto:local:east+west:* (it moves by itself); NAMESPACE/SERVICE=ORDER for one service, ORDER for all services without pods (repeatable; separated by ;)
    #[arg(long, value_name = "[NAMESPACE/SERVICE=]ORDER", value_delimiter = ';', value_parser = parse_failover)]
    pub failover: Vec<ServiceSetting<FailoverOrder>>,

    #[command(flatten)]
    #[expect(missing_docs, reason = "flattened groups take no help of their own")]
    pub links: LinkArgs,
}

impl ModelArgs {
    /// Returns the zones to answer for.
    pub fn zones(&self) -> Vec<ZoneArg> {
        zones_or_default(&self.zone)
    }

    /// Returns whether a zone has the grammar `mcs`.
    fn has_mcs_zones(&self) -> bool {
        let mut zones = self.zone.iter();
        zones.any(|zone| zone.grammar == Grammar::Mcs)
    }

    /// Returns the zones below another one, each with the nearest one.
    fn child_zones(&self) -> Vec<ChildZone> {
        let zones = self.zones();
        let children = zones.iter().map(|zone| &zone.name);
        let child = |child: &ZoneName| {
            let parents = zones.iter().filter_map(|zone| {
                let labels = child.as_str().strip_suffix(zone.name.as_str())?;
                Some((zone, labels.strip_suffix('.')?))
            });
            let (parent, labels) = parents.min_by_key(|(_, labels)| labels.len())?;
            Some(ChildZone {
                name: child.to_string(),
                parent: parent.name.to_string(),
                parent_grammar: parent.grammar,
                labels: labels.split('.').map(str::to_owned).collect(),
            })
        };
        children.filter_map(child).collect()
    }

    /// Returns the aliases, or why they contradict each other.
    fn aliases(&self) -> Result<Aliases, InvalidAlias> {
        Aliases::new(self.alias.iter().cloned())
    }

    /// Returns an error if values contradict each other.
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_zones()?;
        let aliases = self.aliases();
        aliases.map_err(|error| format!("--alias: {error}"))?;
        self.check_failover()
    }

    /// Returns an error if the zones cannot be served together.
    fn check_zones(&self) -> Result<(), String> {
        let zones = self.zones();
        let mut seen = Vec::new();
        for zone in zones.iter().map(|zone| &zone.name) {
            if seen.contains(&zone) {
                return Err(format!("zone {zone} is given twice: give each zone once"));
            }
            seen.push(zone);
        }
        // The name server of the other zone would be a name in this zone, where it does not exist.
        let hides = |zone: &ZoneName, other: &ZoneName| {
            let above = zone.as_str().strip_suffix(other.as_str());
            above.is_some_and(|above| above == "dns." || above == "ns.dns.")
        };
        for zone in &seen {
            if let Some(other) = seen.iter().find(|other| hides(zone, other)) {
                return Err(format!(
                    "zone {zone} holds the name of the server of zone {other}: choose another zone"
                ));
            }
        }
        Ok(())
    }

    /// Returns an error if a setting of the failover or the expected clusters of a service are given twice.
    fn check_failover(&self) -> Result<(), String> {
        by_service("--failover", &self.failover)?;
        Ok(())
    }

    /// Returns the rules that the table is built by.
    pub fn rules(&self) -> Rules {
        let Self {
            zone: _, // see `zones`
            cluster_name,
            cluster_alias,
            exclude_cluster,
            ttl,
            ttl_max,
            negative_ttl: _, // belongs to zones, not to services
            default_namespace,
            short_name,
            short_names,
            gateway_down,
            local_members,
            alias: _, // see `aliases`
            failover,
            links,
        } = self;
        let zones = self.zones();
        // The command line is checked before.
        let (failover, service_failover) = by_service("", failover).unwrap_or_default();
        let default = Rules::new(cluster_name.clone());
        Rules {
            cluster_name: cluster_name.clone(),
            cluster_aliases: cluster_alias.iter().cloned().collect(),
            excluded_clusters: exclude_cluster.iter().cloned().collect(),
            ttl: *ttl,
            ttl_max: *ttl_max,
            gateway_down: *gateway_down,
            local_members: *local_members,
            short_names: *short_names,
            pinned_names: short_name.iter().cloned().collect(),
            default_namespace: default_namespace.clone(),
            longest_zone: zones.iter().map(longest_base).max().unwrap_or_default(),
            failover,
            service_failover,
            // The command line is checked before.
            aliases: self.aliases().unwrap_or_default(),
            failover_delay: default.failover_delay, // those of `serve`
            failback_delay: default.failback_delay,
            unlinked_after: links.unlinked_after,
            has_mcs_zones: self.has_mcs_zones(),
            child_zones: self.child_zones(),
        }
    }
}

/// Returns the number of octets after the label of the namespace in the names of a zone.
fn longest_base(zone: &ZoneArg) -> usize {
    let own = zone.name.wire().len();
    match zone.grammar {
        Grammar::Global => own,
        Grammar::Mcs => own + b"\x03svc".len(),
    }
}
