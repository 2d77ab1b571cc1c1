//! The page of metrics.

/// The value of one line, named with its labels.
pub fn metric<'p>(page: &'p str, name_and_labels: &str) -> Option<&'p str> {
    page.lines().find_map(|line| {
        let rest = line.strip_prefix(name_and_labels)?;
        rest.trim_start_matches("{}").strip_prefix(' ')
    })
}
