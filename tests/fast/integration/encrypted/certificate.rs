//! The server certificate: read at start, reloaded after changes, kept with a problem if the new one is unusable.

use std::os::unix::fs::symlink;
use std::path::Path;

use support::certificates::{Identity, issue, issue_valid};
use support::encrypted::{QUIC, serve};
use support::query::query;
use support::quic::Quic;
use support::server::Server;
use support::tls::{ConnectionEnd, ask, read_end};
use support::wait::wait_for;

use super::small;

const DAY: i64 = 24 * 3_600;
const KEPT: &str = "Certificate must be renewed";

/// Returns whether all listeners use a certificate.
fn is_used(issued: &Identity, server: &Server) -> bool {
    let tls = server.address("tls");
    let quic = Quic::connect(&issued.client(&["doq"]), server.address("quic"));
    issued.client(&["dot"]).connect(tls).is_ok() && quic.is_ok()
}

#[test]
fn new_certificate_is_used_and_open_connections_end_after_the_current_query() {
    let (old, new) = (issue_valid(), issue(-60, 90 * DAY));
    let server = serve(small(), &old, &[QUIC]);
    assert!(is_used(&old, &server) && !is_used(&new, &server));
    let before = server.metric("global_dns_certificate_expiry_timestamp_seconds");
    let mut stream = old.tls(server.address("tls"));
    let packet = query("db.prod.global. A").0;
    ask(&mut stream, &packet).unwrap();
    let mark = server.log.mark();
    new.write(server.folder());
    server.log.wait(mark, "Reloaded the certificate");
    // The listener of QUIC is restarted.
    wait_for("the new certificate", || {
        is_used(&new, &server).then_some(())
    });
    assert!(!is_used(&old, &server));
    let after = server.metric("global_dns_certificate_expiry_timestamp_seconds");
    assert!(
        (after - before - 60.0 * DAY as f64).abs() < 60.0,
        "{before} {after}"
    );
    assert_eq!(read_end(&mut stream), ConnectionEnd::CloseNotify);
    assert_eq!(server.log.count(KEPT), 0);
}

#[test]
fn updated_kubernetes_secret_is_reloaded() {
    let (old, new) = (issue_valid(), issue_valid());
    let folder = tempfile::tempdir().unwrap();
    let version = |name: &str, issued: &Identity| {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        issued.write(&folder.path().join(name));
    };
    // Like the kubelet: files → ..data → a folder for each version.
    version("..1", &old);
    symlink("..1", folder.path().join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(name), folder.path().join(name)).unwrap();
    }
    let file = |name: &str| folder.path().join(name).display().to_string();
    let flags = [
        format!("tls.certificate={}", file("tls.crt")),
        format!("tls.key={}", file("tls.key")),
        "listen.tls=['127.0.0.1:0']".to_owned(),
    ];
    let server = Server::with_objects(small(), &flags.each_ref().map(String::as_str));
    old.tls(server.address("tls"));
    let mark = server.log.mark();
    version("..2", &new);
    symlink("..2", folder.path().join("..data_tmp")).unwrap();
    std::fs::rename(
        folder.path().join("..data_tmp"),
        folder.path().join("..data"),
    )
    .unwrap();
    server.log.wait(mark, "Reloaded the certificate");
    new.tls(server.address("tls"));
}

#[test]
fn invalid_certificate_keeps_the_last_one_and_is_logged_once() {
    let (old, other) = (issue_valid(), issue_valid());
    let server = serve(small(), &old, &[QUIC]);
    let file = |name: &str| server.folder().join(name);
    let (certificate, key) = (file("tls.crt"), file("tls.key"));
    let long = "-".repeat((1 << 20) + 1);
    let cases: [(&str, &Path, Option<&str>, &str); 6] = [
        (
            "no certificate",
            &certificate,
            Some("nothing"),
            "it has no certificate",
        ),
        (
            "half a certificate",
            &certificate,
            Some(&old.certificate[..200]),
            "it is not a PEM file: ",
        ),
        (
            "another's certificate",
            &certificate,
            Some(&other.certificate),
            "(for the certificate in ",
        ),
        ("no key", &key, Some(""), "it has no private key"),
        (
            "a long file",
            &key,
            Some(&long),
            "it is not a regular file of at most 1 MiB",
        ),
        ("no file", &certificate, None, "No such file or directory"),
    ];
    for (index, (what, path, content, message)) in cases.into_iter().enumerate() {
        let mark = server.log.mark();
        match content {
            Some(content) => std::fs::write(path, content).unwrap(),
            None => std::fs::remove_file(path).unwrap(),
        }
        let fields = server.log.wait(mark, KEPT);
        let detail = fields["detail"].as_str().unwrap();
        assert!(detail.contains(message), "{what}: {detail}");
        assert!(server.admin("/readyz").body.contains(detail), "{what}");
        let subject = fields["subject"].as_str().unwrap();
        let of_key = detail.contains("(for the certificate in ");
        let file = if of_key { key.as_path() } else { path };
        assert!(
            subject.ends_with(file.to_str().unwrap()),
            "{what}: {subject}"
        );
        assert!(is_used(&old, &server), "{what}");
        assert_eq!(server.log.count(KEPT), index + 1, "{what}");
        // A valid certificate is not logged here, and the next error is logged again.
        old.write(server.folder());
    }
    other.write(server.folder());
    // The last valid one may be read again before.
    wait_for("the other certificate, without a problem", || {
        let is_told = server.admin("/readyz").body.contains(KEPT);
        (is_used(&other, &server) && !is_told).then_some(())
    });
}

#[test]
fn problem_of_a_file_keeps_its_time_although_its_reason_changes() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[QUIC]);
    let since = ["nothing", "-----BEGIN CERTIFICATE-----"].map(|content| {
        let mark = server.log.mark();
        std::fs::write(server.folder().join("tls.crt"), content).unwrap();
        server.log.wait(mark, KEPT);
        let mut problems = server.items("problems").into_iter();
        let own = problems.find(|one| one["kind"] == "certificate-renewal");
        own.unwrap()["since"].clone()
    });
    assert_eq!(since[0], since[1]);
    let over = format!("Problem is over: {KEPT}");
    assert_eq!(server.log.count(&over), 0);
    issued.write(server.folder());
    let fields = server.log.wait(0, &over);
    assert_eq!(fields["problem"], "certificate-renewal");
}

#[test]
fn certificate_outside_its_validity_is_used_with_one_warning() {
    for (begins, ends, message) in [
        (-30 * DAY, -DAY, "Certificate is not valid"),
        (-30 * DAY, DAY, "Certificate must be renewed"),
        (DAY, 30 * DAY, "Certificate is not valid"),
    ] {
        let server = serve(small(), &issue(begins, ends), &[QUIC]);
        let fields = server.log.wait(0, message);
        assert!(fields["subject"].as_str().unwrap().ends_with("tls.crt"));
        let good = issue_valid();
        good.write(server.folder());
        server.log.wait(0, "Reloaded the certificate");
        wait_for("the new certificate", || {
            is_used(&good, &server).then_some(())
        });
        let over = format!("Problem is over: {message}");
        server.log.wait(0, &over);
        let counts = [message, &over].map(|line| server.log.count(line));
        assert_eq!(counts, [1, 1], "{message}");
    }
}
