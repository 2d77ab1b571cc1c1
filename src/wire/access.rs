//! Access by client address: which networks are allowed. The only user of `ipnet`.

use std::fmt;
use std::net::IpAddr;
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

/// The networks of the clients that get answers.
#[derive(Clone, Debug)]
pub struct Access(pub Vec<Network>);

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
    /// Returns the default: addresses that are not routed on the Internet, and the /16 or, for IPv6, the /56 of each address in
    /// `own`. Those are the addresses of this pod and its node. In a cluster with public addresses, the pods usually share such a
    /// prefix, and so do the nodes. The cluster's DNS may use a node's address.
    pub fn around(own: &[IpAddr]) -> Self {
        let around = own.iter().filter_map(|own| {
            let length = if own.is_ipv4() { 16 } else { 56 };
            IpNet::new(*own, length).ok()
        });
        let fixed = NON_PUBLIC.iter().filter_map(|text| text.parse().ok());
        Self(fixed.chain(around).map(Network).collect())
    }

    /// Returns whether a client gets answers.
    pub fn is_allowed(&self, client: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(client))
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
        let access = Access::around(&own);
        let inside = "10.255.0.1 172.31.0.1 192.168.1.1 100.127.0.1 127.0.0.1 169.254.20.10 240.0.0.1 255.1.2.3 ::1 fd00::1 \
                      fe80::1 203.0.1.1 2001:db8:0:ff::1 198.51.1.1";
        let outside =
            "172.32.0.1 100.128.0.1 239.255.255.255 ::2 203.1.0.1 2001:db8:0:100::1 198.52.1.1";
        for (addresses, is_allowed) in [(inside, true), (outside, false)] {
            for address in addresses.split(' ') {
                assert_eq!(access.is_allowed(ip(address)), is_allowed, "{address}");
            }
        }
        assert!(!Access::around(&[]).is_allowed(own[0]));
    }
}
