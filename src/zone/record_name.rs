//! Names in records.

use std::fmt;

use super::name::{Name, labels_of, write_labels};
use super::reading::{Targets, View};
use super::zones::Zone;
use crate::model::ServiceKey;
use crate::table::Endpoint;

/// A lower-case name in a record, as its parts.
#[derive(Clone, Copy, Debug)]
pub struct RecordName<'a> {
    /// The first labels.
    pub labels: Labels<'a>,
    /// The rest of the name, in wire format (RFC 1035 section 3.1).
    pub rest: &'a [u8],
}

/// The first labels of a name in a record.
#[derive(Clone, Copy, Debug)]
pub enum Labels<'a> {
    /// Fixed labels, in wire format.
    Fixed(&'static [u8]),
    /// `H.C` of an endpoint. A cluster IP has no `H`, and that of a federated service no `C` either (rule K2).
    Host(&'a Endpoint),
    /// `H.C.S.N` of an endpoint.
    HostOf(&'a Endpoint, &'a ServiceKey),
}

// === impl RecordName ===

impl<'a> RecordName<'a> {
    /// Returns the name with this wire format.
    #[inline]
    pub(super) fn from_wire(rest: &'a [u8]) -> Self {
        let labels = Labels::Fixed(b"");
        Self { labels, rest }
    }

    /// Returns the name of this server in a zone.
    pub(super) fn ns_host(zone: &'a Zone) -> Self {
        Self::in_zone(b"\x02ns\x03dns", zone)
    }

    /// Returns MNAME and RNAME of the SOA record of a zone (RFC 1035 section 3.3.13).
    pub fn of_soa(zone: &'a Zone) -> [Self; 2] {
        [Self::ns_host(zone), Self::in_zone(b"\x0ahostmaster", zone)]
    }

    fn in_zone(labels: &'static [u8], zone: &'a Zone) -> Self {
        let (labels, rest) = (Labels::Fixed(labels), zone.name.wire());
        Self { labels, rest }
    }

    /// Returns the name of an endpoint as the target of an SRV record.
    #[inline]
    pub(super) fn target(view: &'a View<'_>, question: &'a Name, endpoint: &'a Endpoint) -> Self {
        let (labels, at) = match view.targets {
            Targets::SameFamily(at) => (Labels::Host(endpoint), at),
            Targets::Canonical(at) => (Labels::HostOf(endpoint, &view.service.key), at),
            Targets::Mcs(at) if view.is_shared_target(endpoint) => (Labels::Fixed(b""), at),
            Targets::Mcs(at) => (Labels::Host(endpoint), at),
        };
        let rest = &question.wire()[at..];
        Self { labels, rest }
    }

    /// Returns all labels, without the root.
    pub fn labels(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let none = ["", ""];
        let (fixed, host, service): (&[u8], _, _) = match self.labels {
            Labels::Fixed(labels) => (labels, none, none),
            Labels::Host(endpoint) => (&[], host_labels(endpoint), none),
            Labels::HostOf(endpoint, key) => (&[], host_labels(endpoint), key.labels()),
        };
        let own = host
            .into_iter()
            .chain(service)
            .map(str::as_bytes)
            .filter(|label| !label.is_empty());
        labels_of(fixed).chain(own).chain(labels_of(self.rest))
    }
}

impl fmt::Display for RecordName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_labels(f, self.labels())
    }
}

/// Returns the labels `H.C` of an endpoint.
#[inline]
pub fn host_labels(endpoint: &Endpoint) -> [&str; 2] {
    endpoint.labels()
}
