//! What a server is called, and where it answers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::server::NS_PORT;
use crate::server::platform::host_name;
use crate::settings::Settings;
use crate::view::Identity;

/// Returns what the server is called, and the addresses at which clients reach it: those of `ns.dns.Z`, or those of its DNS
/// port.
pub(super) fn identity(
    settings: &Settings,
    ns_addresses: &[IpAddr],
    bound: &[SocketAddr],
    own_addresses: &[IpAddr],
) -> Identity {
    let given = ns_addresses.iter();
    let given = given.map(|ip| SocketAddr::new(*ip, NS_PORT));
    let bound = bound.iter().map(|bound| reachable(*bound, own_addresses));
    let servers = match ns_addresses {
        [] => bound.collect(),
        _ => given.collect(),
    };
    Identity {
        cluster: Some(settings.cluster_name.clone()),
        replica: host_name(),
        servers,
    }
}

/// Returns an address with which clients reach a listener: for a wildcard, that of this pod, or else loopback.
fn reachable(listener: SocketAddr, own_addresses: &[IpAddr]) -> SocketAddr {
    let ip = listener.ip();
    if !ip.is_unspecified() {
        return listener;
    }
    // The addresses of the pod come before those of its node.
    let mut own = own_addresses.iter().copied();
    let own = own.find(|own| own.is_ipv4() == ip.is_ipv4());
    let loopback = match ip {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(own.unwrap_or(loopback), listener.port())
}
