//! Octets as a sequence of choices, so that what is made of them has a form and one octet more or less changes one thing.

/// What is chosen from. When it is used up, everything is the first of its kind.
pub struct Choices<'c> {
    octets: &'c [u8],
}

// === impl Choices ===

impl<'c> Choices<'c> {
    pub fn new(octets: &'c [u8]) -> Self {
        Self { octets }
    }

    pub fn is_used_up(&self) -> bool {
        self.octets.is_empty()
    }

    pub fn octet(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.octet(), self.octet()])
    }

    /// Takes up to `count` octets as they are.
    pub fn take(&mut self, count: usize) -> &'c [u8] {
        let (taken, rest) = self.octets.split_at(count.min(self.octets.len()));
        self.octets = rest;
        taken
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.octet()) % from.len()]
    }

    /// One of so many.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.octet()) % count
    }

    /// True one time in so many.
    pub fn rarely(&mut self, one_in: u8) -> bool {
        self.octet() % one_in == one_in - 1
    }
}
