//! Comparison of tables and sets.

use std::collections::BTreeSet;

/// Fails if there are differences. The message lists the first ones.
pub fn assert_none(differences: &[String]) {
    let shown = &differences[..differences.len().min(40)];
    assert!(
        differences.is_empty(),
        "{} differences, the first of them:\n{}",
        differences.len(),
        shown.join("\n")
    );
}

/// Returns the texts as a sorted set.
pub fn set<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> BTreeSet<String> {
    let owned = |text: S| text.as_ref().to_owned();
    texts.into_iter().map(owned).collect()
}
