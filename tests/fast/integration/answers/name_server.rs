//! `answers.nsAddresses`: the addresses of the name server itself.

use support::commands::global_dns;
use support::reply::sorted_texts;
use support::server::{Server, WaitUntil};
use support::wire::{Transport, resolve};

use super::{FLAGS, sample};

#[test]
fn each_given_ns_address_is_answered_once() {
    let given = ["answers.nsAddresses=[192.0.2.53, 192.0.2.54, '2001:db8::53', 192.0.2.53]"];
    let server = Server::with_objects(sample(), &given);
    assert_eq!(server.outcome("ns.dns.global. A"), "192.0.2.53 192.0.2.54");
    assert_eq!(server.outcome("ns.dns.global. AAAA"), "2001:db8::53");
    let ns = server.ask("global. NS", Transport::Udp);
    assert_eq!(
        sorted_texts(&ns.additional),
        [
            "ns.dns.global. 5 IN A 192.0.2.53",
            "ns.dns.global. 5 IN A 192.0.2.54",
            "ns.dns.global. 5 IN AAAA 2001:db8::53"
        ]
    );
}

/// The address of a pod is not that of its replicas, and neither a pod nor loopback has a listener on port 53.
#[test]
fn no_ns_address_is_answered_by_default() {
    let start = |listen: &str, pod: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("objects.yaml");
        std::fs::write(&file, sample().text()).unwrap();
        let mut command = global_dns(&["serve", "--log-format=json", FLAGS[0], listen]);
        command.args(["--admin-listen=127.0.0.1:0", "--api-listen=127.0.0.1:0"]);
        command.arg("--file").arg(file);
        if let Some(pod) = pod {
            command.env("GLOBAL_DNS_POD_IPS", pod);
        }
        Server::start_command(folder, command, WaitUntil::Ready)
    };
    for (listen, pod) in [
        ("--listen=127.0.0.1:0", None),
        ("--listen=0.0.0.0:0", None),
        ("--listen=0.0.0.0:0", Some("192.0.2.77")),
    ] {
        let server = start(listen, pod);
        let here = ([127, 0, 0, 1], server.dns.port()).into();
        for asked in ["ns.dns.global. A", "ns.dns.global. AAAA"] {
            assert_eq!(resolve(here, asked).outcome(), "NODATA", "{asked}, {pod:?}");
        }
        let ns = resolve(here, "global. NS");
        assert_eq!(
            (ns.data(), &*ns.additional),
            (vec!["ns.dns.global."], &[][..])
        );
    }
}
