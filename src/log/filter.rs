//! `--log-level`: a level, or directives that set the levels of modules.
//!
//! `tracing` takes every other word for the name of a module. With `warning` or `a b`, it would log messages of modules of
//! that name only, so there would be no log at all.

use std::fmt;
use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::setting_text::setting_text;

/// Limits the messages of crates, whatever the level is. The client of kube logs every failed attempt of every watch as an error,
/// but the watches report each failure once. hickory logs two lines for each query, and a warning for each malformed query.
const NOISY_CRATES: &str =
    "kube_client=off,hickory_server=error,hickory_proto=error,hickory_net=error";

/// A valid value of `--log-level`.
#[derive(Clone)]
pub struct LogFilter(String);

// === impl LogFilter ===

impl LogFilter {
    /// Returns the filter with the limits of noisy crates.
    pub(super) fn with_noisy_crates(&self) -> Targets {
        let directives = format!("{self},{NOISY_CRATES}");
        directives.parse().expect("the directives are checked")
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split(',').find(|part| !is_directive(part)) {
            None => Ok(Self(text.to_owned())),
            Some(part) => Err(format!(
                "'{part}' is neither a level nor a directive; levels are error, warn, info, debug, trace and off; a directive is \
                 MODULE=LEVEL, such as global_dns::source=debug; commas separate them"
            )),
        }
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a text is a level, or a directive: the name of a module, `=`, and a level.
fn is_directive(text: &str) -> bool {
    let (module, level) = text.rsplit_once('=').unwrap_or(("all", text));
    // The parser takes an empty level for `error`.
    let is_level = !level.is_empty() && level.parse::<LevelFilter>().is_ok();
    is_level
        && !module.is_empty()
        && module
            .chars()
            .all(|c: char| c.is_ascii_alphanumeric() || "_:-".contains(c))
}

setting_text!(LogFilter: r"^\S+$");

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn levels_and_directives_are_valid() {
        for good in [
            "info",
            "WARN",
            "off",
            "info,global_dns::source=debug",
            "global_dns::source=debug",
            "hickory-server=off,error",
        ] {
            let filter = good.parse::<LogFilter>().unwrap();
            let targets = filter.with_noisy_crates();
            assert!(
                !targets.would_enable("kube_client::client", &Level::ERROR),
                "{good}"
            );
        }
    }

    #[test]
    fn other_words_are_refused_and_named() {
        for (bad, part) in [
            ("warning", "warning"),
            ("a b", "a b"),
            ("", ""),
            ("info,", ""),
            ("info, warn", " warn"),
            ("info,=", "="),
            ("=info", "=info"),
            ("global_dns", "global_dns"),
            ("global_dns=", "global_dns="),
            ("global_dns=verbose", "global_dns=verbose"),
            ("global dns=info", "global dns=info"),
            ("[watch=info", "[watch=info"),
            ("info;global_dns=debug", "info;global_dns=debug"),
        ] {
            let refused = bad.parse::<LogFilter>().map(|_| ()).unwrap_err();
            assert!(
                refused.starts_with(&format!("'{part}' is neither")),
                "{bad}"
            );
        }
    }
}
