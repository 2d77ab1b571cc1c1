//! Converts octets to a sequence of choices. The generated inputs are structured, and a changed octet changes one part.

/// A source of choices. When no octets are left, every choice is the first option.
pub struct Choices<'c> {
    octets: &'c [u8],
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

    pub fn is_exhausted(&self) -> bool {
        self.octets.is_empty()
    }

    pub fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.octet(), self.octet()])
    }

    /// Takes up to `count` octets.
    pub fn take(&mut self, count: usize) -> &'c [u8] {
        let (taken, rest) = self.octets.split_at(count.min(self.octets.len()));
        self.octets = rest;
        taken
    }

    /// Returns a number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.octet()) % count
    }
}
