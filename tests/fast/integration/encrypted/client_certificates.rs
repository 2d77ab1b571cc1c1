//! `tls.clientCa`: only clients with a certificate of one of the authorities are answered.

use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, HandshakeKind};
use support::certificates::{Authority, Identity, issue_valid};
use support::encrypted::{QUIC, files};
use support::quic::{ConnectionError, Quic};
use support::server::{Server, WaitUntil};
use support::tls::{Client, ConnectionEnd, Offer, alert, ask, read_end};
use support::wait::wait_for;

use super::{packet, small};

const RELOADED: &str = "Reloaded the certificate";

/// A server that requires client certificates, and its own certificate.
struct GuardedServer {
    server: Server,
    issued: Identity,
}

/// A client for each listener, with its TLS sessions.
struct Clients {
    tls: Client,
    quic: Client,
}

/// Starts a server that accepts certificates of these authorities.
fn serve(authorities: &[&Authority]) -> GuardedServer {
    let issued = issue_valid();
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), small(), &issued);
    std::fs::write(folder.path().join("ca.crt"), bundle(authorities)).unwrap();
    let ca = format!("tls.clientCa={}/ca.crt", folder.path().display());
    let listen = ["listen.tls=['127.0.0.1:0']", QUIC, &ca];
    let files = files.each_ref().map(String::as_str);
    let server = Server::start(folder, &[&files[..], &listen].concat(), WaitUntil::Ready);
    GuardedServer { server, issued }
}

/// A query whose ID is 0 (RFC 9250 section 4.2.1).
fn quic_packet() -> Vec<u8> {
    let mut packet = packet();
    packet[..2].fill(0);
    packet
}

fn bundle(authorities: &[&Authority]) -> String {
    let files = authorities.iter().map(|ca| ca.certificate.as_str());
    files.collect()
}

// === impl GuardedServer ===

impl GuardedServer {
    fn clients(&self, identity: Option<&Identity>) -> Clients {
        let client = |protocol| {
            let protocols = [protocol];
            let offer = Offer::of(&protocols);
            Client::new(&self.issued, Offer { identity, ..offer })
        };
        Clients {
            tls: client("dot"),
            quic: client("doq"),
        }
    }

    /// Returns the listeners that answer a client.
    fn answers(&self, clients: &Clients) -> Vec<&'static str> {
        let tls = self.server.address("tls");
        let by_quic = || {
            let connection = Quic::connect(&clients.quic, self.server.address("quic")).ok()?;
            connection.ask(&quic_packet()).ok()
        };
        let answered = [
            ("TLS", clients.tls.ask(tls, &packet()).is_ok()),
            ("QUIC", by_quic().is_some()),
        ];
        let answered = answered.into_iter().filter(|(_, is_answered)| *is_answered);
        answered.map(|(listener, _)| listener).collect()
    }

    fn rewrite_ca(&self, text: &str) {
        std::fs::write(self.server.folder().join("ca.crt"), text).unwrap();
    }

    /// Changes the authorities and waits until the server has reloaded them.
    fn accept_only(&self, authorities: &[&Authority]) {
        let mark = self.server.log.mark();
        self.rewrite_ca(&bundle(authorities));
        self.server.log.wait(mark, RELOADED);
    }

    /// Returns the files of the logged problems about an invalid file of authorities.
    fn logged_errors(&self) -> Vec<String> {
        let events = self.server.log.events().into_iter();
        let errors = events.filter(|event| event["level"] == "WARN");
        let subject =
            |event: serde_json::Value| Some(event["fields"]["subject"].as_str()?.to_owned());
        let errors = errors.filter_map(subject);
        errors.filter(|error| error.contains("ca.crt")).collect()
    }
}

const ALL: [&str; 2] = ["TLS", "QUIC"];
const NONE: [&str; 0] = [];

#[test]
fn only_clients_of_these_authorities_are_answered() {
    let (right, also, wrong) = (
        Authority::new("right"),
        Authority::new("also"),
        Authority::new("wrong"),
    );
    let guarded = serve(&[&right, &also]);
    for (what, identity, answered) in [
        ("nothing", None, &NONE[..]),
        ("its own", Some(issue_valid()), &NONE),
        ("another authority's", Some(wrong.issue_client()), &NONE),
        ("an expired one", Some(right.issue_expired_client()), &NONE),
        ("a server's", Some(right.issue_server()), &NONE),
        (
            "one of the first authority",
            Some(right.issue_client()),
            &ALL,
        ),
        (
            "one of the second authority",
            Some(also.issue_client()),
            &ALL,
        ),
    ] {
        let clients = guarded.clients(identity.as_ref());
        assert_eq!(guarded.answers(&clients), answered, "{what}");
    }
    // A TCP connection for each of the five rejected clients.
    guarded.server.wait_for_ended_connections("handshake", 5);
}

/// The alert contains the reason (RFC 8446 section 4.4.2.4).
#[test]
fn rejected_client_receives_the_reason() {
    let (right, wrong) = (Authority::new("right"), Authority::new("wrong"));
    let guarded = serve(&[&right]);
    let alert_of = |identity: Option<&Identity>| {
        let clients = guarded.clients(identity);
        let error = clients.tls.ask(guarded.server.address("tls"), &packet());
        alert(&error.unwrap_err())
    };
    assert_eq!(alert_of(None), Some(AlertDescription::CertificateRequired));
    let wrong = wrong.issue_client();
    assert_eq!(alert_of(Some(&wrong)), Some(AlertDescription::UnknownCA));
    let expired = right.issue_expired_client();
    let expected = Some(AlertDescription::CertificateExpired);
    assert_eq!(alert_of(Some(&expired)), expected);
}

#[test]
fn connections_end_when_the_authorities_change() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let identity = old.issue_client();
    let guarded = serve(&[&old]);
    let tls = guarded.server.address("tls");
    let clients = guarded.clients(Some(&identity));
    let newcomer = guarded.clients(Some(&new.issue_client()));
    let quic = Quic::connect(&clients.quic, guarded.server.address("quic")).unwrap();
    let mut stream = clients.tls.connect(tls).unwrap();
    ask(&mut stream, &packet()).unwrap();
    quic.ask(&quic_packet()).unwrap();
    guarded.accept_only(&[&new]);
    let end = quic.wait_for_close();
    assert!(
        matches!(end, ConnectionError::ApplicationClosed(_)),
        "{end:?}"
    );
    assert_eq!(read_end(&mut stream), ConnectionEnd::CloseNotify);
    guarded.server.wait_for_ended_connections("stopped", 1);
    // The listeners continue, also after another change.
    assert_eq!(guarded.answers(&newcomer), ALL);
    assert_eq!(guarded.answers(&clients), NONE);
    guarded.accept_only(&[&old]);
    assert_eq!(guarded.answers(&clients), ALL);
    assert_eq!(guarded.answers(&newcomer), NONE);
}

/// A resumed session omits the client certificate (RFC 8446 section 2.2). It could outlive the certificate or its
/// authority, so the server offers no resumption.
#[test]
fn sessions_do_not_outlive_their_authority() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let identity = old.issue_client();
    let guarded = serve(&[&old]);
    let tls = guarded.server.address("tls");
    let reconnect = |client: &Client| {
        let mut stream = client.connect(tls)?;
        ask(&mut stream, &packet())?;
        Ok::<_, std::io::Error>(stream.conn.handshake_kind().unwrap())
    };
    let clients = [&TLS12, &TLS13].map(|version| {
        let offer = Offer::of(&["dot"]).only(&version).with(&identity);
        Client::new(&guarded.issued, offer)
    });
    for client in &clients {
        for _ in 0..3 {
            assert_eq!(reconnect(client).unwrap(), HandshakeKind::Full);
        }
    }
    guarded.accept_only(&[&new]);
    for client in &clients {
        for _ in 0..3 {
            assert!(reconnect(client).is_err(), "with its session");
        }
    }
    // When the authority is added again, its clients are accepted again.
    guarded.accept_only(&[&new, &old]);
    for client in &clients {
        assert_eq!(reconnect(client).unwrap(), HandshakeKind::Full);
    }
}

#[test]
fn invalid_file_keeps_the_last_authorities_and_is_logged_once() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (of_old, of_new) = (old.issue_client(), new.issue_client());
    let guarded = serve(&[&old]);
    let (clients, newcomer) = (
        guarded.clients(Some(&of_old)),
        guarded.clients(Some(&of_new)),
    );
    let cut = &new.certificate[..new.certificate.len() / 2];
    for (index, broken) in ["nothing", cut, &of_old.key].into_iter().enumerate() {
        guarded.rewrite_ca(broken);
        wait_for("a complaint", || {
            (guarded.logged_errors().len() == index + 1).then_some(())
        });
        assert_eq!(guarded.answers(&clients), ALL, "{broken:?}");
        assert_eq!(guarded.answers(&newcomer), NONE, "{broken:?}");
    }
    std::fs::remove_file(guarded.server.folder().join("ca.crt")).unwrap();
    wait_for("a complaint", || {
        (guarded.logged_errors().len() == 4).then_some(())
    });
    assert_eq!(guarded.answers(&clients), ALL);
    guarded.accept_only(&[&new]);
    assert_eq!(guarded.answers(&clients), NONE);
    assert_eq!(guarded.answers(&newcomer), ALL);
    assert_eq!(
        guarded.logged_errors().len(),
        4,
        "{:?}",
        guarded.logged_errors()
    );
}
