use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::*;
use crate::model::{ExpectedClusters, Namespace, ObjectKey, Port, ProblemKind, Protocol, Watch};
use crate::table::Address;
use crate::table::content::NameScope;
use crate::table::links::{LinkState, LinkStates, UnknownReason};
use crate::table::missing::MissingHost;
use crate::table::own_name::SharedPort;
use crate::table::rules::NonMember;
use crate::table::short_name::NoOwner;
use crate::testing::{endpoint, listing, local, mirror, service_keys, table};

fn problem(detail: &str) -> Problem {
    Problem::new(ProblemKind::UnusableObject, detail)
}

/// Returns the mirrors of service `prod/db` with endpoints that have these addresses.
fn db(endpoints: &[&[&str]]) -> Vec<Value> {
    let mirror = mirror("prod", "db", "east");
    let endpoints = endpoints.iter().enumerate();
    let endpoints =
        endpoints.map(|(host, ips)| endpoint("prod", "db", "east", &format!("db-{host}"), ips));
    std::iter::once(mirror).chain(endpoints).collect()
}

fn service(objects: &[Value]) -> Service {
    table(objects).service("prod", "db").unwrap().clone()
}

#[test]
fn problem_is_as_large_as_its_texts_and_two_allocations() {
    let empty = 2 * ALLOCATION + size_of::<Problem>();
    assert_eq!(size_of_problem(&problem("")), empty);
    assert_eq!(size_of_problem(&problem("ten octets")), empty + 10);
}

#[test]
fn first_address_and_object_of_an_endpoint_are_part_of_it() {
    let service = service(&db(&[&["10.0.0.1"]]));
    let [one] = &service.endpoints[..] else {
        panic!("{:?}", service.endpoints);
    };
    assert_eq!(size_of_endpoint(one), size_of::<Endpoint>());
    let mut more = one.clone();
    more.addresses = vec![one.addresses[0]; 2].into();
    let addresses = 2 * size_of::<Address>();
    assert_eq!(
        size_of_endpoint(&more),
        size_of::<Endpoint>() + ALLOCATION + addresses
    );
    let mut more = one.clone();
    more.objects = vec![one.objects[0].clone(); 2].into();
    let objects = 2 * size_of::<ObjectRef>();
    assert_eq!(
        size_of_endpoint(&more),
        size_of::<Endpoint>() + ALLOCATION + objects
    );
}

#[test]
fn each_part_of_a_service_adds_its_size() {
    let mut own = local("prod", "db", &[]);
    own[0]["metadata"]["annotations"]["global-dns/failover"] = "east:west".into();
    let mut with_order = db(&[&["10.0.0.1"]]);
    with_order.extend(own);
    let failover = service(&with_order).failover;
    assert!(failover.is_some());
    let plain = service(&db(&[&["10.0.0.1"]]));
    let endpoint = plain.endpoints[0].clone();
    let reference = || ObjectRef::service(&ObjectKey::of_service(&plain.key));
    let east: ClusterName = "east".parse().unwrap();
    let missing = || MissingHost {
        cluster: east.clone(),
        hostname: "db-1".parse().unwrap(),
        address: None,
        mirror: reference(),
        expected: reference(),
    };
    let port = || SharedPort {
        endpoint: 0,
        port: Port {
            number: 53,
            name: None,
            protocol: Protocol::Udp,
        },
        is_new_number: true,
    };
    let gate = || Gate {
        expected: ExpectedClusters::read("north"),
        missing: Box::default(),
        closes_until: None,
    };
    let fact = size_of::<(u64, Timestamp)>();
    let setting = size_of::<Gate>() + 512;
    type Case<'c> = (&'c str, usize, &'c dyn Fn(&mut Service));
    let cases: [Case<'_>; 12] = [
        ("nothing", 0, &|_| ()),
        ("an endpoint", size_of::<Endpoint>(), &|service| {
            service.endpoints = [endpoint.clone(), endpoint.clone()].into();
        }),
        ("two that are not ready", 2 * size_of::<Endpoint>(), &|s| {
            s.not_ready = [endpoint.clone(), endpoint.clone()].into();
        }),
        ("three IPv4 addresses", 3 * 4, &|service| {
            service.name_addresses.v4 = [Ipv4Addr::LOCALHOST; 4].into();
        }),
        ("three IPv6 addresses", 3 * 16, &|service| {
            service.name_addresses.v6 = [Ipv6Addr::LOCALHOST; 3].into();
        }),
        ("three times", 3 * fact, &|service| {
            service.times = (0..3).map(|fact| (fact, Timestamp(0))).collect();
        }),
        (
            "a mirror",
            size_of::<(ClusterName, ObjectRef)>(),
            &|service| {
                let mirror = (east.clone(), reference());
                service.mirrors = [service.mirrors[0].clone(), mirror].into();
            },
        ),
        ("two missing hosts", 2 * 128, &|service| {
            service.missing = [missing(), missing()].into();
        }),
        ("two shared ports", 2 * 128, &|service| {
            service.shared_ports = [port(), port()].into();
        }),
        ("an order", setting, &|service| {
            service.failover = failover.clone();
        }),
        ("an order and expected clusters", 2 * setting, &|service| {
            service.failover = failover.clone();
            service.gate = Some(Box::new(gate()));
        }),
        ("a problem", size_of_problem(&problem("is bad")), &|s| {
            s.problems = [problem("is bad")].into();
        }),
    ];
    let allocations = 4 * ALLOCATION;
    let parts = size_of::<Endpoint>() + 4 + size_of::<(ClusterName, ObjectRef)>();
    assert_eq!(
        size(&plain),
        allocations + size_of::<Service>() + parts,
        "{plain:?}"
    );
    for (what, expected, change) in cases {
        let mut more = plain.clone();
        change(&mut more);
        assert_eq!(size(&more) - size(&plain), expected, "{what}");
    }
}

#[test]
fn change_copies_the_nodes_on_its_way_and_never_more_than_there_are() {
    assert_eq!(unshared_nodes(5000, 0), 0);
    assert_eq!(unshared_nodes(5000, 3), 3 * NODES * NODE);
    assert_eq!(unshared_nodes(5, 3), 5 * NODE);
}

/// Returns the estimate of what a table does not share with the next one.
fn unshared(own: &Table, next: &Table) -> usize {
    own.unshared(next, &ServiceKeys::new())
}

#[test]
fn table_without_a_change_has_nothing_of_its_own() {
    let table = table(&db(&[&["10.0.0.1"], &["10.0.0.2"]]));
    assert_eq!(table.unshared(&table.clone(), &service_keys(&["db"])), 0);
}

#[test]
fn each_part_of_a_table_that_differs_is_counted() {
    let next = Table::default();
    let own = |change: &dyn Fn(&mut Table)| {
        let mut own = next.clone();
        change(&mut own);
        own
    };
    let rounded = |size: usize| size * 3 / 2;
    let prod: Namespace = "prod".parse().unwrap();
    let db_name = service_keys(&["db"]).pop_first().unwrap();

    let with_links = own(&|table| {
        let link = |name: &str| {
            let cluster: ClusterName = name.parse().unwrap();
            let state = LinkState::Unknown(UnknownReason::Nothing);
            (cluster.clone(), ClusterLink { cluster, state })
        };
        table.links = Arc::new(LinkStates {
            clusters: ["east", "west"].map(link).into(),
            ..LinkStates::default()
        });
    });
    let link = 2 * ALLOCATION + size_of::<ClusterName>() + size_of::<ClusterLink>();
    assert_eq!(unshared(&with_links, &next), rounded(2 * link));

    let with_problems = own(&|table| {
        let problems = vec![problem("is bad"), problem("is worse")];
        table.name_problems = Arc::new(BTreeMap::from([(NameScope::Zone, problems)]));
    });
    let both = size_of_problem(&problem("is bad")) + size_of_problem(&problem("is worse"));
    assert_eq!(
        unshared(&with_problems, &next),
        rounded(4 * ALLOCATION + both)
    );

    let key = (Watch::Services, ObjectKey::of_service(&db_name));
    let with_skipped = own(&|table| {
        let skipped = Arc::new(problem("is bad"));
        table.skipped.insert(key.clone(), skipped);
    });
    let map = with_skipped.skipped.unshared(&next.skipped, |_, _| 0);
    let skipped = size_of_problem(&problem("is bad"));
    assert_eq!(unshared(&with_skipped, &next), rounded(map + skipped));
    // The next table shares the problem, but not the list that has it.
    let mut more = with_skipped.clone();
    more.skipped.insert(
        (Watch::Links, key.1.clone()),
        Arc::new(problem("is another")),
    );
    assert_eq!(unshared(&with_skipped, &more), rounded(map));

    let with_short_name = own(&|table| {
        let short_name = ShortName {
            owner: Err(NoOwner::Off),
            headless: [prod.clone(), prod.clone()].into(),
            others: [prod.clone(), prod.clone(), prod.clone()].into(),
            failing: vec![prod.clone(); 5].into(),
        };
        let name = db_name.service.clone();
        table.short_names.insert(name, Arc::new(short_name));
    });
    let map = with_short_name
        .short_names
        .unshared(&next.short_names, |_, _| 0);
    let short_name = 4 * ALLOCATION + size_of::<ShortName>() + (2 + 3 + 5) * size_of::<usize>();
    assert_eq!(unshared(&with_short_name, &next), rounded(map + short_name));
    let mut more = with_short_name.clone();
    let other = with_short_name.short_name("db").unwrap().clone();
    more.short_names
        .insert("web".parse().unwrap(), Arc::new(other));
    assert_eq!(unshared(&with_short_name, &more), rounded(map));

    let with_non_member = own(&|table| {
        table.non_members.insert(db_name.clone(), NonMember::Off);
    });
    let map = with_non_member
        .non_members
        .unshared(&next.non_members, |_, _| 0);
    assert_eq!(unshared(&with_non_member, &next), rounded(map));
}

#[test]
fn service_that_the_next_table_shares_is_not_counted() {
    let mut next = table(&db(&[&["10.0.0.1"]]));
    let own = next.clone();
    let mut other = own.service("prod", "db").unwrap().clone();
    other.key = service_keys(&["web"]).pop_first().unwrap();
    next.services
        .replace(&other.key.clone(), Some(Arc::new(other)));
    let maps = own.services.unshared(&next.services, |_| 0);
    assert!(maps > 0);
    assert_eq!(unshared(&own, &next), maps * 3 / 2);
}

#[test]
fn indexes_have_a_set_for_each_key_that_changed_services_gained_or_lost() {
    let set = |services: usize| ALLOCATION + SET_NODE + services * SET_ENTRY;
    let of = |addresses: &[&[&str]], hosts: &[(&str, &str)]| {
        let mut objects = db(addresses);
        objects.push(listing("prod", "db-east", hosts));
        table(&objects)
    };
    let changed = service_keys(&["db"]);
    // No index has addresses.
    let own = of(&[&["10.0.0.1"]], &[]);
    let next = of(&[&["10.0.0.3"]], &[]);
    assert_eq!(own.unshared_indexes(&next, &changed), 0);
    // One of two hosts without an endpoint mirror goes.
    let own = of(&[], &[("db-7", "10.0.0.7"), ("db-8", "10.0.0.8")]);
    let next = of(&[], &[("db-8", "10.0.0.8")]);
    assert_eq!(own.unshared_indexes(&next, &ServiceKeys::new()), 0);
    assert_eq!(own.unshared_indexes(&next, &changed), 2 * NODE + set(1));
    // A service waits for expected clusters no longer.
    let mut own = Table::default();
    own.waiting.insert_mut(changed.first().unwrap().clone());
    assert_eq!(
        own.unshared_indexes(&Table::default(), &changed),
        unshared_nodes(1, 1)
    );
    assert_eq!(own.unshared_indexes(&own, &changed), 0);
}
