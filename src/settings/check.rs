//! Checks the values that must fit together.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};

use super::Settings;
use crate::model::ClusterName;
use crate::table::{Aliases, DEFAULT_CLUSTER_NAME};
use crate::zone::ZoneName;

impl Settings {
    /// Returns the path of the first value that is out of range, or that does not fit to another one, and a sentence.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.answers.server_id.len() <= 64,
            "answers.serverId: it has more than 64 octets"
        );
        self.check_periods()?;
        self.check_cluster_names()?;
        self.check_zones().context("zones")?;
        Aliases::new(self.aliases.clone()).map_err(|why| anyhow!("aliases: {why}"))?;
        self.check_listeners()?;
        self.check_tls()
    }

    /// Returns an error if two listeners over TCP have one address. DNS binds it at the start, and listens when there is a table.
    fn check_listeners(&self) -> anyhow::Result<()> {
        let listen = &self.listen;
        let mut taken = BTreeMap::new();
        for (field, given) in [
            ("listen.dns (--listen)", &listen.dns),
            ("listen.admin (--admin-listen)", &listen.admin),
            ("listen.api (--api-listen)", &listen.api),
            ("listen.tls", &listen.tls),
        ] {
            for address in given.iter().flat_map(|one| one.addresses()) {
                // The system chooses another port for each port 0.
                if let Some(other) = taken.insert(address, field)
                    && address.port() != 0
                {
                    bail!("{other} and {field} have one address, {address}: choose another port");
                }
            }
        }
        Ok(())
    }

    /// Returns an error if a duration is longer than anybody waits.
    fn check_periods(&self) -> anyhow::Result<()> {
        for (path, period, hours) in [
            ("failover.delay", self.failover.delay, 1),
            ("failover.back", self.failover.back, 24),
            ("links.unlinkedAfter", self.links.unlinked_after, 168),
            ("history", self.history, 720),
            ("grace", self.grace, 1),
        ] {
            ensure!(
                period.0 <= Duration::from_hours(hours),
                "{path}: {period} is more than {hours}h"
            );
        }
        Ok(())
    }

    /// Returns an error if a cluster has a name that has another meaning in a failover order (rule K5a). This cluster is `local`
    /// there, whatever its name is.
    fn check_cluster_names(&self) -> anyhow::Result<()> {
        let check = |path: &str, name: &ClusterName| match name.as_str() {
            "auto" | "local" => {
                bail!("{path}: '{name}' is a word of failover orders, and no name")
            }
            _ => Ok(()),
        };
        if self.cluster_name.as_str() != DEFAULT_CLUSTER_NAME {
            check("clusterName", &self.cluster_name)?;
        }
        for (link, name) in &self.cluster_aliases {
            check(&format!("clusterAliases.{link}"), name)?;
        }
        Ok(())
    }

    /// Returns an error if the zones cannot be served together.
    fn check_zones(&self) -> anyhow::Result<()> {
        let zones = || self.zones.iter().map(|zone| &zone.name);
        ensure!(
            !self.zones.is_empty(),
            "there is no zone; name at least one, such as global"
        );
        // The name server of the other zone would be a name in this zone, where it does not exist.
        let hides = |zone: &ZoneName, other: &ZoneName| {
            let above = zone.as_str().strip_suffix(other.as_str());
            above.is_some_and(|above| above == "dns." || above == "ns.dns.")
        };
        for (index, zone) in zones().enumerate() {
            if zones().take(index).any(|one| one == zone) {
                bail!("zone {zone} is given twice: give each zone once");
            }
            if let Some(other) = zones().find(|other| hides(zone, other)) {
                bail!(
                    "zone {zone} holds the name of the server of zone {other}: choose another zone"
                );
            }
        }
        self.check_zone_clusters()
    }

    /// Returns an error if a zone is of a cluster that has no mirrors here, or another name.
    fn check_zone_clusters(&self) -> anyhow::Result<()> {
        for zone in &self.zones {
            let (name, Some(cluster)) = (&zone.name, zone.grammar.cluster()) else {
                continue;
            };
            let mut renamed = self.cluster_aliases.values();
            let alias = self.cluster_aliases.get(cluster);
            if *cluster == self.cluster_name {
                bail!(
                    "zone {name} is of '{cluster}', this cluster (clusterName), whose names its own DNS answers: name another cluster"
                );
            } else if self.exclude_clusters.contains(cluster) {
                bail!(
                    "zone {name} is of cluster '{cluster}', which excludeClusters excludes: remove one of them"
                );
            } else if let Some(alias) = alias.filter(|_| renamed.all(|new| new != cluster)) {
                bail!(
                    "zone {name} is of cluster '{cluster}', which clusterAliases calls '{alias}': name that"
                );
            }
        }
        Ok(())
    }

    /// Checks that no zone of another cluster is this cluster's own domain, or above or below it. The kubelet writes the domain into the
    /// search list in `/etc/resolv.conf`, `search prod.svc.cluster.local svc.cluster.local cluster.local`, unless a pod has the DNS of its
    /// node; and for a pod with a subdomain into `/etc/hosts`: `10.0.0.1 POD.SUBDOMAIN.prod.svc.cluster.local POD`.
    ///
    /// # Errors
    ///
    /// For the first zone that is. `files` is the text of these files.
    pub fn check_cluster_domain(&self, files: &str) -> anyhow::Result<()> {
        let domains = files
            .split_whitespace()
            .filter_map(|word| word.split_once(".svc."));
        for domain in domains.filter_map(|(_, domain)| domain.parse::<ZoneName>().ok()) {
            for zone in &self.zones {
                let (name, Some(cluster)) = (&zone.name, zone.grammar.cluster()) else {
                    continue;
                };
                let place = if *name == domain {
                    "is"
                } else if name.is_below(&domain) {
                    "is below"
                } else if domain.is_below(name) {
                    "is above"
                } else {
                    continue;
                };
                bail!(
                    "zones: zone {name} {place} the domain of this cluster, {domain} (clusterDomain of its kubelets): choose the \
                     domain of cluster '{cluster}'"
                );
            }
        }
        Ok(())
    }

    /// Returns an error if an encrypted listener has no certificate, or if a file has no effect.
    fn check_tls(&self) -> anyhow::Result<()> {
        let has_listener = self.has_encrypted_listener();
        for (path, file, is_required) in [
            ("tls.certificate", &self.tls.certificate, true),
            ("tls.key", &self.tls.key, true),
            ("tls.clientCa", &self.tls.client_ca, false),
        ] {
            let why = match (has_listener, file.as_os_str().is_empty()) {
                (true, true) if is_required => {
                    "it is empty, but listen.tls and listen.quic need it"
                }
                (false, false) => {
                    "it has no effect without an address in listen.tls or listen.quic"
                }
                _ => continue,
            };
            bail!("{path}: {why}");
        }
        Ok(())
    }
}
