//! The steps from an owner name to records: the grammar of names, the choice of the answer, and the list of records.
//!
//! ```text
//! name → read → Reading → answer → Answer → visit_records → Record
//! ```
//!
//! [`read()`] is the only implementation of the grammar. [`answer()`] and [`explain`](mod@crate::explain) both use it,
//! so an explanation always matches the answer. This module is pure: it has no clock, no I/O, no lock, and no log.
//!
//! # Rules of names
//!
//! `Z` is a zone, `N` a namespace, `S` a service, `C` a cluster, `H` a hostname, `P` the name of a port and `R` its
//! protocol.
//!
//! | name | A, AAAA | SRV | tested in |
//! |---|---|---|---|
//! | `S.N.Z` | all endpoints | one for each endpoint and port | `tests/support/names.txt` |
//! | `C.S.N.Z` | the endpoints of one cluster | one for each of these endpoints and ports | `tests/support/names.txt` |
//! | `H.C.S.N.Z` | one endpoint | one for each of its ports | `tests/support/names.txt` |
//! | `_P._R.` before any of these | none | one for each endpoint with the port | `tests/support/names.txt` |
//! | `S.Z`, `C.S.Z`, `H.C.S.Z`, `_P._R.S.Z` | the same, for the namespace that owns `S` | the same, with short names as targets | `tests/support/names.txt`, `src/zone/tests/edges.rs` |
//! | `Z` | SOA, NS; DS belongs to the zone above | | `tests/support/names.txt`, `src/zone/tests/nested.rs` |
//! | `ns.dns.Z` | the addresses of this server | | `tests/support/names.txt`, `tests/integration/answers/name_server.rs` |
//! | `dns-version.Z` | TXT | | `tests/support/names.txt` |
//! | an address in a reverse zone, such as `7.0.96.10.in-addr.arpa` | PTR: the names of its endpoints | | `src/zone/tests.rs` |
//!
//! Unit, conformance, peer and end-to-end tests ask for the names in `tests/support/names.txt`.
//!
//! A zone with the profile `mcs` has the names of KEP-1645 instead (rule K9, `tests/conformance/kep1645.rs`):
//!
//! | name | A, AAAA | SRV |
//! |---|---|---|
//! | `S.N.svc.Z` | all endpoints | one for each endpoint with a hostname and port; one for each port of cluster IPs, with target `S.N.svc.Z` |
//! | `H.C.S.N.svc.Z` | one endpoint | one for each of its ports |
//! | `_P._R.S.N.svc.Z` | none | as `S.N.svc.Z`, for the port |
//! | `C.S.N.svc.Z` | none | none: it is empty if there are endpoints with a hostname, and NXDOMAIN otherwise |
//!
//! - A name exists if it owns a record, or if an existing name is below it (RFC 8020). Every other name is NXDOMAIN
//!   (`tests/support/names.txt`, `src/zone/tests.rs`).
//! - A canonical name with records hides a short name, and the conflict is reported (`src/zone/tests.rs`). An empty
//!   non-terminal, such as `N.Z`, hides no short name (`src/zone/tests/edges.rs`).
//! - A short name belongs to one namespace: that of `--short-name`, and to none if that namespace lacks the service;
//!   without `--short-name`, to that of `--default-namespace`, if it has the service; otherwise to the only namespace that
//!   has a headless service of that name. If several have one, the short name is NXDOMAIN (`src/table/build/tests.rs`,
//!   `src/zone/tests/kinds.rs`). Earlier states do not matter, so replicas give the same answers (`src/table/tests.rs`).
//! - The names of the zone itself have no ports: `_P._R.` before `ns.dns.Z` and `dns-version.Z` does not exist
//!   (`src/zone/tests/edges.rs`).
//! - If a zone is below another one, its names hide those of the other zone, and the conflict is reported
//!   (`src/zone/tests/nested.rs`).
//! - The target of an SRV record always resolves (`tests/recordings/invariants.rs`, `tests/peers/clients.rs`), and never
//!   to an address of another service (`src/zone/tests/namespaces.rs`). The additional section has all addresses of a
//!   target or none (`src/zone/tests/kinds.rs`).
//! - A PTR record names an endpoint only if that name resolves to it (`src/zone/tests/nested.rs`).
//! - If several namespaces publish an address, its PTR records name the endpoints that have it in `spec.clusterIPs`, if there
//!   are any: only those addresses are assigned by the API server (`src/zone/tests/namespaces.rs`).
//! - The label of an endpoint without a hostname is its address: `10-1-2-3` (`src/model/label.rs`).
//! - The set of records is always complete. Only their order changes from answer to answer
//!   (`src/wire/write/tests.rs`, `src/zone/tests/order.rs`).

pub mod answer;
pub mod name;
pub mod order;
pub mod print;
pub mod read;
pub mod reading;
pub mod records;
pub mod reverse;

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

pub use answer::{Answer, Row, RowData, answer};
pub use name::Name;
pub use order::Order;
pub use read::{read, yields};
pub use reading::{MissingReason, Pointers, Reading, Scope, Targets, View};
pub use records::{AnswerContext, Data, Record, RecordName, Section};

/// The number of a resource record type or question type (RFC 1035 section 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordType(pub u16);

/// The valid, absolute name of a zone: `global.`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ZoneName {
    text: String,
    wire: Vec<u8>,
}

/// The reason for which a text is not a valid name of a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidZone {
    /// The empty text, as of an environment variable that is set but empty.
    #[error("the name of a zone is empty; the default zone needs no value")]
    Empty,
    /// The root zone, which contains all of DNS.
    #[error("the root zone cannot be served")]
    Root,
    /// A label that is not valid in a host name (RFC 1123 section 2.1).
    #[error("'{0}' is not a valid label: a label has 1 to 63 letters, digits and inner hyphens")]
    Label(String),
    /// A name that leaves too little room for the names below it, such as `_P._R.H.C.S.N`.
    #[error("the zone name has {0} octets; at most 128 are allowed")]
    Long(usize),
}

/// A zone that is served authoritatively.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its apex.
    pub name: ZoneName,
    /// TTL of NS, `ns.dns` and `dns-version` records, seconds.
    pub ttl: u32,
    /// TTL and MINIMUM of the SOA record, seconds: the TTL of negative answers (RFC 2308 section 5).
    pub negative_ttl: u32,
    /// Addresses of `ns.dns.Z`. They serve this zone at port 53. If there is none, `ns.dns.Z` owns no address record.
    pub ns_addresses: Vec<IpAddr>,
    /// The kind of names in the zone.
    pub kind: ZoneKind,
}

/// The kind of names in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneKind {
    /// Names of services and endpoints.
    Forward,
    /// Names of services and endpoints as the Multi-Cluster Services API defines them (profile `mcs`, rule K9).
    ClusterSet,
    /// Names of addresses, with PTR records (RFC 1035 section 3.5, RFC 3596 section 2.5). The targets are in this zone.
    Reverse(ZoneName),
}

/// All zones that are served. A name belongs to the longest zone that matches.
#[derive(Clone, Debug)]
pub struct Zones {
    longest_first: Vec<Zone>,
    /// Indices of `longest_first`, in the order in which the zones were given.
    given: Vec<usize>,
}

// === impl RecordType ===

impl RecordType {
    /// IPv4 address (RFC 1035).
    pub const A: Self = Self(1);
    /// Name server (RFC 1035).
    pub const NS: Self = Self(2);
    /// Start of authority (RFC 1035).
    pub const SOA: Self = Self(6);
    /// Name of an address (RFC 1035).
    pub const PTR: Self = Self(12);
    /// Text (RFC 1035).
    pub const TXT: Self = Self(16);
    /// IPv6 address (RFC 3596).
    pub const AAAA: Self = Self(28);
    /// Service location (RFC 2782).
    pub const SRV: Self = Self(33);
    /// EDNS pseudo record (RFC 6891).
    pub const OPT: Self = Self(41);
    /// Delegation signer (RFC 4034). It belongs to the parent zone.
    pub const DS: Self = Self(43);
    /// Incremental zone transfer (RFC 1995).
    pub const IXFR: Self = Self(251);
    /// Zone transfer (RFC 5936).
    pub const AXFR: Self = Self(252);
    /// Any type. The answer is one RRset (RFC 8482).
    pub const ANY: Self = Self(255);

    /// The types of records at service names. ANY returns the first type that has records.
    pub const OF_SERVICES: [Self; 3] = [Self::A, Self::AAAA, Self::SRV];
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::A => "A",
            Self::NS => "NS",
            Self::SOA => "SOA",
            Self::PTR => "PTR",
            Self::TXT => "TXT",
            Self::AAAA => "AAAA",
            Self::SRV => "SRV",
            Self::ANY => "ANY",
            Self(number) => return write!(f, "TYPE{number}"), // RFC 3597 section 5
        };
        f.write_str(name)
    }
}

// === impl ZoneName ===

impl ZoneName {
    /// Returns the name as text, with a final dot.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name in wire format, lower case, root label included.
    pub fn wire(&self) -> &[u8] {
        &self.wire
    }

    /// Returns whether the name is below another name in wire format. A name is not below itself.
    fn is_strictly_below(&self, above: &[u8]) -> bool {
        let mut rest = self.wire.as_slice();
        while let [length @ 1..=63, after @ ..] = rest {
            rest = &after[usize::from(*length)..];
            if rest == above {
                return true;
            }
        }
        false
    }
}

impl FromStr for ZoneName {
    type Err = InvalidZone;

    fn from_str(text: &str) -> Result<Self, InvalidZone> {
        if text.is_empty() {
            return Err(InvalidZone::Empty);
        }
        let text = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if text.is_empty() {
            return Err(InvalidZone::Root);
        }
        let mut wire = Vec::with_capacity(text.len() + 2);
        for label in text.split('.') {
            let label: crate::model::ServiceName = label
                .parse()
                .map_err(|_| InvalidZone::Label(label.to_owned()))?;
            wire.push(label.as_str().len() as u8); // at most 63: checked by the line above
            wire.extend(label.as_str().as_bytes());
        }
        wire.push(0);
        if wire.len() > 128 {
            return Err(InvalidZone::Long(wire.len()));
        }
        Ok(Self {
            text: format!("{text}."),
            wire,
        })
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// === impl Zones ===

impl Zones {
    /// Sorts the zones by length, so that the first match is the longest, and remembers the order in which they were
    /// given.
    pub fn new(zones: Vec<Zone>) -> Self {
        let mut zones: Vec<(usize, Zone)> = zones.into_iter().enumerate().collect();
        zones.sort_by_key(|(_, zone)| Reverse(zone.name.wire.len()));
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

#[cfg(test)]
mod tests;
