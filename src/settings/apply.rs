//! What the settings mean for the table, the zones and the server.

use std::net::IpAddr;
use std::path::PathBuf;

use super::{Settings, ZoneSetting};
use crate::model::{ClusterName, Namespace};
use crate::server::encrypted::Files;
use crate::server::platform::host_name;
use crate::table::{Aliases, ChildZone, Grammar, InvalidAlias, Rules};
use crate::wire::{Access, ResponseSettings};
use crate::zone::{Zone, ZoneName, Zones};

impl Settings {
    /// Returns the default settings of a cluster.
    pub fn of_cluster(cluster_name: ClusterName) -> Self {
        Self {
            cluster_name,
            ..Self::default()
        }
    }

    /// Returns the rules that the table is built by.
    pub fn rules(&self) -> Rules {
        let short = &self.short_names;
        Rules {
            cluster_name: self.cluster_name.clone(),
            cluster_aliases: self.cluster_aliases.clone(),
            excluded_clusters: self.exclude_clusters.iter().cloned().collect(),
            ttl: self.ttl,
            gateway_down: self.gateway_down,
            local_members: self.local_members,
            short_names: short.which,
            pinned_names: short.pinned.clone(),
            default_namespace: short.default_namespace.clone(),
            longest_zone: self
                .zones
                .iter()
                .map(longest_base)
                .max()
                .unwrap_or_default(),
            // The settings are checked when they are read.
            aliases: self.aliases().unwrap_or_default(),
            services: self.services.clone(),
            failover: self.failover.default.clone(),
            failover_delay: self.failover.delay.0,
            failback_delay: self.failover.back.0,
            unlinked_after: self.links.unlinked_after.0,
            has_mcs_zones: self.zones.iter().any(|zone| zone.grammar == Grammar::Mcs),
            child_zones: self.child_zones(),
        }
    }

    /// Returns the aliases, or why they contradict each other.
    pub(super) fn aliases(&self) -> Result<Aliases, InvalidAlias> {
        Aliases::new(self.aliases.clone())
    }

    /// Returns the zones below another one, each with the nearest one.
    fn child_zones(&self) -> Vec<ChildZone> {
        let child = |child: &ZoneName| {
            let parents = self.zones.iter().filter_map(|zone| {
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
        let zones = self.zones.iter().map(|zone| &zone.name);
        zones.filter_map(child).collect()
    }

    /// Returns the zones to answer for, with the addresses of their name server.
    pub fn zones(&self, ns_addresses: &[IpAddr]) -> Zones {
        let zone = |zone: &ZoneSetting| Zone {
            name: zone.name.clone(),
            ttl: self.ttl,
            ns_addresses: ns_addresses.to_vec(),
            grammar: zone.grammar,
        };
        Zones(self.zones.iter().map(zone).collect())
    }

    /// Returns the namespaces of Links. None if Links are not read.
    pub fn links_namespaces(&self) -> &[Namespace] {
        match self.links.enabled {
            true => &self.links.namespaces,
            false => &[],
        }
    }

    /// Returns how queries for names in the zones are answered; `own` are the addresses of this pod and its node.
    pub fn responses(&self, zones: Zones, own: &[IpAddr]) -> ResponseSettings {
        let answers = &self.answers;
        ResponseSettings {
            zones,
            access: match self.limits.allow.as_slice() {
                [] => Access::around(own),
                given => Access(given.to_vec()),
            },
            order: answers.order,
            udp_max: answers.udp_max,
            server_id: match answers.server_id.as_str() {
                "" => host_name(),
                given => given.to_owned(),
            },
        }
    }

    /// Returns the files of the encrypted listeners, or `None` if there is no listener.
    pub fn certificate(&self) -> Option<Files> {
        let is_set = |path: &&PathBuf| !path.as_os_str().is_empty();
        let has_listener = !self.listen.tls.is_empty() || !self.listen.quic.is_empty();
        has_listener.then(|| Files {
            certificate: self.tls.certificate.clone(),
            key: self.tls.key.clone(),
            client_ca: Some(&self.tls.client_ca).filter(is_set).cloned(),
        })
    }
}

/// Returns the number of octets after the label of the namespace in the names of a zone.
fn longest_base(zone: &ZoneSetting) -> usize {
    let own = zone.name.wire().len();
    match zone.grammar {
        Grammar::Global => own,
        Grammar::Mcs => own + b"\x03svc".len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_below_another_one_is_a_child_of_the_nearest() {
        let zones = [
            "global",
            "prod.global",
            "set=mcs",
            "xglobal",
            "svc.set=mcs",
            "a.b.prod.global",
        ];
        let settings = Settings {
            zones: zones.map(|zone| zone.parse().unwrap()).into(),
            ..Settings::default()
        };
        let rules = settings.rules();
        let children = rules.child_zones.iter().map(|child| {
            let (name, parent) = (child.name.as_str(), child.parent.as_str());
            (name, parent, child.parent_grammar, child.labels.join(" "))
        });
        let global = Grammar::Global;
        assert_eq!(
            children.collect::<Vec<_>>(),
            [
                ("prod.global.", "global.", global, "prod".to_owned()),
                ("svc.set.", "set.", Grammar::Mcs, "svc".to_owned()),
                ("a.b.prod.global.", "prod.global.", global, "a b".to_owned()),
            ]
        );
    }
}
