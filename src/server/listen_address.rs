//! The address of a listener, in the settings or a flag.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::setting_text::setting_text;

/// An address to listen on. The last two forms stand for one address of each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `IP:PORT`: one address, which must work.
    At(SocketAddr),
    /// `:PORT`: the wildcard addresses. The host may lack one family.
    EveryAt(u16),
    /// `localhost:PORT`: the loopback addresses. The host may lack one family.
    LoopbackAt(u16),
}

/// The reason for which a text is not a [`ListenAddress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected an IP address with a port, such as 0.0.0.0:5353 or [::1]:5353; :5353 for all addresses; or localhost:5353 \
     for the loopback addresses"
)]
pub struct InvalidListenAddress;

// === impl ListenAddress ===

impl ListenAddress {
    /// Returns the addresses to bind.
    pub fn addresses(self) -> Vec<SocketAddr> {
        let both = |v4: Ipv4Addr, v6: Ipv6Addr, port| vec![(v4, port).into(), (v6, port).into()];
        match self {
            Self::At(address) => vec![address],
            Self::EveryAt(port) => both(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, port),
            Self::LoopbackAt(port) => both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, port),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = InvalidListenAddress;

    fn from_str(text: &str) -> Result<Self, InvalidListenAddress> {
        if let Ok(address) = text.parse() {
            return Ok(Self::At(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or(InvalidListenAddress)?;
        // `u16` also parses "+53".
        let port = port.parse().ok().filter(|_| !port.starts_with('+'));
        match (host, port) {
            ("", Some(port)) => Ok(Self::EveryAt(port)),
            (host, Some(port)) if host.eq_ignore_ascii_case("localhost") => {
                Ok(Self::LoopbackAt(port))
            }
            _ => Err(InvalidListenAddress),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => write!(f, "{address}"),
            Self::EveryAt(port) => write!(f, ":{port}"),
            Self::LoopbackAt(port) => write!(f, "localhost:{port}"),
        }
    }
}

setting_text!(ListenAddress: r"^(.*):[0-9]+$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_alone_and_localhost_stand_for_both_families() {
        for (text, addresses) in [
            ("127.0.0.1:53", &["127.0.0.1:53"][..]),
            ("[::1]:53", &["[::1]:53"]),
            (":1053", &["0.0.0.0:1053", "[::]:1053"]),
            ("localhost:1053", &["127.0.0.1:1053", "[::1]:1053"]),
            ("LocalHost:0", &["127.0.0.1:0", "[::1]:0"]),
        ] {
            let parsed: ListenAddress = text.parse().unwrap();
            let expected = addresses.iter().map(|text| text.parse().unwrap());
            assert_eq!(parsed.addresses(), expected.collect::<Vec<SocketAddr>>());
            assert_eq!(parsed.to_string(), text.to_lowercase());
        }
    }

    #[test]
    fn text_without_address_or_port_is_refused() {
        let bad = ": 1053 localhost localhost: 127.0.0.1 ::1 [::1] :65536 :+53 *:53 dns.example:53 [localhost]:53";
        for bad in bad.split(' ').chain([""]) {
            assert_eq!(
                bad.parse::<ListenAddress>(),
                Err(InvalidListenAddress),
                "{bad}"
            );
        }
    }
}
