//! Go's resolver over TLS connections of Go's standard library, which CoreDNS also uses.

use super::Method::Tls;
use super::{Encrypted, NAME, Reading, row};
use crate::peers::clients::go::{Lookup, build};

#[test]
fn go_resolves_over_tls_and_resumes_its_sessions() {
    let server = Encrypted::start();
    let lookup = build();
    check(&server, &lookup, "Go's resolver, crypto/tls", &[]);
}

#[test]
fn go_uses_a_client_certificate() {
    let server = Encrypted::with_client_certificates();
    let lookup = build();
    let of = |name: &str| {
        let file = |kind: &str| server.files.path(&format!("{name}.{kind}"));
        [
            format!("-certificate={}", file("crt")),
            format!("-key={}", file("key")),
        ]
    };
    check(
        &server,
        &lookup,
        "Go's resolver, client certificate",
        &of("client"),
    );
    for (which, certificate) in [
        ("no certificate", Vec::new()),
        ("an untrusted certificate", of("stranger").to_vec()),
    ] {
        let found = lookup.query(
            server.address(Tls),
            &options(&server, &certificate),
            &["ip:ip4:db.prod.global."],
        );
        let error = found["answers"][0]["error"].as_str().unwrap();
        assert!(error.contains("tls: "), "{which}: {found}");
        let alert = error.rsplit("tls: ").next().unwrap();
        row(
            Tls,
            &format!("Go's resolver, {which}"),
            &format!("refused: {alert}"),
        );
    }
}

fn options(server: &Encrypted, further: &[String]) -> Vec<String> {
    let own = [
        format!("-ca={}", server.files.path("ca.crt")),
        format!("-name={NAME}"),
    ];
    [&own, further].concat()
}

fn check(server: &Encrypted, lookup: &Lookup, client: &str, further: &[String]) {
    let mut connections = String::new();
    server.check(Tls, client, |cases| {
        let questions: Vec<String> = cases
            .iter()
            .map(|case| match case.rtype {
                "A" => format!("ip:ip4:{}", case.name),
                "AAAA" => format!("ip:ip6:{}", case.name),
                "SRV" => format!("srv::{}", case.name),
                _ => format!("txt::{}", case.name),
            })
            .collect();
        let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
        let found = lookup.query(server.address(Tls), &options(server, further), &questions);
        let (opened, resumed) = (&found["connections"], &found["resumed"]);
        assert!(opened.as_u64() >= Some(cases.len() as u64), "{found}");
        // The first connection has no session to resume. A server that requires client certificates resumes none.
        let wanted = if further.is_empty() {
            opened.as_u64().map(|opened| opened - 1)
        } else {
            Some(0)
        };
        assert_eq!(resumed.as_u64(), wanted, "{found}");
        assert_eq!(
            (found["version"].as_str(), found["protocol"].as_str()),
            (Some("TLS 1.3"), Some("dot"))
        );
        connections = format!("{opened} connections, {resumed} resumed");
        let answers = found["answers"].as_array().unwrap().iter();
        answers
            .zip(cases)
            .map(|(answer, case)| {
                let records = answer["records"].as_array().unwrap().iter();
                let record = |record: &serde_json::Value| {
                    let text = record.as_str().unwrap();
                    // Go sorts by priority and weight; golookup does not print them.
                    match (case.rtype, text.split_once(' ')) {
                        ("SRV", Some((target, port))) => format!("0 10 {port} {target}"),
                        _ => text.to_owned(),
                    }
                };
                // Go does not distinguish NODATA from NXDOMAIN.
                let is_right = answer["notFound"] == case.reading.records.is_empty();
                let status = if is_right {
                    case.reading.status.clone()
                } else {
                    answer["error"].to_string()
                };
                Reading::new(status, records.map(record))
            })
            .collect()
    });
    row(Tls, client, &connections);
}
