//! The certificate: read at the start, read again when it changes, kept when the new one cannot be used.

use std::os::unix::fs::symlink;
use std::path::Path;

use support::certificates::{Issued, issue, issue_good};
use support::encrypted::{QUIC, serve};
use support::https::{PATH, post};
use support::process::run_global_dns;
use support::query::query;
use support::quic::Quic;
use support::server::Server;
use support::tls::ask;
use support::wait::wait_for;

use super::small;

const DAY: i64 = 24 * 3_600;
const KEPT: &str = "Kept the last certificate: a file cannot be used";

/// Whether every listener shows a certificate.
fn is_shown(issued: &Issued, server: &Server) -> bool {
    let (tls, https) = (server.address("tls"), server.address("https"));
    let quic = Quic::connect(&issued.client(&["doq"]), server.address("quic"));
    [
        issued.client(&["dot"]).connect(tls).is_ok(),
        issued.client(&["h2"]).connect(https).is_ok(),
        quic.is_ok(),
    ] == [true; 3]
}

#[test]
fn a_new_certificate_is_shown_and_open_connections_stay() {
    let (old, new) = (issue_good(), issue(-60, 90 * DAY));
    let server = serve(small(), &old, &[QUIC]);
    assert!(is_shown(&old, &server) && !is_shown(&new, &server));
    let before = server.metric("global_dns_certificate_expiry_timestamp_seconds");
    let mut stream = old.tls(server.address("tls"));
    let mut pages = old.http2(server.address("https"));
    let mark = server.log.mark();
    new.write(server.folder());
    server.log.wait(mark, "Reloaded the certificate");
    assert!(is_shown(&new, &server) && !is_shown(&old, &server));
    let after = server.metric("global_dns_certificate_expiry_timestamp_seconds");
    assert!(
        (after - before - 60.0 * DAY as f64).abs() < 60.0,
        "{before} {after}"
    );
    let packet = query("db.prod.global. A").0;
    ask(&mut stream, &packet).unwrap();
    pages.send(&post(PATH), &packet).unwrap().message();
    assert_eq!(server.log.count(KEPT), 0);
}

#[test]
fn a_secret_that_kubernetes_swaps_is_noticed() {
    let (old, new) = (issue_good(), issue_good());
    let folder = tempfile::tempdir().unwrap();
    let version = |name: &str, issued: &Issued| {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        issued.write(&folder.path().join(name));
    };
    // As the kubelet does it: files → ..data → a folder for each version.
    version("..1", &old);
    symlink("..1", folder.path().join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(name), folder.path().join(name)).unwrap();
    }
    let file = |name: &str| folder.path().join(name).display().to_string();
    let flags = [
        format!("--tls-cert={}", file("tls.crt")),
        format!("--tls-key={}", file("tls.key")),
        "--tls-listen=127.0.0.1:0".to_owned(),
    ];
    let server = Server::of(small(), &flags.each_ref().map(String::as_str));
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
fn a_broken_certificate_keeps_the_last_one_and_is_told_once() {
    let (old, other) = (issue_good(), issue_good());
    let server = serve(small(), &old, &[QUIC]);
    let file = |name: &str| server.folder().join(name);
    let (certificate, key) = (file("tls.crt"), file("tls.key"));
    let cases: [(&str, &Path, Option<&str>, &str); 5] = [
        (
            "no certificate",
            &certificate,
            Some("nothing"),
            "tls.crt: holds no certificate",
        ),
        (
            "half a certificate",
            &certificate,
            Some(&old.certificate[..200]),
            "tls.crt: is no PEM file: ",
        ),
        (
            "another's certificate",
            &certificate,
            Some(&other.certificate),
            "tls.key: cannot be used with ",
        ),
        ("no key", &key, Some(""), "tls.key: holds no private key"),
        ("no file", &certificate, None, "No such file or directory"),
    ];
    for (index, (what, path, content, said)) in cases.into_iter().enumerate() {
        let mark = server.log.mark();
        match content {
            Some(content) => std::fs::write(path, content).unwrap(),
            None => std::fs::remove_file(path).unwrap(),
        }
        let fields = server.log.wait(mark, KEPT);
        let error = fields["error"].as_str().unwrap();
        assert!(error.contains(said), "{what}: {error}");
        assert!(
            error.contains(&path.display().to_string()),
            "{what}: {error}"
        );
        assert!(is_shown(&old, &server), "{what}");
        assert_eq!(server.log.count(KEPT), index + 1, "{what}");
        // Good again: nothing to tell, and the next trouble is a new one.
        old.write(server.folder());
    }
    let mark = server.log.mark();
    other.write(server.folder());
    server.log.wait(mark, "Reloaded the certificate");
    assert!(is_shown(&other, &server));
}

#[test]
fn the_first_certificate_must_be_good() {
    let issued = issue_good();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let objects = file("objects.yaml");
    std::fs::write(&objects, small().text()).unwrap();
    let flags = [
        format!("--file={objects}"),
        format!("--tls-cert={}", file("tls.crt")),
        format!("--tls-key={}", file("tls.key")),
    ];
    let start = || {
        let flags = flags.each_ref().map(String::as_str);
        let listen = ["serve", "--tls-listen=127.0.0.1:0", "--listen=127.0.0.1:0"];
        let ended = run_global_dns(&[&listen[..], &flags].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        ended.stderr
    };
    let error = start();
    let wanted = format!(
        "error: reading {}: No such file or directory",
        file("tls.crt")
    );
    assert!(error.starts_with(&wanted), "{error}");
    issued.write(folder.path());
    std::fs::write(file("tls.key"), issue_good().key).unwrap();
    let error = start();
    let wanted = format!(
        "error: {}: cannot be used with {}: ",
        file("tls.key"),
        file("tls.crt")
    );
    assert!(error.starts_with(&wanted), "{error}");
}

#[test]
fn a_certificate_that_is_not_valid_is_shown_all_the_same_and_warned_of_once() {
    for (begins, ends, said) in [
        (-30 * DAY, -DAY, "The certificate has expired"),
        (-30 * DAY, DAY, "The certificate expires soon"),
        (DAY, 30 * DAY, "The certificate is not valid yet"),
    ] {
        let server = serve(small(), &issue(begins, ends), &[QUIC]);
        let fields = server.log.wait(0, said);
        assert!(fields["file"].as_str().unwrap().ends_with("tls.crt"));
        let good = issue_good();
        good.write(server.folder());
        server.log.wait(0, "Reloaded the certificate");
        wait_for("the new certificate", || {
            is_shown(&good, &server).then_some(())
        });
        assert_eq!(server.log.count(said), 1, "{said}");
    }
}
