//! Durations as text, such as `2s` or `1m30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use crate::setting_text::setting_text;

/// A duration in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

setting_text!(Period: r"^\d+(\.\d+)?(ms|s|m|h|d)(\d+(\.\d+)?(ms|s|m|h|d))*$");

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let period = parse_duration(text).map(Self);
        period.map_err(|rule| format!("'{text}': {rule}"))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = SignedDuration::try_from(self.0).map_err(|_| fmt::Error)?;
        f.write_str(&format!("{period:#}").replace(' ', ""))
    }
}

/// Parses a duration, such as `2s`.
///
/// # Errors
///
/// If it has no unit, or is negative.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let unreadable =
        || "a duration is a number and a unit, for example 500ms, 5s or 15m".to_owned();
    let duration: SignedDuration = text.parse().map_err(|_| unreadable())?;
    Duration::try_from(duration).map_err(|_| unreadable())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_without_unit_is_refused() {
        for (text, milliseconds, printed) in [
            ("1m30s", 90_000, "1m30s"),
            ("250ms", 250, "250ms"),
            ("24h", 86_400_000, "24h"),
            ("0s", 0, "0s"),
        ] {
            let duration = parse_duration(text);
            assert_eq!(duration, Ok(Duration::from_millis(milliseconds)));
            assert_eq!(Period(duration.unwrap()).to_string(), printed);
            assert_eq!(
                parse_duration(printed),
                Ok(Duration::from_millis(milliseconds))
            );
        }
        for bad in ["", "5", "-5s", "soon"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
