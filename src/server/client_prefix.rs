//! The address prefix of a client, for limits on clients. A client with one address of a /24, or of a /56 for IPv6,
//! usually has all.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

impl fmt::Display for ClientPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(self.0) {
            Ok(v4) => write!(f, "{}/24", Ipv4Addr::from(v4 << 8)),
            Err(_) => {
                let bits = u128::from(self.0 & !(1 << 63));
                write!(f, "{}/56", Ipv6Addr::from(bits << (128 - 56)))
            }
        }
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

    #[test]
    fn prefix_is_printed_with_its_length() {
        for (address, text) in [
            ("192.0.2.77", "192.0.2.0/24"),
            ("255.255.255.255", "255.255.255.0/24"),
            ("2001:db8:0:1ff::1", "2001:db8:0:100::/56"),
            ("::1", "::/56"),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(ClientPrefix::from(address).to_string(), text);
        }
    }
}
