//! Requirements of clients, checked with the client itself if it is available: SRV targets resolve and are in their
//! domain, no unexpected TXT records, fast negative answers, the complete set in every answer.

mod encrypted;
mod mongodb;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use support::commands::command;
use support::differences::assert_none;
use support::objects::{Manifest, local, mirror, objects};
use support::output::with_separators;
use support::process::run;
use support::server::Server;
use support::wire::resolve;

use crate::peers::differential::table;
use crate::peers::{serve, zone_of};

/// Number of addresses of `db.prod.global` in both families.
const ADDRESSES: usize = 5;

/// Number of endpoints of `app.prod.global`: too many for a datagram.
const APP: usize = 100;

/// Returns the objects of `db`, a database in three clusters, and of `app`, which has no port `mongodb`.
fn manifest() -> Manifest {
    let ports = [("mongodb", "TCP", 27017), ("http", "TCP", 8080)];
    let others = [("mongodb", "TCP", 27018), ("http", "TCP", 8080)];
    let east = mirror("prod", "db", "east")
        .endpoint("db-0", &["10.96.1.1", "2001:db8::1:1"])
        .endpoint("db-1", &["10.96.1.2"]);
    let west = mirror("prod", "db", "west").endpoint("db-0", &["10.96.2.1"]);
    let own = local("prod", "db")
        .exported()
        .endpoint(Some("db-0"), "192.0.2.1", true);
    let app = mirror("prod", "app", "east").ports(&[("http", "TCP", 8080)]);
    let app = (1..=APP).fold(app, |app, n| {
        app.endpoint(&format!("app-{n}"), &[&format!("10.97.0.{n}")])
    });
    objects()
        .with(east.ports(&ports))
        .with(west.ports(&others))
        .with(own.ports(&ports))
        .with(app)
}

/// Starts a server with these objects.
fn server() -> Server {
    serve(manifest(), &[])
}

/// Returns a Python interpreter with these modules.
fn python(modules: &str) -> PathBuf {
    let program = std::env::var_os("GLOBAL_DNS_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let ended = run(command(&program).args(["-c", &format!("import {modules}")]));
    assert!(
        ended.is_success(),
        "{program:?} lacks one of {modules}; use tests/run peers, which installs them"
    );
    program.into()
}

#[test]
fn every_srv_target_resolves_and_is_in_the_queried_domain() {
    let (manifest, _) = table::manifest();
    let server = serve(manifest, &["shortNames.defaultNamespace=db"]);
    let zone = zone_of(&server, "global");
    let conflicts = server.section("problems?kind=shadowed", "problems");
    // Services whose short names belong to other services. All their targets are canonical names.
    let hidden = conflicts.iter();
    let hidden: BTreeSet<&str> = hidden
        .filter_map(|conflict| conflict["subject"].as_str()?.rsplit('.').next())
        .collect();
    let owners = zone.lines().filter(|line| line.contains("\tSRV\t"));
    let owners: BTreeSet<&str> = owners.filter_map(|line| line.split('\t').next()).collect();
    let mut addresses: BTreeMap<String, usize> = BTreeMap::new();
    let (mut names, mut records, mut wrong) = (0, 0, Vec::new());
    for owner in owners {
        if owner.contains("too-many") && !owner.starts_with("nearly-too-many.") {
            continue; // thousands of similar endpoints, or more than a message holds
        }
        let reply = resolve(server.dns, &format!("{owner} SRV +edns"));
        assert!(!reply.answers.is_empty(), "{owner}");
        names += 1;
        let labels = owner.split_inclusive('.');
        let domain: String = labels.skip_while(|label| label.starts_with('_')).collect();
        for data in reply.data() {
            records += 1;
            let target = data.rsplit(' ').next().unwrap();
            let below = target.strip_suffix(domain.as_str());
            let is_below = below.is_some_and(|below| below.is_empty() || below.ends_with('.'));
            let service = domain
                .strip_suffix(".global.")
                .and_then(|d| d.rsplit('.').next());
            let canonical = service.filter(|service| hidden.contains(service));
            let mut labels = target.split('.').skip(2);
            if !is_below && canonical.is_none_or(|service| labels.next() != Some(service)) {
                wrong.push(format!("{owner}: {target} is not in {domain}"));
            }
            let known = addresses.entry(target.to_owned()).or_insert_with(|| {
                let count = |rtype| {
                    let question = format!("{target} {rtype}");
                    resolve(server.dns, &question).answers.len()
                };
                count("A") + count("AAAA")
            });
            if *known == 0 {
                wrong.push(format!("{owner}: {target} has no address"));
            }
        }
    }
    println!(
        "peers: SRV targets: {} names, {} records, {} targets, {} wrong",
        with_separators(names),
        with_separators(records),
        with_separators(addresses.len()),
        wrong.len()
    );
    assert_none(&wrong);
}

#[test]
fn negative_answers_to_grpc_have_an_soa_record() {
    let server = server();
    let cases = [
        ("_grpc_config.db.prod.global. TXT", 3),
        ("_grpclb._tcp.db.prod.global. SRV", 3),
        ("_grpc_config.db.global. TXT", 3),
        ("_grpclb._tcp.db.global. SRV", 3),
        // An existing name has another answer.
        ("_mongodb._tcp.db.prod.global. TXT", 0),
    ];
    for (name, rcode) in cases {
        for edns in ["", " +edns"] {
            let reply = resolve(server.dns, &format!("{name}{edns}"));
            assert_eq!(reply.rcode, rcode, "{name}");
            assert!(
                reply.is_authoritative() && reply.answers.is_empty(),
                "{name}"
            );
            let [soa] = &reply.authority[..] else {
                panic!("{name}: {reply:?}")
            };
            assert_eq!((soa.owner.as_str(), soa.ttl), ("global.", 5), "{name}");
            assert!(soa.data.ends_with(" 5"), "{name}: {soa:?}");
        }
    }
    println!("peers: gRPC: {} questions", 2 * cases.len());
}

#[test]
fn a_hundred_consecutive_answers_are_all_complete() {
    let server = server();
    let cases = [
        ("db.prod.global. A", 4),
        ("db.prod.global. AAAA", 1),
        ("_mongodb._tcp.db.prod.global. SRV", 4),
        ("app.prod.global. A", APP),
        ("_http._tcp.app.prod.global. SRV", APP),
    ];
    for (name, count) in cases {
        let mut first = BTreeSet::new();
        for _ in 0..100 {
            let reply = resolve(server.dns, &format!("{name} +edns"));
            let set: BTreeSet<&str> = reply.data().into_iter().collect();
            assert_eq!((set.len(), reply.answers.len()), (count, count), "{name}");
            first.insert(reply.answers[0].data.clone());
            if name.ends_with(" SRV") {
                let equal = reply.data().iter().all(|data| data.starts_with("0 10 "));
                assert!(
                    equal,
                    "{name}: nginx uses targets as backups if their priority is not the first"
                );
            }
        }
        // Clients that use the first record are spread over all records.
        assert!(
            first.len() * 2 >= count,
            "{name}: {} first records",
            first.len()
        );
    }
    println!("peers: complete sets: {} answers", 100 * cases.len());
}
