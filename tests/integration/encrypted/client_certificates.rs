//! `--tls-client-ca`: clients that show a certificate of one of these authorities, and no others.

use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, HandshakeKind};
use support::certificates::{Authority, Issued, issue_good};
use support::encrypted::{QUIC, files};
use support::https::{Http1, Http2, PATH, post};
use support::process::run_global_dns;
use support::query::query;
use support::quic::Quic;
use support::server::{Await, Server};
use support::tls::{Client, Offer, alert, ask};
use support::wait::wait_for;

use super::small;

const RELOADED: &str = "Reloaded the certificate authorities of clients";

/// A server that wants certificates, and what its clients trust.
struct Guarded {
    server: Server,
    issued: Issued,
}

/// One client for each listener, with its sessions.
struct Visitor {
    tls: Client,
    first: Client,
    second: Client,
    quic: Client,
}

fn packet() -> Vec<u8> {
    query("db.prod.global. A").0
}

/// Serves those who have a certificate of these authorities.
fn serve(authorities: &[&Authority]) -> Guarded {
    let issued = issue_good();
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), small(), &issued);
    std::fs::write(folder.path().join("ca.crt"), bundle(authorities)).unwrap();
    let ca = format!("--tls-client-ca={}/ca.crt", folder.path().display());
    let listen = [
        "--tls-listen=127.0.0.1:0",
        "--https-listen=127.0.0.1:0",
        QUIC,
        &ca,
    ];
    let files = files.each_ref().map(String::as_str);
    let server = Server::start(folder, &[&files[..], &listen].concat(), Await::Ready);
    Guarded { server, issued }
}

fn bundle(authorities: &[&Authority]) -> String {
    let files = authorities.iter().map(|ca| ca.certificate.as_str());
    files.collect()
}

// === impl Guarded ===

impl Guarded {
    fn visitor(&self, identity: Option<&Issued>) -> Visitor {
        let client = |protocol| {
            let protocols = [protocol];
            let offer = Offer::of(&protocols);
            Client::new(&self.issued, Offer { identity, ..offer })
        };
        Visitor {
            tls: client("dot"),
            first: client("http/1.1"),
            second: client("h2"),
            quic: client("doq"),
        }
    }

    /// By which listeners a visitor is answered.
    fn answers(&self, visitor: &Visitor) -> Vec<&'static str> {
        let (tls, https) = (self.server.address("tls"), self.server.address("https"));
        let mut quic = packet();
        quic[..2].fill(0);
        let by_http1 = || {
            let mut connection = Http1::connect(&visitor.first, https).ok()?;
            connection.send(&post(PATH), &packet()).ok()
        };
        let by_http2 = || {
            let mut connection = Http2::connect(&visitor.second, https).ok()?;
            connection.send(&post(PATH), &packet()).ok()
        };
        let by_quic = || {
            let connection = Quic::connect(&visitor.quic, self.server.address("quic")).ok()?;
            connection.ask(&quic).ok()
        };
        let answered = [
            ("TLS", visitor.tls.ask(tls, &packet()).is_ok()),
            ("HTTP/1.1", by_http1().is_some()),
            ("HTTP/2", by_http2().is_some()),
            ("QUIC", by_quic().is_some()),
        ];
        let answered = answered.into_iter().filter(|(_, is_answered)| *is_answered);
        answered.map(|(listener, _)| listener).collect()
    }

    fn rewrite_ca(&self, text: &str) {
        std::fs::write(self.server.folder().join("ca.crt"), text).unwrap();
    }

    /// Changes the authorities, and waits until the server has noticed.
    fn accept_only(&self, authorities: &[&Authority]) {
        let mark = self.server.log.mark();
        self.rewrite_ca(&bundle(authorities));
        self.server.log.wait(mark, RELOADED);
    }

    /// What the log says of a file of authorities that cannot be used.
    fn complaints(&self) -> Vec<String> {
        let events = self.server.log.events().into_iter();
        let errors = events.filter(|event| event["level"] == "WARN");
        let errors = errors.filter_map(|event| Some(event["fields"]["error"].as_str()?.to_owned()));
        errors.filter(|error| error.contains("ca.crt")).collect()
    }
}

const ALL: [&str; 4] = ["TLS", "HTTP/1.1", "HTTP/2", "QUIC"];
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
        ("its own", Some(issue_good()), &NONE),
        ("another authority's", Some(wrong.issue_client()), &NONE),
        ("an expired one", Some(right.issue_expired_client()), &NONE),
        ("a server's", Some(right.issue_server()), &NONE),
        ("the right one", Some(right.issue_client()), &ALL),
        ("the other right one", Some(also.issue_client()), &ALL),
    ] {
        let visitor = guarded.visitor(identity.as_ref());
        assert_eq!(guarded.answers(&visitor), answered, "{what}");
    }
    // Three connections of TCP for each of the five that were turned away.
    guarded.server.wait_for_ended("handshake", 15);
}

/// RFC 8446 section 4.4.2.4: a client learns what is wrong with its certificate.
#[test]
fn a_client_is_told_why() {
    let (right, wrong) = (Authority::new("right"), Authority::new("wrong"));
    let guarded = serve(&[&right]);
    let told = |identity: Option<&Issued>| {
        let visitor = guarded.visitor(identity);
        let error = visitor.tls.ask(guarded.server.address("tls"), &packet());
        alert(&error.unwrap_err())
    };
    assert_eq!(told(None), Some(AlertDescription::CertificateRequired));
    let wrong = wrong.issue_client();
    assert_eq!(told(Some(&wrong)), Some(AlertDescription::UnknownCA));
    let expired = right.issue_expired_client();
    let wanted = Some(AlertDescription::CertificateExpired);
    assert_eq!(told(Some(&expired)), wanted);
}

#[test]
fn without_the_flag_no_client_is_asked_for_a_certificate() {
    let issued = issue_good();
    let server = support::encrypted::serve(small(), &issued, &[QUIC]);
    let guarded = Guarded { server, issued };
    let own = Authority::new("anybody").issue_client();
    for identity in [None, Some(&own)] {
        let visitor = guarded.visitor(identity);
        assert_eq!(guarded.answers(&visitor), ALL);
    }
}

#[test]
fn a_removed_authority_is_refused_and_an_added_one_accepted() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (of_old, of_new) = (old.issue_client(), new.issue_client());
    let guarded = serve(&[&old]);
    let (visitor, newcomer) = (
        guarded.visitor(Some(&of_old)),
        guarded.visitor(Some(&of_new)),
    );
    assert_eq!(guarded.answers(&visitor), ALL);
    assert_eq!(guarded.answers(&newcomer), NONE);
    guarded.accept_only(&[&old, &new]);
    assert_eq!(guarded.answers(&visitor), ALL);
    assert_eq!(guarded.answers(&newcomer), ALL);
    guarded.accept_only(&[&new]);
    assert_eq!(guarded.answers(&visitor), NONE);
    assert_eq!(guarded.answers(&newcomer), ALL);
}

/// A session that is resumed spares the certificate (RFC 8446 section 2.2). It must outlive neither the certificate nor
/// its authority, so that there is none.
#[test]
fn no_session_outlives_its_authority() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let identity = old.issue_client();
    let guarded = serve(&[&old]);
    let tls = guarded.server.address("tls");
    let come_back = |client: &Client| {
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
            assert_eq!(come_back(client).unwrap(), HandshakeKind::Full);
        }
    }
    guarded.accept_only(&[&new]);
    for client in &clients {
        for _ in 0..3 {
            assert!(come_back(client).is_err(), "by its session");
        }
    }
    // Coming back, an authority brings its clients back.
    guarded.accept_only(&[&new, &old]);
    for client in &clients {
        assert_eq!(come_back(client).unwrap(), HandshakeKind::Full);
    }
}

#[test]
fn a_broken_file_keeps_the_last_good_authorities_and_is_told_once() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (of_old, of_new) = (old.issue_client(), new.issue_client());
    let guarded = serve(&[&old]);
    let (visitor, newcomer) = (
        guarded.visitor(Some(&of_old)),
        guarded.visitor(Some(&of_new)),
    );
    let cut = &new.certificate[..new.certificate.len() / 2];
    for (index, broken) in ["", "nothing", cut, &of_old.key].into_iter().enumerate() {
        guarded.rewrite_ca(broken);
        wait_for("a complaint", || {
            (guarded.complaints().len() == index + 1).then_some(())
        });
        assert_eq!(guarded.answers(&visitor), ALL, "{broken:?}");
        assert_eq!(guarded.answers(&newcomer), NONE, "{broken:?}");
    }
    std::fs::remove_file(guarded.server.folder().join("ca.crt")).unwrap();
    wait_for("a complaint", || {
        (guarded.complaints().len() == 5).then_some(())
    });
    assert_eq!(guarded.answers(&visitor), ALL);
    guarded.accept_only(&[&new]);
    assert_eq!(guarded.answers(&visitor), NONE);
    assert_eq!(guarded.answers(&newcomer), ALL);
    assert_eq!(guarded.complaints().len(), 5, "{:?}", guarded.complaints());
}

#[test]
fn the_first_file_must_be_good() {
    let issued = issue_good();
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), small(), &issued);
    let ca = folder.path().join("ca.crt");
    let flag = format!("--tls-client-ca={}", ca.display());
    let start = || {
        let files = files.each_ref().map(String::as_str);
        let listen = [
            "serve",
            "--tls-listen=127.0.0.1:0",
            "--listen=127.0.0.1:0",
            &flag,
        ];
        let ended = run_global_dns(&[&listen[..], &files].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let named = ca.display().to_string();
        assert!(ended.stderr.contains(&named), "{}", ended.stderr);
    };
    start();
    for broken in ["", "nothing", &issued.key, &issued.certificate[..100]] {
        std::fs::write(&ca, broken).unwrap();
        start();
    }
}
