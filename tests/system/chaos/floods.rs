//! Floods and slow peers. Each flood has a separate server with a table of 100,000 endpoints, in a network namespace and in a
//! control group with the memory limit of the chart. All addresses of 96.0.0.0/4 are local there, so that attackers have
//! enough addresses. Meanwhile an honest client sends queries over UDP, TCP and the encrypted listeners of the server.
//! Each test prints and limits its failed queries and their times, the response time of `/livez`, and the server's
//! memory and descriptors. After the flood, all connections must be closed, the memory must be released, and the answers
//! must be right.
//!
//! Index:
//!
//! - this file: UDP, TCP and the probes
//! - `handshakes`: TLS connections that never send a query
//! - `records`: records and queries inside TLS
//! - `memory`: slow readers on all listeners
//! - `harness`: the server and the limits; `group`: its control group; `honest`: the honest client; `tls`: clients of attackers

mod group;
mod handshakes;
pub mod harness;
pub mod honest;
mod memory;
mod records;
mod tls;

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use support::networks::Network;
use support::server::Server;
use support::wire::{frame, read_framed};

use harness::{CONNECTIONS, MANY, flood, question};

/// Returns the address of an attacker. Each attacker has a separate /24.
fn attacker(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(96, 0, 0, 1)) + (number << 8))
}

/// Returns an unconnected socket of an attacker.
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

/// Opens a blocking connection with the time limit `patience` for connect, read and write.
fn open(server: SocketAddr, from: Ipv4Addr, patience: Duration) -> io::Result<TcpStream> {
    let socket = socket(from);
    socket.connect_timeout(&server.into(), patience)?;
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

/// Runs an attack in parallel threads, each with its number, and returns the sums of their counts.
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

fn count_ended(server: &Server, reason: &str) -> u64 {
    let name = format!("global_dns_tcp_connections_ended_total{{reason=\"{reason}\"}}");
    server.count(&name)
}

/// Sends octets and ignores errors.
fn send(stream: &mut TcpStream, octets: &[u8]) {
    let _ = stream.write(octets);
}

#[test]
fn excess_connections_are_replaced() {
    flood("connections", &[], |server, until| {
        let mut open = Vec::new();
        let mut count = 0;
        // Alternately from many addresses and from one.
        while Instant::now() < until {
            let from = if count % 2 == 0 { count } else { 1 };
            open.push(connect(server, attacker(from)));
            count += 1;
            if open.len() > 10_000 {
                open.drain(..1000);
            }
            if count % 16 == 0 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        let replaced = count_ended(server, "replaced");
        assert!(u64::from(count) > 2 * CONNECTIONS && replaced > CONNECTIONS);
        format!("{count} idle connections, {replaced} replaced")
    });
}

#[test]
fn slow_queries_do_not_block_honest_clients() {
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
        let (slow, replaced) = (count_ended(server, "slow"), count_ended(server, "replaced"));
        assert!(slow > 200 && slow + replaced >= 1500 - CONNECTIONS);
        format!(
            "1500 connections, one octet per 300 ms; {slow} closed as slow, {replaced} replaced"
        )
    });
}

#[test]
fn incomplete_frames_do_not_exhaust_memory() {
    flood("incomplete frames", &[], |server, until| {
        let (mut opened, mut refused) = (0, 0);
        let mut kept = Vec::new();
        while Instant::now() < until {
            let mut open: Vec<TcpStream> = (0..500)
                .map(|n| connect(server, attacker(opened + n)))
                .collect();
            for (number, stream) in open.iter_mut().enumerate() {
                // A frame of 4096 octets without its last octet; or one of 65,535 octets, which the server refuses.
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
        let replaced = count_ended(server, "replaced");
        assert!(refused > opened / 4, "{refused} of {opened}");
        format!(
            "{opened} incomplete frames; {refused} too long and closed at once, {replaced} replaced"
        )
    });
}

#[test]
fn vanished_peers_do_not_block_honest_clients() {
    flood("half-open connections", &[], |server, until| {
        let established: Vec<TcpStream> = (0..800).map(|n| connect(server, attacker(n))).collect();
        // From now on attackers receive nothing, as if they had vanished or never existed.
        Network::of_this_thread()
            .nft("table ip gone {\n chain input {\n type filter hook input priority 0\n ip daddr 96.0.0.0/4 drop\n }\n}")
            .unwrap();
        let mut half = Vec::new();
        while Instant::now() < until {
            for number in 0..200 {
                let socket = socket(attacker(1000 + half.len() as u32 + number));
                socket.set_nonblocking(true).unwrap();
                let _ = socket.connect(&server.dns.into()); // never completes
                half.push(socket);
            }
            if half.len() > 4000 {
                half.drain(..1000);
            }
            thread::sleep(Duration::from_millis(100));
        }
        let open = server.count("global_dns_tcp_connections");
        format!(
            "{} vanished peers, SYNs from 2000 addresses per second; {open} connections open",
            established.len()
        )
    });
}

#[test]
fn slow_probe_clients_do_not_block_livez() {
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
        format!("{count} connections with an incomplete request")
    });
}

#[test]
fn clients_with_a_closed_window_are_closed_as_slow() {
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
        let slow = count_ended(server, "slow");
        assert!(slow > 200, "{slow}");
        format!(
            "1000 connections that query {MANY} addresses and read nothing; {slow} closed as slow"
        )
    });
}

#[test]
fn busy_clients_do_not_block_honest_clients() {
    const THREADS: u32 = 8;
    const EACH: u32 = 125;
    flood("a thousand busy clients", &[], |server, until| {
        let packet = question("db.prod.global");
        let batch = frame(&packet).repeat(300);
        // The server keeps as many as its limit before they send anything.
        let open: Vec<TcpStream> = (0..THREADS * EACH)
            .map(|n| connect(server, attacker(n)))
            .collect();
        let open = Mutex::new(open);
        thread::sleep(Duration::from_secs(1));
        let [batches, datagrams, left] = in_threads(THREADS, |thread| {
            let mut all = open.lock().unwrap();
            let rest = all.len() - EACH as usize;
            let mut open = all.split_off(rest);
            drop(all);
            let udp = UdpSocket::bind((attacker(thread), 0)).unwrap();
            udp.set_nonblocking(true).unwrap();
            let (mut batches, mut datagrams) = (0, 0);
            let (mut waiting, mut answered) = (0_u32, Instant::now());
            while Instant::now() < until {
                open.retain_mut(|stream| {
                    batches += 1;
                    send(stream, &batch);
                    let read = stream.read(&mut [0; 65_536]);
                    read.map_or_else(
                        |error| error.kind() == ErrorKind::WouldBlock,
                        |read| read > 0,
                    )
                });
                // Each client sends again when it has its answer, or after a second without any.
                while udp.recv(&mut [0; 1232]).is_ok() {
                    waiting = waiting.saturating_sub(1);
                    answered = Instant::now();
                }
                if answered.elapsed() > Duration::from_secs(1) {
                    waiting = 0;
                }
                match waiting < EACH && udp.send_to(&packet, server.dns).is_ok() {
                    true => (waiting, datagrams) = (waiting + 1, datagrams + 1),
                    false => thread::yield_now(),
                }
            }
            [batches, datagrams, open.len() as u64]
        });
        assert!(batches > 1000, "{batches}");
        format!(
            "{batches} batches of queries over TCP, {left} connections left; {datagrams} over UDP"
        )
    });
}

#[test]
fn pipelined_queries_are_all_answered() {
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
        format!("{sent} queries on one connection, all answered")
    });
}
