//! The flags of both servers.

use std::collections::BTreeSet;

/// Flags of both servers in a world.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Flags of both.
    flags: &'static [&'static str],
    /// Flags of a server that has orders which begin with `auto:`.
    with_auto: &'static [&'static str],
    /// The same of an earlier server: `--failover-mode` says which orders move by themselves.
    with_mode: &'static [&'static str],
    /// Whether an answer depends on earlier answers: orders. Then each event is compared before the next one, because a
    /// server may apply several events at once.
    pub has_memory: bool,
}

/// Flags of every setting.
const COMMON: &[&str] = &[
    "--ns-address=192.0.2.53,2001:db8::53",
    "--failover-delay=0s",
    "--failback-delay=0s",
    "--log-level=warn,global_dns::app=info,global_dns::server=info",
];

const SETTINGS: &[Setting] = &[
    plain(&[]),
    plain(&[
        "--gateway-down=include",
        "--short-names=pinned",
        "--short-name=db=prod",
        "--short-name=web=shop",
    ]),
    ordered(&["--failover=shop/web=*:hub", "--failover=prod/db=west:east"]),
    plain(&[
        "--gateway-down=include",
        "--local-members=exported",
        "--default-namespace=prod",
    ]),
    plain(&[]),
    ordered(&["--failover=prod/db=east+west"]),
    plain(&[
        "--local-members=off",
        "--short-names=off",
        "--exclude-cluster=west",
    ]),
    plain(&["--namespace=prod", "--namespace=shop", "--namespace=marker"]),
    plain(&["--cluster-alias=east=east-1", "--gateway-down=include"]),
    Setting {
        with_auto: &["--failover=prod/db=auto:east:*"],
        with_mode: &["--failover=prod/db=east:*", "--failover-mode=prod/db=auto"],
        ..plain(&[])
    },
    plain(&[
        "--alias=db.prod=web.shop+db-0.prod",
        "--alias=all.prod=db.shop+db.db",
    ]),
    plain(&["--gateway-down=include", "--default-namespace=prod"]),
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

/// Returns the seeds of worlds without flags of their own.
pub fn seeds_of_the_defaults() -> impl Iterator<Item = u64> {
    (0..).filter(|seed| of_seed(*seed).flags.is_empty())
}

// === impl Setting ===

impl Setting {
    /// Returns the flags of a server, by the text of its `--help`.
    pub fn flags_for(&self, help: &str) -> Vec<&'static str> {
        let own = match help.contains("--failover-mode") {
            true => self.with_mode,
            false => self.with_auto,
        };
        [COMMON, self.flags, own].concat()
    }

    /// Returns the flags that a server lacks, by the text of its `--help`.
    pub fn unknown_to(&self, help: &str) -> BTreeSet<&'static str> {
        let known: BTreeSet<&str> = help.split_whitespace().collect();
        let names = self
            .flags
            .iter()
            .map(|flag| flag.split('=').next().unwrap_or(flag));
        names.filter(|name| !known.contains(name)).collect()
    }
}
