//! QUIC, which is experimental: hickory-server performs its handshakes one after another, without a configurable limit.
//! The effect is measured and printed; the limits apply only to the other listeners.
//!
//! Attackers send the first datagram of a handshake from arbitrary addresses, and never a second one. Its keys are
//! derived from its content (RFC 9001 section 5.2), so that any client can write one.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg};
use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Suite, Version};
use rustls::version::TLS13;
use support::wire::frame;

use super::harness::{Flood, Listeners};
use super::{attacker, tls};

/// Connection ID of all attackers.
const OWN_ID: [u8; 8] = *b"attacker";
/// Minimum size of the first datagram in octets (RFC 9000 section 14.1).
const DATAGRAM: usize = 1200;
/// Size of a tag, a packet number and a sample in octets (RFC 9001 sections 5.3, 5.4.2).
const TAG: usize = 16;
const NUMBER: usize = 4;
const SAMPLE: usize = 16;

/// Returns the ClientHello message of a handshake.
fn hello() -> Vec<u8> {
    // Transport parameters: only initial_source_connection_id (RFC 9000 section 18.2).
    let parameters = [&[0x0f, OWN_ID.len() as u8][..], &OWN_ID].concat();
    let name = ServerName::try_from("localhost").unwrap();
    let config = tls::config("doq", &TLS13);
    let client = ClientConnection::new(config, Version::V1, name, parameters);
    let mut hello = Vec::new();
    client.unwrap().write_hs(&mut hello);
    hello
}

/// Returns the cipher suite of Initial packets, whose keys are derived from the destination connection ID.
fn suite() -> Suite {
    let rustls::SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
        panic!("not a cipher suite of TLS 1.3")
    };
    suite.quic_suite().unwrap()
}

/// Returns the first datagram of a connection (RFC 9000 section 17.2.2).
fn initial(suite: Suite, destination: [u8; 8], hello: &[u8]) -> Vec<u8> {
    let two_octets = |length: usize| (0x4000 | length as u16).to_be_bytes();
    let ids = [
        &[destination.len() as u8][..],
        &destination,
        &[OWN_ID.len() as u8],
        &OWN_ID,
    ];
    // Initial, four octets of packet number; version 1; IDs; no token; length; packet number 0.
    let before_length = [&[0xc3, 0, 0, 0, 1][..], &ids.concat(), &[0]].concat();
    let header = before_length.len() + 2 + NUMBER;
    let mut payload = [&[0x06, 0][..], &two_octets(hello.len()), hello].concat(); // CRYPTO at 0
    payload.resize(DATAGRAM - header - TAG, 0); // PADDING
    let length = two_octets(NUMBER + payload.len() + TAG);
    let mut header = [&before_length[..], &length, &[0; NUMBER]].concat();
    let keys = suite.keys(&destination, Side::Client, Version::V1).local;
    let tag = keys
        .packet
        .encrypt_in_place(0, &header, &mut payload)
        .unwrap();
    payload.extend(tag.as_ref());
    let (first, number) = header.split_at_mut(1);
    let number_at = number.len() - NUMBER;
    let sample = &payload[..SAMPLE]; // starts four octets after the packet number's start
    let masked = keys
        .header
        .encrypt_in_place(sample, &mut first[0], &mut number[number_at..]);
    masked.unwrap();
    [header, payload].concat()
}

/// Sends a query over a new QUIC connection (RFC 9250).
pub fn ask(server: SocketAddr, packet: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
    let exchange = async {
        let config = (*tls::config("doq", &TLS13)).clone();
        let config = quinn::crypto::rustls::QuicClientConfig::try_from(config);
        let config = quinn::ClientConfig::new(Arc::new(config.map_err(io::Error::other)?));
        let endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
        let connecting = endpoint.connect_with(config, server, "localhost");
        let connection = connecting.map_err(io::Error::other)?.await?;
        let (mut sender, mut receiver) = connection.open_bi().await?;
        // The identifier is 0 (RFC 9250 section 4.2.1).
        let packet = [&[0, 0], &packet[2..]].concat();
        sender.write_all(&frame(&packet)).await?;
        sender.finish().map_err(io::Error::other)?;
        let reply = receiver
            .read_to_end(65_537)
            .await
            .map_err(io::Error::other)?;
        connection.close(0_u32.into(), &[]);
        let reply = reply.get(2..).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(reply.to_vec())
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build()?;
    runtime.block_on(async { tokio::time::timeout(patience, exchange).await })?
}

/// Sends first datagrams from a million addresses until the flood ends. Returns their number.
fn send_initials(server: SocketAddr, until: Instant) -> u64 {
    let SocketAddr::V4(server) = server else {
        panic!("the listener has no IPv4 address")
    };
    let to: SocketAddrV4 = server;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 4433)).unwrap();
    let (suite, hello) = (suite(), hello());
    let mut sent = 0_u64;
    while Instant::now() < until {
        for _ in 0..100 {
            let datagram = initial(suite, fastrand::u64(..).to_be_bytes(), &hello);
            send_from(&socket, attacker(sent as u32 % (1 << 20)), to, &datagram);
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    sent
}

#[test]
fn abandoned_quic_handshakes_do_not_block_other_listeners() {
    Flood::new(Listeners::Quic, "QUIC: initial flood").run(|server, until| {
        let to = server.address("quic");
        let sent = send_initials(to, until);
        format!(
            "{} first datagrams per second from a million addresses",
            sent / 8
        )
    });
}

/// Sends a datagram from a given source address.
fn send_from(socket: &UdpSocket, source: Ipv4Addr, to: SocketAddrV4, packet: &[u8]) {
    let source = libc::in_addr {
        s_addr: u32::from(source).to_be(),
    };
    let info = libc::in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: source,
        ipi_addr: libc::in_addr { s_addr: 0 },
    };
    let (control, data) = (
        [ControlMessage::Ipv4PacketInfo(&info)],
        [IoSlice::new(packet)],
    );
    let to = SockaddrIn::from(to);
    // A full queue has the effect of a lost datagram.
    let _ = sendmsg(
        socket.as_raw_fd(),
        &data,
        &control,
        MsgFlags::empty(),
        Some(&to),
    );
}
