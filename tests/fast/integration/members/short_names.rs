//! Short names: the owner of `S.Z`, and names that hide it.

use support::objects::{Manifest, mirror, objects};
use support::process::run_global_dns;
use support::server::Server;

use super::{check_outcomes, conflicts, expected};

const PROD: &str = "10.96.1.1";
const SHOP: &str = "10.96.2.1";

fn in_prod() -> Manifest {
    mirror("prod", "db", "east")
        .endpoint("db-0", &[PROD])
        .into()
}

fn in_shop() -> Manifest {
    mirror("shop", "db", "west")
        .endpoint("db-0", &[SHOP])
        .into()
}

/// Returns `db` in `prod` and in `shop`.
fn two() -> Manifest {
    in_prod().with(in_shop())
}

const AMBIGUOUS: [(&str, &str); 1] = [("short-name", "db")];

#[test]
fn pin_precedes_default_namespace() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("the default namespace", &["--default-namespace=shop"], SHOP),
        ("a pin", &["--short-name=db=shop"], SHOP),
        (
            "a pin before the default",
            &["--short-name=db=shop", "--default-namespace=prod"],
            SHOP,
        ),
        (
            "a pin of another name and a default namespace",
            &["--short-name=cache=shop", "--default-namespace=prod"],
            PROD,
        ),
        (
            "mode `pinned` with a default namespace",
            &["--short-names=pinned", "--default-namespace=shop"],
            SHOP,
        ),
        (
            "pinned alone: by pin",
            &["--short-names=pinned", "--short-name=db=prod"],
            PROD,
        ),
    ];
    for (what, flags, owner) in cases {
        let server = Server::with_objects(two(), flags);
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
        assert_eq!(conflicts(&server), expected(&[]), "{what}");
    }
}

#[test]
fn short_name_without_owner_does_not_exist() {
    let cases: &[(&str, &[&str], bool)] = &[
        ("several namespaces and no flag", &[], true),
        (
            "a default namespace without the service",
            &["--default-namespace=test"],
            true,
        ),
        ("a pin of another name", &["--short-name=cache=prod"], true),
        (
            "a pin to a namespace without the service",
            &["--short-name=db=test"],
            false,
        ),
        (
            "a pin without fallback to the default namespace",
            &["--short-name=db=test", "--default-namespace=prod"],
            false,
        ),
        (
            "mode `pinned` without a pin",
            &["--short-names=pinned"],
            false,
        ),
        (
            "mode `pinned` and a default namespace without the service",
            &["--short-names=pinned", "--default-namespace=test"],
            false,
        ),
        ("off", &["--short-names=off"], false),
        (
            "mode `off` with a pin",
            &["--short-names=off", "--short-name=db=prod"],
            false,
        ),
    ];
    for (what, flags, is_conflict) in cases {
        let server = Server::with_objects(two(), flags);
        check_outcomes(
            &server,
            what,
            &[
                ("db.global. A", "NXDOMAIN"),
                ("db.global. SRV", "NXDOMAIN"),
                ("east.db.global. A", "NXDOMAIN"),
                ("db-0.west.db.global. A", "NXDOMAIN"),
                ("_sql._tcp.db.global. SRV", "NXDOMAIN"),
                ("db.prod.global. A", PROD),
                ("db.shop.global. A", SHOP),
            ],
        );
        let reported = if *is_conflict { &AMBIGUOUS[..] } else { &[] };
        assert_eq!(conflicts(&server), expected(reported), "{what}");
        let metric = server.metric("global_dns_conflicts{kind=\"short-name\"}");
        assert_eq!(metric, f64::from(u8::from(*is_conflict)), "{what}");
    }
}

#[test]
fn explain_shows_why_a_short_name_has_no_owner() {
    let server = Server::with_objects(two(), &[]);
    let file = format!("--file={}", server.file.display());
    for source in [file, format!("--server=http://{}", server.api)] {
        for name in ["db.global", "east.db.global"] {
            let ended = run_global_dns(&["explain", name, &source]);
            assert_eq!(ended.code, Some(3), "{}", ended.stderr);
            for part in [
                "ambiguous: 'db' exists in the namespaces prod, shop",
                "--short-name SERVICE=NAMESPACE",
                "short-name  db  ",
                "  Short name is ambiguous: exists in namespaces prod, shop",
            ] {
                assert!(ended.stdout.contains(part), "{}", ended.stdout);
            }
        }
    }
}

#[test]
fn only_namespace_with_the_service_owns_the_short_name() {
    let server = Server::with_objects(in_shop(), &[]);
    assert_eq!(server.outcome("db.global. A"), SHOP);
    assert_eq!(conflicts(&server), expected(&[]));
}

#[test]
fn second_namespace_removes_a_short_name_but_never_takes_it_over() {
    let server = Server::with_objects(in_shop(), &[]);
    assert_eq!(server.outcome("db.global. A"), SHOP);
    server.rewrite(&two().text());
    server.wait_for_outcome("db.prod.global. A", PROD);
    assert_eq!(server.outcome("db.global. A"), "NXDOMAIN");
    assert_eq!(conflicts(&server), expected(&AMBIGUOUS));
    // A service without endpoints counts, too, so no client is directed to another namespace.
    let empty = in_prod().with(mirror("shop", "db", "west"));
    server.rewrite(&empty.text());
    server.wait_for_outcome("db.shop.global. A", "NXDOMAIN");
    assert_eq!(server.outcome("db.global. A"), "NXDOMAIN");
    // An endpoint mirror without its headless mirror is not a service and does not contest the name.
    let orphan = Manifest(in_shop().0.split_off(1)).with(in_prod());
    server.rewrite(&orphan.text());
    server.wait_for_outcome("db.global. A", PROD);
    assert_eq!(conflicts(&server), expected(&[]));
}

#[test]
fn pinned_short_name_keeps_its_owner() {
    for flag in ["--short-name=db=shop", "--default-namespace=shop"] {
        let server = Server::with_objects(in_shop(), &[flag]);
        server.rewrite(&two().text());
        server.wait_for_outcome("db.prod.global. A", PROD);
        assert_eq!(server.outcome("db.global. A"), SHOP);
        assert_eq!(conflicts(&server), expected(&[]));
    }
}

/// Two replicas that received the same objects in different orders, and one that was started later.
#[test]
fn replicas_agree_independently_of_their_history() {
    let hash = |server: &Server| server.metric("global_dns_table_hash");
    let mut seen = Vec::new();
    for before in [in_prod(), in_shop()] {
        let server = Server::with_objects(before, &[]);
        let one = hash(&server);
        server.rewrite(&two().text());
        server.wait_for_outcome("db.prod.global. A", PROD);
        server.wait_for_outcome("db.shop.global. A", SHOP);
        assert_eq!(server.outcome("db.global. A"), "NXDOMAIN");
        seen.push((one, hash(&server)));
    }
    let restarted = Server::with_objects(two(), &[]);
    assert_eq!(restarted.outcome("db.global. A"), "NXDOMAIN");
    let both = hash(&restarted);
    let (prod, shop) = (seen[0], seen[1]);
    assert_eq!((prod.1, shop.1), (both, both));
    assert!(prod.0 != shop.0 && prod.0 != both && shop.0 != both);
    // The hash fits into 53 bits.
    assert!(both.fract() == 0.0 && both > 0.0 && both < 2.0_f64.powi(53));
}

#[test]
fn short_name_replaces_an_empty_non_terminal() {
    let manifest = objects()
        .with(mirror("prod", "kafka", "west").endpoint("kafka-0", &["10.96.1.1"]))
        .with(mirror("kafka", "broker", "west").endpoint("broker-0", &["10.96.2.1"]))
        .with(mirror("prod", "dns", "west").endpoint("dns-0", &["10.96.3.1"]));
    let server = Server::with_objects(manifest, &["--ns-address=192.0.2.53"]);
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
fn canonical_name_that_hides_a_short_name_is_reported() {
    let kafka = || mirror("prod", "kafka", "west").endpoint("kafka-0", &["10.96.1.1"]);
    let hiding = objects()
        .with(kafka())
        .with(mirror("kafka", "west", "east").endpoint("west-0", &["10.96.2.1"]));
    let server = Server::with_objects(hiding, &[]);
    check_outcomes(
        &server,
        "hidden",
        &[
            ("west.kafka.global. A", "10.96.2.1"),
            ("west.kafka.prod.global. A", "10.96.1.1"),
            // Other short names remain.
            ("kafka.global. A", "10.96.1.1"),
            ("kafka-0.west.kafka.prod.global. A", "10.96.1.1"),
            // Names below the canonical name are not below the short one.
            ("kafka-0.west.kafka.global. A", "NXDOMAIN"),
            ("east.west.kafka.global. A", "10.96.2.1"),
        ],
    );
    assert_eq!(conflicts(&server), expected(&[("shadowed", "west.kafka")]));
    assert_eq!(
        server.metric("global_dns_conflicts{kind=\"shadowed\"}"),
        1.0
    );

    // The short name of a host can be hidden in the same way.
    let hiding = objects()
        .with(kafka())
        .with(mirror("kafka", "west", "kafka-0").endpoint("west-0", &["10.96.2.1"]));
    let server = Server::with_objects(hiding, &[]);
    assert_eq!(server.outcome("kafka-0.west.kafka.global. A"), "10.96.2.1");
    assert_eq!(conflicts(&server), expected(&[("shadowed", "west.kafka")]));

    // Without endpoints, the name still belongs to that service, and no other service is answered instead.
    let empty = objects()
        .with(kafka())
        .with(mirror("kafka", "west", "east"));
    let server = Server::with_objects(empty, &[]);
    assert_eq!(server.outcome("west.kafka.global. A"), "NXDOMAIN");
    assert_eq!(conflicts(&server), expected(&[("shadowed", "west.kafka")]));
}

#[test]
fn names_of_the_zone_that_hide_short_names_are_reported() {
    let manifest = objects()
        .with(mirror("prod", "dns-version", "west").endpoint("v-0", &["10.96.1.1"]))
        .with(mirror("prod", "dns", "ns").endpoint("dns-0", &["10.96.2.1"]));
    let server = Server::with_objects(manifest, &["--ns-address=192.0.2.53"]);
    check_outcomes(
        &server,
        "hidden by the zone",
        &[
            ("dns-version.global. TXT", "\"1.1.0\""),
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
