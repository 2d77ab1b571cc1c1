//! Volumes that hang: a read of a file never ends.

use std::fs::{File, OpenOptions, remove_file};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::libc::O_NONBLOCK;
use support::certificates::Authority;
use support::commands::command;
use support::encrypted::files;
use support::server::{Server, WaitUntil};
use support::tls::{Client, Offer};
use support::wait::wait_for;

use super::{packet, small};

/// Replaces a file by one whose reads hang, and waits until a read hangs.
fn hang(path: &Path) -> File {
    remove_file(path).unwrap();
    assert!(command("mkfifo").arg(path).status().unwrap().success());
    wait_for("the file to be read", || {
        // This fails unless somebody reads the pipe, whose other end then stays open.
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(O_NONBLOCK).open(path).ok()
    })
}

#[test]
fn hanging_volumes_stop_neither_queries_nor_probes() {
    let authority = Authority::new("authority");
    let (issued, identity) = (authority.issue_server(), authority.issue_client());
    let folder = tempfile::tempdir().unwrap();
    let of_server = files(folder.path(), small(), &issued);
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, &authority.certificate).unwrap();
    let more = [
        format!("tls.clientCa={}", ca.display()),
        "listen.tls=['127.0.0.1:0']".to_owned(),
    ];
    let flags: Vec<&str> = of_server.iter().chain(&more).map(String::as_str).collect();
    let server = Server::start(folder, &flags, WaitUntil::Ready);
    let [_, certificate, key] = of_server;
    let path = |flag: &str| Path::new(flag.split_once('=').unwrap().1).to_owned();
    // As many as threads of the runtime on a large machine would be needed to stop it, if each read blocked one. The
    // certificate is read before its key.
    let _hanging = [&path(&certificate), &ca].map(|path| hang(path));
    remove_file(path(&key)).unwrap();
    let offer = Offer::of(&["dot"]).with(&identity);
    let client = Client::new(&issued, offer);
    for _ in 0..3 {
        client.ask(server.address("tls"), &packet()).unwrap();
        server.assert_answers();
        assert_eq!(server.admin("/livez").status, 200);
    }
}
