//! Durations as text, such as `2s` or `1m30s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use crate::setting_text::setting_text;

/// A duration in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Duration);

setting_text!(Period: r"^\d+(\.\d+)?(ms|s|m|h)(\d+(\.\d+)?(ms|s|m|h))*$");

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let period = text
            .parse::<SignedDuration>()
            .ok()
            .and_then(|one| Duration::try_from(one).ok());
        let rule = "a duration is a number and a unit, for example 500ms, 5s or 15m";
        period.map(Self).ok_or_else(|| format!("'{text}': {rule}"))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = SignedDuration::try_from(self.0).map_err(|_| fmt::Error)?;
        f.write_str(&format!("{period:#}").replace(' ', ""))
    }
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
            let period = Period(Duration::from_millis(milliseconds));
            assert_eq!([text.parse(), printed.parse()], [Ok(period), Ok(period)]);
            assert_eq!(period.to_string(), printed);
        }
        let mut bad = ["", "5", "-5s", "soon"].iter();
        assert_eq!(bad.find(|text| text.parse::<Period>().is_ok()), None);
    }
}
