//! A list that mostly has one entry, such as the addresses of a Service.

use std::ops::{Deref, DerefMut};

/// A list of fixed length. One entry is in place, several have an allocation. There are some of these lists for each endpoint, so
/// each octet counts: one with an address has 24, a vector with one entry in place that can grow has 32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Few<T> {
    /// The only entry.
    One(T),
    /// No entry, or several.
    Others(Box<[T]>),
}

// === impl Few ===

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::Others(Box::default())
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut entries = entries.into_iter();
        match (entries.next(), entries.next()) {
            (Some(only), None) => Self::One(only),
            (first, second) => {
                let start = first.into_iter().chain(second);
                Self::Others(start.chain(entries).collect())
            }
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::One(entry) => std::slice::from_ref(entry),
            Self::Others(entries) => entries,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(entry) => std::slice::from_mut(entry),
            Self::Others(entries) => entries,
        }
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
            assert!((1..=count).eq(few.iter().copied()));
        }
        assert_eq!(size_of::<Few<IpAddr>>(), 24);
    }
}
