//! Similar names, for a name with a typing error.

/// Returns the number of typing errors that make one text of another: letters that are missing, surplus, wrong or exchanged.
pub fn typing_errors(one: &str, other: &str) -> usize {
    strsim::osa_distance(one, other)
}

/// Returns the name that is most similar to a given one. One error for each two letters is a similar name: prdo, prod.
pub fn most_similar(given: &str, names: impl IntoIterator<Item = String>) -> Option<String> {
    let most = given.chars().count() / 2;
    // A difference in length is as many errors, and is found at once.
    let (errors, _, name) = names
        .into_iter()
        .filter(|name| name.chars().count().abs_diff(given.chars().count()) <= most)
        .map(|name| (typing_errors(given, &name), name.len(), name))
        .min()?;
    (errors <= most).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_similar_with_one_error_for_each_two_letters() {
        let names = || ["staging", "test", "prod"].map(str::to_owned);
        for (given, similar) in [
            ("prdo", Some("prod")),
            ("stagin", Some("staging")),
            ("prod", Some("prod")),
            ("pxyd", Some("prod")),
            ("pxyz", None),
            ("tesxxx", Some("test")),
            ("", None),
        ] {
            assert_eq!(most_similar(given, names()).as_deref(), similar, "{given}");
        }
        assert_eq!(most_similar("ab", ["ac".to_owned()]).as_deref(), Some("ac"));
        assert_eq!(most_similar("prod", []), None);
    }
}
