//! Sizes of answers: truncation over UDP, complete answers over TCP.

use std::collections::BTreeSet;

use support::objects::{Mirror, mirror, objects};
use support::reply::Record;
use support::server::Server;
use support::wire::Transport;

/// Returns a service with many endpoints. If `dual`, each has addresses of both families.
fn many(service: &str, count: usize, dual: bool) -> Mirror {
    let mut many = mirror("prod", service, "east");
    for index in 0..count {
        let v4 = format!("10.96.{}.{}", index / 250, index % 250 + 1);
        let v6 = format!("2001:db8::{:x}", index + 1);
        let addresses = [v4.as_str(), v6.as_str()];
        let addresses = &addresses[..if dual { 2 } else { 1 }];
        many = many.endpoint(&format!("{service}-{index}"), addresses);
    }
    many
}

/// Returns a question with an optional UDP payload size.
fn sized(asked: &str, payload: Option<u16>) -> String {
    let mark = payload.map(|size| format!(" +bufsize={size}"));
    format!("{asked}{}", mark.unwrap_or_default())
}

#[test]
fn two_hundred_endpoints_are_truncated_over_udp_and_complete_over_tcp() {
    let server = Server::with_objects(many("db", 200, false), &[]);
    for (name, least) in [
        ("db.prod.global. A", 16),
        ("_sql._tcp.db.prod.global. SRV", 60),
    ] {
        let whole = server.ask(name, Transport::Tcp);
        assert_eq!(whole.flags(), "qr aa");
        assert_eq!(whole.data_set().len(), 200, "{name}");
        let whole: BTreeSet<Record> = whole.answers.into_iter().collect();
        for (payload, limit) in [
            (None, 512),
            (Some(0), 512),
            (Some(400), 512),
            (Some(512), 512),
            (Some(900), 900),
            (Some(1232), 1232),
            (Some(4096), 1232),
            (Some(65_535), 1232),
        ] {
            let asked = sized(name, payload);
            let cut = server.ask(&asked, Transport::Udp);
            assert_eq!((cut.rcode, &*cut.flags()), (0, "qr aa tc"));
            assert!(cut.octets <= limit, "{} octets of {limit}", cut.octets);
            assert_eq!(
                cut.opt.is_some(),
                payload.is_some(),
                "truncation must keep the OPT record"
            );
            // The answer has as many complete records as fit.
            let spare = limit - cut.octets;
            assert!(
                spare < least + 11,
                "{name}, {payload:?}: {spare} unused octets"
            );
            cut.data_set();
            assert!(cut.answers.iter().all(|record| whole.contains(record)));
            assert_eq!((cut.additional.len(), cut.authority.len()), (0, 0));
            // TCP ignores the UDP payload size.
            assert_eq!(server.ask(&asked, Transport::Tcp).answers.len(), 200);
        }
    }
    for (proto, count) in [("udp", 16.0), ("tcp", 0.0)] {
        let metric = format!("global_dns_truncated_responses_total{{proto=\"{proto}\"}}");
        assert_eq!(server.metric(&metric), count, "{proto}");
    }
}

#[test]
fn largest_answer_that_fits_has_no_tc() {
    // Names have equal lengths, so that the sizes depend only on the number of endpoints.
    let counts = [
        1, 5, 20, 26, 27, 28, 29, 30, 31, 32, 70, 73, 74, 75, 76, 77, 80,
    ];
    let manifest = counts.iter().fold(objects(), |all, count| {
        all.with(many(&format!("db-{count:03}"), *count, false))
    });
    let server = Server::with_objects(manifest, &["--short-names=off"]);
    for count in counts {
        for payload in [None, Some(512), Some(1232)] {
            let asked = sized(&format!("db-{count:03}.prod.global. A"), payload);
            let reply = server.ask(&asked, Transport::Udp);
            assert!(reply.octets <= usize::from(payload.unwrap_or(512)));
            let is_whole = reply.data_set().len() == count;
            assert_eq!(
                reply.is_truncated(),
                !is_whole,
                "{count} endpoints, {payload:?}"
            );
            // Header, question, OPT; for each record a pointer, ten octets and an address.
            let fixed = 12 + "db-000.prod.global.".len() + 1 + 4 + payload.map_or(0, |_| 11);
            let room = usize::from(payload.unwrap_or(512)) - fixed;
            assert_eq!(
                is_whole,
                count * 16 <= room,
                "{count} endpoints, {payload:?}"
            );
        }
    }
}

#[test]
fn omitted_additional_records_do_not_set_tc() {
    let counts: Vec<usize> = (1..=30).collect();
    let manifest = counts.iter().fold(objects(), |all, count| {
        all.with(many(&format!("db-{count}"), *count, true))
    });
    let server = Server::with_objects(manifest, &["--short-names=off"]);
    let (mut shortened, mut cut) = (0, 0);
    for count in counts {
        for payload in [None, Some(512), Some(1232)] {
            let asked = sized(&format!("_sql._tcp.db-{count}.prod.global. SRV"), payload);
            let whole = server.ask(&asked, Transport::Tcp);
            assert_eq!(
                (whole.answers.len(), whole.additional.len()),
                (count, 2 * count)
            );
            let reply = server.ask(&asked, Transport::Udp);
            assert!(reply.octets <= usize::from(payload.unwrap_or(512)));
            assert_eq!(
                reply.is_truncated(),
                reply.answers.len() < count,
                "{count} targets, {payload:?}"
            );
            let all: BTreeSet<&Record> = whole.additional.iter().collect();
            assert!(reply.additional.iter().all(|record| all.contains(record)));
            if reply.is_truncated() {
                cut += 1;
                assert_eq!(reply.additional.len(), 0, "{count} targets, {payload:?}");
            } else if reply.additional.len() < 2 * count {
                shortened += 1;
            }
        }
    }
    // The test covered both cases.
    assert!(shortened > 5 && cut > 5, "{shortened} shortened, {cut} cut");
}

#[test]
fn negative_answers_are_never_truncated() {
    let server = Server::with_objects(many("db", 200, false), &[]);
    let label = "a".repeat(63);
    for name in [
        format!("{label}.{label}.{label}.global. A"),
        "db.prod.global. AAAA".to_owned(),
        "prod.global. A".to_owned(),
    ] {
        let reply = server.ask(&name, Transport::Udp);
        assert_eq!((&*reply.flags(), reply.authority.len()), ("qr aa", 1));
    }
}
