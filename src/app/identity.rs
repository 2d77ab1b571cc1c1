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
    let mut servers: Vec<SocketAddr> = given.map(|ip| SocketAddr::new(*ip, NS_PORT)).collect();
    if servers.is_empty() {
        servers.extend(
            bound
                .iter()
                .map(|address| reachable(*address, own_addresses)),
        );
    }
    Identity {
        cluster: Some(settings.cluster_name.clone()),
        replica: host_name(),
        servers,
    }
}

/// Returns an address with which clients reach a listener: for a wildcard, that of this pod, or else loopback.
fn reachable(listener: SocketAddr, own_addresses: &[IpAddr]) -> SocketAddr {
    if !listener.ip().is_unspecified() {
        return listener;
    }
    let is_family = |ip: &&IpAddr| ip.is_ipv4() == listener.is_ipv4();
    let loopback = if listener.is_ipv4() {
        IpAddr::from(Ipv4Addr::LOCALHOST)
    } else {
        IpAddr::from(Ipv6Addr::LOCALHOST)
    };
    // The addresses of the pod come before those of its node.
    let own = own_addresses.iter().find(is_family);
    SocketAddr::new(own.copied().unwrap_or(loopback), listener.port())
}
