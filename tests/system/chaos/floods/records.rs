//! Attacks inside TLS: new keys and pipelined queries, as fast as possible.

use std::io::{self, Write as _};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use support::commands::{command, tool};
use support::tls::Stream;
use support::wire::{frame, read_framed};

use super::harness::{flood_encrypted, question};
use super::tls;
use super::{attacker, in_threads, open};

/// Number of parallel attackers.
const THREADS: u32 = 8;
/// Number of attacker addresses of each thread.
const EACH: u32 = 100_000;
/// Time limit of an attacker for replies of the server.
const TIMEOUT: Duration = Duration::from_secs(5);

#[test]
fn key_updates_do_not_block_honest_clients() {
    flood_encrypted("TLS 1.3: key updates", |server, until| {
        let client = tls::client();
        let packet = frame(&question("db.prod.global"));
        let [updates, connections] = in_threads(THREADS, |thread| {
            let (mut updates, mut connections) = (0, 0);
            while Instant::now() < until {
                connections += 1;
                let from = attacker(thread * EACH + connections as u32);
                let stream = open(server.address("tls"), from, TIMEOUT).unwrap();
                let Ok(mut stream) = client.handshake(stream) else {
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

/// The server refuses each one with an alert: rustls never renegotiates.
#[test]
fn renegotiations_do_not_block_honest_clients() {
    flood_encrypted("TLS 1.2: renegotiation", |server, until| {
        let to = server.address("tls").to_string();
        let [requests, connections] = in_threads(THREADS, |_| {
            let (mut requests, mut connections) = (0, 0);
            while Instant::now() < until {
                connections += 1;
                let mut client = command(tool("openssl").unwrap());
                client.args(["s_client", "-tls1_2", "-alpn", "dot", "-connect", &to]);
                client.stdin(Stdio::piped()).stdout(Stdio::null());
                let mut client = client.stderr(Stdio::null()).spawn().unwrap();
                let mut input = client.stdin.take().unwrap();
                // The letter R at the start of a line asks for a renegotiation.
                while Instant::now() < until && input.write_all(b"R\n").is_ok() {
                    requests += 1;
                    thread::sleep(Duration::from_millis(1));
                }
                let _ = client.kill();
                let _ = client.wait();
            }
            [requests, connections]
        });
        format!("{requests} requests over {connections} connections")
    });
}

#[test]
fn busy_tls_connections_do_not_block_honest_clients() {
    flood_encrypted("TLS: busy connections", |server, until| {
        const EACH: u32 = 125;
        let client = tls::client();
        let batch = frame(&question("db.prod.global")).repeat(300);
        let [batches, left] = in_threads(THREADS, |thread| {
            let numbers = thread * EACH..(thread + 1) * EACH;
            let open = numbers.map(|number| {
                let stream = open(server.address("tls"), attacker(number), TIMEOUT).unwrap();
                let stream = client.handshake(stream).unwrap();
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
