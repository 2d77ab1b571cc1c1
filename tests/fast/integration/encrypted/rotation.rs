//! Certificate changes during continuous queries: each query is answered, on a new connection if the server has ended the last one.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use support::certificates::{Authority, Identity};
use support::encrypted::{QUIC, files};
use support::query::query;
use support::quic::Quic;
use support::rounds::rounds;
use support::server::{Server, WaitUntil};
use support::tls::{Client, Offer, ask};
use support::wait::wait_for;

use super::small;

const ROTATIONS: u16 = 20;
/// Pause between two queries of a client. Several clients must not overload the server.
const PAUSE: Duration = Duration::from_millis(10);

/// A function that sends one query and returns the reply.
type Asking<'s> = Box<dyn FnMut() -> Vec<u8> + Send + 's>;

/// The certificates that clients have received.
#[derive(Default)]
struct Received {
    is_over: AtomicBool,
    answers: AtomicUsize,
    certificates: Mutex<BTreeSet<Vec<u8>>>,
}

// === impl Received ===

impl Received {
    /// Sends queries until the end of the test. Fails if a query fails.
    fn repeat(&self, what: &str, mut ask: impl FnMut() -> Vec<u8>) {
        while !self.is_over.load(Relaxed) {
            let reply = ask();
            assert_eq!(reply[6..8], [0, 1], "{what}: {reply:?}");
            self.answers.fetch_add(1, Relaxed);
            thread::sleep(PAUSE);
        }
    }

    fn note(&self, certificate: &[u8]) {
        let seen = self.certificates.lock();
        let mut seen = seen.unwrap_or_else(PoisonError::into_inner);
        seen.insert(certificate.to_vec());
    }

    fn has_received(&self, issued: &Identity) -> bool {
        let seen = self.certificates.lock();
        let seen = seen.unwrap_or_else(PoisonError::into_inner);
        seen.contains(&issued.der().to_vec())
    }
}

#[test]
fn no_query_fails_during_certificate_changes() {
    let rotations = usize::from(rounds(ROTATIONS));
    let authority = Authority::new("authority");
    let first = authority.issue_server();
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), small(), &first);
    let listen = ["listen.tls=['127.0.0.1:0']", QUIC];
    let flags = files.each_ref().map(String::as_str);
    let server = Server::start(folder, &[&flags[..], &listen].concat(), WaitUntil::Ready);
    let tls = server.address("tls");
    let packet = query("db.prod.global. A").0;
    let of_quic = [&[0, 0], &packet[2..]].concat();
    // A resumed session would omit the certificate, so each connection has a new client.
    let client = |protocol| Client::new(&first, Offer::of(&[protocol]));

    let seen = Received::default();
    let (seen, client, packet, of_quic) = (&seen, &client, &packet, &of_quic);
    let quic = server.address("quic");
    thread::scope(|scope| {
        let guard = StopGuard(seen);
        let clients: [(&str, Asking<'_>); 4] = [
            ("TLS, kept", {
                let mut stream = client("dot").connect(tls).unwrap();
                Box::new(move || {
                    ask(&mut stream, packet).unwrap_or_else(|_| {
                        stream = client("dot").connect(tls).unwrap();
                        ask(&mut stream, packet).unwrap()
                    })
                })
            }),
            (
                "TLS, new",
                Box::new(move || {
                    let mut stream = client("dot").connect(tls).unwrap();
                    seen.note(&stream.conn.peer_certificates().unwrap()[0]);
                    ask(&mut stream, packet).unwrap()
                }),
            ),
            ("TLS, resumed", {
                let client = client("dot");
                Box::new(move || client.ask(tls, packet).unwrap())
            }),
            (
                "QUIC, new",
                Box::new(move || {
                    let ask = || {
                        let connection = Quic::connect(&client("doq"), quic);
                        connection.ok()?.ask(of_quic).ok()
                    };
                    wait_for("a reply over QUIC", ask)
                }),
            ),
        ];
        for (what, ask) in clients {
            scope.spawn(move || {
                let _guard = StopGuard(seen);
                seen.repeat(what, ask);
            });
        }
        wait_for("the first certificate", || {
            let is_over = seen.is_over.load(Relaxed);
            (is_over || seen.has_received(&first)).then_some(())
        });
        for _ in 0..rotations {
            let next = authority.issue_server();
            // The two files are written one after the other. In between, they do not match.
            next.write(server.folder());
            wait_for("the next certificate", || {
                let is_over = seen.is_over.load(Relaxed);
                (is_over || seen.has_received(&next)).then_some(())
            });
        }
        drop(guard);
    });
    let certificates = seen.certificates.lock().unwrap().len();
    assert_eq!(
        certificates,
        rotations + 1,
        "clients received each certificate"
    );
    let answers = seen.answers.load(Relaxed);
    assert!(answers > 4 * rotations, "{answers} answers");
    assert_eq!(server.ended_connections("handshake"), 0.0);
}

/// A guard that stops all clients when dropped: after the last certificate or the failure of a client.
struct StopGuard<'s>(&'s Received);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Relaxed);
    }
}
