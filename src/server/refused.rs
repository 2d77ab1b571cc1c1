//! The last client that `limits.allow` excludes, for the problem that names it.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::{Problem, ProblemKind, Timestamp};
use crate::wire::Network;

/// Time for which a refused client is a problem. It is longer than the pauses of a resolver that is refused.
const HOLD_SECONDS: u32 = 10 * 60;

/// The last refused client. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct RefusedClients(Arc<Mutex<Option<RefusedClient>>>);

/// A refused client. Times are Unix seconds.
#[derive(Clone, Copy, Debug)]
struct RefusedClient {
    client: IpAddr,
    /// Since when a client is refused again and again.
    since: u32,
    last: u32,
}

// === impl RefusedClients ===

impl RefusedClients {
    /// Notes a refused client. Under a flood, some are not noted.
    pub(crate) fn note(&self, client: IpAddr, now: u32) {
        let Some(mut last) = self.0.try_lock() else {
            return;
        };
        let earlier = last.filter(|one| one.is_held(now));
        *last = Some(RefusedClient {
            client,
            since: earlier.map_or(now, |one| one.since),
            last: now,
        });
    }

    /// Returns the problem that a client is refused, if one was in the last minutes.
    pub fn problem(&self, now: u32) -> Option<Problem> {
        let refused = (*self.0.lock()).filter(|one| one.is_held(now))?;
        Some(
            Problem::new(ProblemKind::RefusedClient, prefix(refused.client))
                .holds_since(Timestamp::from_seconds(refused.since.into())),
        )
    }
}

// === impl RefusedClient ===

impl RefusedClient {
    fn is_held(&self, now: u32) -> bool {
        // The clock may go back.
        now.abs_diff(self.last) < HOLD_SECONDS
    }
}

/// Returns the prefix of a client: its /24, or its /56 of IPv6. Usually all its addresses are resolvers of one cluster.
fn prefix(client: IpAddr) -> String {
    let length = if client.is_ipv4() { 24 } else { 56 };
    let text = format!("{client}/{length}");
    text.parse()
        .map(|network: Network| network.to_string())
        .unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_names_the_last_prefix_until_no_client_is_refused_for_ten_minutes() {
        let refused = RefusedClients::default();
        let problem = |now| {
            let problem = refused.problem(now)?;
            Some((problem.detail.to_string(), problem.since))
        };
        assert_eq!(problem(1000), None);
        let since = Some(Timestamp::from_seconds(1000));
        refused.note([192, 0, 2, 7].into(), 1000);
        assert_eq!(problem(1599), Some(("192.0.2.0/24".to_owned(), since)));
        refused.note("2001:db8:0:1ff::1".parse().unwrap(), 1599);
        let second = "2001:db8:0:100::/56".to_owned();
        assert_eq!(problem(2198), Some((second, since)));
        assert_eq!(problem(2199), None);
        refused.note([192, 0, 2, 7].into(), 3000);
        let again = Some(Timestamp::from_seconds(3000));
        assert_eq!(problem(3000).unwrap().1, again);
    }
}
