//! Names of zones.

use std::fmt;
use std::str::FromStr;

use crate::model::ServiceName;

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
    pub(super) fn is_strictly_below(&self, above: &[u8]) -> bool {
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
            let label: ServiceName = label
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
