//! TTLs: flags, annotations and their limits.

use support::objects::{Manifest, local, mirror, objects};
use support::reply::sorted_texts;
use support::server::Server;
use support::wire::Transport;

use super::{conflicts, expected};

/// Returns the common TTL of the records of a name.
fn ttl(server: &Server, asked: &str) -> u32 {
    let reply = server.ask(asked, Transport::Udp);
    let ttls = reply.answers.iter().chain(&reply.authority);
    let mut ttls: Vec<u32> = ttls.map(|record| record.ttl).collect();
    ttls.dedup();
    assert_eq!(ttls.len(), 1, "{:?}", reply.answers);
    ttls[0]
}

fn annotated(ttls: &[Option<&str>]) -> Manifest {
    let mut all = objects();
    for (index, ttl) in ttls.iter().enumerate() {
        let address = format!("10.96.1.{}", index + 1);
        let mut member = mirror("prod", "db", &format!("c{index}")).endpoint("db-0", &[&address]);
        if let Some(ttl) = ttl {
            member = member.annotation("global-dns/ttl", ttl);
        }
        all = all.with(member);
    }
    all
}

/// Each case: annotations of the members, flags, the resulting TTL, and the number of reported conflicts.
type Case<'c> = (&'c [Option<&'c str>], &'c [&'c str], u32, usize);

#[test]
fn smallest_annotation_within_the_limits_determines_the_ttl() {
    let cases: &[Case<'_>] = &[
        (&[None], &[], 5, 0),
        (&[Some("20")], &[], 20, 0),
        (&[Some("1")], &[], 1, 0),
        (&[Some("30")], &[], 30, 0),
        (&[Some("31")], &[], 30, 1),
        (&[Some("3600")], &["--ttl-max=600"], 600, 1),
        (&[Some("300")], &["--ttl-max=600"], 300, 0),
        (&[Some("0")], &[], 1, 1),
        (&[Some("soon")], &[], 5, 1),
        (&[Some("-1")], &[], 5, 1),
        (&[Some("20"), None], &[], 20, 0),
        (&[Some("20"), Some("20")], &[], 20, 0),
        (&[Some("20"), Some("10")], &[], 10, 1),
        (&[None], &["--ttl=9"], 9, 0),
        (&[Some("20")], &["--ttl=9"], 20, 0),
    ];
    for (ttls, flags, seconds, reported) in cases {
        let server = Server::with_objects(annotated(ttls), flags);
        for asked in [
            "db.prod.global. A",
            "db.global. SRV",
            "db-0.c0.db.prod.global. A",
        ] {
            assert_eq!(ttl(&server, asked), *seconds, "{ttls:?} {flags:?} {asked}");
        }
        let reported = vec![("annotation", "prod/db"); *reported];
        assert_eq!(
            conflicts(&server),
            expected(&reported),
            "{ttls:?} {flags:?}"
        );
    }
}

#[test]
fn annotation_of_a_local_member_applies_only_to_its_service() {
    let manifest = objects()
        .with(
            local("prod", "db")
                .exported()
                .annotation("global-dns/ttl", "12")
                .endpoint(Some("db-0"), "192.0.2.1", true),
        )
        .with(mirror("prod", "cache", "east").endpoint("cache-0", &["10.96.1.1"]));
    let server = Server::with_objects(manifest, &[]);
    assert_eq!(ttl(&server, "db.prod.global. A"), 12);
    assert_eq!(ttl(&server, "cache.prod.global. A"), 5);
}

#[test]
fn negative_answers_have_their_own_ttl() {
    let server = Server::with_objects(annotated(&[Some("20")]), &["--negative-ttl=9", "--ttl=7"]);
    for asked in [
        "nope.prod.global. A",
        "prod.global. A",
        "db.prod.global. AAAA",
    ] {
        let reply = server.ask(asked, Transport::Udp);
        let soa = "global. 9 IN SOA ns.dns.global. hostmaster.global. SERIAL 7200 1800 86400 9";
        assert_eq!(sorted_texts(&reply.authority), [soa], "{asked}");
    }
    assert_eq!(ttl(&server, "global. SOA"), 9);
    assert_eq!(ttl(&server, "global. NS"), 7);
    assert_eq!(ttl(&server, "db.prod.global. A"), 20);
}

#[test]
fn changed_ttl_changes_the_answer() {
    let server = Server::with_objects(annotated(&[None]), &[]);
    server.rewrite(&annotated(&[Some("20")]).text());
    support::wait::wait_for("the new TTL", || {
        (ttl(&server, "db.prod.global. A") == 20).then_some(())
    });
    assert_eq!(server.generation_and_serial().0, 2);
}
