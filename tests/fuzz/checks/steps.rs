//! Choices of steps and of parts of texts, until the octets end.

use super::choices::Choices;

impl<'c> Choices<'c> {
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
