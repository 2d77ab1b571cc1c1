//! Since when the problems of a service hold, and since when its endpoints are down or not ready.
//!
//! A build compares each service with its version in the last table: a fact that holds in both keeps its time. So a later
//! reader of an older table finds the times that were known then.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use super::endpoint::Endpoint;
use crate::model::Timestamp;

/// The times since which facts hold, by the hashes of these facts, sorted. What is as it should be has no time, so that
/// healthy endpoints cost no memory.
///
/// Times are no part of what a service is: versions of it that differ in nothing else are equal. So a build that changes only
/// times publishes nothing, and partial builds equal a full one.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Box<[(u64, Timestamp)]>);

// === impl Times ===

impl Times {
    /// Returns the times of facts: those in `old`, or else `now`.
    pub(super) fn of(facts: impl Iterator<Item = u64>, old: &Self, now: Timestamp) -> Self {
        let time = |fact| (fact, old.get(fact).unwrap_or(now));
        facts.map(time).collect()
    }

    /// Returns their number.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the time of a fact.
    pub(super) fn get(&self, fact: u64) -> Option<Timestamp> {
        let index = self.0.binary_search_by_key(&fact, |(hash, _)| *hash);
        Some(self.0[index.ok()?].1)
    }
}

impl FromIterator<(u64, Timestamp)> for Times {
    fn from_iter<T: IntoIterator<Item = (u64, Timestamp)>>(times: T) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_unstable();
        Self(times.into())
    }
}

impl PartialEq for Times {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Times {}

/// Returns the hash of a fact, by which its time is found.
pub(super) fn hash(fact: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    fact.hash(&mut hasher);
    hasher.finish()
}

/// Returns the hash of the fact that an endpoint is down or not ready.
pub(super) fn hash_endpoint(endpoint: &Endpoint) -> u64 {
    // A pod that is not ready counts as alive. A ready pod may have its name, but not its addresses.
    let addresses = endpoint.addresses.iter().map(|address| address.ip);
    let addresses: Option<Vec<_>> = endpoint.is_alive().then(|| addresses.collect());
    hash((endpoint.name(), addresses))
}

#[cfg(test)]
mod tests;
