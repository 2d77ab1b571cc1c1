//! kdig and dig: over TLS, and kdig over QUIC; with padding, with several questions on one connection, with
//! client certificates.

use support::commands::{command, tool};
use support::process;

use super::Method::{self, Quic, Tls};
use super::{Case, Encrypted, Reading, cases, row};

/// A command: program, method, text in the output, options. In kdig, options about certificates imply `+tls`, so that
/// `+quic` must be the last option.
type Way = (&'static str, Method, &'static str, &'static [&'static str]);

const VERIFIED: [&str; 2] = ["+tls-ca={ca}", "+tls-hostname={name}"];

const WAYS: [Way; 7] = [
    ("kdig", Tls, "+tls", &["+tls"]),
    (
        "kdig",
        Tls,
        "+tls-ca +tls-hostname",
        &["+tls", VERIFIED[0], VERIFIED[1]],
    ),
    ("kdig", Tls, "+nopadding", &["+tls", "+nopadding"]),
    ("kdig", Quic, "+quic", &["+quic"]),
    (
        "kdig",
        Quic,
        "+quic +tls-ca +tls-hostname",
        &[VERIFIED[0], VERIFIED[1], "+quic"],
    ),
    ("dig", Tls, "+tls", &["+tls"]),
    (
        "dig",
        Tls,
        "+tls-ca +tls-hostname",
        &["+tls", VERIFIED[0], VERIFIED[1]],
    ),
];

/// Sends all questions with one process. Returns whether it succeeded, and its output.
fn run(server: &Encrypted, way: &Way, cases: &[Case]) -> (bool, String) {
    let (program, method, _, options) = way;
    let address = server.address(*method);
    let mut command = command(tool(program).unwrap());
    command.arg(format!("@{}", address.ip()));
    command.arg("-p").arg(address.port().to_string());
    command.args(["+noauthority", "+noadditional"]);
    command.args(options.iter().map(|option| server.fill(option)));
    for case in cases {
        command.args([case.name, case.rtype]);
    }
    let ended = process::run(&mut command);
    (ended.is_success(), ended.output())
}

/// Parses the output of dig or kdig.
fn readings(printed: &str) -> Vec<Reading> {
    let replies = printed.split(";; ->>HEADER<<-").skip(1);
    let reading = |reply: &str| {
        let status = reply.split("status: ").nth(1).unwrap();
        let lines = reply.lines().skip(1);
        let records = lines.filter(|line| !line.is_empty() && !line.starts_with(';'));
        let data = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().skip(4).collect();
            fields.join(" ")
        };
        Reading::new(status.split([',', ';']).next().unwrap(), records.map(data))
    };
    replies.map(reading).collect()
}

/// Returns the size of each reply in octets.
fn sizes(printed: &str) -> Vec<usize> {
    let words = printed.split_whitespace().collect::<Vec<_>>();
    let sizes = words.windows(2).filter_map(|pair| match pair[0] {
        "Received" | "rcvd:" => pair[1].parse().ok(),
        _ => None,
    });
    sizes.collect()
}

fn client(way: &Way) -> String {
    format!("{} {}", way.0, way.2)
}

#[test]
fn dig_and_kdig_read_every_answer() {
    let server = Encrypted::start();
    for way in WAYS {
        server.check(way.1, &client(&way), |cases| {
            let (succeeded, printed) = run(&server, &way, cases);
            assert!(succeeded, "{}: {printed}", client(&way));
            readings(&printed)
        });
    }
}

#[test]
fn dig_and_kdig_reject_a_certificate_for_another_name() {
    let server = Encrypted::start();
    let wrong = |program, method, on| -> Way {
        let options = ["+tls-ca={ca}", "+tls-hostname=other.example.net", on];
        (program, method, "", Vec::from(options).leak())
    };
    let ways = [
        wrong("kdig", Tls, "+tls"),
        wrong("kdig", Quic, "+quic"),
        wrong("dig", Tls, "+tls"),
    ];
    for way in ways {
        // The exit code of dig does not show the failure.
        let (_, printed) = run(&server, &way, &cases()[..1]);
        assert_eq!(readings(&printed), [], "{} {:?}: {printed}", way.0, way.1);
    }
    let asked = Method::ALL.map(|method| server.server.requests(method.name()));
    assert_eq!(asked, [0, 0]);
}

#[test]
fn keepopen_sends_several_questions_on_one_connection() {
    let ways: [Way; 2] = [
        ("kdig", Tls, "+tls +keepopen", &["+tls", "+keepopen"]),
        ("dig", Tls, "+tls +keepopen", &["+tls", "+keepopen"]),
    ];
    for way in ways {
        let server = Encrypted::start();
        server.check(way.1, &client(&way), |cases| {
            readings(&run(&server, &way, cases).1)
        });
        assert_eq!(server.ended_connections(), 1, "{}", client(&way));
    }
    // Without the option, each question has a separate connection.
    let server = Encrypted::start();
    let way: Way = ("kdig", Tls, "+tls", &["+tls"]);
    assert_eq!(
        readings(&run(&server, &way, &cases()).1).len(),
        cases().len()
    );
    assert_eq!(server.ended_connections(), cases().len() as u64);
}

#[test]
fn replies_to_padded_queries_are_padded() {
    /// Block size of padded replies (RFC 8467 section 4.1).
    const BLOCK: usize = 468;
    let server = Encrypted::start();
    let ways: [(Way, bool); 6] = [
        (("kdig", Tls, "+tls +padding", &["+tls", "+padding"]), true),
        (
            ("kdig", Tls, "+tls +padding=64", &["+tls", "+padding=64"]),
            true,
        ),
        (
            ("kdig", Tls, "+tls +nopadding", &["+tls", "+nopadding"]),
            false,
        ),
        (
            ("kdig", Quic, "+quic +padding", &["+quic", "+padding"]),
            false,
        ),
        (
            ("dig", Tls, "+tls +padding=128", &["+tls", "+padding=128"]),
            true,
        ),
        (
            ("dig", Tls, "+tls +padding=0", &["+tls", "+padding=0"]),
            false,
        ),
    ];
    for (way, is_padded) in ways {
        let (succeeded, printed) = run(&server, &way, &cases());
        let sizes = sizes(&printed);
        assert!(
            succeeded && sizes.len() == cases().len(),
            "{}: {printed}",
            client(&way)
        );
        for (case, size) in cases().iter().zip(&sizes) {
            let is_block = size.is_multiple_of(BLOCK);
            assert_eq!(
                is_block,
                is_padded,
                "{}: {} {size}",
                client(&way),
                case.name
            );
        }
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        row(
            way.1,
            &client(&way),
            &format!("replies of {} octets", sizes.join(", ")),
        );
    }
}

#[test]
fn dig_and_kdig_use_a_client_certificate() {
    let server = Encrypted::with_client_certificates();
    const OWN: [&str; 2] = ["+tls-certfile={certificate}", "+tls-keyfile={key}"];
    // kdig waits for its timeout, although QUIC reports the close.
    const ONCE: [&str; 2] = ["+timeout=3", "+retry=0"];
    const STRANGE: [&str; 2] = [
        "+tls-certfile={stranger-certificate}",
        "+tls-keyfile={stranger-key}",
    ];
    for (program, method, on) in [
        ("kdig", Tls, "+tls"),
        ("kdig", Quic, "+quic"),
        ("dig", Tls, "+tls"),
    ] {
        let with = |certificate: &[&'static str]| -> Way {
            let options = [&VERIFIED, certificate, &[on]].concat();
            (program, method, "", options.leak())
        };
        let way = with(&OWN);
        let label = format!("{program} {on} +tls-certfile +tls-keyfile");
        server.check(method, &label, |cases| {
            readings(&run(&server, &way, cases).1)
        });
        for (way, which) in [
            (with(&ONCE), "no certificate"),
            (with(&[STRANGE, ONCE].concat()), "an untrusted certificate"),
        ] {
            let (_, printed) = run(&server, &way, &cases()[..1]);
            assert_eq!(readings(&printed), [], "{label}, {which}");
            // dig may print nothing.
            let output = printed.lines().find_map(|line| line.strip_prefix(";; "));
            row(
                method,
                &format!("{program} {on}, {which}"),
                &format!("refused: {}", output.unwrap_or("no answer")),
            );
        }
    }
}
