//! Reverse zones, which are opt-in (`--reverse-zone`): names of addresses → the endpoints that have them.
//!
//! Synthetic endpoint IPs have a PTR record of the cluster's own DNS already, which names the mirror Service; who wants
//! the name that all clusters share instead forwards the reverse zone here.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::reading::{Pointers, Reading, Why};
use super::{Name, Zone};
use crate::table::Table;

/// Reads a name below the apex of a reverse zone.
pub(super) fn read_reverse<'t>(zone: &'t Zone, table: &'t Table, name: &Name) -> Reading<'t> {
    let Some(range) = range_of(name) else {
        return Reading::Missing(zone, Why::NoForm);
    };
    if range.start() != range.end() {
        return match table.has_address_in(range) {
            true => Reading::Empty(zone),
            false => Reading::Missing(zone, Why::NoAddress),
        };
    }
    let address = *range.start();
    match table.services_at(address) {
        Some(services) => Reading::Pointers(
            zone,
            Pointers {
                table,
                services,
                address,
            },
        ),
        None => Reading::Missing(zone, Why::NoAddress),
    }
}

/// Returns the addresses at and below a name: `0.96.10.in-addr.arpa` is 10.96.0.0 to 10.96.0.255.
pub fn range_of(name: &Name) -> Option<RangeInclusive<IpAddr>> {
    let count = name.count().checked_sub(2)?;
    if name.label(count + 1) != Some("arpa") {
        return None;
    }
    let digits = (0..count).rev().map(|index| name.label(index));
    match name.label(count)? {
        "in-addr" if count <= 4 => {
            let (mut low, mut high) = ([0; 4], [255; 4]);
            for (at, digit) in digits.enumerate() {
                (low[at], high[at]) = octet(digit?).map(|octet| (octet, octet))?;
            }
            Some(Ipv4Addr::from(low).into()..=Ipv4Addr::from(high).into())
        }
        "ip6" if count <= 32 => {
            let (mut low, mut high) = ([0; 32], [0xf; 32]);
            for (at, digit) in digits.enumerate() {
                (low[at], high[at]) = nibble(digit?).map(|nibble| (nibble, nibble))?;
            }
            Some(of_nibbles(low).into()..=of_nibbles(high).into())
        }
        _ => None,
    }
}

/// Returns the addresses that a reverse zone is about.
pub fn range_of_zone(zone: &Zone) -> Option<RangeInclusive<IpAddr>> {
    range_of(&Name::from_text(zone.name.as_str())?)
}

/// Reads an octet as it is written in a name: decimal, without leading zeros.
fn octet(label: &str) -> Option<u8> {
    let is_canonical = label == "0" || !label.starts_with(['0', '+']);
    label.parse().ok().filter(|_| is_canonical)
}

/// Reads a hexadecimal digit; names are in lower case here.
fn nibble(label: &str) -> Option<u8> {
    u8::from_str_radix(label, 16)
        .ok()
        .filter(|_| label.len() == 1)
}

fn of_nibbles(nibbles: [u8; 32]) -> Ipv6Addr {
    let add = |all: u128, nibble: u8| all * 16 + u128::from(nibble);
    nibbles.into_iter().fold(0, add).into()
}

/// Returns the name of an address, absolute.
pub fn name_of(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(v6) => {
            let mut name = String::with_capacity(73);
            for octet in v6.octets().into_iter().rev() {
                // Writing to a `String` cannot fail.
                let _ = write!(name, "{:x}.{:x}.", octet & 0xf, octet >> 4);
            }
            name + "ip6.arpa."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_addresses_are_read_and_written() {
        for address in ["10.96.0.7", "255.0.255.0", "2001:db8::1", "::"] {
            let address: IpAddr = address.parse().unwrap();
            let name = Name::from_text(&name_of(address)).unwrap();
            assert_eq!(range_of(&name), Some(address..=address));
        }
    }

    #[test]
    fn shorter_names_are_ranges() {
        let range = |name: &str| range_of(&Name::from_text(name).unwrap());
        let ends = |low: &str, high: &str| Some(low.parse().unwrap()..=high.parse().unwrap());
        assert_eq!(
            range("96.10.in-addr.arpa"),
            ends("10.96.0.0", "10.96.255.255")
        );
        assert_eq!(
            range("8.b.d.0.1.0.0.2.ip6.arpa"),
            ends("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")
        );
        for bad in [
            "256.10.in-addr.arpa",
            "01.10.in-addr.arpa",
            "x.in-addr.arpa",
            "1.2.3.4.5.in-addr.arpa",
            "10.ip6.arpa",
            "g.ip6.arpa",
            "+.ip6.arpa",
            &format!("{}ip6.arpa", "0.".repeat(33)),
            "1.2.global",
            "arpa",
            "+1.10.in-addr.arpa",
        ] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}
