//! A hash map that shares entries between clones. The cost of the next table then depends on the changes, not on the
//! size of the table.

use std::hash::Hash;

use foldhash::fast::RandomState;
use rpds::HashTrieMapSync;

/// A hash map with clones that are cheap to make and to change. The hasher has a random seed, so that the names of Services
/// cannot be chosen to collide.
pub(super) type SharedMap<K, V> = HashTrieMapSync<K, V, RandomState>;

/// Sets the value of a key, or removes it. Returns whether that is a change; otherwise nothing is copied.
pub(super) fn set<K: Hash + Eq + Clone, V: PartialEq>(
    map: &mut SharedMap<K, V>,
    key: &K,
    value: Option<V>,
) -> bool {
    if map.get(key) == value.as_ref() {
        return false;
    }
    match value {
        Some(value) => map.insert_mut(key.clone(), value),
        None => _ = map.remove_mut(key),
    }
    true
}
