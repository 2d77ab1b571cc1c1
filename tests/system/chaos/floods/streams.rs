//! HTTP/2 frames that cost the server more than the client: reset streams, endless header blocks, headers that expand
//! when decoded, closed windows, frames that require a reply.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;
use support::server::Server;

use super::harness::{MANY, flood_encrypted, long_question, question};
use super::http2::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, FIRST_INDEXED, GOAWAY, HEADERS, Http2,
    INITIAL_WINDOW_SIZE, PING, PRIORITY, RST_STREAM, Reading, WINDOW_UPDATE, drain, send_all,
};
use super::{attacker, count_ended, in_threads, open, tls};

/// Number of parallel attackers.
const THREADS: u32 = 8;
/// Number of attacker addresses of each thread.
const EACH: u32 = 100_000;
/// Time limit of an attacker for replies of the server.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of open streams of a client.
const STREAMS: usize = 100;
/// Maximum size of a frame in octets.
const FRAME: usize = 16 * 1024;
/// `CANCEL` (RFC 9113 section 7).
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// Opens a non-blocking connection of one attacker of a thread.
fn connect(server: &Server, thread: u32, number: u64, settings: &[(u16, u32)]) -> Option<Http2> {
    let from = attacker(thread * EACH + number as u32 % EACH);
    let to: SocketAddr = server.address("https");
    let stream = open(to, from, TIMEOUT).ok()?;
    let client = Http2::begin(stream, &tls::config("h2", &TLS13), settings).ok()?;
    client.stream.sock.set_nonblocking(true).unwrap();
    Some(client)
}

#[test]
fn rapid_resets_do_not_block_honest_clients() {
    flood_encrypted("HTTP/2: rapid reset", |server, until| {
        let fields = http2::get(&question("many.prod.global"));
        let [requests, connections] = in_threads(THREADS, |thread| {
            let (mut requests, mut connections) = (0, 0);
            while Instant::now() < until {
                connections += 1;
                let Some(mut client) = connect(server, thread, connections, &[]) else {
                    continue;
                };
                let mut is_open = true;
                while is_open && Instant::now() < until {
                    let mut batch = Vec::new();
                    for _ in 0..STREAMS {
                        let stream = client.next_stream();
                        let flags = END_STREAM | END_HEADERS;
                        batch.extend(http2::frame(HEADERS, flags, stream, &fields));
                        batch.extend(http2::frame(RST_STREAM, 0, stream, &CANCEL));
                    }
                    is_open = send_all(&mut client.stream, &batch, Reading::All, until);
                    requests += u64::from(is_open) * STREAMS as u64;
                }
            }
            [requests, connections]
        });
        let malformed = count_ended(server, "malformed");
        assert!(requests > 1000, "{requests}");
        format!(
            "{} requests per second, each reset at once, over {connections} connections, {malformed} closed as malformed",
            requests / 8
        )
    });
}

#[test]
fn endless_header_blocks_do_not_exhaust_memory() {
    flood_encrypted("HTTP/2: continuations", |server, until| {
        let start = http2::frame(
            HEADERS,
            END_STREAM,
            1,
            &http2::get(&question("db.prod.global")),
        );
        let long = http2::field("x-a", &"a".repeat(FRAME - 16));
        // Empty frames, frames with short fields, and frames with one long field.
        let rest = [vec![], http2::field("x-a", "a").repeat(100), long]
            .map(|fields| http2::frame(CONTINUATION, 0, 1, &fields));
        let [connections, octets, most] = in_threads(THREADS, |thread| {
            let (mut connections, mut octets, mut most) = (0, 0, 0);
            while Instant::now() < until {
                connections += 1;
                let Some(mut client) = connect(server, thread, connections, &[]) else {
                    continue;
                };
                let next = &rest[connections as usize % rest.len()];
                let mut sent = start.len() as u64;
                let mut is_open = send_all(&mut client.stream, &start, Reading::All, until);
                while is_open {
                    is_open = send_all(&mut client.stream, next, Reading::All, until);
                    sent += next.len() as u64;
                }
                octets += sent;
                most = most.max(sent);
            }
            [connections, octets, most]
        });
        assert!(connections > u64::from(2 * THREADS), "{connections}");
        format!(
            "{connections} endless header blocks, {} KiB each, {} KiB maximum",
            octets / connections / 1024,
            most / u64::from(THREADS) / 1024
        )
    });
}

#[test]
fn requests_without_bodies_do_not_exhaust_memory() {
    flood_encrypted("HTTP/2: header lists", |server, until| {
        // Just below the limit of 16 KiB. The bodies never arrive, so that the server keeps all lists until its
        // timeout.
        let field = http2::field("x-a", &"a".repeat(14 * 1024));
        let fields = [http2::post(), field].concat();
        const EACH: u64 = 100;
        let [requests, closed] = in_threads(THREADS, |thread| {
            let open = (0..EACH).filter_map(|number| connect(server, thread, number, &[]));
            let mut open: Vec<Http2> = open.collect();
            let mut requests = 0;
            let mut closed = 0;
            while Instant::now() < until && !open.is_empty() {
                open.retain_mut(|client| {
                    let stream = client.next_stream();
                    let request = http2::frame(HEADERS, END_HEADERS, stream, &fields);
                    let is_open = send_all(&mut client.stream, &request, Reading::All, until);
                    requests += u64::from(is_open);
                    closed += u64::from(!is_open);
                    is_open
                });
            }
            [requests, closed]
        });
        assert!(requests > 1000, "{requests}");
        format!(
            "{requests} requests with 14 KiB of fields and no body over {} connections, {closed} closed",
            u64::from(THREADS) * EACH
        )
    });
}

#[test]
fn hpack_bombs_do_not_exhaust_memory() {
    flood_encrypted("HTTP/2: HPACK bomb", |server, until| {
        // A field of 4000 octets in the dynamic table, then one octet for each reference to it.
        let kept = http2::indexed_field("x-a", &"a".repeat(3900));
        let start = [http2::get(&question("db.prod.global")), kept].concat();
        let bomb = [
            http2::get(&question("db.prod.global")),
            vec![FIRST_INDEXED; 15 * 1024],
        ]
        .concat();
        let [bombs, connections] = in_threads(THREADS, |thread| {
            let (mut bombs, mut connections) = (0, 0);
            while Instant::now() < until {
                connections += 1;
                let Some(mut client) = connect(server, thread, connections, &[]) else {
                    continue;
                };
                let flags = END_STREAM | END_HEADERS;
                let first = http2::frame(HEADERS, flags, client.next_stream(), &start);
                let mut is_open = send_all(&mut client.stream, &first, Reading::All, until);
                while is_open {
                    let frame = http2::frame(HEADERS, flags, client.next_stream(), &bomb);
                    is_open = send_all(&mut client.stream, &frame, Reading::All, until);
                    bombs += 1;
                }
            }
            [bombs, connections]
        });
        assert!(bombs > 100, "{bombs}");
        format!("{bombs} requests of 15 KiB that expand to 60 MiB, over {connections} connections")
    });
}

/// Opens connections that send a hundred queries at once and read no reply.
fn close_windows(name: &str, packet: &[u8]) {
    flood_encrypted(name, |server, until| {
        const EACH: u64 = 125;
        let fields = http2::get(packet);
        let [requests] = in_threads(THREADS, |thread| {
            let said = [(INITIAL_WINDOW_SIZE, 0)];
            let open = (0..EACH).filter_map(|number| connect(server, thread, number, &said));
            let mut open: Vec<Http2> = open.collect();
            let mut requests = 0;
            for client in &mut open {
                let mut batch = Vec::new();
                for _ in 0..STREAMS {
                    let stream = client.next_stream();
                    let flags = END_STREAM | END_HEADERS;
                    batch.extend(http2::frame(HEADERS, flags, stream, &fields));
                }
                requests += STREAMS as u64;
                send_all(&mut client.stream, &batch, Reading::Nothing, until);
            }
            while Instant::now() < until {
                // Half of them read all other frames, like a normal client with closed windows.
                for client in open.iter_mut().step_by(2) {
                    drain(&mut client.stream);
                }
                thread::sleep(Duration::from_millis(100));
            }
            [requests]
        });
        // Long queries exhaust the memory of unread octets before the slowest are closed.
        let [slow, memory] = ["slow", "memory"].map(|reason| count_ended(server, reason));
        assert!(slow + memory > 300, "{slow} slow, {memory} memory");
        format!(
            "{} connections, {requests} requests for {MANY} addresses with a window of 0; {slow} closed as slow, \
             {memory} as memory",
            u64::from(THREADS) * EACH
        )
    });
}

#[test]
fn closed_windows_do_not_exhaust_memory() {
    close_windows("HTTP/2: closed windows", &question("many.prod.global"));
}

#[test]
fn closed_windows_with_long_queries_do_not_exhaust_memory() {
    close_windows(
        "HTTP/2: closed windows, 4 KiB queries",
        &long_question("many.prod.global"),
    );
}

#[test]
fn frames_that_require_replies_do_not_block_honest_clients() {
    let flood = |name: &str, reading: Reading| {
        flood_encrypted(name, |server, until| {
            let kinds = [
                http2::settings(&[(INITIAL_WINDOW_SIZE, 65_535)]),
                http2::frame(PING, 0, 0, &[7; 8]),
                http2::frame(PRIORITY, 0, 3, &[0, 0, 0, 0, 1]),
                http2::frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
                // An unknown frame type.
                http2::frame(0x20, 0, 0, &[0; 8]),
                // Data of a stream with an incomplete request.
                http2::frame(DATA, 0, 1, &[]),
            ];
            let request = http2::frame(HEADERS, END_HEADERS, 1, &http2::post());
            let [frames, connections] = in_threads(kinds.len() as u32, |thread| {
                let kind = &kinds[thread as usize];
                let batch = kind.repeat(FRAME / kind.len());
                let (mut frames, mut connections) = (0, 0);
                while Instant::now() < until {
                    connections += 1;
                    let Some(mut client) = connect(server, thread, connections, &[]) else {
                        continue;
                    };
                    let mut is_open = send_all(&mut client.stream, &request, reading, until);
                    while is_open {
                        is_open = send_all(&mut client.stream, &batch, reading, until);
                        frames += u64::from(is_open) * (FRAME / kind.len()) as u64;
                    }
                }
                [frames, connections]
            });
            assert!(frames > 1000, "{frames}");
            format!(
                "{} frames per second of six types over {connections} connections",
                frames / 8
            )
        });
    };
    flood("HTTP/2: SETTINGS, PING, …", Reading::All);
    flood("HTTP/2: SETTINGS, PING, …, unread", Reading::Nothing);
}

#[test]
fn goaway_during_requests_does_not_block_honest_clients() {
    flood_encrypted("HTTP/2: GOAWAY races", |server, until| {
        let fields = http2::get(&question("many.prod.global"));
        // Last stream ID 0, no error.
        let goaway = http2::frame(GOAWAY, 0, 0, &[0; 8]);
        let [connections] = in_threads(THREADS, |thread| {
            let mut connections = 0;
            while Instant::now() < until {
                connections += 1;
                let Some(mut client) = connect(server, thread, connections, &[]) else {
                    continue;
                };
                let mut requests = |count: usize| -> Vec<u8> {
                    let flags = END_STREAM | END_HEADERS;
                    let request = |_| http2::frame(HEADERS, flags, client.next_stream(), &fields);
                    (0..count).flat_map(request).collect()
                };
                let race = [requests(20), goaway.clone(), requests(20)].concat();
                // Disconnect during the answers, in the middle of a request, or after some replies.
                let (octets, reading) = match connections % 3 {
                    0 => (&race[..], Reading::Nothing),
                    1 => (&race[..race.len() - 7], Reading::Nothing),
                    _ => (&race[..], Reading::All),
                };
                send_all(&mut client.stream, octets, reading, until);
                if reading == Reading::All {
                    thread::sleep(Duration::from_millis(2));
                    drain(&mut client.stream);
                }
            }
            [connections]
        });
        assert!(connections > 100, "{connections}");
        format!(
            "{} connections per second with requests before and after a GOAWAY",
            connections / 8
        )
    });
}
