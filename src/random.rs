//! Unpredictable random numbers for identifiers. Shuffles and pauses use `fastrand`.

use std::hash::{BuildHasher as _, RandomState};

/// Returns a number that nobody can predict: a hash (SipHash) with a key from the kernel. The standard library gets it by a system
/// call, because the image has no `/dev/urandom`.
pub(crate) fn number() -> u64 {
    RandomState::new().hash_one(())
}
