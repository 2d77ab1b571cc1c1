//! TLS connections that never send a query: fast and incomplete handshakes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use support::server::Server;

use super::harness::{CONNECTIONS, flood_encrypted};
use super::{attacker, connect_to, count_ended, in_threads, open, send, tls};

/// Number of parallel attackers.
const THREADS: u32 = 8;
/// Number of attacker addresses of each thread.
const EACH: u32 = 100_000;
/// Number of open connections that replaces none.
const WITHIN: u32 = 240;
/// Time limit of an attacker for replies of the server.
const TIMEOUT: Duration = Duration::from_secs(5);

#[test]
fn complete_handshakes_do_not_block_honest_clients() {
    flood_encrypted("TLS: complete handshakes", |server, until| {
        let (to, client) = (server.address("tls"), tls::client());
        let [done, failed] = in_threads(THREADS, |thread| {
            let (mut done, mut failed) = (0, 0);
            let mut kept = Vec::new();
            while Instant::now() < until {
                let from = attacker(thread * EACH + (done + failed) as u32 % EACH);
                let stream = open(to, from, TIMEOUT);
                match stream.and_then(|stream| client.handshake(stream)) {
                    Ok(stream) => {
                        done += 1;
                        kept.push(stream);
                    }
                    Err(_) => failed += 1,
                }
                // All threads together hold more connections than the limit.
                if kept.len() > 2 * CONNECTIONS as usize / THREADS as usize {
                    kept.drain(..kept.len() / 2);
                }
            }
            [done, failed]
        });
        let replaced = count_ended(server, "replaced");
        assert!(done > CONNECTIONS, "{done}");
        format!(
            "{} handshakes per second without a query; {failed} failed, {replaced} replaced",
            done / 8
        )
    });
}

#[test]
fn replayed_client_hellos_do_not_block_honest_clients() {
    flood_encrypted("TLS: replayed hellos", |server, until| {
        // The server's part of a handshake is the expensive one. A client that disconnects skips its own part.
        let to = server.address("tls");
        let hello = tls::hello();
        let [answered, failed] = in_threads(THREADS, |thread| {
            let (mut answered, mut failed) = (0, 0);
            while Instant::now() < until {
                let from = attacker(thread * EACH + (answered + failed) as u32 % EACH);
                let answer = open(to, from, TIMEOUT).and_then(|mut stream| {
                    stream.write_all(&hello)?;
                    stream.read_exact(&mut [0])
                });
                match answer {
                    Ok(()) => answered += 1,
                    Err(_) => failed += 1,
                }
            }
            [answered, failed]
        });
        let failures = count_ended(server, "handshake");
        assert!(
            answered > CONNECTIONS && failures > 0,
            "{answered}, {failures}"
        );
        format!(
            "{} per second, disconnected after the answer; {failed} failed, {failures} closed in the handshake",
            answered / 8
        )
    });
}

#[test]
fn incomplete_handshakes_time_out() {
    flood_encrypted("TLS: incomplete handshakes", |server, until| {
        let to = server.address("tls");
        let hello = tls::hello();
        let connect = |number: u32| {
            let mut stream = connect_to(to, attacker(number));
            // Nothing, a ClientHello, half a ClientHello, or no TLS.
            match number % 4 {
                0 => {}
                1 => send(&mut stream, &hello),
                2 => send(&mut stream, &hello[..hello.len() / 2]),
                _ => send(&mut stream, b"GET / HTTP/1.1\r\n\r\n"),
            }
            stream
        };
        let open: Vec<TcpStream> = (0..WITHIN).map(connect).collect();
        await_failures(server, u64::from(WITHIN), until);
        let failures = count_ended(server, "handshake");
        assert_eq!(failures, u64::from(WITHIN));
        drop(open);
        format!("{WITHIN} connections; {failures} closed in the handshake, after 5 s")
    });
}

#[test]
fn large_client_hellos_do_not_exhaust_memory() {
    flood_encrypted("TLS: large hellos", |server, until| {
        let to = server.address("tls");
        // Records of 16 KiB with a message of 64 KiB that lacks its end (RFC 8446 sections 4 and 5.1).
        let message = [&[1, 0, 0xff, 0xff, 3, 3][..], &[7; 60_000]].concat();
        let records = message.chunks(16_384).flat_map(|part| {
            let length = (part.len() as u16).to_be_bytes();
            [&[22, 3, 1][..], &length, part].concat()
        });
        let records: Vec<u8> = records.collect();
        let [opened] = in_threads(THREADS, |thread| {
            let numbers = thread * EACH..thread * EACH + WITHIN / THREADS;
            let open = numbers.filter_map(|number| {
                let mut stream = open(to, attacker(number), TIMEOUT).ok()?;
                stream.write_all(&records).ok()?;
                Some(stream)
            });
            let open: Vec<TcpStream> = open.collect();
            await_failures(server, u64::from(WITHIN), until);
            [open.len() as u64]
        });
        let failures = count_ended(server, "handshake");
        assert_eq!(failures, u64::from(WITHIN));
        format!(
            "{opened} connections received 60 KiB of one message; {failures} closed in the handshake"
        )
    });
}

/// Waits until `count` handshakes have failed, or the flood ends.
fn await_failures(server: &Server, count: u64, until: Instant) {
    while Instant::now() < until && count_ended(server, "handshake") < count {
        thread::sleep(Duration::from_millis(100));
    }
}
