//! The zones that are served.

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::name::Name;
use crate::model::{ClusterName, ServiceName};

/// TTL and MINIMUM of the SOA record, seconds: the TTL of negative answers (RFC 2308 section 5).
pub(super) const NEGATIVE_TTL: u32 = 5;

/// The valid, absolute name of a zone: `global.`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ZoneName {
    text: String,
    wire: Vec<u8>,
}

/// Maximum length of a name in wire format, in octets. A longer one leaves too little room for the names below it, such as
/// `_P._R.H.C.S.N`.
const MAX_LENGTH: usize = 128;

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

/// The grammar of the names of services in a zone (rules K9, K10).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Grammar {
    /// The names of this server, such as `S.N.Z`.
    Global,
    /// The names of the Multi-Cluster Services API (KEP-1645), such as `S.N.svc.Z`.
    Mcs,
    /// Kubernetes' own names of one cluster: `S.N.Z` is what `C.S.N.Z` is elsewhere (rule K10). The setting `cluster` chooses it.
    #[serde(skip)]
    Cluster(ClusterName),
}

/// All zones that are served, in the order in which they were given. A name belongs to the longest zone that matches.
#[derive(Clone, Debug)]
pub struct Zones(pub Vec<Zone>);

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

    /// Returns whether the name is below another zone's. A name is not below itself.
    pub fn is_below(&self, above: &Self) -> bool {
        self.is_strictly_below(&above.wire)
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

/// Parses a name of valid labels (RFC 1123 section 2.1). The error is a sentence.
impl FromStr for ZoneName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            // As of an environment variable that is set but empty.
            "" => {
                return Err(
                    "the name of a zone is empty; the default zone needs no value".to_owned(),
                );
            }
            "." => return Err("the root zone cannot be served".to_owned()),
            _ => {}
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_invalid = |label: &&str| label.parse::<ServiceName>().is_err();
        if let Some(label) = name.split('.').find(is_invalid) {
            return Err(format!(
                "'{label}' is not a valid label: a label has 1 to 63 letters, digits and inner hyphens"
            ));
        }
        let length = name.len() + 2;
        let absolute = Name::from_text(&name).filter(|_| length <= MAX_LENGTH);
        let too_long =
            || format!("the zone name has {length} octets; at most {MAX_LENGTH} are allowed");
        Ok(Self {
            wire: absolute.ok_or_else(too_long)?.wire().to_vec(),
            text: name + ".",
        })
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// === impl Grammar ===

impl Grammar {
    /// Returns the cluster whose names it has, if it has those of one.
    pub fn cluster(&self) -> Option<&ClusterName> {
        match self {
            Self::Cluster(cluster) => Some(cluster),
            Self::Global | Self::Mcs => None,
        }
    }
}

// === impl Zone ===

impl Zone {
    /// Returns what follows the namespace in the names of services: `global.` or `svc.clusterset.local.`.
    pub fn name_suffix(&self) -> String {
        match self.grammar {
            Grammar::Global | Grammar::Cluster(_) => self.name.to_string(),
            Grammar::Mcs => format!("svc.{}", self.name),
        }
    }

    /// Returns the number of labels of a name before those of the zone, if it is the apex or below it.
    fn labels_before(&self, name: &Name) -> Option<usize> {
        let start = name.wire().len().checked_sub(self.name.wire.len())?;
        if name.wire()[start..] != *self.name.wire {
            return None;
        }
        (0..=name.count()).find(|index| name.start_of(*index) == start)
    }
}

// === impl Zones ===

impl Zones {
    /// Returns the zone of a name, and the number of labels of the name before those of the zone.
    pub fn find(&self, name: &Name) -> Option<(&Zone, usize)> {
        let count = |zone| Zone::labels_before(zone, name).map(|count| (zone, count));
        self.iter()
            .filter_map(count)
            .min_by_key(|(_, count)| *count)
    }

    /// Returns whether the apex of a zone is below a name. A name is not below itself.
    pub fn has_apex_below(&self, name: &Name) -> bool {
        self.iter()
            .any(|zone| zone.name.is_strictly_below(name.wire()))
    }

    /// Returns the nearest zone above a zone.
    pub fn parent(&self, zone: &Zone) -> Option<&Zone> {
        self.iter()
            .filter(|other| zone.name.is_below(&other.name))
            .max_by_key(|zone| zone.name.wire.len())
    }

    /// Returns the child zones of a zone (RFC 2181 section 6), the longest name first.
    pub fn children(&self, parent: &Zone) -> Vec<&Zone> {
        let is_child = |zone: &&Zone| {
            let nearest = self.parent(zone);
            nearest.is_some_and(|nearest| nearest.name == parent.name)
        };
        let mut children: Vec<_> = self.iter().filter(is_child).collect();
        children.sort_by_key(|zone| Reverse(zone.name.wire.len()));
        children
    }

    /// Returns the zone in which services have their own names: the first one that is not of one cluster, or else the first one.
    pub fn of_own_names(&self) -> Option<&Zone> {
        self.iter()
            .find(|zone| zone.grammar.cluster().is_none())
            .or(self.0.first())
    }

    /// Returns all zones, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Zone> {
        self.0.iter()
    }
}
