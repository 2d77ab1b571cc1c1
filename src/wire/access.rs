//! Clients by their address: which get answers, and which addresses are one client. The only user of `ipnet`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

use crate::setting_text::setting_text;

/// Addresses with a common prefix, such as `192.0.2.0/24`. Bits after the prefix are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

/// A text that is not a network.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a network is an address and the length of its prefix, such as 10.0.0.0/8 or fd00::/8")]
pub struct InvalidNetwork;

/// Which clients get answers, and which addresses are one client.
#[derive(Clone, Debug)]
pub struct Access {
    /// The networks of the clients that get answers.
    allowed: Vec<Network>,
    /// The prefixes of this pod and its node.
    near: Vec<Network>,
}

/// Addresses that are not routed on the Internet, and so allowed by default: private (RFC 1918, RFC 4193), shared (RFC
/// 6598), loopback and link-local addresses, and those of the former class E (RFC 1112). Some platforms use shared and class E
/// addresses for pods.
const NON_PUBLIC: [&str; 10] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "240.0.0.0/4",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
];

// === impl Network ===

impl Network {
    /// Returns whether the network contains an address.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    /// Parses a network. A single address is a network of one address.
    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let alone = || text.parse().map(|address: IpAddr| IpNet::from(address));
        let network = text.parse::<IpNet>().or_else(|_| alone());
        network
            .map(|network| Self(network.trunc()))
            .map_err(|_| InvalidNetwork)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Access ===

impl Access {
    /// Makes the access of the networks of `limits.allow`. Without one, it is the default: addresses that are not routed on the
    /// Internet, and those near this pod and its node, which have the addresses `own`: their /16 or, for IPv6, their /56. In a cluster
    /// with public addresses, the pods usually share such a prefix, and so do the nodes. The cluster's DNS may use a node's address.
    pub fn new(given: &[Network], own: &[IpAddr]) -> Self {
        let mut near = Vec::new();
        for address in own {
            let length = if address.is_ipv4() { 16 } else { 56 };
            near.extend(IpNet::new(*address, length).map(Network));
        }
        let mut allowed = given.to_vec();
        if given.is_empty() {
            allowed.extend(NON_PUBLIC.iter().flat_map(|text| text.parse::<Network>()));
            allowed.extend(&near);
        }
        Self { allowed, near }
    }

    /// Makes the access of all clients.
    pub fn for_all(own: &[IpAddr]) -> Self {
        let all = ["0.0.0.0/0", "::/0"];
        let all: Vec<Network> = all.iter().flat_map(|text| text.parse()).collect();
        Self::new(&all, own)
    }

    /// Returns whether a client gets answers.
    pub fn is_allowed(&self, client: IpAddr) -> bool {
        self.allowed.iter().any(|network| network.contains(client))
    }

    /// Returns the address that stands for a client. A host can have every IPv6 address of its /64. Near this pod, hosts share it, and
    /// each address is a client.
    pub fn client(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V6(v6) if !self.near.iter().any(|network| network.contains(address)) => {
                Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into()
            }
            _ => address,
        }
    }
}

setting_text!(Network: r"^[0-9a-fA-F.:]+(/[0-9]+)?$");

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_prefixes_or_addresses() {
        for (text, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.77/24", "192.0.2.1", "192.0.1.255"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("0.0.0.0/0", "203.0.113.1", "2001:db8::1"),
            ("2001:db8::/56", "2001:db8:0:ff::1", "2001:db8:0:100::1"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::2"),
            ("::/0", "2001:db8::1", "192.0.2.1"),
        ] {
            assert!(network(text).contains(ip(inside)), "{text}");
            assert!(!network(text).contains(ip(outside)), "{text}");
        }
        for bad in ["", "192.0.2.0/33", "192.0.2", "all", "2001:db8::/129", "/8"] {
            assert_eq!(bad.parse::<Network>(), Err(InvalidNetwork), "{bad}");
        }
    }

    #[test]
    fn non_public_and_nearby_addresses_are_allowed_by_default() {
        // Both addresses of a pod, and the address of its node.
        let own = ["203.0.113.7", "2001:db8:0:1::7", "198.51.100.9"].map(ip);
        let access = Access::new(&[], &own);
        let inside = "10.255.0.1 172.31.0.1 192.168.1.1 100.127.0.1 127.0.0.1 169.254.20.10 240.0.0.1 255.1.2.3 ::1 fd00::1 \
                      fe80::1 203.0.1.1 2001:db8:0:ff::1 198.51.1.1";
        let outside =
            "172.32.0.1 100.128.0.1 239.255.255.255 ::2 203.1.0.1 2001:db8:0:100::1 198.52.1.1";
        for (addresses, is_allowed) in [(inside, true), (outside, false)] {
            for address in addresses.split(' ') {
                assert_eq!(access.is_allowed(ip(address)), is_allowed, "{address}");
            }
        }
        assert!(!Access::new(&[], &[]).is_allowed(own[0]));
        assert!(!Access::new(&[network("192.0.2.0/24")], &own).is_allowed(own[0]));
        assert!(Access::for_all(&[]).is_allowed(own[0]));
    }

    #[test]
    fn client_is_a_prefix_of_64_bits_unless_it_is_near() {
        let access = Access::for_all(&["2001:db8:0:1::7", "203.0.113.7"].map(ip));
        for (address, client) in [
            ("2001:db8:0:1::1", "2001:db8:0:1::1"),
            ("2001:db8:0:ff::1", "2001:db8:0:ff::1"),
            ("2001:db8:0:100::1", "2001:db8:0:100::"),
            ("fe80::1", "fe80::"),
            ("198.51.100.1", "198.51.100.1"),
        ] {
            assert_eq!(access.client(ip(address)), ip(client));
        }
    }
}
