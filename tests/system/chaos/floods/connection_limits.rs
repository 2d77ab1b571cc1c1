//! More encrypted connections than the limit, and more than the available descriptors.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rustls::version::TLS13;

use super::harness::{CONNECTIONS, Flood, Listeners, flood_encrypted};
use super::honest::Way;
use super::{attacker, connect_to, count_ended, send, socket, tls};

/// Number of connections from one address, and from other addresses.
const EXCESS: u32 = 3000;

#[test]
fn excess_encrypted_connections_are_replaced() {
    flood_encrypted("TLS: connections", |server, until| {
        let hello = tls::hello(&tls::config("dot", &TLS13));
        let tls = server.address("tls");
        let mut open = Vec::new();
        let mut most = 0;
        for count in 0..2 * EXCESS {
            let from = if count % 2 == 0 { count } else { 1 };
            let mut stream = connect_to(tls, attacker(from));
            // One in eight starts a handshake, which costs the server work, and does not complete it.
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
        let replaced = count_ended(server, "replaced");
        // The honest client also has a few TCP connections.
        assert!(most <= CONNECTIONS + 16, "{most}");
        assert!(replaced > u64::from(EXCESS), "{replaced}");
        format!(
            "{EXCESS} connections from one address and {EXCESS} from others; {most} open maximum, {replaced} replaced"
        )
    });
}

#[test]
fn lack_of_descriptors_does_not_block_udp() {
    // The server accepts at least eight connections of each kind, but the limit here allows fewer.
    let flood = Flood {
        open_files: "48:48",
        // The other transports only sometimes get a descriptor; UDP needs none.
        must_answer: |way| way == Way::Udp,
        ..Flood::new(Listeners::Encrypted, "no descriptors left")
    };
    flood.run(|server, until| {
        let all = ["dns", "tls"].map(|name| server.address(name));
        let mut open: Vec<TcpStream> = Vec::new();
        let mut count = 0;
        while Instant::now() < until {
            let from = if count % 2 == 0 { count } else { 1 };
            let socket = socket(attacker(from));
            socket.set_nonblocking(true).unwrap();
            // Completes later if the queue of the listener is full.
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
        assert!(refused > 0, "the server never ran out of descriptors");
        format!(
            "{count} connections to a process with a limit of 48 files; {refused} accept failures"
        )
    });
}
