//! Forged ICMP messages do not cause fragmentation of replies (RFC 9715 section 3.1).

use std::net::{IpAddr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};
use support::wait::wait_for;

use super::{INTERFACE, Networks, bound, counters, dns, in_networks, query, receive, serve};

/// The path MTU in forged messages, the minimum of IPv6.
const MTU: u16 = 1280;
/// Size of a datagram that exceeds the forged MTU but not the real one.
const LONG: usize = 1400;

/// Properties of an address family.
struct Family {
    asked: SocketAddr,
    client: &'static str,
    /// Counter of messages that lower the path MTU.
    messages: &'static str,
    /// Counter of sent fragments.
    fragments: &'static str,
}

#[test]
fn forged_icmp_messages_do_not_fragment_replies() {
    let v4 = Family {
        asked: dns(INTERFACE[0]),
        client: "192.0.2.1:0",
        messages: "Icmp:InDestUnreachs",
        fragments: "Ip:FragCreates",
    };
    let v6 = Family {
        asked: dns(INTERFACE[3]),
        client: "[2001:db8::1]:0",
        messages: "Icmp6InPktTooBigs",
        fragments: "Ip6FragCreates",
    };
    in_networks(|networks| {
        let _server = serve(&["answers.udpMax=4096"]);
        for family in [v4, v6] {
            let client = networks.client.enter(|| bound(family.client)).unwrap();
            let to = client.local_addr().unwrap();
            let fragments = || counters()[family.fragments];
            ask(&client, family.asked);
            forge(networks, &family, family.asked, to);
            ask(&client, family.asked);
            assert_eq!(fragments(), 0);

            // An ordinary socket makes the kernel use the forged MTU for every datagram to this client.
            let ordinary = bound(&SocketAddr::new(family.asked.ip(), 0).to_string());
            forge(networks, &family, ordinary.local_addr().unwrap(), to);
            ordinary.send_to(&[0; LONG], to).unwrap();
            receive(&client);
            let seen = fragments();
            assert!(seen > 0, "the forged message has no effect");
            ask(&client, family.asked);
            assert_eq!(fragments(), seen);
        }
    });
}

/// Sends a query and receives a long reply.
fn ask(client: &UdpSocket, server: SocketAddr) {
    client.send_to(&query(7), server).unwrap();
    let (_, length, from) = receive(client);
    assert!(length >= LONG, "{length} octets");
    assert_eq!(from, server);
}

/// Forges the message of a router that cannot forward a datagram from the node to the client. Waits until the node has
/// received it.
fn forge(networks: &Networks, family: &Family, from: SocketAddr, to: SocketAddr) {
    let messages = || counters()[family.messages];
    let before = messages();
    let message = match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let mut header = [0; 20];
            header[0] = 0x45;
            header[2..4].copy_from_slice(&(LONG as u16).to_be_bytes());
            header[8..10].copy_from_slice(&[64, 17]);
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&target.octets());
            // Destination unreachable, fragmentation needed (RFC 1191 section 4).
            let mut message = vec![3, 4, 0, 0, 0, 0];
            message.extend(MTU.to_be_bytes());
            message.extend(header);
            message
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let mut header = [0; 40];
            header[0] = 0x60;
            header[4..6].copy_from_slice(&(LONG as u16).to_be_bytes());
            header[6..8].copy_from_slice(&[17, 64]);
            header[8..24].copy_from_slice(&source.octets());
            header[24..40].copy_from_slice(&target.octets());
            // Packet too big (RFC 4443 section 3.2).
            let mut message = vec![2, 0, 0, 0];
            message.extend(u32::from(MTU).to_be_bytes());
            message.extend(header);
            message
        }
        _ => panic!("{from} and {to} are of different families"),
    };
    let udp = [from.port(), to.port(), LONG as u16, 0].map(u16::to_be_bytes);
    let mut message = [message, udp.concat()].concat();
    if from.is_ipv4() {
        let checksum = checksum(&message);
        message[2..4].copy_from_slice(&checksum);
    } // over IPv6, the kernel computes it
    let send = || {
        let (domain, protocol) = if from.is_ipv4() {
            (Domain::IPV4, Protocol::ICMPV4)
        } else {
            (Domain::IPV6, Protocol::ICMPV6)
        };
        let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
        let node = SocketAddr::new(from.ip(), 0);
        socket.send_to(&message, &node.into()).unwrap();
    };
    networks.client.enter(send).unwrap();
    wait_for("the forged message", || (messages() > before).then_some(()));
}

/// Returns the Internet checksum (RFC 1071) of an even number of octets.
fn checksum(message: &[u8]) -> [u8; 2] {
    let words = message
        .chunks(2)
        .map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
