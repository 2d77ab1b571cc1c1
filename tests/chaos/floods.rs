//! Floods and slow peers. Each has a server and a network namespace of its own, where every address of 96.0.0.0/4 is
//! at home, so that attackers have as many as they like. Meanwhile an honest client asks over UDP, over TCP and over the
//! encrypted listeners that there are. Its failed queries, the time that `/livez` took, and the most memory and
//! descriptors that the server had, are printed and held to bounds. Afterwards every connection must be counted back,
//! the memory must be returned, and the answers must be right.
//!
//! The bounds follow from the flags: 1024 connections, each with a query of 4 KiB half read and replies of 16 KiB and a
//! message waiting; as much again for what TLS and HTTP/2 hold. What grows with the flood instead would pass them by far.
//!
//! Index:
//!
//! - here: UDP, TCP and the probes
//! - `handshakes`: TLS connections that never come to a query
//! - `records`: what is sent inside TLS: records, queries, replies that are not read
//! - `places`: more connections than there are places, or descriptors
//! - `streams`: frames of HTTP/2
//! - `requests`: HTTP requests, slow, large, endless
//! - `quic`: QUIC, whose figures are printed and held to no bound
//! - `harness`: the server, and what a flood is held to; `honest`: the honest client; `tls`, `http2`: clients

mod handshakes;
mod harness;
mod honest;
mod http2;
mod places;
mod quic;
mod records;
mod requests;
mod streams;
mod tls;

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, sendmsg};
use socket2::{Domain, Socket, Type};
use support::networks::Network;
use support::server::Server;
use support::wire::{frame, read_framed};

use harness::{CONNECTIONS, MANY, flood, question};

/// The address of an attacker; each has a /24 of its own.
fn attacker(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(96, 0, 0, 1)) + (number << 8))
}

/// A socket of an attacker that is not connected yet.
fn socket(from: Ipv4Addr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket
}

fn connect(server: &Server, from: Ipv4Addr) -> TcpStream {
    connect_to(server.dns, from)
}

fn connect_to(server: SocketAddr, from: Ipv4Addr) -> TcpStream {
    let socket = socket(from);
    socket.connect(&server.into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.into()
}

/// A connection that blocks, but neither connects, reads nor writes for longer than `patience`.
fn open(server: SocketAddr, from: Ipv4Addr, patience: Duration) -> io::Result<TcpStream> {
    let socket = socket(from);
    socket.connect_timeout(&server.into(), patience)?;
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

/// Has some threads attack, each with its number, and adds up what they count.
fn in_threads<const N: usize>(threads: u32, attack: impl Fn(u32) -> [u64; N] + Sync) -> [u64; N] {
    let attack = &attack;
    thread::scope(|scope| {
        let threads = (0..threads).map(|number| scope.spawn(move || attack(number)));
        let threads: Vec<_> = threads.collect();
        let mut sum = [0; N];
        for thread in threads {
            let counts = thread.join().unwrap();
            sum.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
        sum
    })
}

fn ended(server: &Server, reason: &str) -> u64 {
    let name = format!("global_dns_tcp_connections_ended_total{{reason=\"{reason}\"}}");
    server.count(&name)
}

/// Sends so much that it is no use to go on, and takes no offence.
fn send(stream: &mut TcpStream, octets: &[u8]) {
    let _ = stream.write(octets);
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn more_connections_than_are_allowed() {
    flood("connections", &[], |server, until| {
        let mut open = Vec::new();
        let mut count = 0;
        // From many addresses, and from one.
        while Instant::now() < until {
            let from = if count % 2 == 0 { count } else { 1 };
            open.push(connect(server, attacker(from)));
            count += 1;
            if open.len() > 4000 {
                open.drain(..1000);
            }
            if count % 16 == 0 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        let displaced = ended(server, "displaced");
        assert!(u64::from(count) > 2 * CONNECTIONS && displaced > CONNECTIONS);
        format!("{count} connections opened and left alone, {displaced} displaced")
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn queries_octet_by_octet() {
    flood("slowloris", &[], |server, until| {
        let packet = frame(&question("many.prod.global"));
        let mut open: Vec<TcpStream> = (0..1500).map(|n| connect(server, attacker(n))).collect();
        let mut octet = 0;
        while Instant::now() < until {
            let next = &packet[octet % packet.len()..][..1];
            open.iter_mut().for_each(|stream| send(stream, next));
            octet += 1;
            thread::sleep(Duration::from_millis(300));
        }
        let (slow, displaced) = (ended(server, "slow"), ended(server, "displaced"));
        assert!(slow > 500 && slow + displaced >= 1500 - CONNECTIONS);
        format!(
            "1500 connections, an octet each 300 ms; {slow} ended as slow, {displaced} displaced"
        )
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn frames_announced_and_never_sent() {
    flood("frames never sent", &[], |server, until| {
        let (mut opened, mut refused) = (0, 0);
        let mut kept = Vec::new();
        while Instant::now() < until {
            let mut open: Vec<TcpStream> = (0..500)
                .map(|n| connect(server, attacker(opened + n)))
                .collect();
            for (number, stream) in open.iter_mut().enumerate() {
                // A frame of 4096 octets, but for one octet; or of 65,535, of which none is waited for.
                if number % 2 == 0 {
                    send(stream, &4096_u16.to_be_bytes());
                    send(stream, &[0; 4095]);
                } else {
                    send(stream, &65_535_u16.to_be_bytes());
                }
            }
            opened += 500;
            thread::sleep(Duration::from_millis(500));
            refused += open.iter_mut().skip(1).step_by(2).fold(0, |count, stream| {
                count + u32::from(matches!(stream.read(&mut [0]), Ok(0)))
            });
            kept.extend(open);
        }
        let displaced = ended(server, "displaced");
        assert!(refused > opened / 4, "{refused} of {opened}");
        format!(
            "{opened} frames announced; {refused} too long and closed at once, {displaced} displaced"
        )
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn connections_whose_peers_have_vanished() {
    flood("half-open connections", &[], |server, until| {
        let established: Vec<TcpStream> = (0..800).map(|n| connect(server, attacker(n))).collect();
        // From here on attackers hear nothing, as if they were gone, or never had been at the address.
        Network::of_this_thread()
            .nft("table ip gone {\n chain input {\n type filter hook input priority 0\n ip daddr 96.0.0.0/4 drop\n }\n}")
            .unwrap();
        let mut half = Vec::new();
        while Instant::now() < until {
            for number in 0..200 {
                let socket = socket(attacker(1000 + half.len() as u32 + number));
                socket.set_nonblocking(true).unwrap();
                let _ = socket.connect(&server.dns.into()); // in progress for ever
                half.push(socket);
            }
            if half.len() > 4000 {
                half.drain(..1000);
            }
            thread::sleep(Duration::from_millis(100));
        }
        let open = server.count("global_dns_tcp_connections");
        format!(
            "{} vanished peers, SYNs from 2000 addresses a second; {open} open",
            established.len()
        )
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn slow_clients_of_the_probes() {
    flood("slow HTTP", &[], |server, until| {
        let mut open = Vec::new();
        let mut count = 0;
        while Instant::now() < until {
            let from = if count % 2 == 0 { count } else { 1 };
            let mut stream = connect_to(server.address("admin"), attacker(from));
            send(&mut stream, b"GET /livez HT");
            open.push(stream);
            count += 1;
            if open.len() > 4000 {
                open.drain(..1000);
            }
            if count % 16 == 0 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        assert!(count > 2000, "{count}");
        format!("{count} connections with half a request")
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn readers_with_a_closed_window() {
    flood("zero-window readers", &[], |server, until| {
        let packet = frame(&question("many.prod.global")).repeat(64);
        let open = |number: u32| {
            let socket = socket(attacker(number));
            socket.set_recv_buffer_size(1).unwrap();
            socket.connect(&server.dns.into()).unwrap();
            socket.set_nonblocking(true).unwrap();
            TcpStream::from(socket)
        };
        let mut readers: Vec<TcpStream> = (0..1000).map(open).collect();
        while Instant::now() < until {
            readers.iter_mut().for_each(|stream| send(stream, &packet));
            thread::sleep(Duration::from_secs(1));
        }
        let slow = ended(server, "slow");
        assert!(slow > 300, "{slow}");
        format!(
            "1000 connections that ask for {MANY} addresses and read nothing; {slow} ended as slow"
        )
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn one_client_with_thousands_of_queries_on_a_connection() {
    flood("pipelined queries", &[], |server, until| {
        let socket = socket(attacker(0));
        socket.connect(&server.dns.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        let mut writer = stream.try_clone().unwrap();
        let batch = frame(&question("many.prod.global")).repeat(1000);
        let sent = AtomicU64::new(0);
        let answered = thread::scope(|scope| {
            scope.spawn(|| {
                while Instant::now() < until && writer.write_all(&batch).is_ok() {
                    sent.fetch_add(1000, Relaxed);
                }
                let _ = writer.shutdown(std::net::Shutdown::Write);
            });
            let mut answered = 0;
            while let Ok(reply) = read_framed(&mut stream) {
                assert_eq!(reply[6..8], (MANY as u16).to_be_bytes());
                answered += 1;
            }
            answered
        });
        let sent = sent.load(Relaxed);
        assert!(answered >= 5000 && answered == sent, "{answered} of {sent}");
        format!("{sent} queries on one connection, all answered in order")
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn queries_from_forged_sources() {
    const RATE: u32 = 50;
    let flags = [&*format!("--rate-limit={RATE}")];
    flood("forged sources over UDP", &flags, |server, until| {
        // Half in the name of one victim, half in those of a million networks.
        let victim = Ipv4Addr::new(97, 1, 2, 3);
        // What comes to the victim goes to the socket that has its address; the other one hears the rest.
        let [victims, socket] = [victim, Ipv4Addr::UNSPECIFIED].map(|address| {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
            socket.set_reuse_address(true).unwrap();
            socket
                .bind(&SocketAddr::from((address, 4000)).into())
                .unwrap();
            UdpSocket::from(socket)
        });
        victims
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let packet = question("many.prod.global");
        let SocketAddr::V4(dns) = server.dns else {
            panic!("an IPv4 address is asked for")
        };
        let started = Instant::now();
        let done = AtomicBool::new(false);
        let mut sent = 0_u64;
        let (to_victim, octets) = thread::scope(|scope| {
            let victim_hears = scope.spawn(|| hear(&victims, &done));
            while Instant::now() < until {
                for number in 0..100 {
                    let source = if number % 2 == 0 {
                        victim
                    } else {
                        Ipv4Addr::new(
                            96 + fastrand::u8(..16),
                            fastrand::u8(..),
                            fastrand::u8(..),
                            9,
                        )
                    };
                    send_from(&socket, source, dns, &packet);
                    sent += 1;
                }
                // What two busy cores take from one socket: above that the kernel drops honest queries, too.
                thread::sleep(Duration::from_millis(5));
            }
            done.store(true, Relaxed);
            victim_hears.join().unwrap()
        });
        let seconds = started.elapsed().as_secs_f64();
        let most = f64::from(RATE) * (seconds + 1.0) + 10.0;
        assert!(
            to_victim > 0 && to_victim as f64 <= most,
            "{to_victim} of {most}"
        );
        let asked = sent / 2 * packet.len() as u64;
        let factor = octets as f64 / asked as f64;
        format!(
            "{:.0} queries a second, half in one name: it got {to_victim} whole replies in {seconds:.1} s, \
             {factor:.2} octets for each asked for",
            sent as f64 / seconds
        )
    });
}

/// Sends a datagram from an address.
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
    // A full queue is as good as a lost datagram.
    let _ = sendmsg(
        socket.as_raw_fd(),
        &data,
        &control,
        MsgFlags::empty(),
        Some(&to),
    );
}

/// Counts what comes to a socket until the flood is over: replies with records, and the octets of all.
fn hear(socket: &UdpSocket, done: &AtomicBool) -> (u64, u64) {
    let (mut whole, mut octets) = (0, 0);
    let mut reply = [0; 2048];
    while !done.load(Relaxed) {
        let Ok(length) = socket.recv(&mut reply) else {
            continue;
        };
        octets += length as u64;
        whole += u64::from(reply[6..8] != [0, 0]);
    }
    (whole, octets)
}
