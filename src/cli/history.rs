//! Flags of the history of tables, and times in it.

use std::time::Duration;

use clap::Args;

use super::values::parse_duration;
use crate::table::HistoryLimits;

/// The limits of the history.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "History")]
pub struct HistoryArgs {
    /// Time for which earlier tables are kept, so that explain and table can show what was answered then; 0s: not at all
    #[arg(long = "history", env = "GLOBAL_DNS_HISTORY", value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    pub age: Duration,

    /// Memory for earlier tables, estimated; the oldest go first
    #[arg(long = "history-memory", env = "GLOBAL_DNS_HISTORY_MEMORY", value_name = "SIZE", default_value = "32Mi", value_parser = parse_size)]
    pub memory: usize,
}

/// The units of sizes, as Kubernetes writes them.
const UNITS: [(&str, usize); 3] = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];

/// Parses a size in octets, such as `32Mi`.
fn parse_size(text: &str) -> Result<usize, String> {
    let unit = UNITS
        .iter()
        .find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
    let (number, size) = unit.unwrap_or((text, 1));
    let is_plain = !number.is_empty() && number.bytes().all(|octet| octet.is_ascii_digit());
    let number: Option<usize> = number.parse().ok().filter(|_| is_plain);
    let size = number.and_then(|number| number.checked_mul(size));
    size.ok_or_else(|| {
        "a size is a number of octets, or a number with Ki, Mi or Gi, such as 32Mi".to_owned()
    })
}

// === impl HistoryArgs ===

impl HistoryArgs {
    /// Returns the limits.
    pub fn limits(self) -> HistoryLimits {
        HistoryLimits {
            age: self.age,
            memory: if self.age.is_zero() { 0 } else { self.memory },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_kubernetes() {
        for (text, size) in [
            ("0", 0),
            ("1000", 1000),
            ("4Ki", 4096),
            ("32Mi", 32 << 20),
            ("1Gi", 1 << 30),
        ] {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        for text in [
            "",
            "Mi",
            "-1Mi",
            "+1",
            "1.5Mi",
            "1 Mi",
            "1MB",
            "1mi",
            "99999999999Gi",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
