//! Counters of the encrypted listeners, and their addresses in use.

use support::certificates::issue_valid;
use support::encrypted::{QUIC, serve};
use support::process::run_global_dns;

use super::{packet, small};

#[test]
fn address_in_use_is_an_error_that_names_the_listener() {
    let issued = issue_valid();
    let folder = tempfile::tempdir().unwrap();
    issued.write(folder.path());
    let objects = folder.path().join("objects.yaml");
    std::fs::write(&objects, small().text()).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_too = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp, udp) = (taken.local_addr(), taken_too.local_addr());
    for (listener, address) in [("tls", &tcp), ("quic", &udp)] {
        let address = address.as_ref().unwrap();
        let flags = [
            format!("--file={}", objects.display()),
            format!("tls.certificate={}/tls.crt", folder.path().display()),
            format!("tls.key={}/tls.key", folder.path().display()),
            format!("listen.{listener}=['{address}']"),
            "--listen=127.0.0.1:0".to_owned(),
        ];
        let ended =
            run_global_dns(&[&["serve"], &flags.each_ref().map(String::as_str)[..]].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let expected = format!(
            "error: cannot bind the {listener} listener to {address} (the setting listen.{listener}): "
        );
        assert!(ended.stderr.contains(&expected), "{}", ended.stderr);
    }
}

#[test]
fn queries_are_counted_by_transport() {
    let issued = issue_valid();
    let server = serve(small(), &issued, &[QUIC]);
    let tls = server.address("tls");
    let packet = packet();
    let of_quic = [&[0, 0], &packet[2..]].concat();
    for _ in 0..3 {
        issued.ask_tls(tls, &packet).unwrap();
    }
    for _ in 0..4 {
        issued.quic(server.address("quic")).ask(&of_quic).unwrap();
    }
    let unreadable = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x02a";
    issued.ask_tls(tls, unreadable).unwrap();
    for (labels, count) in [
        ("requests_total{proto=\"udp\",type=\"A\"}", 0.0),
        ("requests_total{proto=\"tls\",type=\"A\"}", 3.0),
        ("requests_total{proto=\"tls\",type=\"other\"}", 1.0),
        ("requests_total{proto=\"quic\",type=\"A\"}", 4.0),
        ("responses_total{rcode=\"NOERROR\"}", 7.0),
        ("responses_total{rcode=\"FORMERR\"}", 1.0),
    ] {
        let value = server.metric(&format!("global_dns_{labels}"));
        assert_eq!(value, count, "{labels}");
    }
}
