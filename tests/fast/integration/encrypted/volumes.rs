//! Files that are no regular files: a read of them would never end.

use std::fs::remove_file;
use std::path::Path;

use support::certificates::Authority;
use support::commands::command;
use support::encrypted::files;
use support::server::{Server, WaitUntil};
use support::tls::{Client, Offer};

use super::{packet, small};

#[test]
fn pipe_instead_of_a_file_is_refused_without_a_read() {
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
    let mark = server.log.mark();
    for pipe in [&path(&certificate), &ca] {
        remove_file(pipe).unwrap();
        assert!(command("mkfifo").arg(pipe).status().unwrap().success());
    }
    remove_file(path(&key)).unwrap();
    let fields = server.log.wait(mark, "Certificate must be renewed");
    let expected = "it is not a regular file of at most 1 MiB";
    assert_eq!(fields["detail"], expected);
    let offer = Offer::of(&["dot"]).with(&identity);
    let client = Client::new(&issued, offer);
    for _ in 0..3 {
        client.ask(server.address("tls"), &packet()).unwrap();
        server.assert_answers();
        assert_eq!(server.admin("/livez").status, 200);
    }
}
