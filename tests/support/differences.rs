//! The end of tests that compare a table.

/// Fails with one message that lists the first differences.
pub fn assert_none(differences: &[String]) {
    let shown = &differences[..differences.len().min(40)];
    assert!(
        differences.is_empty(),
        "{} differences, the first of them:\n{}",
        differences.len(),
        shown.join("\n")
    );
}
