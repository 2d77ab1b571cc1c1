//! A hash map whose copies share what they have in common, so that the next generation of the table costs what changed
//! and not what there is.
//!
//! Entries are spread over small shards by their hashes. A copy copies the list of shards; an insertion copies one shard
//! if anybody else has it too. Finding an entry touches a shard's place in the list, its entries, and the one that was
//! looked for.
//!
//! Measured beside `HashTrieMapSync` of `rpds` with the same hasher, texts as keys (the table of 100,000 endpoints has maps
//! of 200 to 10,000 entries):
//!
//! | entries | look-up, ns | building, ms | octets for each entry | copying and changing one, µs |
//! |---|---|---|---|---|
//! | 200 | 30 (`rpds`: 28) | 0.03 (0.02) | 37 (108) | 0.3 (0.5) |
//! | 10,000 | 53 (59) | 2.0 (1.7) | 40 (110) | 17 (1) |
//! | 100,000 | 248 (407) | 30 (74) | 37 (104) | 133 (2) |
//!
//! In addition, a copy that did not change is equal at once, which is asked for every build.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;

use foldhash::fast::RandomState;

/// A hash map, cheap to copy and to change a copy of.
#[derive(Clone)]
pub struct SharedMap<K, V> {
    /// A power of two of them.
    shards: Arc<Vec<Shard<K, V>>>,
    len: usize,
    /// Seeded at random: who names Services must not be able to crowd a shard.
    hasher: RandomState,
}

type Shard<K, V> = Arc<Vec<Entry<K, V>>>;

#[derive(Clone)]
struct Entry<K, V> {
    hash: u64,
    key: K,
    value: V,
}

/// Entries for each shard, on average, beyond which there are twice as many shards.
const CROWD: usize = 8;

// === impl SharedMap ===

impl<K: Hash + Eq + Clone, V: Clone> SharedMap<K, V> {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Tells whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Finds the value of a key.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let mut entries = self.shards[self.shard_of(hash)].iter();
        let found = entries.find(|entry| entry.hash == hash && entry.key.borrow() == key)?;
        Some(&found.value)
    }

    /// Sets the value of a key, and returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.len >= CROWD * self.shards.len() {
            self.spread();
        }
        let hash = self.hasher.hash_one(&key);
        let entries = self.entries_mut(hash);
        let mut own = entries.iter_mut();
        if let Some(found) = own.find(|entry| entry.hash == hash && entry.key == key) {
            return Some(std::mem::replace(&mut found.value, value));
        }
        entries.reserve_exact(1);
        entries.push(Entry { hash, key, value });
        self.len += 1;
        None
    }

    /// Removes a key, and returns its value.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let hash = self.hasher.hash_one(key);
        let entries = self.entries_mut(hash);
        let found = entries
            .iter()
            .position(|entry| entry.hash == hash && entry.key.borrow() == key)?;
        let removed = entries.swap_remove(found);
        self.len -= 1;
        Some(removed.value)
    }

    /// Returns every entry, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let entries = self.shards.iter().flat_map(|shard| shard.iter());
        entries.map(|entry| (&entry.key, &entry.value))
    }

    /// Returns every entry, sorted by key.
    pub fn sorted(&self) -> Vec<(&K, &V)>
    where
        K: Ord,
    {
        let mut entries: Vec<_> = self.iter().collect();
        entries.sort_by_key(|(key, _)| *key);
        entries
    }

    /// Tells whether this is a copy of another map that nothing was done to since.
    pub fn is_copy_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shards, &other.shards)
    }

    fn shard_of(&self, hash: u64) -> usize {
        hash as usize & (self.shards.len() - 1)
    }

    fn entries_mut(&mut self, hash: u64) -> &mut Vec<Entry<K, V>> {
        let shard = self.shard_of(hash);
        Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[shard])
    }

    /// Doubles the number of shards.
    fn spread(&mut self) {
        let count = 2 * self.shards.len();
        let mut shards = vec![Vec::new(); count];
        for entry in self.shards.iter().flat_map(|shard| shard.iter()) {
            let shard: &mut Vec<_> = &mut shards[entry.hash as usize & (count - 1)];
            shard.push(entry.clone());
        }
        let shrunk = shards.into_iter().map(|mut shard| {
            shard.shrink_to_fit();
            Arc::new(shard)
        });
        self.shards = Arc::new(shrunk.collect());
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self {
            shards: Arc::new(vec![Arc::new(Vec::new())]),
            len: 0,
            hasher: RandomState::default(),
        }
    }
}

impl<K: Hash + Eq + Clone, V: Clone + PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        let has = |(key, value): (&K, &V)| other.get(key) == Some(value);
        self.is_copy_of(other) || (self.len == other.len && self.iter().all(has))
    }
}

impl<K: Hash + Eq + Clone + fmt::Debug, V: Clone + fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map_and_its_copies_keep_what_they_had(
            steps in prop::collection::vec((0_u8..200, any::<Option<u16>>()), 0..400)
        ) {
            let (mut map, mut plain) = (SharedMap::<u8, u16>::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for (index, (key, value)) in steps.into_iter().enumerate() {
                if index % 50 == 0 {
                    copies.push((map.clone(), plain.clone()));
                }
                match value {
                    Some(value) => prop_assert_eq!(map.insert(key, value), plain.insert(key, value)),
                    None => prop_assert_eq!(map.remove(&key), plain.remove(&key)),
                }
                prop_assert_eq!(map.get(&key), plain.get(&key));
                prop_assert_eq!(map.len(), plain.len());
            }
            copies.push((map, plain));
            for (map, plain) in copies {
                prop_assert_eq!(map.sorted(), plain.iter().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_change_copies_one_shard() {
        let mut map = SharedMap::default();
        for number in 0..10_000_u32 {
            map.insert(number, number);
        }
        // Small ones, and no more of them than that takes.
        let fullest = map.shards.iter().map(|shard| shard.len()).max();
        assert!(fullest.unwrap() <= 8 * CROWD, "{fullest:?}");
        assert_eq!(
            map.shards.len(),
            (10_000_usize.div_ceil(CROWD)).next_power_of_two()
        );
        let before = map.clone();
        map.insert(77, 0);
        let pairs = before.shards.iter().zip(map.shards.iter());
        assert_eq!(
            pairs
                .filter(|(one, other)| !Arc::ptr_eq(one, other))
                .count(),
            1
        );
    }

    #[test]
    fn maps_are_equal_if_their_entries_are() {
        let map = |pairs: &[(u32, &'static str)]| {
            let mut map = SharedMap::default();
            for (key, value) in pairs {
                map.insert(*key, *value);
            }
            map
        };
        let one = map(&[(1, "a"), (2, "b")]);
        assert!(one == one.clone() && one.is_copy_of(&one.clone()));
        assert!(one == map(&[(2, "b"), (1, "a")]));
        assert!(!one.is_copy_of(&map(&[(1, "a"), (2, "b")])));
        for other in [
            &[(1, "a")][..],
            &[(1, "a"), (2, "c")],
            &[(1, "a"), (3, "b")],
        ] {
            assert!(one != map(other) && map(other) != one, "{other:?}");
        }
        assert!(map(&[]).is_empty() && !one.is_empty());
    }
}
