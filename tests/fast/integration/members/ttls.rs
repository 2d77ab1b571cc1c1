//! TTLs of annotations. The Service of this cluster decides within the limits; a mirror may only lower the TTL.

use support::objects::{Manifest, local, mirror, objects};
use support::server::Server;
use support::wire::Transport;

/// The annotation of this cluster's Service, those of mirrors, the resulting TTL, and the level and kind of the reported problem.
type Case = (
    Option<&'static str>,
    &'static [Option<&'static str>],
    u32,
    Option<&'static str>,
);

/// A TTL outside its limits, or one of a mirror that cannot be read.
const IGNORED: Option<&str> = Some("note ignored-annotation");
/// A TTL of this cluster's Service that cannot be read.
const WITHOUT_EFFECT: Option<&str> = Some("error setting-without-effect");

const CASES: [Case; 19] = [
    (None, &[None], 5, None),
    (Some("20"), &[None], 20, None),
    (Some("1"), &[None], 1, None),
    (Some("30"), &[None], 30, None),
    (Some("31"), &[None], 30, WITHOUT_EFFECT),
    (Some("0"), &[None], 1, WITHOUT_EFFECT),
    (Some("soon"), &[None], 5, WITHOUT_EFFECT),
    (Some("-1"), &[None], 5, WITHOUT_EFFECT),
    (Some(""), &[None], 5, WITHOUT_EFFECT),
    // A mirror does not raise the TTL.
    (None, &[Some("20")], 5, None),
    (Some("10"), &[Some("20")], 10, None),
    (None, &[Some("31")], 5, IGNORED),
    // A mirror lowers it, and the lowest counts.
    (None, &[Some("4")], 4, None),
    (None, &[Some("4"), None], 4, None),
    (None, &[Some("4"), Some("3")], 3, None),
    (Some("20"), &[Some("10")], 10, None),
    (None, &[Some("0")], 1, IGNORED),
    (None, &[Some("soon")], 5, IGNORED),
    (None, &[Some("-1"), Some("4")], 4, IGNORED),
];

/// Returns a service with the annotations of a case. The Service of this cluster has no endpoint.
fn annotated(service: &str, own: Option<&str>, mirrors: &[Option<&str>]) -> Manifest {
    let mut all = objects();
    if let Some(ttl) = own {
        let own = local("prod", service).without_selector();
        all = all.with(own.annotation("global-dns/ttl", ttl));
    }
    for (index, ttl) in mirrors.iter().enumerate() {
        let address = format!("10.96.1.{}", index + 1);
        let mirror = mirror("prod", service, &format!("c{index}"));
        let mut member = mirror.endpoint(&format!("{service}-0"), &[&address]);
        if let Some(ttl) = ttl {
            member = member.annotation("global-dns/ttl", ttl);
        }
        all = all.with(member);
    }
    all
}

#[test]
fn own_service_sets_the_ttl_within_the_limits_and_mirrors_lower_it() {
    let objects: Manifest = CASES
        .iter()
        .enumerate()
        .flat_map(|(index, (own, mirrors, ..))| annotated(&format!("s{index}"), *own, mirrors).0)
        .collect();
    let server = Server::with_objects(objects, &[]);
    let table = server.api("/api/v1/table");
    let problems = table["problems"].as_array().unwrap();
    for (index, (own, mirrors, seconds, reported)) in CASES.iter().enumerate() {
        let what = format!("{own:?} {mirrors:?}");
        for asked in [
            format!("s{index}.prod.global. A"),
            format!("s{index}.global. SRV"),
            format!("s{index}-0.c0.s{index}.prod.global. A"),
        ] {
            let reply = server.ask(&asked, Transport::Udp);
            let mut ttls = reply.answers.iter().map(|record| record.ttl);
            assert!(ttls.all(|ttl| ttl == *seconds), "{what} {asked}: {reply:?}");
            assert!(!reply.answers.is_empty(), "{what} {asked}");
        }
        let service = format!("prod/s{index}");
        let own = problems.iter().filter(|one| one["service"] == service);
        let own: Vec<String> = own
            .map(|one| {
                let text = |field: &str| one[field].as_str().unwrap();
                format!("{} {}", text("level"), text("kind"))
            })
            .collect();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        assert_eq!(own, Vec::from_iter(*reported), "{what}");
    }
}

/// The annotation takes precedence over the settings, and a mirror lowers theirs, too.
#[test]
fn settings_of_a_service_have_its_ttl_unless_it_has_an_annotation() {
    let objects: Manifest = [
        ("a", None, None),
        ("b", Some("20"), None),
        ("c", None, Some("4")),
    ]
    .iter()
    .flat_map(|(service, own, mirror)| annotated(service, *own, &[*mirror]).0)
    .collect();
    let settings = ["a", "b", "c"].map(|service| format!("services.prod/{service}.ttl=9"));
    let server = Server::with_objects(objects, &settings.each_ref().map(String::as_str));
    for (service, ttl) in [("a", 9), ("b", 20), ("c", 4)] {
        let reply = server.ask(&format!("{service}.prod.global. A"), Transport::Udp);
        assert_eq!(reply.answers[0].ttl, ttl, "{service}");
    }
}
