//! Aliases: one name for the members of several services, such as those of a database with a namespace for each cluster.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ServiceKey;

/// The aliases. Only the settings have them: a tenant must not name a service like another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aliases {
    sources: BTreeMap<ServiceKey, Vec<ServiceKey>>,
    /// The aliases of each source.
    by_source: BTreeMap<ServiceKey, BTreeSet<ServiceKey>>,
}

/// Why aliases are not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAlias {
    /// A service occurs twice in it.
    #[error("the alias {0} has the service {1} twice")]
    SourceTwice(ServiceKey, ServiceKey),
    /// It names itself.
    #[error("{0} is an alias of itself; its own members always belong to it")]
    Itself(ServiceKey),
    /// It names another alias.
    #[error("{0} is an alias of {1}, which is an alias, too: name the services of that one")]
    OfAlias(ServiceKey, ServiceKey),
    /// It has too many services.
    #[error("the alias {0} has {1} services; at most {MAX_SOURCES} are allowed")]
    TooMany(ServiceKey, usize),
}

/// The maximum number of services of one alias.
const MAX_SOURCES: usize = 255;

// === impl Aliases ===

impl Aliases {
    /// Makes aliases of their names and services.
    ///
    /// # Errors
    ///
    /// If an alias names itself or another alias, or has a service twice or too many services.
    pub fn new(aliases: BTreeMap<ServiceKey, Vec<ServiceKey>>) -> Result<Self, InvalidAlias> {
        let mut all = Self::default();
        for (alias, sources) in &aliases {
            if sources.len() > MAX_SOURCES {
                return Err(InvalidAlias::TooMany(alias.clone(), sources.len()));
            }
            for source in sources {
                let of_source = all.by_source.entry(source.clone()).or_default();
                if source == alias {
                    return Err(InvalidAlias::Itself(alias.clone()));
                } else if aliases.contains_key(source) {
                    return Err(InvalidAlias::OfAlias(alias.clone(), source.clone()));
                } else if !of_source.insert(alias.clone()) {
                    return Err(InvalidAlias::SourceTwice(alias.clone(), source.clone()));
                }
            }
        }
        all.sources = aliases;
        Ok(all)
    }

    /// Returns the names of the aliases.
    pub fn names(&self) -> impl Iterator<Item = &ServiceKey> {
        self.sources.keys()
    }

    /// Returns the sources of an alias.
    pub fn sources_of(&self, alias: &ServiceKey) -> &[ServiceKey] {
        self.sources.get(alias).map_or(&[], |sources| sources)
    }

    /// Returns whether an alias names a service.
    pub fn is_source(&self, service: &ServiceKey) -> bool {
        self.by_source.contains_key(service)
    }

    /// Returns the aliases of a service.
    pub fn of_source(&self, service: &ServiceKey) -> impl Iterator<Item = &ServiceKey> {
        self.by_source.get(service).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ServiceKey {
        text.parse().unwrap()
    }

    fn aliases(texts: &[(&str, &[&str])]) -> Result<Aliases, String> {
        let aliases = texts.iter().map(|(alias, sources)| {
            let sources = sources.iter().map(|source| key(source)).collect();
            (key(alias), sources)
        });
        Aliases::new(aliases.collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn alias_has_its_services_and_a_service_its_aliases() {
        let all = aliases(&[
            ("prod/db", &["east/db", "west/db"]),
            ("prod/data", &["east/db"]),
        ])
        .unwrap();
        assert_eq!(
            all.sources_of(&key("prod/db")),
            [key("east/db"), key("west/db")]
        );
        assert_eq!(all.sources_of(&key("east/db")), []);
        let of: Vec<_> = all.of_source(&key("east/db")).cloned().collect();
        assert_eq!(of, [key("prod/data"), key("prod/db")]);
        assert!(all.is_source(&key("west/db")) && !all.is_source(&key("prod/db")));
    }

    #[test]
    fn contradictions_are_errors() {
        for (texts, error) in [
            (
                &[("prod/db", &["prod/db"][..])][..],
                "prod/db is an alias of itself; its own members always belong to it",
            ),
            (
                &[("n/a", &["n/b"]), ("n/b", &["n/c"])],
                "n/a is an alias of n/b, which is an alias, too: name the services of that one",
            ),
            (
                &[("n/b", &["n/c"]), ("n/a", &["n/b"])],
                "n/a is an alias of n/b, which is an alias, too: name the services of that one",
            ),
            (
                &[("n/a", &["n/b", "n/b"])],
                "the alias n/a has the service n/b twice",
            ),
        ] {
            assert_eq!(aliases(texts).unwrap_err(), error);
        }
    }

    #[test]
    fn alias_has_at_most_255_services() {
        let with = |count: usize| {
            let names: Vec<String> = (0..count).map(|number| format!("n/db{number}")).collect();
            let sources: Vec<&str> = names.iter().map(String::as_str).collect();
            aliases(&[("prod/db", &sources)])
        };
        assert!(with(255).is_ok());
        assert_eq!(
            with(256).unwrap_err(),
            "the alias prod/db has 256 services; at most 255 are allowed"
        );
    }
}
