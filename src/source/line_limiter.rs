//! The limit of log lines about the objects of one namespace: a tenant cannot fill the log.

use std::collections::BTreeMap;
use std::mem::take;
use std::time::Duration;

use tracing::info;

use crate::model::{Text, Timestamp};

/// Maximum number of lines about a namespace in a second.
const MAX_LINES: usize = 20;
const SECOND: Duration = Duration::from_secs(1);

/// Counts the lines about each namespace since the start of the second.
#[derive(Debug, Default)]
pub(super) struct LineLimiter {
    second: Timestamp,
    lines: BTreeMap<Text, usize>,
}

impl LineLimiter {
    /// Returns whether a line about a namespace may be logged. Lines about none are not limited.
    pub(super) fn admits(&mut self, namespace: Option<&Text>, now: Timestamp) -> bool {
        let Some(namespace) = namespace else {
            return true;
        };
        self.end_second(now);
        let lines = self.lines.entry(namespace.clone()).or_default();
        *lines += 1;
        *lines <= MAX_LINES
    }

    /// Ends the second if it is over, and logs how many lines were left out.
    pub(super) fn end_second(&mut self, now: Timestamp) {
        if now < self.second.after(SECOND) {
            return;
        }
        self.second = now;
        for (namespace, lines) in take(&mut self.lines) {
            if let Some(count @ 1..) = lines.checked_sub(MAX_LINES) {
                info!(%namespace, count, "Left out lines about a namespace");
            }
        }
    }

    /// Returns the end of the second, if lines were left out.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let mut lines = self.lines.values();
        lines
            .any(|lines| *lines > MAX_LINES)
            .then(|| self.second.after(SECOND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_has_twenty_lines_a_second() {
        let mut limiter = LineLimiter::default();
        let [tenant, other] = ["tenant", "other"].map(Text::from);
        let mut admitted = |namespace: Option<&Text>, second| {
            let now = Timestamp::from_seconds(second);
            let times = (0..100).filter(|_| limiter.admits(namespace, now)).count();
            (times, limiter.due())
        };
        let end = Some(Timestamp::from_seconds(8));
        assert_eq!(admitted(Some(&tenant), 7), (20, end));
        assert_eq!(admitted(Some(&other), 7), (20, end));
        assert_eq!(admitted(None, 7), (100, end));
        assert_eq!(admitted(Some(&tenant), 8).0, 20);
    }
}
