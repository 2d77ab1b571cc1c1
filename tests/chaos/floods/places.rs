//! More encrypted connections than there are places, and more than there are descriptors.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;

use super::harness::{CONNECTIONS, Flood, Listeners, flood_encrypted};
use super::honest::Way;
use super::{attacker, connect_to, ended, send, socket, tls};

/// Connections from one address, and as many from others.
const PAST: u32 = 3000;

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn connections_to_the_encrypted_listeners() {
    flood_encrypted("TLS, HTTPS: connections", |server, until| {
        let hello = tls::hello(&tls::config("dot", &TLS13));
        let listeners = ["tls", "https"].map(|name| server.address(name));
        let mut open = Vec::new();
        let mut most = 0;
        for count in 0..2 * PAST {
            let from = if count % 2 == 0 { count } else { 1 };
            let mut stream = connect_to(listeners[count as usize / 2 % 2], attacker(from));
            // One in eight begins a handshake, which takes the server some work, and leaves it there.
            if count % 8 == 0 {
                send(&mut stream, &hello);
            }
            open.push(stream);
            if count % 16 == 0 {
                thread::sleep(Duration::from_millis(2));
                most = most.max(server.count("global_dns_tcp_connections"));
            }
        }
        while Instant::now() < until {
            most = most.max(server.count("global_dns_tcp_connections"));
            thread::sleep(Duration::from_millis(100));
        }
        let displaced = ended(server, "displaced");
        // The honest client has a few of its own over plain TCP.
        assert!(most <= CONNECTIONS + 16, "{most}");
        assert!(displaced > u64::from(PAST), "{displaced}");
        format!(
            "{PAST} connections from one address and {PAST} from others; {most} open at most, {displaced} displaced"
        )
    });
}

#[test]
#[ignore = "needs minutes and root: tests/chaos/run"]
fn connections_without_descriptors() {
    // Eight connections of each kind are served whatever the system grants, and here it grants fewer.
    let flood = Flood {
        open_files: "48:48",
        // Those come to one of the places now and then; UDP needs none.
        must_answer: |way| way == Way::Udp,
        ..Flood::of(Listeners::Encrypted, "no descriptors left")
    };
    flood.run(|server, until| {
        let all = ["dns", "tls", "https"].map(|name| server.address(name));
        let mut open: Vec<TcpStream> = Vec::new();
        let mut count = 0;
        while Instant::now() < until {
            let from = if count % 2 == 0 { count } else { 1 };
            let socket = socket(attacker(from));
            socket.set_nonblocking(true).unwrap();
            // Where the queue of the listener is full, this is in progress for a while.
            let _ = socket.connect(&all[count as usize / 2 % all.len()].into());
            open.push(socket.into());
            count += 1;
            if open.len() > 2000 {
                open.drain(..1000);
            }
            if count % 16 == 0 {
                thread::sleep(Duration::from_millis(10));
            }
        }
        let refused = server.count("global_dns_tcp_accept_failures_total");
        assert!(refused > 0, "no want of descriptors");
        format!(
            "{count} connections to a process that may have 48 files; {refused} times none was left"
        )
    });
}
