//! The local address of a datagram. The reply leaves from it (RFC 2181 section 4.1). Clients ignore a reply from another
//! address, and address translation does not recognize it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use nix::cmsg_space;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, RecvMsg, setsockopt, sockopt};
use socket2::SockRef;

/// A local address and its interface. Only a link-local address needs an interface (RFC 4007 section 6). For others it is 0,
/// and the routing table chooses.
pub(super) type Local = (IpAddr, u32);

/// No address: the kernel chooses one.
const UNSPECIFIED: Local = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A local address in the format of the kernel.
pub(super) enum PacketInfo {
    V4(in_pktinfo),
    V6(in6_pktinfo),
}

/// Requests control messages with the local address of each datagram, if `address` is a wildcard address. It must be
/// called before the bind: for datagrams that were queued earlier, the kernel does not provide the address.
///
/// A route can make all addresses of a prefix local, without one on an interface (AnyIP). For IPv4, the kernel sends from them. For
/// IPv6, it sends only from addresses on interfaces, unless the socket may use any (`IPV6_FREEBIND`).
///
/// # Errors
///
/// If the system call fails.
pub(in crate::server) fn request_local_addresses(
    socket: &impl AsFd,
    address: SocketAddr,
) -> io::Result<()> {
    match address.ip() {
        ip if !ip.is_unspecified() => {}
        IpAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
        IpAddr::V6(_) => {
            setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            SockRef::from(socket).set_freebind_v6(true)?;
        }
    }
    Ok(())
}

/// Returns a buffer for the control message of one datagram. Its length must be exact, because the kernel reads all of it.
pub(super) fn control_buffer(is_ipv4: bool) -> Vec<u8> {
    if is_ipv4 {
        cmsg_space!(in_pktinfo)
    } else {
        cmsg_space!(in6_pktinfo)
    }
}

/// Returns the local address that received a datagram. A socket that is not bound to a wildcard address has only one. Returns
/// `None` for a multicast or broadcast address.
pub(super) fn local_address<A>(message: &RecvMsg<'_, '_, A>) -> Option<Local> {
    for message in message.cmsgs().into_iter().flatten() {
        match message {
            // The kernel provides the destination and the source address for a reply. If the destination is a broadcast or
            // multicast address, the other one is a local address, so they differ. Only the kernel knows the broadcast addresses.
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                let local = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
                return (info.ipi_addr == info.ipi_spec_dst).then_some((local.into(), 0));
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                let local = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                let interface = if local.is_unicast_link_local() {
                    info.ipi6_ifindex
                } else {
                    0
                };
                return (!local.is_multicast()).then_some((local.into(), interface));
            }
            _ => {}
        }
    }
    Some(UNSPECIFIED)
}

// === impl PacketInfo ===

impl PacketInfo {
    pub(super) fn new((address, interface): Local) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: in_addr {
                    s_addr: u32::from(address).to_be(),
                },
                ipi_addr: in_addr { s_addr: 0 },
            }),
            IpAddr::V6(address) => Self::V6(in6_pktinfo {
                ipi6_addr: in6_addr {
                    s6_addr: address.octets(),
                },
                ipi6_ifindex: interface,
            }),
        }
    }

    /// Returns the control message that sets the source address of a datagram.
    pub(super) fn control_message(&self) -> ControlMessage<'_> {
        match self {
            Self::V4(info) => ControlMessage::Ipv4PacketInfo(info),
            Self::V6(info) => ControlMessage::Ipv6PacketInfo(info),
        }
    }
}
