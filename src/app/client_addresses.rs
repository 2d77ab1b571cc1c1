//! The addresses at which clients reach a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::server::NS_PORT;

/// Returns the addresses at which clients reach a server: those of `ns.dns.Z`, or those of its DNS port. In place of a wildcard, it
/// is that of this pod, or else loopback.
pub(super) fn client_addresses(
    ns_addresses: &[IpAddr],
    bound: &[SocketAddr],
    own: &[IpAddr],
) -> Vec<SocketAddr> {
    let reachable = |bound: &SocketAddr| {
        let loopback = match bound.ip() {
            ip if !ip.is_unspecified() => return *bound,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        // The addresses of the pod come before those of its node.
        let own = own.iter().find(|own| own.is_ipv4() == bound.is_ipv4());
        SocketAddr::new(*own.unwrap_or(&loopback), bound.port())
    };
    match ns_addresses {
        [] => bound.iter().map(reachable).collect(),
        given => given
            .iter()
            .map(|ip| SocketAddr::new(*ip, NS_PORT))
            .collect(),
    }
}
