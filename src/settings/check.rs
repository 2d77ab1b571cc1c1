//! Checks the values that must fit together, and the ranges of numbers.

use std::ops::RangeInclusive;

use super::Settings;
use crate::model::TTL_RANGE;
use crate::table::DEFAULT_CLUSTER_NAME;
use crate::zone::ZoneName;

/// What is wrong: the path of a setting, and a sentence.
pub(super) type Defect = (String, String);

impl Settings {
    /// Returns an error for the first value that is out of range, or that does not fit to another one.
    pub(super) fn check(&self) -> Result<(), Defect> {
        let (answers, limits) = (&self.answers, &self.limits);
        in_range("ttl", self.ttl, &TTL_RANGE)?;
        for (service, settings) in &self.services {
            if let Some(ttl) = settings.ttl {
                in_range(&format!("services.{service}.ttl"), ttl, &TTL_RANGE)?;
            }
        }
        in_range("answers.udpMax", answers.udp_max, &(512..=4096))?;
        let octets = "answers.serverId: the number of octets";
        in_range(octets, answers.server_id.len(), &(0..=128))?;
        in_range("limits.connections", limits.connections, &(2..=100_000))?;
        in_range("limits.udpWorkers", limits.udp_workers, &(0..=256))?;
        self.check_cluster_names()?;
        self.check_zones()?;
        let aliases = self.aliases();
        aliases.map_err(|error| ("aliases".to_owned(), error.to_string()))?;
        self.check_tls()
    }

    /// Returns an error if a cluster has a name that has another meaning in a failover order (rule K5a). This cluster is `local`
    /// there, whatever its name is.
    fn check_cluster_names(&self) -> Result<(), Defect> {
        let own = ("clusterName".to_owned(), &self.cluster_name);
        let own = Some(own).filter(|(_, name)| name.as_str() != DEFAULT_CLUSTER_NAME);
        let aliases = self.cluster_aliases.iter();
        let aliases = aliases.map(|(link, name)| (format!("clusterAliases.{link}"), name));
        let mut names = own.into_iter().chain(aliases);
        match names.find(|(_, name)| matches!(name.as_str(), "auto" | "local")) {
            Some((path, name)) => {
                let sentence = format!("'{name}' is a word of failover orders, and no name");
                Err((path, sentence))
            }
            None => Ok(()),
        }
    }

    /// Returns an error if the zones cannot be served together.
    fn check_zones(&self) -> Result<(), Defect> {
        let defect = |sentence: String| Err(("zones".to_owned(), sentence));
        let zones = || self.zones.iter().map(|zone| &zone.name);
        if self.zones.is_empty() {
            return defect("there is no zone; name at least one, such as global".to_owned());
        }
        // The name server of the other zone would be a name in this zone, where it does not exist.
        let hides = |zone: &ZoneName, other: &ZoneName| {
            let above = zone.as_str().strip_suffix(other.as_str());
            above.is_some_and(|above| above == "dns." || above == "ns.dns.")
        };
        for (index, zone) in zones().enumerate() {
            if zones().take(index).any(|one| one == zone) {
                return defect(format!("zone {zone} is given twice: give each zone once"));
            }
            if let Some(other) = zones().find(|other| hides(zone, other)) {
                return defect(format!(
                    "zone {zone} holds the name of the server of zone {other}: choose another zone"
                ));
            }
        }
        Ok(())
    }

    /// Returns an error if an encrypted listener has no certificate, or if a file has no effect.
    fn check_tls(&self) -> Result<(), Defect> {
        let has_listener = !self.listen.tls.is_empty() || !self.listen.quic.is_empty();
        for (path, file, is_required) in [
            ("tls.certificate", &self.tls.certificate, true),
            ("tls.key", &self.tls.key, true),
            ("tls.clientCa", &self.tls.client_ca, false),
        ] {
            let sentence = match (has_listener, file.as_os_str().is_empty()) {
                (true, true) if is_required => {
                    "it is empty, but listen.tls and listen.quic need it"
                }
                (false, false) => {
                    "it has no effect without an address in listen.tls or listen.quic"
                }
                _ => continue,
            };
            return Err((path.to_owned(), sentence.to_owned()));
        }
        Ok(())
    }
}

fn in_range<T: PartialOrd + std::fmt::Display>(
    path: &str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), Defect> {
    let (least, most) = (range.start(), range.end());
    let sentence = || format!("{value} is not between {least} and {most}");
    match range.contains(&value) {
        true => Ok(()),
        false => Err((path.to_owned(), sentence())),
    }
}
