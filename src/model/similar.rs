//! Similar names, for a name with a typing error.

/// Returns the number of typing errors that make one text of another: letters that are missing, surplus, wrong or exchanged.
pub fn typing_errors(one: &str, other: &str) -> usize {
    strsim::osa_distance(one, other)
}

/// Returns the name that is most similar to a given one. One error for each two letters is a similar name: prdo, prod.
pub fn most_similar(given: &str, names: impl IntoIterator<Item = String>) -> Option<String> {
    let names = names
        .into_iter()
        .map(|name| (typing_errors(given, &name), name.len(), name));
    let (errors, _, name) = names.min()?;
    (2 * errors <= given.chars().count()).then_some(name)
}
