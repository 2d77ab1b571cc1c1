//! The settings of both servers. A binary without a file of settings gets them as flags.

use std::collections::BTreeSet;

use support::old_flags;

/// Settings of both servers in a world.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Those of both, and flags.
    flags: &'static [&'static str],
    /// Settings of a server that has orders which begin with `auto:`.
    with_auto: &'static [&'static str],
    /// The same of an earlier server: `--failover-mode` says which orders move by themselves.
    with_mode: &'static [&'static str],
    /// Whether an answer depends on earlier answers: orders. Then each event is compared before the next one, because a
    /// server may apply several events at once.
    pub has_memory: bool,
}

/// Those of every world.
const COMMON: &[&str] = &[
    "answers.nsAddresses=[192.0.2.53, '2001:db8::53']",
    "failover.delay=0s",
    "failover.back=0s",
    "--log-level=warn,global_dns::app=info,global_dns::server=info",
];

const SETTINGS: &[Setting] = &[
    plain(&[]),
    plain(&[
        "gatewayDown=include",
        "shortNames.which=pinned",
        "shortNames.pinned.db=prod",
        "shortNames.pinned.web=shop",
    ]),
    ordered(&[
        "services.shop/web.failover='*:hub'",
        "services.prod/db.failover=west:east",
    ]),
    plain(&[
        "gatewayDown=include",
        "localMembers=exported",
        "shortNames.defaultNamespace=prod",
    ]),
    plain(&[]),
    ordered(&["services.prod/db.failover=east+west"]),
    plain(&[
        "localMembers=none",
        "shortNames.which=none",
        "excludeClusters=[west]",
    ]),
    plain(&["--namespace=prod", "--namespace=shop", "--namespace=marker"]),
    plain(&["clusterAliases.east=east-1", "gatewayDown=include"]),
    Setting {
        with_auto: &["services.prod/db.failover=auto:east:*"],
        with_mode: &[
            "services.prod/db.failover=east:*",
            "--failover-mode=prod/db=auto",
        ],
        ..plain(&[])
    },
    plain(&[
        "aliases.prod/db=[shop/web, prod/db-0]",
        "aliases.prod/all=[shop/db, db/db]",
    ]),
    plain(&["gatewayDown=include", "shortNames.defaultNamespace=prod"]),
];

const fn plain(flags: &'static [&'static str]) -> Setting {
    Setting {
        flags,
        with_auto: &[],
        with_mode: &["--failover-mode=hold"],
        has_memory: false,
    }
}

const fn ordered(flags: &'static [&'static str]) -> Setting {
    Setting {
        has_memory: true,
        ..plain(flags)
    }
}

/// Returns all settings.
pub fn all() -> &'static [Setting] {
    SETTINGS
}

/// Returns the setting of a seed.
pub fn of_seed(seed: u64) -> Setting {
    SETTINGS[(seed % SETTINGS.len() as u64) as usize]
}

/// Returns the seeds of worlds with the defaults.
pub fn seeds_of_the_defaults() -> impl Iterator<Item = u64> {
    (0..).filter(|seed| of_seed(*seed).flags.is_empty())
}

// === impl Setting ===

impl Setting {
    /// Returns the arguments of a server, by the text of its `--help`.
    pub fn arguments_for(&self, help: &str) -> Vec<String> {
        let own = match help.contains("--failover-mode") {
            true => self.with_mode,
            false => self.with_auto,
        };
        old_flags::arguments_for(help, &[COMMON, self.flags, own].concat())
    }

    /// Returns the name of the cluster of a link.
    pub fn name_of(&self, link: &str) -> String {
        let mut flags = self.flags.iter();
        let name = flags.find_map(|one| {
            one.strip_prefix("clusterAliases.")?
                .strip_prefix(link)?
                .strip_prefix('=')
        });
        name.unwrap_or(link).to_owned()
    }

    /// Returns the aliases with their sources, each as its labels `S` and `N`.
    pub fn aliases(&self) -> impl Iterator<Item = ([&'static str; 2], Vec<[&'static str; 2]>)> {
        let labels = |path: &'static str| {
            path.split_once('/')
                .map(|(namespace, service)| [service, namespace])
        };
        self.flags.iter().filter_map(move |flag| {
            let (alias, sources) = flag.strip_prefix("aliases.")?.split_once('=')?;
            let sources = sources.trim_matches(['[', ']']).split(", ");
            Some((labels(alias)?, sources.filter_map(labels).collect()))
        })
    }

    /// Returns the services that have the members of a service, each with its namespace: itself and its aliases.
    pub fn services_with(&self, service: &str, namespace: &str) -> Vec<(String, String)> {
        let has = |sources: &[[&str; 2]]| sources.contains(&[service, namespace]);
        let aliases = self.aliases().filter(|(_, sources)| has(sources));
        let aliases =
            aliases.map(|([service, namespace], _)| (service.to_owned(), namespace.to_owned()));
        let own = (service.to_owned(), namespace.to_owned());
        std::iter::once(own).chain(aliases).collect()
    }

    /// Returns the flags that a server lacks, by the text of its `--help`.
    pub fn unknown_to(&self, help: &str) -> BTreeSet<String> {
        let known: BTreeSet<&str> = help.split_whitespace().collect();
        let arguments = old_flags::arguments_for(help, self.flags);
        let names = arguments.iter().filter_map(|one| one.split('=').next());
        let flags = names.filter(|name| name.starts_with("--"));
        flags
            .filter(|name| !known.contains(name))
            .map(str::to_owned)
            .collect()
    }
}
