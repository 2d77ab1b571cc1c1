//! The zones that are served.

use std::cmp::Reverse;
use std::net::IpAddr;

use super::name::Name;
use super::zone_name::ZoneName;
use crate::table::Grammar;

/// TTL and MINIMUM of the SOA record, seconds: the TTL of negative answers (RFC 2308 section 5).
pub(super) const NEGATIVE_TTL: u32 = 5;

/// A zone that is served authoritatively.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its apex.
    pub name: ZoneName,
    /// TTL of NS, `ns.dns` and `dns-version` records, seconds.
    pub ttl: u32,
    /// Addresses of `ns.dns.Z`. They serve this zone at port 53. If there is none, `ns.dns.Z` owns no address record.
    pub ns_addresses: Vec<IpAddr>,
    /// The grammar of the names in the zone.
    pub grammar: Grammar,
}

/// All zones that are served. A name belongs to the longest zone that matches.
#[derive(Clone, Debug)]
pub struct Zones {
    longest_first: Vec<Zone>,
    /// Indices of `longest_first`, in the order in which the zones were given.
    given: Vec<usize>,
}

// === impl Zone ===

impl Zone {
    /// Returns what follows the namespace in the names of services: `global.` or `svc.clusterset.local.`.
    pub fn name_suffix(&self) -> String {
        match self.grammar {
            Grammar::Global => self.name.to_string(),
            Grammar::Mcs => format!("svc.{}", self.name),
        }
    }
}

// === impl Zones ===

impl Zones {
    /// Sorts the zones by length, so that the first match is the longest, and remembers the order in which they were
    /// given.
    pub fn new(zones: Vec<Zone>) -> Self {
        let mut zones: Vec<(usize, Zone)> = zones.into_iter().enumerate().collect();
        zones.sort_by_key(|(_, zone)| Reverse(zone.name.wire().len()));
        let mut given: Vec<usize> = (0..zones.len()).collect();
        given.sort_by_key(|&index| zones[index].0);
        Self {
            longest_first: zones.into_iter().map(|(_, zone)| zone).collect(),
            given,
        }
    }

    /// Returns the zone of a name.
    pub fn find(&self, name: &Name) -> Option<&Zone> {
        let mut zones = self.longest_first.iter();
        zones.find(|zone| name.is_below(&zone.name))
    }

    /// Returns whether the apex of a zone is below a name. A name is not below itself.
    pub fn has_apex_below(&self, name: &Name) -> bool {
        let mut zones = self.longest_first.iter();
        zones.any(|zone| zone.name.is_strictly_below(name.wire()))
    }

    /// Returns the nearest zone above a zone.
    pub fn parent(&self, zone: &Zone) -> Option<&Zone> {
        let is_above = |other: &&Zone| zone.name.is_strictly_below(other.name.wire());
        self.longest_first.iter().find(is_above)
    }

    /// Returns the child zones of a zone (RFC 2181 section 6), the longest name first.
    pub fn children<'z>(&'z self, parent: &'z Zone) -> impl Iterator<Item = &'z Zone> {
        let is_child = move |zone: &&Zone| {
            let nearest = self.parent(zone);
            nearest.is_some_and(|nearest| nearest.name == parent.name)
        };
        self.longest_first.iter().filter(is_child)
    }

    /// Returns all zones, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Zone> {
        self.given.iter().map(|&index| &self.longest_first[index])
    }
}
