//! Frames of HTTP/2 that cost the server more than the client: streams that are reset, header blocks without an end,
//! headers that grow when they are read, windows that stay closed, frames that want an answer.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;
use support::server::Server;

use super::harness::{MANY, flood_encrypted, long_question, question};
use super::http2::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, FIRST_KEPT, GOAWAY, HEADERS, Http2,
    INITIAL_WINDOW_SIZE, PING, PRIORITY, RST_STREAM, Reading, WINDOW_UPDATE, drain, press,
};
use super::{attacker, ended, in_threads, open, tls};

const THREADS: u32 = 8;
/// Numbers of attackers that each of those has for itself.
const EACH: u32 = 100_000;
/// How long an attacker waits for the server.
const PATIENCE: Duration = Duration::from_secs(5);
/// Streams that a client may have open at a time.
const STREAMS: usize = 100;
/// Octets of a frame at most.
const FRAME: usize = 16 * 1024;
/// `CANCEL` (RFC 9113 section 7).
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// A connection that blocks no more, of one attacker of a thread.
fn connect(server: &Server, thread: u32, number: u64, said: &[(u16, u32)]) -> Option<Http2> {
    let from = attacker(thread * EACH + number as u32 % EACH);
    let to: SocketAddr = server.address("https");
    let stream = open(to, from, PATIENCE).ok()?;
    let client = Http2::begin(stream, &tls::config("h2", &TLS13), said).ok()?;
    client.stream.sock.set_nonblocking(true).unwrap();
    Some(client)
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn rapid_reset() {
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
                    is_open = press(&mut client.stream, &batch, Reading::All, until);
                    requests += u64::from(is_open) * STREAMS as u64;
                }
            }
            [requests, connections]
        });
        let misused = ended(server, "misuse");
        assert!(requests > 1000, "{requests}");
        format!(
            "{} requests a second, each reset at once, over {connections} connections, {misused} ended as misuse",
            requests / 8
        )
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn continuations_without_end() {
    flood_encrypted("HTTP/2: continuations", |server, until| {
        let start = http2::frame(
            HEADERS,
            END_STREAM,
            1,
            &http2::get(&question("db.prod.global")),
        );
        let long = http2::field("x-a", &"a".repeat(FRAME - 16));
        // Frames without anything, with short fields, and with one long field.
        let rest = [vec![], http2::field("x-a", "a").repeat(100), long];
        let rest = rest.map(|fields| http2::frame(CONTINUATION, 0, 1, &fields));
        let [connections, octets, most] = in_threads(THREADS, |thread| {
            let (mut connections, mut octets, mut most) = (0, 0, 0);
            while Instant::now() < until {
                connections += 1;
                let Some(mut client) = connect(server, thread, connections, &[]) else {
                    continue;
                };
                let next = &rest[connections as usize % rest.len()];
                let mut sent = start.len() as u64;
                let mut is_open = press(&mut client.stream, &start, Reading::All, until);
                while is_open {
                    is_open = press(&mut client.stream, next, Reading::All, until);
                    sent += next.len() as u64;
                }
                octets += sent;
                most = most.max(sent);
            }
            [connections, octets, most]
        });
        assert!(connections > u64::from(2 * THREADS), "{connections}");
        format!(
            "{connections} header blocks without an end, {} KiB each, {} KiB at most",
            octets / connections / 1024,
            most / u64::from(THREADS) / 1024
        )
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn header_lists_that_wait() {
    flood_encrypted("HTTP/2: header lists", |server, until| {
        // Just below the limit of 16 KiB; their bodies never come, so that all are held for as long as bodies may take.
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
                    let is_open = press(&mut client.stream, &request, Reading::All, until);
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
#[ignore = "needs minutes and root: tests/chaos/run"]
fn fields_that_grow_when_they_are_read() {
    flood_encrypted("HTTP/2: HPACK bomb", |server, until| {
        // 4000 octets that the table keeps, and then one octet for each time that they are named.
        let kept = http2::kept_field("x-a", &"a".repeat(3900));
        let start = [http2::get(&question("db.prod.global")), kept].concat();
        let bomb = [
            http2::get(&question("db.prod.global")),
            vec![FIRST_KEPT; 15 * 1024],
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
                let mut is_open = press(&mut client.stream, &first, Reading::All, until);
                while is_open {
                    let frame = http2::frame(HEADERS, flags, client.next_stream(), &bomb);
                    is_open = press(&mut client.stream, &frame, Reading::All, until);
                    bombs += 1;
                }
            }
            [bombs, connections]
        });
        assert!(bombs > 100, "{bombs}");
        format!("{bombs} requests of 15 KiB that mean 60 MiB, over {connections} connections")
    });
}

/// Opens connections that ask a hundred times at once and take no reply.
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
                press(&mut client.stream, &batch, Reading::Nothing, until);
            }
            while Instant::now() < until {
                // Half of them take what comes beside the replies, as a client does that is well but for its windows.
                for client in open.iter_mut().step_by(2) {
                    drain(&mut client.stream);
                }
                thread::sleep(Duration::from_millis(100));
            }
            [requests]
        });
        let slow = ended(server, "slow");
        assert!(slow > 300, "{slow}");
        format!(
            "{} connections, {requests} requests for {MANY} addresses with a window of 0; {slow} ended as slow",
            u64::from(THREADS) * EACH
        )
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn closed_windows() {
    close_windows("HTTP/2: closed windows", &question("many.prod.global"));
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn closed_windows_and_long_queries() {
    close_windows(
        "HTTP/2: the same, 4 KiB each",
        &long_question("many.prod.global"),
    );
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn frames_that_want_an_answer() {
    let flood = |name: &str, reading: Reading| {
        flood_encrypted(name, |server, until| {
            let kinds = [
                http2::settings(&[(INITIAL_WINDOW_SIZE, 65_535)]),
                http2::frame(PING, 0, 0, &[7; 8]),
                http2::frame(PRIORITY, 0, 3, &[0, 0, 0, 0, 1]),
                http2::frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
                // A kind that nobody knows.
                http2::frame(0x20, 0, 0, &[0; 8]),
                // Of a stream whose request is under way.
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
                    let mut is_open = press(&mut client.stream, &request, reading, until);
                    while is_open {
                        is_open = press(&mut client.stream, &batch, reading, until);
                        frames += u64::from(is_open) * (FRAME / kind.len()) as u64;
                    }
                }
                [frames, connections]
            });
            assert!(frames > 1000, "{frames}");
            format!(
                "{} frames a second of six kinds over {connections} connections",
                frames / 8
            )
        });
    };
    flood("HTTP/2: SETTINGS, PING, …", Reading::All);
    flood("the same, nothing read", Reading::Nothing);
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn goaway_among_requests() {
    flood_encrypted("HTTP/2: GOAWAY races", |server, until| {
        let fields = http2::get(&question("many.prod.global"));
        // The last stream of the server that was seen, and no error.
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
                // Gone while the server answers, gone in the middle of a request, gone after some replies.
                let (octets, reading) = match connections % 3 {
                    0 => (&race[..], Reading::Nothing),
                    1 => (&race[..race.len() - 7], Reading::Nothing),
                    _ => (&race[..], Reading::All),
                };
                press(&mut client.stream, octets, reading, until);
                if reading == Reading::All {
                    thread::sleep(Duration::from_millis(2));
                    drain(&mut client.stream);
                }
            }
            [connections]
        });
        assert!(connections > 100, "{connections}");
        format!(
            "{} connections a second with requests before and after a GOAWAY",
            connections / 8
        )
    });
}
