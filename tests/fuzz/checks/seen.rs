//! The cases in one or more runs. They show that the checks cover these cases.

use std::collections::BTreeMap;

/// Cases with their numbers.
#[derive(Clone, Debug, Default)]
pub struct Seen(BTreeMap<String, usize>);

// === impl Seen ===

impl Seen {
    /// Counts a case if it occurs.
    pub fn note(&mut self, case: &str, occurs: bool) {
        self.count(case, usize::from(occurs));
    }

    pub fn count(&mut self, case: &str, number: usize) {
        if number > 0 {
            *self.0.entry(case.to_owned()).or_default() += number;
        }
    }

    /// Adds the cases of another run.
    pub fn add(&mut self, other: &Self) {
        other
            .0
            .iter()
            .for_each(|(case, number)| self.count(case, *number));
    }

    pub fn number(&self, case: &str) -> usize {
        self.0.get(case).copied().unwrap_or_default()
    }

    /// Returns the cases whose names start with a text, without it.
    pub fn named(&self, start: &str) -> Vec<&str> {
        let cases = self.0.keys();
        cases.filter_map(|case| case.strip_prefix(start)).collect()
    }

    pub fn assert_all(&self, cases: &[&str]) {
        let missing = cases.iter().find(|case| self.number(case) == 0);
        assert_eq!(missing, None, "{self:?}");
    }
}
