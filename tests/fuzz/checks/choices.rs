//! Converts octets to a sequence of choices. The generated inputs are structured, and a changed octet changes one part.
//! The generators of objects, which the comparison of two revisions also uses, need no more. Those of steps and texts also use
//! `steps.rs`.

/// A source of choices. When no octets are left, every choice is the first option.
pub struct Choices<'c> {
    pub(super) octets: &'c [u8],
}

// === impl Choices ===

impl<'c> Choices<'c> {
    pub fn new(octets: &'c [u8]) -> Self {
        Self { octets }
    }

    pub fn octet(&mut self) -> u8 {
        self.octets.split_off_first().copied().unwrap_or(0)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.octet()) % from.len()]
    }

    /// Returns `true` for one of `one_in` values.
    pub fn rarely(&mut self, one_in: u8) -> bool {
        self.octet() % one_in == one_in - 1
    }
}
