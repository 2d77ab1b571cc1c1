//! Computes one number for all answers of a table, by which operators compare replicas, and one for those of a service, by which a
//! build knows whether they changed.
//!
//! The hash is a sum, which does not depend on the order: one hash for each service with names, and for each short name with an
//! owner, with the names that canonical names hide. That of a service covers its key, whether its name
//! fails, its hosts without endpoint mirrors, its TTL, its endpoints (cluster, hostname, addresses and ports), and which of them
//! each of its names returns.
//!
//! Tables with the same answers have the same hash in every process of one version on machines with the same size and order of
//! words. The hasher of the standard library without a seed is enough, because the hash does not protect against forgery.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::content::Table;
use super::endpoint::{Endpoint, MissingHost};
use super::name_index::{Members, Property};
use super::service::Service;

/// Number of low bits that are dropped. Metrics are floating-point numbers, which have a mantissa of 53 bits.
const EXCESS: u32 = u64::BITS - f64::MANTISSA_DIGITS;

// === impl Table ===

impl Table {
    /// Returns a hash of all answers. It has 53 bits, so that a floating-point number represents it exactly.
    pub fn answers_hash(&self) -> u64 {
        let services = self.services().filter_map(|one| answers_hash(Some(one)));
        let short = self.short_names.keys();
        let owners = short.filter_map(|name| {
            let answers = self.short_answers(name.as_str())?;
            Some(hash_of(&("short name", answers)))
        });
        let parts = services.chain(owners);
        parts.fold(0, u64::wrapping_add) >> EXCESS
    }
}

/// Returns a hash of the answers at the names of a service, if it has names.
pub(super) fn answers_hash(service: Option<&Service>) -> Option<u64> {
    service.filter(|one| one.has_names_at(&[])).map(hash_of)
}

fn hash_of(part: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

/// Feeds what answers of the service depend on.
impl Hash for Service {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.key, self.failure.is_some()).hash(state);
        let missing = self.missing.iter().map(MissingHost::labels);
        let missing = missing.filter(|labels| self.endpoints_at(labels).is_empty());
        missing.collect::<BTreeSet<_>>().hash(state);
        if self.endpoints.is_empty() {
            return;
        }
        (self.ttl, &self.endpoints).hash(state);
        let mut feed = |name: Members<'_>| {
            let answered = name.answered(self.gateway_down);
            answered.count().hash(state);
            answered.iter().for_each(|endpoint| endpoint.hash(state));
        };
        let ports = self.names.named_ports(&self.endpoints);
        for port in std::iter::once(&[][..]).chain(ports.map(|(_, endpoints)| endpoints)) {
            let all = self.names.members(0..self.endpoints.len(), port);
            feed(all.requiring(Property::Selected));
            for of_cluster in self.by_cluster() {
                feed(all.within(self.range_at(&of_cluster[0].labels()[1..])));
            }
        }
    }
}

/// Feeds what identifies the endpoint, and its data in answers.
impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.labels(), &*self.ports).hash(state);
        self.addresses.len().hash(state);
        let addresses = self.addresses.iter();
        addresses.for_each(|address| address.ip.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use crate::table::Table;
    use crate::testing::{flat_mirror, local, table};

    /// Replicas with these tables have the same endpoints, but their answers differ.
    #[test]
    fn selected_endpoints_change_the_hash() {
        let of_order = |order: &str| {
            let [mut service, slice] = local("prod", "db", &[("db-0", "10.0.0.1", true)]);
            service["metadata"]["annotations"]["global-dns/failover"] = json!(order);
            let mirror = flat_mirror("prod", "db", "west", "10.96.0.9");
            table(&[mirror, service, slice])
        };
        let tables = ["local:west", "west:local", "*"].map(of_order);
        let counts = tables.each_ref().map(|table| {
            let service = table.service("prod", "db").unwrap();
            (service.endpoints.len(), service.names.v4.len())
        });
        assert_eq!(counts, [(2, 1), (2, 1), (2, 2)]);
        let hashes: BTreeSet<u64> = tables.iter().map(Table::answers_hash).collect();
        assert_eq!(hashes.len(), 3);
    }
}
