//! The client address and the local address of a datagram, for each address family. The reply leaves from the local
//! address (RFC 2181 section 4.1). Clients ignore a reply from another address, and address translation does not
//! recognize it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsFd;

use nix::cmsg_space;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, RecvMsg, SockaddrIn, SockaddrIn6, SockaddrLike,
    setsockopt, sockopt,
};

/// The address of a client. Its family determines the other types.
pub(in crate::server) trait ClientAddress: SockaddrLike + Copy {
    /// A local address.
    type Local: Copy + Ord;
    /// A local address in the format of the kernel.
    type PacketInfo;
    /// No address: the kernel chooses one.
    const UNSPECIFIED: Self::Local;

    /// Returns the client address as a type of the standard library.
    fn socket_address(self) -> SocketAddr;

    /// Returns a buffer for the control message of one datagram.
    fn control_buffer() -> Vec<u8>;

    /// Returns the destination in a control message, if it has one.
    fn read_destination(message: &ControlMessageOwned) -> Option<Destination<Self::Local>>;

    /// Returns the data for [`Self::control_message`].
    fn packet_info(local: Self::Local) -> Self::PacketInfo;

    /// Returns the control message that sets the source address of a datagram.
    fn control_message(info: &Self::PacketInfo) -> ControlMessage<'_>;
}

/// The destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Destination<L> {
    /// A local address.
    Local(L),
    /// A multicast or broadcast address.
    Group,
}

/// Requests control messages with the local address of each datagram, if `address` is a wildcard address. It must be
/// called before the bind: for datagrams that were queued earlier, the kernel does not provide the address.
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
        IpAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
    }
    Ok(())
}

/// Returns the destination of a datagram. A socket that is not bound to a wildcard address has only one.
pub(in crate::server) fn destination<A: ClientAddress>(
    message: &RecvMsg<'_, '_, A>,
) -> Destination<A::Local> {
    let mut messages = message.cmsgs().into_iter().flatten();
    let destination = messages.find_map(|message| A::read_destination(&message));
    destination.unwrap_or(Destination::Local(A::UNSPECIFIED))
}

impl ClientAddress for SockaddrIn {
    type Local = Ipv4Addr;
    type PacketInfo = in_pktinfo;
    const UNSPECIFIED: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

    fn socket_address(self) -> SocketAddr {
        SocketAddr::V4(SocketAddrV4::from(self))
    }

    fn control_buffer() -> Vec<u8> {
        cmsg_space!(in_pktinfo)
    }

    /// The kernel provides the destination and the source address for a reply. If the destination is a broadcast or
    /// multicast address, the other one is a local address, so they differ. Only the kernel knows the broadcast addresses.
    fn read_destination(message: &ControlMessageOwned) -> Option<Destination<Ipv4Addr>> {
        let ControlMessageOwned::Ipv4PacketInfo(info) = message else {
            return None;
        };
        let local = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
        Some(if info.ipi_addr == info.ipi_spec_dst {
            Destination::Local(local)
        } else {
            Destination::Group
        })
    }

    fn packet_info(local: Ipv4Addr) -> in_pktinfo {
        in_pktinfo {
            ipi_ifindex: 0, // chosen by the routing table
            ipi_spec_dst: in_addr {
                s_addr: u32::from(local).to_be(),
            },
            ipi_addr: in_addr { s_addr: 0 },
        }
    }

    fn control_message(info: &in_pktinfo) -> ControlMessage<'_> {
        ControlMessage::Ipv4PacketInfo(info)
    }
}

impl ClientAddress for SockaddrIn6 {
    /// An address and its interface. Only a link-local address needs an interface (RFC 4007 section 6). For others it
    /// is 0, and the routing table chooses.
    type Local = (Ipv6Addr, u32);
    type PacketInfo = in6_pktinfo;
    const UNSPECIFIED: (Ipv6Addr, u32) = (Ipv6Addr::UNSPECIFIED, 0);

    fn socket_address(self) -> SocketAddr {
        SocketAddr::V6(SocketAddrV6::from(self))
    }

    fn control_buffer() -> Vec<u8> {
        cmsg_space!(in6_pktinfo)
    }

    fn read_destination(message: &ControlMessageOwned) -> Option<Destination<(Ipv6Addr, u32)>> {
        let ControlMessageOwned::Ipv6PacketInfo(info) = message else {
            return None;
        };
        let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
        Some(if address.is_multicast() {
            Destination::Group
        } else if address.is_unicast_link_local() {
            Destination::Local((address, info.ipi6_ifindex))
        } else {
            Destination::Local((address, 0))
        })
    }

    fn packet_info((address, interface): (Ipv6Addr, u32)) -> in6_pktinfo {
        in6_pktinfo {
            ipi6_addr: in6_addr {
                s6_addr: address.octets(),
            },
            ipi6_ifindex: interface,
        }
    }

    fn control_message(info: &in6_pktinfo) -> ControlMessage<'_> {
        ControlMessage::Ipv6PacketInfo(info)
    }
}
