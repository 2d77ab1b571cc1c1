//! The octets in use by pending requests. Only received octets count: a client must not use memory by announcing a body.
//! A client with many requests or connections must not use the memory of others, so each prefix has a limit, too.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::server::client_prefix::ClientPrefix;

/// Maximum number of octets of all clients.
const MAX_HELD: usize = 16 << 20;
/// Maximum number of octets of a client prefix. It is twice what one connection can use.
const MAX_HELD_BY_PREFIX: usize = 1 << 20;

/// The octets in use by the pending requests of all connections.
#[derive(Default)]
pub(in crate::server::encrypted) struct HeldBodies(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    total: usize,
    by_prefix: BTreeMap<ClientPrefix, usize>,
}

// === impl HeldBodies ===

impl HeldBodies {
    /// Adds octets of a client. Returns whether they are within the limits.
    pub(super) fn add(&self, client: ClientPrefix, octets: usize) -> bool {
        let mut counts = self.0.lock();
        counts.total += octets;
        let of_client = counts.by_prefix.entry(client).or_default();
        *of_client += octets;
        *of_client <= MAX_HELD_BY_PREFIX && counts.total <= MAX_HELD
    }

    /// Removes octets of a client.
    pub(super) fn remove(&self, client: ClientPrefix, octets: usize) {
        let mut counts = self.0.lock();
        counts.total -= octets;
        if let Some(of_client) = counts.by_prefix.get_mut(&client) {
            *of_client -= octets;
            if *of_client == 0 {
                counts.by_prefix.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn one_prefix_cannot_use_the_memory_of_others() {
        let held = HeldBodies::default();
        let prefix = |network: u8| ClientPrefix::from(IpAddr::from([192, 0, network, 1]));
        assert!(held.add(prefix(1), MAX_HELD_BY_PREFIX));
        assert!(!held.add(prefix(1), 1));
        assert!(held.add(prefix(2), 1));
        held.remove(prefix(1), MAX_HELD_BY_PREFIX + 1);
        held.remove(prefix(2), 1);
        for network in 0..16 {
            assert!(held.add(prefix(network), MAX_HELD_BY_PREFIX), "{network}");
        }
        assert!(!held.add(prefix(16), 1));
    }
}
