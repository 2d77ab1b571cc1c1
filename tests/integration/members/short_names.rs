//! The short family: who owns `S.Z`, and what hides it.

use super::{check_outcomes, conflicts, expected};
use crate::support::binary::Server;
use crate::support::objects::{Manifest, mirror, objects};

const PROD: &str = "10.96.1.1";
const SHOP: &str = "10.96.2.1";

/// `db` in `prod` and in `shop`, created at these times.
fn two(prod: &str, shop: &str) -> Manifest {
    objects()
        .with(
            mirror("prod", "db", "east")
                .created(prod)
                .endpoint("db-0", &[PROD]),
        )
        .with(
            mirror("shop", "db", "west")
                .created(shop)
                .endpoint("db-0", &[SHOP]),
        )
}

const OLD: &str = "2026-01-01T00:00:00Z";
const NEW: &str = "2026-06-01T00:00:00Z";
const UNPINNED: [(&str, &str); 1] = [("short-name", "db")];

#[test]
fn the_owner_follows_pin_default_age_and_name_in_this_order() {
    let cases: &[(&str, Manifest, &[&str], &str, bool)] = &[
        ("the oldest", two(OLD, NEW), &[], PROD, true),
        (
            "the oldest, the other way round",
            two(NEW, OLD),
            &[],
            SHOP,
            true,
        ),
        ("by name, if equally old", two(OLD, OLD), &[], PROD, true),
        (
            "the default namespace",
            two(OLD, NEW),
            &["--default-namespace=shop"],
            SHOP,
            false,
        ),
        (
            "a default namespace that lacks the service",
            two(NEW, OLD),
            &["--default-namespace=test"],
            SHOP,
            true,
        ),
        (
            "a pin",
            two(OLD, NEW),
            &["--short-name=db=shop"],
            SHOP,
            false,
        ),
        (
            "a pin before the default",
            two(OLD, NEW),
            &["--short-name=db=shop", "--default-namespace=prod"],
            SHOP,
            false,
        ),
        (
            "a pin of another name",
            two(NEW, OLD),
            &["--short-name=cache=prod"],
            SHOP,
            true,
        ),
        (
            "pinned alone: by default namespace",
            two(OLD, NEW),
            &["--short-names=pinned", "--default-namespace=shop"],
            SHOP,
            false,
        ),
        (
            "pinned alone: by pin",
            two(OLD, NEW),
            &["--short-names=pinned", "--short-name=db=shop"],
            SHOP,
            false,
        ),
    ];
    for (what, manifest, flags, owner, is_conflict) in cases {
        let server = Server::of(manifest.clone(), flags);
        let (cluster, other) = if *owner == PROD {
            ("east", "west")
        } else {
            ("west", "east")
        };
        let names = [
            format!("{cluster}.db.global. A"),
            format!("{other}.db.global. A"),
            format!("db-0.{cluster}.db.global. A"),
            "_sql._tcp.db.global. SRV".to_owned(),
        ];
        let target = format!("0 10 26257 db-0.{cluster}.db.global.");
        check_outcomes(
            &server,
            what,
            &[
                ("db.global. A", owner),
                (&names[0], owner),
                (&names[1], "NXDOMAIN"),
                (&names[2], owner),
                (&names[3], &target),
                ("db.prod.global. A", PROD),
                ("db.shop.global. A", SHOP),
            ],
        );
        let reported = if *is_conflict { &UNPINNED[..] } else { &[] };
        assert_eq!(conflicts(&server), expected(reported), "{what}");
    }
}

#[test]
fn a_name_without_owner_does_not_exist() {
    for (what, flags) in [
        (
            "a pin to a namespace that lacks the service",
            &["--short-name=db=test"][..],
        ),
        (
            "a pin is no wish: there is no fallback",
            &["--short-name=db=test", "--default-namespace=prod"],
        ),
        ("pinned, and no flag says whose", &["--short-names=pinned"]),
        (
            "pinned, and the default namespace lacks it",
            &["--short-names=pinned", "--default-namespace=test"],
        ),
        ("off", &["--short-names=off"]),
        (
            "off, in spite of a pin",
            &["--short-names=off", "--short-name=db=prod"],
        ),
    ] {
        let server = Server::of(two(OLD, NEW), flags);
        check_outcomes(
            &server,
            what,
            &[
                ("db.global. A", "NXDOMAIN"),
                ("east.db.global. A", "NXDOMAIN"),
                ("db-0.west.db.global. A", "NXDOMAIN"),
                ("_sql._tcp.db.global. SRV", "NXDOMAIN"),
                ("db.prod.global. A", PROD),
                ("db.shop.global. A", SHOP),
            ],
        );
    }
}

#[test]
fn the_only_namespace_that_has_it_owns_it() {
    let one = mirror("shop", "db", "west").endpoint("db-0", &[SHOP]);
    let server = Server::of(one, &[]);
    assert_eq!(server.outcome("db.global. A"), SHOP);
    assert_eq!(conflicts(&server), expected(&[]));
}

#[test]
fn a_later_export_never_takes_a_short_name_over() {
    let shop = || {
        mirror("shop", "db", "west")
            .created(NEW)
            .endpoint("db-0", &[SHOP])
    };
    let server = Server::of(shop(), &[]);
    assert_eq!(server.outcome("db.global. A"), SHOP);
    // Older and first by name, but later here: the incumbent stays.
    server.rewrite(&two(OLD, NEW).text());
    server.wait_for_outcome("db.prod.global. A", PROD);
    assert_eq!(server.outcome("db.global. A"), SHOP);
    assert_eq!(conflicts(&server), expected(&UNPINNED));
    // As long as it has the service, be it without an endpoint: nobody is sent to another namespace.
    let empty = objects()
        .with(
            mirror("prod", "db", "east")
                .created(OLD)
                .endpoint("db-0", &[PROD]),
        )
        .with(mirror("shop", "db", "west").created(NEW));
    server.rewrite(&empty.text());
    server.wait_for_outcome("db.shop.global. A", "NXDOMAIN");
    assert_eq!(server.outcome("db.global. A"), "NXDOMAIN");
    // Gone for good: the next one follows.
    let prod = mirror("prod", "db", "east")
        .created(OLD)
        .endpoint("db-0", &[PROD]);
    server.rewrite(&Manifest::from(prod).text());
    server.wait_for_outcome("db.global. A", PROD);
}

#[test]
fn an_empty_non_terminal_yields_to_a_short_name() {
    let manifest = objects()
        .with(mirror("prod", "kafka", "west").endpoint("kafka-0", &["10.96.1.1"]))
        .with(mirror("kafka", "broker", "west").endpoint("broker-0", &["10.96.2.1"]))
        .with(mirror("prod", "dns", "west").endpoint("dns-0", &["10.96.3.1"]));
    let server = Server::of(manifest, &["--ns-address=192.0.2.53"]);
    check_outcomes(
        &server,
        "names with two meanings",
        &[
            ("kafka.global. A", "10.96.1.1"),
            ("west.kafka.global. A", "10.96.1.1"),
            ("broker.kafka.global. A", "10.96.2.1"),
            ("kafka.global. AAAA", "NODATA"),
            ("dns.global. A", "10.96.3.1"),
            ("ns.dns.global. A", "192.0.2.53"),
            ("prod.global. A", "NODATA"),
        ],
    );
    assert_eq!(conflicts(&server), expected(&[]));
}

#[test]
fn a_canonical_name_that_hides_a_short_one_is_reported() {
    let kafka = || mirror("prod", "kafka", "west").endpoint("kafka-0", &["10.96.1.1"]);
    let hiding = objects()
        .with(kafka())
        .with(mirror("kafka", "west", "east").endpoint("west-0", &["10.96.2.1"]));
    let server = Server::of(hiding, &[]);
    check_outcomes(
        &server,
        "hidden",
        &[
            ("west.kafka.global. A", "10.96.2.1"),
            ("west.kafka.prod.global. A", "10.96.1.1"),
            // What is not hidden stays.
            ("kafka.global. A", "10.96.1.1"),
            ("kafka-0.west.kafka.prod.global. A", "10.96.1.1"),
            // What is below the canonical name is not below the short one.
            ("kafka-0.west.kafka.global. A", "NXDOMAIN"),
            ("east.west.kafka.global. A", "10.96.2.1"),
        ],
    );
    assert_eq!(conflicts(&server), expected(&[("shadowed", "west.kafka")]));
    assert_eq!(
        server.metric("global_dns_conflicts{kind=\"shadowed\"}"),
        1.0
    );

    // A host's short name can be hidden in the same way.
    let hiding = objects()
        .with(kafka())
        .with(mirror("kafka", "west", "kafka-0").endpoint("west-0", &["10.96.2.1"]));
    let server = Server::of(hiding, &[]);
    assert_eq!(server.outcome("kafka-0.west.kafka.global. A"), "10.96.2.1");
    assert_eq!(conflicts(&server), expected(&[("shadowed", "west.kafka")]));

    // Without an endpoint it is still that service's name, and nobody else answers in its stead.
    let empty = objects()
        .with(kafka())
        .with(mirror("kafka", "west", "east"));
    let server = Server::of(empty, &[]);
    assert_eq!(server.outcome("west.kafka.global. A"), "NXDOMAIN");
    assert_eq!(conflicts(&server), expected(&[("shadowed", "west.kafka")]));
}

#[test]
fn the_zones_own_names_hide_short_ones_and_that_is_reported_too() {
    let manifest = objects()
        .with(mirror("prod", "dns-version", "west").endpoint("v-0", &["10.96.1.1"]))
        .with(mirror("prod", "dns", "ns").endpoint("dns-0", &["10.96.2.1"]));
    let server = Server::of(manifest, &["--ns-address=192.0.2.53"]);
    check_outcomes(
        &server,
        "hidden by the zone",
        &[
            ("dns-version.global. TXT", "1.1.0"),
            ("dns-version.global. A", "NODATA"),
            ("dns-version.prod.global. A", "10.96.1.1"),
            ("ns.dns.global. A", "192.0.2.53"),
            ("ns.dns.prod.global. A", "10.96.2.1"),
            ("dns.global. A", "10.96.2.1"),
        ],
    );
    let reported = [("shadowed", "dns-version"), ("shadowed", "ns.dns")];
    assert_eq!(conflicts(&server), expected(&reported));
}
