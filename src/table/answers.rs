//! What the answers of a table depend on, and their hash, by which replicas and versions are compared.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter;

use super::content::Table;
use super::endpoint::{Endpoint, MissingHost};
use super::name_index::{Members, Property};
use super::service::Service;
use crate::model::{Line, Problem, ServiceKey};

/// Number of low bits that are dropped. Metrics are floating-point numbers, which have a mantissa of 53 bits.
const EXCESS: u32 = u64::BITS - f64::MANTISSA_DIGITS;

// === impl Table ===

impl Table {
    /// Returns what the answers at a short name depend on, besides the service that owns it: its key, if it has names, and the names
    /// that others hide.
    pub(super) fn short_answers(&self, name: &str) -> Option<(&ServiceKey, Vec<Line>)> {
        let owner = self.short_service(name);
        let owner = owner.filter(|one| one.has_names_at(&[]))?;
        let hidden = self.short_name(name)?.problems.iter().map(Problem::subject);
        Some((&owner.key, hidden.collect()))
    }

    /// Returns a hash of all answers, by which operators compare replicas. It has 53 bits, so that a floating-point number represents
    /// it exactly. It is a sum, which does not depend on the order: one hash for each service with names, and for each short name with
    /// an owner, with the names that others hide.
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

/// Returns a hash of the answers at the names of a service, if it has names. It covers its key, whether its name fails, its hosts
/// without endpoint mirrors, its TTL, its endpoints (cluster, hostname, addresses and ports), and which of them each of its names
/// returns.
///
/// Services with the same answers have the same hash in every process of one version on machines with the same size and order of
/// words. The hasher of the standard library without a seed is enough, because the hash does not protect against forgery.
pub(super) fn answers_hash(service: Option<&Service>) -> Option<u64> {
    service.filter(|one| one.has_names_at(&[])).map(hash_of)
}

/// Returns whether two versions of a service differ in their answers.
pub(super) fn answers_differ(old: Option<&Service>, new: Option<&Service>) -> bool {
    let [before, after] = [old, new].map(|one| one.map_or(&[][..], |one| &*one.endpoints));
    // The data of an endpoint changes more often than what its names return, and is found without hashes.
    let mut pairs = before.iter().zip(after);
    before.len() != after.len()
        || !pairs.all(|(before, after)| before.has_same_data(after))
        || answers_hash(old) != answers_hash(new)
}

/// Returns the hash of something.
pub(super) fn hash_of(part: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

/// Feeds what answers of the service depend on.
impl Hash for Service {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.key, self.failure.is_some()).hash(state);
        self.missing_clusters().hash(state);
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
        for port in iter::once(&[][..]).chain(ports.map(|(_, endpoints)| endpoints)) {
            let all = self.names.members(0..self.endpoints.len(), port);
            feed(all.requiring(Property::Selected));
            let mut start = 0;
            for of_cluster in self.by_cluster() {
                let end = start + of_cluster.len();
                feed(all.within(start..end));
                start = end;
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
