//! Reads the fields that objects of several kinds have: addresses and ports.

use std::fmt;
use std::net::IpAddr;

use super::kube_object::KubePort;
use super::{Port, PortName, Problem, ProblemKind, Protocol};

/// Returns the problem of an object that cannot be used.
pub(super) fn unusable(reason: impl fmt::Display) -> Problem {
    Problem::new(ProblemKind::UnusableObject, reason.to_string())
}

/// Makes the problem that a field, a label or an annotation cannot be used.
pub(super) fn unusable_field<E: fmt::Display>(field: &str) -> impl FnOnce(E) -> Problem {
    move |error| unusable(format!("{field}: {error}"))
}

/// Truncates a value of an annotation for reports. Annotations may have 256 KiB.
pub fn shorten(value: &str) -> String {
    value.chars().take(40).collect()
}

/// Parses an address, and rejects addresses that clients cannot use.
pub(super) fn usable_address(text: &str) -> Result<IpAddr, Problem> {
    let bad = |why: &str| unusable(format!("{why}: '{text}'"));
    let address: IpAddr = text.parse().map_err(|_| bad("not an IP address"))?;
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    match address {
        // `::ffff:127.0.0.1` reaches the same host as `127.0.0.1`. An IPv4 address must be written as one.
        _ if address != address.to_canonical() => Err(bad("an IPv4-mapped IPv6 address")),
        _ if address.is_unspecified() || is_broadcast => Err(bad("not the address of a host")),
        _ if address.is_loopback() => Err(bad("a loopback address")),
        _ if address.is_multicast() => Err(bad("a multicast address")),
        _ => Ok(address),
    }
}

/// Parses a port with its number. Returns `None` if the number is out of range or SRV has no name for the protocol. If the name is not
/// a label, the port is kept without it, so that it has an SRV record at the name without `_P._R`.
pub(super) fn port(port: &KubePort<'_>, number: i64) -> Option<Port> {
    Some(Port {
        number: u16::try_from(number).ok().filter(|n| *n != 0)?,
        name: PortName::interned(&port.name).ok(),
        protocol: match &*port.protocol {
            "TCP" | "" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => return None,
        },
    })
}
