//! The address prefix of a client, for limits on clients. A client with one address of a /24, or of a /56 for IPv6,
//! usually has all.

use std::net::IpAddr;

/// The prefix of a client's address: a /24, or a /56 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ClientPrefix(u64);

impl From<IpAddr> for ClientPrefix {
    fn from(client: IpAddr) -> Self {
        Self(match client {
            IpAddr::V4(v4) => u64::from(u32::from(v4) >> 8),
            // The first bit distinguishes the families.
            IpAddr::V6(v6) => 1 << 63 | (u128::from(v6) >> (128 - 56)) as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_24_and_56_bits_long() {
        let prefix = |address: &str| ClientPrefix::from(address.parse::<IpAddr>().unwrap());
        let same = |one, other| prefix(one) == prefix(other);
        assert!(same("192.0.2.1", "192.0.2.254"));
        assert!(!same("192.0.2.1", "192.0.3.1"));
        assert!(same("2001:db8:0:1::1", "2001:db8:0:ff:1::"));
        assert!(!same("2001:db8:0:1::1", "2001:db8:0:100::1"));
        assert!(!same("0.0.1.0", "::1"));
    }
}
