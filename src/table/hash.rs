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
        let owner = self
            .short_service(name)
            .filter(|one| one.has_names_at(&[]))?;
        let hidden = self.short_name(name)?.problems.iter().map(Problem::subject);
        Some((&owner.key, hidden.collect()))
    }

    /// Returns a hash of all answers, by which operators compare replicas. It has 53 bits, so that a floating-point number represents
    /// it exactly. It is a sum, which does not depend on the order: one hash for each service with names, and for each short name with
    /// an owner, with the names that others hide.
    pub fn answers_hash(&self) -> u64 {
        let services = self.services().filter_map(|one| one.answers);
        let owners = self
            .short_names
            .keys()
            .filter_map(|name| Some(hash_of(&("short name", self.short_answers(name.as_str())?))));
        services.chain(owners).fold(0, u64::wrapping_add) >> EXCESS
    }
}

// === impl Service ===

impl Service {
    /// Returns a hash of the answers at its names, if it has names. It covers its key, whether its name fails, its hosts without
    /// endpoint mirrors, its TTL, its endpoints (cluster, hostname, addresses and ports), and which of them each of its names returns.
    ///
    /// Services with the same answers have the same hash in every process of one version on machines with the same size and order of
    /// words. The hasher of the standard library without a seed is enough, because the hash does not protect against forgery.
    pub(super) fn hash_of_answers(&self) -> Option<u64> {
        self.has_names_at(&[]).then(|| hash_of(self))
    }
}

/// Returns the hash of something.
fn hash_of(part: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

/// Feeds what answers of the service depend on.
impl Hash for Service {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.key, self.failure.is_some()).hash(state);
        self.alone.hash(state);
        self.missing_clusters().hash(state);
        self.missing
            .iter()
            .map(MissingHost::labels)
            .filter(|labels| self.endpoints_at(labels).is_empty())
            .collect::<BTreeSet<_>>()
            .hash(state);
        if self.endpoints.is_empty() {
            return;
        }
        self.ttl.hash(state);
        self.endpoints.hash(state);
        let same_ports = |one: &Endpoint, other: &Endpoint| one.ports == other.ports;
        for with_ports in self.endpoints.chunk_by(same_ports) {
            (with_ports.len(), &*with_ports[0].ports).hash(state);
        }
        let all = self.names.members(0..self.endpoints.len(), &[]);
        let own = all.requiring(Property::Selected);
        own.iter().for_each(|index| index.hash(state));
        let ports: Vec<&[u64]> = self
            .names
            .named_ports(&self.endpoints)
            .map(|(_, endpoints)| endpoints)
            .collect();
        self.hash_answered(&own, &ports, state);
        let mut start = 0;
        for of_cluster in self.by_cluster() {
            let end = start + of_cluster.len();
            self.hash_answered(&all.within(start..end), &ports, state);
            start = end;
        }
    }
}

impl Service {
    /// Feeds which endpoints a name and its `_P._R.` forms return. If the name returns all, so do these.
    fn hash_answered(&self, name: &Members<'_>, ports: &[&[u64]], state: &mut impl Hasher) {
        let count = name.clone().answered(self.gateway_down).count();
        (name.count() - count).hash(state);
        if count == name.count() {
            return;
        }
        for port in iter::once(&&[][..]).chain(ports) {
            let answered = name.having(port).answered(self.gateway_down);
            answered.count().hash(state);
            answered.iter().for_each(|index| index.hash(state));
        }
    }
}

/// Feeds what identifies the endpoint, and its addresses.
impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.labels().hash(state);
        self.addresses.len().hash(state);
        self.addresses
            .iter()
            .for_each(|address| address.ip.hash(state));
    }
}
