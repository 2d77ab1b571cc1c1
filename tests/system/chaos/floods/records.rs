//! Attacks inside TLS: records of any size, repeated handshakes, queries without reads of the replies.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use rustls::ContentType;
use rustls::version::TLS13;
use support::server::Server;
use support::wire::{frame, read_framed};

use super::harness::{MANY, flood_encrypted, question};
use super::tls::{self, Forger, Stream};
use super::{attacker, count_ended, in_threads, open, socket};

/// Number of parallel attackers.
const THREADS: u32 = 8;
/// Number of attacker addresses of each thread.
const EACH: u32 = 100_000;
/// Time limit of an attacker for replies of the server.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the largest record in octets.
const RECORD: usize = 16 * 1024;
/// The first octet of a record (RFC 8446 section 5.1): `handshake`.
const HANDSHAKE: u8 = 22;

#[test]
fn renegotiation_is_refused() {
    flood_encrypted("TLS 1.2: renegotiation", |server, until| {
        // Without the header of its record.
        let hello = tls::hello(&tls::config("dot", &rustls::version::TLS12))[5..].to_vec();
        let [connections, asked, granted] = in_threads(THREADS, |thread| {
            let (mut connections, mut asked, mut granted) = (0, 0, 0);
            while Instant::now() < until {
                let from = attacker(thread * EACH + connections as u32);
                let stream = open(server.address("tls"), from, TIMEOUT).unwrap();
                let Ok(mut forger) = Forger::begin(stream, "dot") else {
                    continue;
                };
                connections += 1;
                for _ in 0..16 {
                    let record = forger.record(ContentType::Handshake, &hello);
                    asked += u64::from(forger.stream.write_all(&record).is_ok());
                }
                // The server sends an alert and closes.
                granted += handshakes(&read_to_end(&mut forger.stream));
            }
            [connections, asked, granted]
        });
        assert!(connections > 100, "{connections}");
        assert_eq!(granted, 0);
        format!(
            "{connections} connections with {asked} ClientHello messages; {granted} started a handshake"
        )
    });
}

/// Reads until the server closes the connection, or the time limit.
fn read_to_end(from: &mut impl io::Read) -> Vec<u8> {
    let mut octets = Vec::new();
    let ended = from.read_to_end(&mut octets);
    // A reset also ends the connection.
    let is_end = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
    assert!(
        ended.as_ref().is_ok() || ended.as_ref().is_err_and(is_end),
        "{ended:?}"
    );
    octets
}

/// Counts the records that belong to a handshake.
fn handshakes(mut octets: &[u8]) -> u64 {
    let mut count = 0;
    while let [kind, _, _, high, low, rest @ ..] = octets {
        count += u64::from(*kind == HANDSHAKE);
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        octets = rest.get(length..).unwrap_or_default();
    }
    count
}

#[test]
fn key_updates_do_not_block_honest_clients() {
    flood_encrypted("TLS 1.3: key updates", |server, until| {
        let config = tls::config("dot", &TLS13);
        let packet = frame(&question("db.prod.global"));
        let [updates, connections] = in_threads(THREADS, |thread| {
            let (mut updates, mut connections) = (0, 0);
            while Instant::now() < until {
                connections += 1;
                let from = attacker(thread * EACH + connections as u32);
                let stream = open(server.address("tls"), from, TIMEOUT).unwrap();
                let Ok(mut stream) = tls::begin(stream, &config) else {
                    continue;
                };
                // A query, so that the connection is not closed as unproductive. Each update costs the server a key.
                while Instant::now() < until {
                    let sent = (0..20).try_for_each(|_| {
                        stream
                            .conn
                            .refresh_traffic_keys()
                            .map_err(io::Error::other)?;
                        stream.conn.write_tls(&mut stream.sock).map(drop)
                    });
                    let asked = sent.and_then(|()| stream.write_all(&packet));
                    if asked.and_then(|()| read_framed(&mut stream)).is_err() {
                        break;
                    }
                    updates += 20;
                }
            }
            [updates, connections]
        });
        assert!(updates > 1000, "{updates}");
        format!("{} per second over {connections} connections", updates / 8)
    });
}

#[test]
fn empty_records_do_not_block_honest_clients() {
    flood_encrypted("TLS 1.2: empty records", |server, until| {
        let [records, connections] = in_threads(THREADS, |thread| {
            let (mut records, mut connections) = (0, 0);
            while Instant::now() < until {
                let from = attacker(thread * EACH + connections as u32);
                let stream = open(server.address("tls"), from, TIMEOUT).unwrap();
                let Ok(mut forger) = Forger::begin(stream, "dot") else {
                    continue;
                };
                connections += 1;
                while Instant::now() < until {
                    let some: Vec<u8> = (0..100)
                        .flat_map(|_| forger.record(ContentType::ApplicationData, &[]))
                        .collect();
                    if forger.stream.write_all(&some).is_err() {
                        break;
                    }
                    records += 100;
                }
            }
            [records, connections]
        });
        assert!(records > 1000, "{records}");
        format!("{records} over {connections} connections")
    });
}

#[test]
fn queries_in_tiny_records_are_answered() {
    flood_encrypted("TLS: tiny records", |server, until| {
        let config = tls::config("dot", &TLS13);
        let packet = frame(&question("many.prod.global"));
        let [answered] = in_threads(THREADS, |thread| {
            let stream = open(server.address("tls"), attacker(thread), TIMEOUT).unwrap();
            let mut stream = tls::begin(stream, &config).unwrap();
            let mut answered = 0;
            while Instant::now() < until {
                // Each octet is a record; one write sends all of them.
                for octet in &packet {
                    stream.conn.writer().write_all(&[*octet]).unwrap();
                }
                let reply = stream.flush().and_then(|()| read_framed(&mut stream));
                assert_eq!(reply.unwrap()[6..8], (MANY as u16).to_be_bytes());
                answered += 1;
            }
            [answered]
        });
        assert!(answered > 100, "{answered}");
        format!(
            "{} queries per second, each in {} records, all answered",
            answered / 8,
            packet.len()
        )
    });
}

#[test]
fn too_long_messages_are_closed_as_malformed() {
    flood_encrypted("TLS: incomplete messages", |server, until| {
        let config = tls::config("dot", &TLS13);
        // A message of 65,535 octets; and an incomplete one of 4096 octets after three queries.
        let long = vec![0xff; RECORD];
        let mut whole = frame(&question("many.prod.global")).repeat(3);
        whole.extend(4096_u16.to_be_bytes());
        whole.resize(whole.len() + 4095, 0);
        let [refused, waiting] = in_threads(THREADS, |thread| {
            let (mut refused, mut waiting) = (0, 0);
            let mut kept = Vec::new();
            while Instant::now() < until {
                let from = attacker(thread * EACH + (refused + waiting) as u32);
                let stream = open(server.address("tls"), from, TIMEOUT).unwrap();
                let Ok(mut stream) = tls::begin(stream, &config) else {
                    continue;
                };
                if refused <= waiting {
                    let _ = stream.write_all(&long);
                    // The server sends no reply and closes the connection at once.
                    assert!(
                        !matches!(stream.read(&mut [0]), Ok(1..)),
                        "a reply to an incomplete message"
                    );
                    refused += 1;
                } else {
                    let _ = stream.write_all(&whole);
                    waiting += 1;
                    kept.push(stream);
                }
                if kept.len() > 500 {
                    kept.drain(..250);
                }
            }
            [refused, waiting]
        });
        let (malformed, replaced) = (
            count_ended(server, "malformed"),
            count_ended(server, "replaced"),
        );
        assert!(
            refused > 100 && malformed >= refused,
            "{malformed} of {refused}"
        );
        format!(
            "{refused} of 65,535 octets, {malformed} closed as malformed; {waiting} of 4096 without the last octet, \
             {replaced} replaced"
        )
    });
}

/// Opens a non-blocking TLS connection with the smallest receive window of the kernel.
fn with_small_window(server: &Server, number: u32) -> Stream {
    let socket = socket(attacker(number));
    socket.set_recv_buffer_size(1).unwrap();
    let to = server.address("tls");
    socket.connect_timeout(&to.into(), TIMEOUT).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let stream = tls::begin(socket.into(), &tls::config("dot", &TLS13)).unwrap();
    stream.sock.set_nonblocking(true).unwrap();
    stream
}

#[test]
fn clients_that_do_not_read_are_closed_as_slow() {
    flood_encrypted("TLS: unread replies", |server, until| {
        let packet = frame(&question("many.prod.global")).repeat(64);
        const EACH: u32 = 125;
        in_threads(THREADS, |thread| {
            let numbers = thread * EACH..(thread + 1) * EACH;
            let readers = numbers.map(|number| with_small_window(server, number));
            let mut readers: Vec<Stream> = readers.collect();
            while Instant::now() < until {
                for stream in &mut readers {
                    tls::push(stream, &packet);
                }
                thread::sleep(Duration::from_secs(1));
            }
            [0]
        });
        let slow = count_ended(server, "slow");
        assert!(slow > 300, "{slow}");
        format!(
            "{} connections that query {MANY} addresses and read nothing; {slow} closed as slow",
            EACH * THREADS
        )
    });
}

#[test]
fn busy_tls_connections_do_not_block_honest_clients() {
    flood_encrypted("TLS: busy connections", |server, until| {
        const EACH: u32 = 125;
        let config = tls::config("dot", &TLS13);
        let batch = frame(&question("db.prod.global")).repeat(300);
        let [batches, left] = in_threads(THREADS, |thread| {
            let numbers = thread * EACH..(thread + 1) * EACH;
            let open = numbers.map(|number| {
                let stream = open(server.address("tls"), attacker(number), TIMEOUT).unwrap();
                let stream = tls::begin(stream, &config).unwrap();
                stream.sock.set_nonblocking(true).unwrap();
                stream
            });
            let mut open: Vec<Stream> = open.collect();
            let mut batches = 0;
            while Instant::now() < until {
                open.retain_mut(|stream| {
                    batches += 1;
                    tls::push(stream, &batch) && tls::drain(stream)
                });
            }
            [batches, open.len() as u64]
        });
        assert!(batches > 1000, "{batches}");
        format!(
            "{batches} batches of queries over {} connections, {left} left",
            EACH * THREADS
        )
    });
}

#[test]
fn pipelined_tls_queries_are_all_answered() {
    flood_encrypted("TLS: pipelined queries", |server, until| {
        let config = tls::config("dot", &TLS13);
        let batch = frame(&question("many.prod.global")).repeat(200);
        let [answered] = in_threads(THREADS, |thread| {
            let stream = open(server.address("tls"), attacker(thread), TIMEOUT).unwrap();
            let mut stream = tls::begin(stream, &config).unwrap();
            let mut answered = 0;
            while Instant::now() < until {
                stream.write_all(&batch).unwrap();
                for _ in 0..200 {
                    let reply = read_framed(&mut stream).unwrap();
                    assert_eq!(reply[6..8], (MANY as u16).to_be_bytes());
                    answered += 1;
                }
            }
            let _ = stream.sock.shutdown(Shutdown::Both);
            [answered]
        });
        assert!(answered > 5000, "{answered}");
        format!(
            "{} queries per second over {THREADS} connections, 200 at once, all answered in order",
            answered / 8
        )
    });
}
