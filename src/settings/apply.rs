//! What the settings mean for the table, the zones and the server.

use std::net::IpAddr;
use std::path::PathBuf;

use super::{Settings, ZoneSetting};
use crate::model::Namespace;
use crate::server::encrypted::CertificateFiles;
use crate::server::platform::host_name;
use crate::table::{Aliases, Rules, ShortNames};
use crate::wire::{Access, ResponseSettings};
use crate::zone::{Grammar, Zone, Zones};

impl Settings {
    /// Returns the rules that the table is built by.
    pub fn rules(&self) -> Rules {
        let short = &self.short_names;
        let has = |grammar| self.zones.iter().any(|zone| zone.grammar == grammar);
        Rules {
            cluster_name: self.cluster_name.clone(),
            cluster_aliases: self.cluster_aliases.clone(),
            excluded_clusters: self.exclude_clusters.iter().cloned().collect(),
            ttl: self.ttl,
            gateway_down: self.gateway_down,
            local_members: self.local_members,
            // The grammar `mcs` has no short names.
            short_names: if has(Grammar::Global) {
                short.which
            } else {
                ShortNames::None
            },
            pinned_names: short.pinned.clone(),
            default_namespace: short.default_namespace.clone(),
            longest_zone: self
                .zones
                .iter()
                .map(longest_base)
                .max()
                .unwrap_or_default(),
            // The settings are checked when they are read.
            aliases: Aliases::new(self.aliases.clone()).unwrap_or_default(),
            services: self.services.clone(),
            failover: self.failover.default.clone(),
            failover_delay: self.failover.delay.0,
            failback_delay: self.failover.back.0,
            unlinked_after: self.links.unlinked_after.0,
            has_mcs_zones: has(Grammar::Mcs),
            zone_clusters: self
                .zones
                .iter()
                .filter_map(|zone| zone.grammar.cluster())
                .cloned()
                .collect(),
        }
    }

    /// Returns the zones to answer for, with the addresses of their name server.
    pub fn zones(&self, ns_addresses: &[IpAddr]) -> Zones {
        let zone = |zone: &ZoneSetting| Zone {
            name: zone.name.clone(),
            ttl: self.ttl,
            ns_addresses: ns_addresses.to_vec(),
            grammar: zone.grammar.clone(),
        };
        Zones(self.zones.iter().map(zone).collect())
    }

    /// Returns the namespaces of Links. None if Links are not read.
    pub fn links_namespaces(&self) -> &[Namespace] {
        if self.links.enabled {
            &self.links.namespaces
        } else {
            &[]
        }
    }

    /// Returns how queries for names in the zones are answered; `own` are the addresses of this pod and its node.
    pub fn responses(&self, zones: Zones, own: &[IpAddr]) -> ResponseSettings {
        let answers = &self.answers;
        ResponseSettings {
            zones,
            access: Access::new(&self.limits.allow, own),
            order: answers.order,
            udp_max: answers.udp_max,
            server_id: match answers.server_id.as_str() {
                "" => host_name(),
                given => given.to_owned(),
            },
        }
    }

    /// Returns the files of the encrypted listeners, or `None` if there is no listener.
    pub fn certificate(&self) -> Option<CertificateFiles> {
        let is_set = |path: &PathBuf| !path.as_os_str().is_empty();
        self.has_encrypted_listener().then(|| CertificateFiles {
            certificate: self.tls.certificate.clone(),
            key: self.tls.key.clone(),
            client_ca: Some(self.tls.client_ca.clone()).filter(is_set),
        })
    }

    /// Returns whether something needs the certificate.
    pub(super) fn has_encrypted_listener(&self) -> bool {
        !self.listen.tls.is_empty() || !self.listen.quic.is_empty()
    }
}

/// Returns the number of octets after the label of the namespace in the names of a zone.
fn longest_base(zone: &ZoneSetting) -> usize {
    let own = zone.name.wire().len();
    match &zone.grammar {
        Grammar::Global => own,
        Grammar::Mcs => own + b"\x03svc".len(),
        // The names lack the label of their cluster.
        Grammar::Cluster(cluster) => own.saturating_sub(1 + cluster.as_str().len()),
    }
}
