//! Types of resource records and questions.

use std::fmt;

/// The number of a resource record type or question type (RFC 1035 section 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordType(pub u16);

impl RecordType {
    /// IPv4 address (RFC 1035).
    pub const A: Self = Self(1);
    /// Name server (RFC 1035).
    pub const NS: Self = Self(2);
    /// Start of authority (RFC 1035).
    pub const SOA: Self = Self(6);
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
            Self::TXT => "TXT",
            Self::AAAA => "AAAA",
            Self::SRV => "SRV",
            Self::ANY => "ANY",
            Self(number) => return write!(f, "TYPE{number}"), // RFC 3597 section 5
        };
        f.write_str(name)
    }
}
