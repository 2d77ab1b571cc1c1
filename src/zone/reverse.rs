//! Reverse zones: the mapping from names of addresses to endpoints. They are opt-in (`--reverse-zone`).
//!
//! The cluster's DNS already has PTR records for synthetic endpoint IPs, with the name of the mirror Service. If the
//! reverse zone is forwarded to this server, its PTR records have the name that all clusters share.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::reading::{MissingReason, Pointers, Reading};
use super::{Name, Zone, ZoneName, Zones};
use crate::table::Table;

/// Interprets a name below the apex of a reverse zone.
pub(super) fn read_reverse<'t>(
    zones: &'t Zones,
    zone: &'t Zone,
    below: &'t ZoneName,
    table: &'t Table,
    name: &Name,
) -> Reading<'t> {
    let Some(range) = range_of(name) else {
        return Reading::Missing(zone, MissingReason::NoForm);
    };
    if range.start() != range.end() {
        return if table.has_address_in(range) {
            Reading::Empty(zone)
        } else {
            Reading::Missing(zone, MissingReason::NoAddress)
        };
    }
    let address = *range.start();
    match table.services_at(address) {
        Some(services) => {
            let pointers = Pointers::new(zones, table, below, services, address);
            Reading::Pointers(zone, pointers)
        }
        None => Reading::Missing(zone, MissingReason::NoAddress),
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
            for (index, digit) in digits.enumerate() {
                (low[index], high[index]) = octet(digit?).map(|octet| (octet, octet))?;
            }
            Some(Ipv4Addr::from(low).into()..=Ipv4Addr::from(high).into())
        }
        "ip6" if count <= 32 => {
            let (mut low, mut high) = ([0; 32], [0xf; 32]);
            for (index, digit) in digits.enumerate() {
                (low[index], high[index]) = nibble(digit?).map(|nibble| (nibble, nibble))?;
            }
            Some(join_nibbles(low).into()..=join_nibbles(high).into())
        }
        _ => None,
    }
}

/// Returns the range of addresses of a reverse zone.
pub fn range_of_zone(zone: &Zone) -> Option<RangeInclusive<IpAddr>> {
    range_of(&Name::from_text(zone.name.as_str())?)
}

/// Parses an octet in a name: decimal, without leading zeros.
fn octet(label: &str) -> Option<u8> {
    let is_canonical = label == "0" || !label.starts_with(['0', '+']);
    label.parse().ok().filter(|_| is_canonical)
}

/// Parses a hexadecimal digit. Names are in lower case here.
fn nibble(label: &str) -> Option<u8> {
    u8::from_str_radix(label, 16)
        .ok()
        .filter(|_| label.len() == 1)
}

fn join_nibbles(nibbles: [u8; 32]) -> Ipv6Addr {
    let add = |all: u128, nibble: u8| all * 16 + u128::from(nibble);
    nibbles.into_iter().fold(0, add).into()
}

/// Returns the absolute name of an address.
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
    fn name_of_address_round_trips() {
        for address in ["10.96.0.7", "255.0.255.0", "2001:db8::1", "::"] {
            let address: IpAddr = address.parse().unwrap();
            let name = Name::from_text(&name_of(address)).unwrap();
            assert_eq!(range_of(&name), Some(address..=address));
        }
    }

    #[test]
    fn shorter_name_is_a_range_of_addresses() {
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
