//! Ports, and the lists of ports that endpoints share.

use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use triomphe::ThinArc;

use super::interned::Pool;
use super::label::PortName;

/// A port with its name and protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Port {
    /// Port number.
    #[serde(rename = "port")]
    pub number: u16,
    /// Port name. A single port may have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<PortName>,
    /// Transport protocol.
    pub protocol: Protocol,
}

/// `protocol` of a port.
#[derive(Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "lowercase")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// `TCP`, the default if the field is absent.
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
}

/// The distinct ports of an endpoint, sorted by number, name and protocol. The type has the size of one pointer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ports(ThinArc<(), Port>);

// === impl Port ===

impl Port {
    /// Returns the name and protocol, which make the labels `_P._R`.
    pub fn label(&self) -> (Option<&PortName>, Protocol) {
        (self.name.as_ref(), self.protocol)
    }

    /// Returns whether a port has the same name and protocol.
    pub fn has_same_name(&self, other: &Self) -> bool {
        self.label() == other.label()
    }

    /// Returns whether the port has the labels `_name._protocol`.
    pub fn is_named(&self, name: &str, protocol: &str) -> bool {
        self.protocol.label() == protocol && self.name.as_ref().is_some_and(|n| n.as_str() == name)
    }
}

impl fmt::Display for Port {
    /// Writes `NAME:NUMBER/PROTOCOL`. The name may be absent, and TCP is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}:")?;
        }
        write!(f, "{}", self.number)?;
        match self.protocol {
            Protocol::Tcp => Ok(()),
            other => write!(f, "/{}", other.label()),
        }
    }
}

// === impl Protocol ===

impl Protocol {
    /// Returns label `R` of SRV owner names, without the underscore (RFC 2782).
    pub fn label(self) -> &'static str {
        self.into()
    }
}

// === impl Ports ===

impl Ports {
    /// Returns the sorted ports as a shared value, for ports that are kept.
    pub fn interned(ports: impl IntoIterator<Item = Port>) -> Self {
        static PORTS: LazyLock<Mutex<Pool<Ports>>> = LazyLock::new(Mutex::default);
        let ports: Self = ports.into_iter().collect();
        let mut pool = PORTS.lock();
        if let Some(value) = pool.values.get(&ports) {
            return value.clone();
        }
        pool.add(ports, Self::is_used)
    }

    /// Returns whether something else uses the same allocation.
    pub(super) fn is_used(&self) -> bool {
        ThinArc::strong_count(&self.0) > 1
    }
}

impl FromIterator<Port> for Ports {
    fn from_iter<I: IntoIterator<Item = Port>>(ports: I) -> Self {
        let mut ports: Vec<Port> = ports.into_iter().collect();
        ports.sort_unstable();
        ports.dedup();
        Self(ThinArc::from_header_and_iter((), ports.into_iter()))
    }
}

impl Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        &self.0.slice
    }
}
