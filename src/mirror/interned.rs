//! Texts and port lists that occur again and again, each kept once.
//!
//! A hundred thousand endpoints have a few hundred hostnames, clusters, namespaces and port lists between them. Equal
//! values share one allocation, which saves memory, and the caches of whoever answers. What nobody uses any more is
//! swept out now and then.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{LazyLock, Mutex, PoisonError};

use arcstr::ArcStr;
use serde::{Deserialize, Serialize, Serializer};
use triomphe::ThinArc;

use super::Port;

/// A text that is shared, one pointer wide.
pub type Text = ArcStr;

/// The ports of an endpoint, shared by all that have the same, one pointer wide.
#[derive(Clone, Deserialize)]
#[serde(from = "Vec<Port>")]
pub struct Ports(ThinArc<(), Port>);

/// Returns the one copy of a text that is likely to occur again.
pub fn intern(text: &str) -> Text {
    static TEXTS: LazyLock<Mutex<Pool<Text>>> = LazyLock::new(Mutex::default);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.known.get(text) {
        return known.clone();
    }
    texts.add(Text::from(text), |text| Text::strong_count(text) > Some(1))
}

/// Values of which there is one copy each.
struct Pool<T> {
    known: HashSet<T>,
    /// How many of them there may be before they are swept.
    sweep_at: usize,
}

/// A pool that is smaller is not worth sweeping.
const SMALLEST_SWEEP: usize = 4096;

// === impl Pool ===

impl<T: Eq + Hash + Clone> Pool<T> {
    /// Adds a value, after values that are not `in_use` were swept out if there are many.
    fn add(&mut self, value: T, in_use: impl Fn(&T) -> bool) -> T {
        if self.known.len() >= self.sweep_at {
            self.known.retain(in_use);
            self.sweep_at = SMALLEST_SWEEP.max(2 * self.known.len());
        }
        self.known.insert(value.clone());
        value
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            known: HashSet::new(),
            sweep_at: SMALLEST_SWEEP,
        }
    }
}

// === impl Ports ===

impl FromIterator<Port> for Ports {
    fn from_iter<I: IntoIterator<Item = Port>>(ports: I) -> Self {
        static PORTS: LazyLock<Mutex<Pool<Ports>>> = LazyLock::new(Mutex::default);
        let ports: Vec<Port> = ports.into_iter().collect();
        let ports = Self(ThinArc::from_header_and_iter((), ports.into_iter()));
        let mut pool = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = pool.known.get(&ports) {
            return known.clone();
        }
        pool.add(ports, |ports| ThinArc::strong_count(&ports.0) > 1)
    }
}

impl From<Vec<Port>> for Ports {
    fn from(ports: Vec<Port>) -> Self {
        ports.into_iter().collect()
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self[..].serialize(to)
    }
}

impl Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.0.slice
    }
}

impl PartialEq for Ports {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Ports {}

impl Hash for Ports {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

impl<'p> IntoIterator for &'p Ports {
    type Item = &'p Port;
    type IntoIter = std::slice::Iter<'p, Port>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Protocol;

    #[test]
    fn equal_values_are_one() {
        assert!(Text::ptr_eq(
            &intern("prod"),
            &intern(&String::from("prod"))
        ));
        let ports = || {
            let number = 26_257;
            let (name, protocol) = (None, Protocol::Tcp);
            Ports::from_iter([Port {
                number,
                name,
                protocol,
            }])
        };
        assert!(std::ptr::eq(&ports()[0], &ports()[0]));
    }

    #[test]
    fn what_nobody_uses_is_swept_out() {
        let mut pool = Pool::default();
        let kept = Text::from("kept");
        let is_used = |text: &Text| Text::strong_count(text) > Some(1);
        pool.add(kept.clone(), is_used);
        for number in 0..3 * SMALLEST_SWEEP {
            pool.add(Text::from(number.to_string()), is_used);
        }
        assert!(pool.known.len() <= SMALLEST_SWEEP);
        assert!(pool.known.contains(&kept));
    }
}
