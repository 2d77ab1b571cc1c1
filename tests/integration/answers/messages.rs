//! Headers, flags, EDNS, classes and operations: what surrounds a question, and what is no question.

use std::net::UdpSocket;
use std::time::Duration;

use super::{FLAGS, sample};
use crate::support::ask::{EdnsSeen, Over, Question, Reply, question};
use crate::support::binary::{Await, Server};
use crate::support::{assert_none, set};

const BOTH: [Over; 2] = [Over::Udp, Over::Tcp];

const PLAIN: EdnsSeen = EdnsSeen {
    version: 0,
    dnssec_ok: false,
    error: None,
};

/// A reply that is a code alone: the question and, for who speaks EDNS, an OPT record with an extended error.
fn bare(asked: &Question, rcode: &str, error: Option<u16>, reply: &Reply) -> Result<(), String> {
    let edns = asked.edns.map(|_| EdnsSeen { error, ..PLAIN });
    let is_empty =
        reply.answers.is_empty() && reply.authority.is_empty() && reply.additional.is_empty();
    let seen = (
        reply.rcode.as_str(),
        reply.flags.as_str(),
        is_empty,
        reply.edns,
    );
    let wanted = (rcode, "qr", true, edns);
    (seen == wanted)
        .then_some(())
        .ok_or_else(|| format!("{asked:?}: got {seen:?}, wanted {wanted:?}"))
}

#[test]
fn the_questions_case_is_echoed_and_targets_are_lower_case() {
    let server = Server::of(sample(), &FLAGS);
    for over in BOTH {
        for name in [
            "Db.PROD.gLoBaL.",
            "eAsT.DB.Prod.GLOBAL.",
            "NS.Dns.Global.",
            "pROD.global.",
            "nOpe.GLOBAL.",
        ] {
            let reply = server.ask(&format!("{name} A"), over);
            assert_eq!(reply.question, [format!("{name} IN A")]);
            let lower = server.ask(&format!("{} A", name.to_lowercase()), over);
            assert_eq!(reply.outcome(), lower.outcome(), "{name}");
        }
        let reply = server.ask("_SQL._Tcp.WEST.dB.pRod.gloBAL. SRV", over);
        assert_eq!(reply.question, ["_SQL._Tcp.WEST.dB.pRod.gloBAL. IN SRV"]);
        assert_eq!(reply.data(), set(["0 10 26257 db-0.west.db.prod.global."]));
        let refused = server.ask("Www.EXAMPLE.org. A", over);
        assert_eq!(refused.question, ["Www.EXAMPLE.org. IN A"]);
    }
}

#[test]
fn aa_is_set_rd_is_copied_and_ra_ad_cd_are_clear() {
    let server = Server::of(sample(), &FLAGS);
    for over in BOTH {
        for (name, authoritative) in [
            ("db.prod.global. A", true),
            ("db.prod.global. MX", true),
            ("nope.prod.global. A", true),
            ("global. SOA", true),
            ("www.example.org. A", false),
        ] {
            for desired in [false, true] {
                let mut asked = question(name).edns(1232);
                asked.recursion_desired = desired;
                (asked.authentic_data, asked.checking_disabled) = (true, true);
                let mut expected = vec!["qr"];
                expected.extend(authoritative.then_some("aa"));
                expected.extend(desired.then_some("rd"));
                let reply = asked.ask(server.dns, over);
                assert_eq!(reply.flags, expected.join(" "), "{name} {over:?}");
            }
        }
    }
}

#[test]
fn there_is_an_opt_record_iff_one_was_sent_and_do_is_copied() {
    let server = Server::of(sample(), &FLAGS);
    for over in BOTH {
        for name in [
            "db.prod.global. A",
            "nope.prod.global. A",
            "prod.global. A",
            "global. NS",
        ] {
            assert_eq!(server.ask(name, over).edns, None, "{name}");
            let mut asked = question(name).edns(1232);
            assert_eq!(asked.ask(server.dns, over).edns, Some(PLAIN), "{name}");
            asked.dnssec_ok = true;
            let with_do = EdnsSeen {
                dnssec_ok: true,
                ..PLAIN
            };
            assert_eq!(asked.ask(server.dns, over).edns, Some(with_do), "{name}");
        }
    }
}

#[test]
fn unknown_edns_versions_get_badvers_and_ours() {
    let server = Server::of(sample(), &FLAGS);
    for over in BOTH {
        for (version, name) in [(1, "db.prod.global. A"), (255, "www.example.org. A")] {
            let mut asked = question(name).edns(1232);
            asked.edns_version = version;
            asked.dnssec_ok = true;
            let reply = asked.ask(server.dns, over);
            let edns = EdnsSeen {
                dnssec_ok: true,
                ..PLAIN
            };
            assert_eq!(
                (reply.rcode.as_str(), reply.answers.len(), reply.edns),
                ("BADVERS", 0, Some(edns)),
                "version {version}, {over:?}"
            );
            assert_eq!(reply.question.len(), 1);
        }
    }
}

#[test]
fn classes_transfers_and_meta_types_are_refused_or_not_implemented() {
    let server = Server::of(sample(), &FLAGS);
    let mut differences = Vec::new();
    let of_class = |text: &str, class: u16| Question {
        class,
        ..question(text)
    };
    let cases = [
        (of_class("db.prod.global. A", 3), "REFUSED", Some(21)),
        (of_class("version.bind. TXT", 3), "REFUSED", Some(21)),
        (of_class("db.prod.global. A", 4), "REFUSED", Some(21)),
        (of_class("db.prod.global. A", 254), "REFUSED", Some(21)),
        (question("global. AXFR"), "REFUSED", Some(21)),
        (question("db.prod.global. AXFR"), "REFUSED", Some(21)),
        (question("global. TYPE251"), "REFUSED", Some(21)),
        (question("global. TYPE253"), "NOTIMP", None),
        (question("global. TYPE254"), "NOTIMP", None),
        (question("db.prod.global. TYPE249"), "NOTIMP", None),
    ];
    for (asked, rcode, error) in cases {
        for over in BOTH {
            for asked in [asked.clone(), asked.clone().edns(1232)] {
                let reply = asked.ask(server.dns, over);
                differences.extend(bare(&asked, rcode, error, &reply).err());
            }
        }
    }
    assert_none(&differences);
    // Any class is ours (RFC 1035 section 3.2.5).
    for over in BOTH {
        let reply = of_class("west.db.prod.global. A", 255).ask(server.dns, over);
        assert_eq!(reply.data(), set(["10.96.2.1"]), "{over:?}");
    }
}

#[test]
fn operations_other_than_queries_are_not_implemented() {
    let server = Server::of(sample(), &FLAGS);
    for over in BOTH {
        for opcode in [2, 4, 5] {
            let mut asked = question("global. SOA");
            asked.opcode = opcode;
            let reply = asked.ask(server.dns, over);
            assert_eq!(
                (reply.rcode.as_str(), reply.answers.len()),
                ("NOTIMP", 0),
                "{opcode}, {over:?}"
            );
        }
    }
}

#[test]
fn responses_are_never_answered() {
    let server = Server::of(sample(), &FLAGS);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.dns).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut response = question("db.prod.global. A").packet();
    response[2] |= 0x80;
    for _ in 0..3 {
        socket.send(&response).unwrap();
    }
    // Datagrams of one socket are read in their order: the first reply is to the first query.
    let query = question("west.db.prod.global. A").packet();
    socket.send(&query).unwrap();
    let mut buffer = [0; 1500];
    let length = socket.recv(&mut buffer).unwrap();
    let reply = Reply::read(&buffer[..length]);
    assert_eq!(reply.question, ["west.db.prod.global. IN A"]);
    assert_eq!(
        server.metric("global_dns_requests_total{proto=\"udp\",type=\"A\"}"),
        1.0
    );
}

#[test]
fn before_the_first_table_everything_of_ours_is_servfail() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: here, cluster: {{server: 'http://{address}'}}}}]\n\
         users: [{{name: me, user: {{}}}}]\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    let flag = format!("--kubeconfig={}", path.display());
    let server = Server::start(folder, &[&flag], Await::Listening);

    let mut differences = Vec::new();
    for over in BOTH {
        for (name, rcode, error) in [
            ("db.prod.global. A", "SERVFAIL", 14),
            ("global. SOA", "SERVFAIL", 14),
            ("nope.global. A", "SERVFAIL", 14),
            (". NS", "REFUSED", 20),
            ("www.example.org. A", "REFUSED", 20),
        ] {
            for asked in [question(name), question(name).edns(1232)] {
                let reply = asked.ask(server.dns, over);
                differences.extend(bare(&asked, rcode, Some(error), &reply).err());
            }
        }
    }
    assert_none(&differences);
    let page = server.admin("/readyz");
    assert_eq!(page.status, 503);
    let mut lines = page.body.lines();
    assert_eq!(lines.next(), Some("no complete table yet"));
    let rest: Vec<&str> = lines.collect();
    for watch in [
        "mirror-services",
        "local-services",
        "mirror-slices",
        "local-slices",
        "foreign-slices",
    ] {
        let start = format!("{watch}: not listed yet");
        assert!(
            rest.iter().any(|line| line.starts_with(&start)),
            "{}",
            page.body
        );
    }
    assert_eq!(server.admin("/livez").status, 200);
    let explain = crate::support::binary::get(server.api, "/api/v1/explain?name=db.prod.global");
    assert_eq!(explain.unwrap().status, 503);
}

#[test]
fn queries_and_replies_are_counted() {
    let server = Server::of(sample(), &FLAGS);
    server.ask("db.prod.global. A", Over::Udp);
    server.ask("db.prod.global. AAAA", Over::Tcp);
    server.ask("db.prod.global. TYPE666", Over::Udp);
    server.ask("nope.prod.global. SRV", Over::Tcp);
    server.ask(". NS", Over::Udp);
    for (metric, count) in [
        ("requests_total{proto=\"udp\",type=\"A\"}", 1.0),
        ("requests_total{proto=\"tcp\",type=\"A\"}", 0.0),
        ("requests_total{proto=\"tcp\",type=\"AAAA\"}", 1.0),
        ("requests_total{proto=\"udp\",type=\"other\"}", 1.0),
        ("requests_total{proto=\"tcp\",type=\"SRV\"}", 1.0),
        ("requests_total{proto=\"udp\",type=\"NS\"}", 1.0),
        ("responses_total{rcode=\"NOERROR\"}", 3.0),
        ("responses_total{rcode=\"NXDOMAIN\"}", 1.0),
        ("responses_total{rcode=\"REFUSED\"}", 1.0),
        ("responses_total{rcode=\"SERVFAIL\"}", 0.0),
        ("request_duration_seconds_count", 5.0),
        ("endpoints{cluster=\"east\",state=\"answered\"}", 2.0),
        ("endpoints{cluster=\"west\",state=\"last-resort\"}", 1.0),
        ("endpoints{cluster=\"hub\",state=\"not-ready\"}", 1.0),
        ("services", 4.0),
        ("table_generation", 1.0),
    ] {
        assert_eq!(
            server.metric(&format!("global_dns_{metric}")),
            count,
            "{metric}"
        );
    }
}
