//! Aliases: one name for the members of several services, such as those of a database with a namespace for each cluster.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ServiceKey;

/// The aliases of `--alias S.N=S1.N1+S2.N2`. Only a flag sets them: a tenant must not name a service like another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aliases {
    sources: BTreeMap<ServiceKey, Box<[ServiceKey]>>,
    /// The aliases of each source.
    by_source: BTreeMap<ServiceKey, BTreeSet<ServiceKey>>,
}

/// A service that is a source of an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasSource {
    /// Its key.
    pub key: ServiceKey,
    /// Whether a mirror or a member of this cluster exists.
    pub is_known: bool,
}

/// Why aliases are not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAlias {
    /// Its name occurs twice.
    #[error("it has the alias {} twice: give it once, with all services", name(.0))]
    Twice(ServiceKey),
    /// A service occurs twice in it.
    #[error("the alias {} has the service {} twice", name(.0), name(.1))]
    SourceTwice(ServiceKey, ServiceKey),
    /// It names itself.
    #[error("{} is an alias of itself; its own members always belong to it", name(.0))]
    Itself(ServiceKey),
    /// It names another alias.
    #[error("{} is an alias of {}, which is an alias, too: name the services of that one", name(.0), name(.1))]
    OfAlias(ServiceKey, ServiceKey),
    /// It has too many services.
    #[error("the alias {alias} has {count} services; at most {MAX_SOURCES} are allowed", alias = name(.0), count = .1)]
    TooMany(ServiceKey, usize),
}

/// The maximum number of services of one alias. An endpoint has the number of its service in an octet.
const MAX_SOURCES: usize = 255;

/// Returns a service as in its DNS name, and as in the flag.
fn name(key: &ServiceKey) -> String {
    let [service, namespace] = key.labels();
    format!("{service}.{namespace}")
}

// === impl Aliases ===

impl Aliases {
    /// Makes aliases of their names and services.
    ///
    /// # Errors
    ///
    /// If an alias occurs twice, names itself or another alias, or has a service twice or too many services.
    pub fn new(
        aliases: impl IntoIterator<Item = (ServiceKey, Vec<ServiceKey>)>,
    ) -> Result<Self, InvalidAlias> {
        let mut all = Self::default();
        for (alias, sources) in aliases {
            if sources.len() > MAX_SOURCES {
                return Err(InvalidAlias::TooMany(alias, sources.len()));
            }
            for source in &sources {
                if *source == alias {
                    return Err(InvalidAlias::Itself(alias));
                }
                let aliases = all.by_source.entry(source.clone()).or_default();
                if !aliases.insert(alias.clone()) {
                    return Err(if all.sources.contains_key(&alias) {
                        InvalidAlias::Twice(alias)
                    } else {
                        InvalidAlias::SourceTwice(alias, source.clone())
                    });
                }
            }
            if all.sources.insert(alias.clone(), sources.into()).is_some() {
                return Err(InvalidAlias::Twice(alias));
            }
        }
        for (source, aliases) in &all.by_source {
            if all.sources.contains_key(source)
                && let Some(alias) = aliases.first()
            {
                return Err(InvalidAlias::OfAlias(alias.clone(), source.clone()));
            }
        }
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
        let (service, namespace) = text.split_once('.').unwrap();
        ServiceKey {
            namespace: namespace.parse().unwrap(),
            service: service.parse().unwrap(),
        }
    }

    fn aliases(texts: &[(&str, &[&str])]) -> Result<Aliases, String> {
        let aliases = texts.iter().map(|(alias, sources)| {
            let sources = sources.iter().map(|source| key(source)).collect();
            (key(alias), sources)
        });
        Aliases::new(aliases).map_err(|error| error.to_string())
    }

    #[test]
    fn alias_has_its_services_and_a_service_its_aliases() {
        let all = aliases(&[
            ("db.prod", &["db.east", "db.west"]),
            ("data.prod", &["db.east"]),
        ])
        .unwrap();
        assert_eq!(
            all.sources_of(&key("db.prod")),
            [key("db.east"), key("db.west")]
        );
        assert_eq!(all.sources_of(&key("db.east")), []);
        let of: Vec<_> = all.of_source(&key("db.east")).cloned().collect();
        assert_eq!(of, [key("data.prod"), key("db.prod")]);
        assert!(all.is_source(&key("db.west")) && !all.is_source(&key("db.prod")));
    }

    #[test]
    fn contradictions_are_errors() {
        for (texts, error) in [
            (
                &[("db.prod", &["db.prod"][..])][..],
                "db.prod is an alias of itself; its own members always belong to it",
            ),
            (
                &[("a.n", &["b.n"]), ("b.n", &["c.n"])],
                "a.n is an alias of b.n, which is an alias, too: name the services of that one",
            ),
            (
                &[("b.n", &["c.n"]), ("a.n", &["b.n"])],
                "a.n is an alias of b.n, which is an alias, too: name the services of that one",
            ),
            (
                &[("a.n", &["b.n"]), ("a.n", &["c.n"])],
                "it has the alias a.n twice: give it once, with all services",
            ),
            (
                &[("a.n", &["b.n"]), ("a.n", &["b.n"])],
                "it has the alias a.n twice: give it once, with all services",
            ),
            (
                &[("a.n", &["b.n", "b.n"])],
                "the alias a.n has the service b.n twice",
            ),
        ] {
            assert_eq!(aliases(texts).unwrap_err(), error);
        }
    }

    #[test]
    fn alias_has_at_most_255_services() {
        let with = |count: usize| {
            let names: Vec<String> = (0..count).map(|number| format!("db.n{number}")).collect();
            let sources: Vec<&str> = names.iter().map(String::as_str).collect();
            aliases(&[("db.prod", &sources)])
        };
        assert!(with(255).is_ok());
        assert_eq!(
            with(256).unwrap_err(),
            "the alias db.prod has 256 services; at most 255 are allowed"
        );
    }
}
