//! The time that HTTP caches may keep a reply (RFC 8484 section 5.1).

use support::https::{PATH, get, post};
use support::query::query;
use support::reply::{Record, rtype};

use super::send;
use crate::conformance::cases::decode;
use crate::conformance::servers::serve_encrypted;

/// Returns the maximum cache time of a reply: the smallest TTL of its answers, or the negative TTL of its SOA record
/// (RFC 2308 section 5). Returns `None` if the reply has neither.
fn max_age(reply: &[u8]) -> Option<u32> {
    let reply = decode(reply);
    if !reply.answers.is_empty() {
        return reply.answers.iter().map(|record| record.ttl).min();
    }
    let soa = reply.authority.iter();
    let soa = soa.filter(|record| record.rtype == rtype::SOA);
    let minimum = |record: &Record| record.data.rsplit(' ').next().unwrap().parse().unwrap();
    soa.map(|record| record.ttl.min(minimum(record))).min()
}

#[test]
fn s5_1_max_age_is_the_smallest_ttl() {
    let server = serve_encrypted(&["--ttl=7", "--negative-ttl=3", "--order=stable"]);
    for (text, seconds) in [
        ("db.prod.global. A", Some(7)),
        ("db.prod.global. SRV", Some(7)),
        ("slow.prod.global. A", Some(20)), // has the TTL annotation
        ("slow.prod.global. SRV", Some(20)),
        ("db.prod.global. ANY", Some(7)),
        ("global. NS", Some(7)),
        ("global. SOA", Some(3)),
        ("dns-version.global. TXT", Some(7)),
        ("ns.dns.global. A", Some(7)),
        ("db.prod.global. AAAA", Some(3)), // NODATA
        ("prod.global. A +edns", Some(3)),
        ("nope.global. A", Some(3)), // NXDOMAIN
        ("nope.global. A +edns", Some(3)),
        ("www.example. A", None), // REFUSED
        ("www.example. A +edns", None),
        ("global. AXFR", None),
        ("global. OPT", None),                // NOTIMP
        ("global. SOA +edns=1", None),        // BADVERS
        ("global. SOA +opcode=5", None),      // NOTIMP
        ("global. SOA +ednsopt=10:00", None), // FORMERR
    ] {
        let question = query(text);
        for (request, body) in [(post(PATH), &question.0[..]), (get(PATH, &question.0), &[])] {
            let response = send(&server, &request, body);
            let control = response.header("cache-control").map(str::to_owned);
            let reply = response.message();
            assert_eq!(max_age(&reply), seconds, "{text}: the TTLs of the records");
            let expected = seconds.map_or("no-store".to_owned(), |s| format!("max-age={s}"));
            assert_eq!(control, Some(expected), "{text}");
        }
    }
}

/// Section 5.1: TTLs in the additional section are ignored.
#[test]
fn s5_1_max_age_depends_only_on_the_answer_section() {
    let server = serve_encrypted(&["--negative-ttl=1", "--order=stable"]);
    let response = send(&server, &post(PATH), &query("db.prod.global. SRV").0);
    assert_eq!(response.header("cache-control"), Some("max-age=5"));
    let reply = decode(&response.message());
    assert!(!reply.answers.is_empty() && !reply.additional.is_empty());
}
