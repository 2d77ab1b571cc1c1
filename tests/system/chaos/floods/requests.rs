//! Slow, large and endless requests over HTTP/1.1 and HTTP/2.

use std::io::{self, Read as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;
use support::server::Server;

use super::harness::{MANY, flood_encrypted, question};
use super::http2::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Http2, Reading, base64url, drain,
    send_all,
};
use super::tls::{self, Stream};
use super::{attacker, count_ended, in_threads, open, socket};

/// Number of parallel attackers.
const THREADS: u32 = 8;
/// Number of attacker addresses of each thread.
const EACH: u32 = 100_000;
/// Time limit of an attacker for replies of the server.
const TIMEOUT: Duration = Duration::from_secs(6);
/// Size of the longest frame in octets.
const FRAME: usize = 16 * 1024;
/// Length of the query parameter of an endless GET.
const LONG: usize = 1 << 20;

/// Head of a POST request over HTTP/1.1, without its end.
const POST: &str =
    "POST /dns-query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/dns-message\r\n";

/// Opens a blocking connection with a protocol.
fn connect(server: &Server, thread: u32, number: u64, protocol: &str) -> io::Result<Stream> {
    let from = attacker(thread * EACH + number as u32 % EACH);
    let stream = open(server.address("https"), from, TIMEOUT)?;
    tls::begin(stream, &tls::config(protocol, &TLS13))
}

fn connect_http2(server: &Server, thread: u32, number: u64) -> io::Result<Http2> {
    let from = attacker(thread * EACH + number as u32 % EACH);
    let stream = open(server.address("https"), from, TIMEOUT)?;
    Http2::begin(stream, &tls::config("h2", &TLS13), &[])
}

/// Returns the status of an HTTP/1.1 response, or `None` if the connection ends without one.
fn status(stream: &mut Stream) -> Option<u16> {
    let mut head = [0; 12]; // "HTTP/1.1 200"
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head[9..]).ok()?.parse().ok()
}

/// Returns the status from a non-blocking connection, or `None` if it has not arrived.
fn status_so_far(stream: &mut Stream) -> Option<u16> {
    let _ = stream.conn.read_tls(&mut stream.sock);
    let state = stream.conn.process_new_packets().ok()?;
    // The server writes the status line at once, so a part of it does not arrive alone.
    if state.plaintext_bytes_to_read() < 12 {
        return None;
    }
    status(stream)
}

#[test]
fn slow_bodies_get_status_408() {
    flood_encrypted("HTTPS: slow bodies", |server, until| {
        const EACH: u64 = 25;
        let body = question("many.prod.global");
        let [requests, timeouts] = in_threads(THREADS, |thread| {
            // A hundred requests in parallel over HTTP/2, one over HTTP/1.1.
            let some = (0..EACH).filter_map(|number| connect_http2(server, thread, number).ok());
            let mut streams: Vec<Http2> = some.collect();
            let some = (EACH..2 * EACH)
                .filter_map(|number| connect(server, thread, number, "http/1.1").ok());
            let mut plain: Vec<Stream> = some.collect();
            let mut requests = 0;
            let numbers = (0..100).map(|number| 2 * number + 1);
            let begin = |stream| http2::frame(HEADERS, END_HEADERS, stream, &http2::post());
            let begin: Vec<u8> = numbers.clone().flat_map(begin).collect();
            for client in &mut streams {
                client.stream.sock.set_nonblocking(true).unwrap();
                requests += 100;
                send_all(&mut client.stream, &begin, Reading::All, until);
            }
            for stream in &mut plain {
                let head = format!("{POST}content-length: {}\r\n\r\n", body.len());
                requests += u64::from(stream.write_all(head.as_bytes()).is_ok());
                stream.sock.set_nonblocking(true).unwrap();
            }
            let mut timeouts = 0;
            for octet in body.iter().cycle() {
                if Instant::now() > until {
                    break;
                }
                let next = |stream| http2::frame(DATA, 0, stream, &[*octet]);
                let next: Vec<u8> = numbers.clone().flat_map(next).collect();
                streams
                    .retain_mut(|client| send_all(&mut client.stream, &next, Reading::All, until));
                plain.retain_mut(|stream| match status_so_far(stream) {
                    Some(status) => {
                        timeouts += u64::from(status == 408);
                        false
                    }
                    None => tls::push(stream, &[*octet]),
                });
                thread::sleep(Duration::from_millis(300));
            }
            [requests, timeouts]
        });
        assert!(timeouts > 0, "no client got status 408");
        format!("{requests} bodies, one octet per 300 ms; {timeouts} got 408 over HTTP/1.1")
    });
}

#[test]
fn slow_heads_are_closed() {
    flood_encrypted("HTTPS: slow heads", |server, until| {
        const EACH: u64 = 100;
        let path = base64url(&question("many.prod.global"));
        let head = format!("GET /dns-query?dns={path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        // The time limit of the first query is 15 s.
        let until = until + Duration::from_secs(12);
        let [opened, left] = in_threads(THREADS, |thread| {
            let some =
                (0..EACH).filter_map(|number| connect(server, thread, number, "http/1.1").ok());
            let mut open: Vec<Stream> = some.collect();
            let opened = open.len() as u64;
            for octet in head.as_bytes() {
                if Instant::now() > until || open.is_empty() {
                    break;
                }
                open.retain_mut(|stream| stream.write_all(&[*octet]).is_ok());
                thread::sleep(Duration::from_millis(300));
            }
            [opened, open.len() as u64]
        });
        let (slow, idle) = (count_ended(server, "slow"), count_ended(server, "idle"));
        assert_eq!(left, 0, "of {opened}");
        format!("{opened} heads, one octet per 300 ms; {slow} closed as slow, {idle} as idle")
    });
}

#[test]
fn large_bodies_are_refused() {
    flood_encrypted("HTTPS: large bodies", |server, until| {
        let known = format!("{POST}content-length: {}\r\n\r\n", 1 << 30);
        let chunked = format!("{POST}transfer-encoding: chunked\r\n\r\n");
        let chunk = [format!("{FRAME:x}\r\n").as_bytes(), &[0; FRAME], b"\r\n"].concat();
        let data = http2::frame(DATA, 0, 1, &[0; FRAME]);
        let [connections, octets, refused] = in_threads(THREADS, |thread| {
            let (mut connections, mut octets, mut refused) = (0, 0, 0);
            while Instant::now() < until {
                connections += 1;
                if connections % 3 == 0 {
                    let Ok(mut client) = connect_http2(server, thread, connections) else {
                        continue;
                    };
                    client.stream.sock.set_nonblocking(true).unwrap();
                    let head = http2::frame(HEADERS, END_HEADERS, 1, &http2::post());
                    let mut is_open = send_all(&mut client.stream, &head, Reading::All, until);
                    // One window and the buffers of the kernel; the client cannot detect the end of the stream.
                    for _ in 0..100 {
                        is_open =
                            is_open && send_all(&mut client.stream, &data, Reading::All, until);
                        octets += u64::from(is_open) * FRAME as u64;
                    }
                    continue;
                }
                let Ok(mut stream) = connect(server, thread, connections, "http/1.1") else {
                    continue;
                };
                let (head, part) = match connections % 3 {
                    1 => (&known, &[0; FRAME][..]),
                    _ => (&chunked, &chunk[..]),
                };
                let mut sent = stream.write_all(head.as_bytes());
                while sent.is_ok() && Instant::now() < until {
                    sent = stream.write_all(part);
                    octets += u64::from(sent.is_ok()) * FRAME as u64;
                }
                refused += u64::from(status(&mut stream) == Some(413));
            }
            [connections, octets, refused]
        });
        assert!(connections > 10, "{connections}");
        format!(
            "{connections} endless bodies, {} KiB accepted of each; {refused} got 413 over HTTP/1.1",
            octets / connections / 1024
        )
    });
}

#[test]
fn endless_gets_are_refused() {
    flood_encrypted("HTTPS: GETs of 1 MiB", |server, until| {
        let dns = "A".repeat(LONG);
        let head = format!("GET /dns-query?dns={dns} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        // :method GET, :scheme https
        let path = format!("/dns-query?dns={dns}");
        let fields = [
            &[0x82, 0x87][..],
            &http2::field(":authority", "localhost"),
            &http2::field(":path", &path),
        ]
        .concat();
        let mut blocks = fields.chunks(FRAME);
        let mut block = http2::frame(HEADERS, END_STREAM, 1, blocks.next().unwrap());
        for part in blocks {
            block.extend(http2::frame(CONTINUATION, 0, 1, part));
        }
        block.extend(http2::frame(CONTINUATION, END_HEADERS, 1, &[]));
        let [requests, answered, other] = in_threads(THREADS, |thread| {
            let (mut requests, mut answered, mut other) = (0, 0, 0);
            while Instant::now() < until {
                requests += 1;
                if requests % 2 == 0 {
                    let Ok(mut client) = connect_http2(server, thread, requests) else {
                        continue;
                    };
                    client.stream.sock.set_nonblocking(true).unwrap();
                    if send_all(&mut client.stream, &block, Reading::All, until) {
                        drain(&mut client.stream);
                    }
                    continue;
                }
                let Ok(mut stream) = connect(server, thread, requests, "http/1.1") else {
                    continue;
                };
                let _ = stream.write_all(head.as_bytes());
                match status(&mut stream) {
                    Some(414 | 431 | 400) => answered += 1,
                    // Data that arrives after the close resets the connection, and the client loses the response.
                    None => {}
                    Some(_) => other += 1,
                }
            }
            [requests, answered, other]
        });
        assert!(requests > 100, "{requests}");
        assert_eq!(other, 0);
        format!(
            "{requests} requests, half over each version; {answered} got an error over HTTP/1.1"
        )
    });
}

#[test]
fn http1_clients_that_do_not_read_are_closed_as_slow() {
    flood_encrypted("HTTP/1.1: unread replies", |server, until| {
        let path = base64url(&question("many.prod.global"));
        let head = format!("GET /dns-query?dns={path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let batch = head.repeat(64);
        const EACH: u32 = 125;
        in_threads(THREADS, |thread| {
            let open = (thread * EACH..(thread + 1) * EACH).map(|number| {
                let socket = socket(attacker(number));
                socket.set_recv_buffer_size(1).unwrap();
                let to = server.address("https");
                socket.connect_timeout(&to.into(), TIMEOUT).unwrap();
                socket.set_read_timeout(Some(TIMEOUT)).unwrap();
                let stream = tls::begin(socket.into(), &tls::config("http/1.1", &TLS13)).unwrap();
                stream.sock.set_nonblocking(true).unwrap();
                stream
            });
            let mut open: Vec<Stream> = open.collect();
            while Instant::now() < until {
                for stream in &mut open {
                    tls::push(stream, batch.as_bytes());
                }
                thread::sleep(Duration::from_secs(1));
            }
            [0]
        });
        let slow = count_ended(server, "slow");
        assert!(slow > 300, "{slow}");
        format!(
            "{} connections that query {MANY} addresses and read nothing; {slow} closed as slow",
            THREADS * EACH
        )
    });
}
