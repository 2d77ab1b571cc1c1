//! Points in time.

use std::time::Duration;

use serde::Serialize;

/// A time: milliseconds since the Unix epoch. In documents, it is text (RFC 3339).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Makes a time from seconds since the Unix epoch.
    pub fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Reads a time in RFC 3339, such as `2026-11-24T06:30:00Z`.
    pub fn from_text(text: &str) -> Option<Self> {
        let time: jiff::Timestamp = text.trim().parse().ok()?;
        u64::try_from(time.as_millisecond()).ok().map(Self)
    }

    /// Returns the time in whole seconds since the Unix epoch.
    pub fn seconds(self) -> u32 {
        u32::try_from(self.0 / 1000).unwrap_or(u32::MAX)
    }

    /// Returns the time as text in UTC, to the second (RFC 3339).
    pub fn to_text(self) -> String {
        self.with_digits(0)
    }

    /// Returns the time as text in UTC, to the millisecond (RFC 3339).
    pub fn to_exact_text(self) -> String {
        self.with_digits(3)
    }

    /// Returns the time as text, with digits after the second.
    fn with_digits(self, digits: usize) -> String {
        let time = jiff::Timestamp::from_millisecond(i64::try_from(self.0).unwrap_or(i64::MAX));
        time.map(|time| format!("{time:.digits$}"))
            .unwrap_or_default()
    }

    /// Returns the time that has passed since an earlier one, or zero.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns the time after a delay.
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(milliseconds(delay)))
    }

    /// Returns the time before it by a delay, or the epoch.
    pub fn before(self, delay: Duration) -> Self {
        Self(self.0.saturating_sub(milliseconds(delay)))
    }
}

fn milliseconds(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
}

impl From<Timestamp> for String {
    /// Writes milliseconds only if there are some.
    fn from(time: Timestamp) -> Self {
        match time.0 % 1000 {
            0 => time.to_text(),
            _ => time.to_exact_text(),
        }
    }
}
