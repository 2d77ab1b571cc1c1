//! A list that mostly has one entry, such as the addresses of a Service.

use std::ops::{Deref, DerefMut};

/// A list with a fixed number of entries. One entry is in place; several have an allocation. There are some of these lists
/// for each endpoint, so each octet counts: a list of addresses has 24, a vector with one entry in place that can grow has 32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Few<T>(Entries<T>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entries<T> {
    One(T),
    /// Not one.
    Others(Box<[T]>),
}

// === impl Few ===

impl<T> Few<T> {
    /// Makes a list with one entry.
    pub fn one(entry: T) -> Self {
        Self(Entries::One(entry))
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Entries::Others(Box::default()))
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut entries = entries.into_iter();
        let Some(first) = entries.next() else {
            return Self::default();
        };
        match entries.next() {
            None => Self::one(first),
            Some(second) => {
                let all = [first, second].into_iter().chain(entries);
                Self(Entries::Others(all.collect()))
            }
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Entries::One(entry) => std::slice::from_ref(entry),
            Entries::Others(entries) => entries,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Entries::One(entry) => std::slice::from_mut(entry),
            Entries::Others(entries) => entries,
        }
    }
}

impl<'f, T> IntoIterator for &'f Few<T> {
    type Item = &'f T;
    type IntoIter = std::slice::Iter<'f, T>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn list_has_its_entries_however_many() {
        for count in 0..4 {
            let numbers: Vec<u32> = (0..count).collect();
            let mut few: Few<u32> = numbers.iter().copied().collect();
            assert_eq!(*few, *numbers);
            few.iter_mut().for_each(|number| *number += 1);
            assert_eq!(few.to_vec(), (1..=count).collect::<Vec<_>>());
        }
        assert_ne!(Few::one(1), Few::default());
    }

    #[test]
    fn address_takes_24_octets() {
        assert_eq!(size_of::<Few<IpAddr>>(), 24);
    }
}
