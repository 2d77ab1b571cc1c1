//! TTLs: flags, annotations and their limits. The Service of this cluster decides; a mirror may only lower the TTL.

use support::objects::{Manifest, local, mirror, objects};
use support::reply::sorted_texts;
use support::server::Server;
use support::wire::Transport;

/// Returns the common TTL of the records of a name.
fn ttl(server: &Server, asked: &str) -> u32 {
    let reply = server.ask(asked, Transport::Udp);
    let ttls = reply.answers.iter().chain(&reply.authority);
    let mut ttls: Vec<u32> = ttls.map(|record| record.ttl).collect();
    ttls.dedup();
    assert_eq!(ttls.len(), 1, "{:?}", reply.answers);
    ttls[0]
}

/// Returns `prod/db` with the TTL of this cluster's Service, which has no endpoint, and those of mirrors.
fn annotated(own: Option<&str>, mirrors: &[Option<&str>]) -> Manifest {
    let mut all = objects();
    if let Some(ttl) = own {
        let own = local("prod", "db").without_selector();
        all = all.with(own.annotation("global-dns/ttl", ttl));
    }
    for (index, ttl) in mirrors.iter().enumerate() {
        let address = format!("10.96.1.{}", index + 1);
        let mut member = mirror("prod", "db", &format!("c{index}")).endpoint("db-0", &[&address]);
        if let Some(ttl) = ttl {
            member = member.annotation("global-dns/ttl", ttl);
        }
        all = all.with(member);
    }
    all
}

/// Each case: the annotation of this cluster's Service, those of mirrors, flags, the resulting TTL, and the reported
/// problems, with their levels.
type Case<'c> = (
    Option<&'c str>,
    &'c [Option<&'c str>],
    &'c [&'c str],
    u32,
    &'c [(&'c str, &'c str)],
);

/// A TTL outside its limits, or one of a mirror that cannot be read.
const ANNOTATION: &[(&str, &str)] = &[("annotation", "warning")];
/// A TTL of this cluster's Service that cannot be read.
const UNREADABLE: &[(&str, &str)] = &[("unreadable-setting", "error")];

#[test]
fn own_service_sets_the_ttl_within_the_limits_and_mirrors_lower_it() {
    let cases: &[Case<'_>] = &[
        (None, &[None], &[], 5, &[]),
        (None, &[None], &["--ttl=9"], 9, &[]),
        // The Service of this cluster.
        (Some("20"), &[None], &[], 20, &[]),
        (Some("20"), &[None], &["--ttl=9"], 20, &[]),
        (Some("3"), &[None], &[], 3, &[]),
        (Some("1"), &[None], &[], 1, &[]),
        (Some("30"), &[None], &[], 30, &[]),
        (Some("31"), &[None], &[], 30, ANNOTATION),
        (Some("3600"), &[None], &["--ttl-max=600"], 600, ANNOTATION),
        (Some("300"), &[None], &["--ttl-max=600"], 300, &[]),
        (Some("0"), &[None], &[], 1, ANNOTATION),
        (Some("soon"), &[None], &[], 5, UNREADABLE),
        (Some("-1"), &[None], &[], 5, UNREADABLE),
        (Some(""), &[None], &[], 5, UNREADABLE),
        // A mirror does not raise the TTL.
        (None, &[Some("20")], &[], 5, &[]),
        (None, &[Some("20")], &["--ttl=9"], 9, &[]),
        (Some("10"), &[Some("20")], &[], 10, &[]),
        (None, &[Some("31")], &[], 5, ANNOTATION),
        // A mirror lowers it, and the lowest counts.
        (None, &[Some("4")], &[], 4, &[]),
        (None, &[Some("4"), None], &[], 4, &[]),
        (None, &[Some("4"), Some("3")], &[], 3, &[]),
        (Some("20"), &[Some("10")], &[], 10, &[]),
        (None, &[Some("0")], &[], 1, ANNOTATION),
        (None, &[Some("soon")], &[], 5, ANNOTATION),
        (None, &[Some("-1"), Some("4")], &[], 4, ANNOTATION),
    ];
    for (own, mirrors, flags, seconds, reported) in cases {
        let what = format!("{own:?} {mirrors:?} {flags:?}");
        let server = Server::with_objects(annotated(*own, mirrors), flags);
        for asked in [
            "db.prod.global. A",
            "db.global. SRV",
            "db-0.c0.db.prod.global. A",
        ] {
            assert_eq!(ttl(&server, asked), *seconds, "{what} {asked}");
        }
        let problems = server.api("/api/v1/table")["problems"].take();
        let problems: Vec<(&str, &str)> = problems
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                (
                    one["kind"].as_str().unwrap(),
                    one["level"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(problems, *reported, "{what}");
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
    let server = Server::with_objects(
        annotated(Some("20"), &[None]),
        &["--negative-ttl=9", "--ttl=7"],
    );
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
    let server = Server::with_objects(annotated(Some("6"), &[None]), &[]);
    server.rewrite(&annotated(Some("20"), &[None]).text());
    support::wait::wait_for("the new TTL", || {
        (ttl(&server, "db.prod.global. A") == 20).then_some(())
    });
    assert_eq!(server.generation_and_serial().0, 2);
}
