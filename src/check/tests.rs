//! Each check: its finding, and that there is none where nothing is wrong.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::dns::Dns;
use super::objects::{Failure, LinkedService};
use super::permissions::{Review, Right, needed, not_needed};
use super::*;
use crate::mirror::Namespace;
use crate::table::{Conflict, ConflictKind};
use crate::testing::{endpoint, gateway, listing, local, mirror, rules, table_by, zones};

/// Two clusters with a database each, everything as it should be.
fn healthy() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.1.1"]),
        gateway("prod", "db-0-east", true),
        mirror("prod", "db", "west"),
        endpoint("prod", "db", "west", "db-0", &["10.96.2.1"]),
        gateway("prod", "db-0-west", true),
    ]
}

fn links(clusters: &[&str]) -> Vec<Link> {
    let link = |cluster: &&str| Link {
        cluster: (*cluster).to_owned(),
        has_own_selector: false,
        services: Vec::new(),
    };
    clusters.iter().map(link).collect()
}

fn reviews(rights: Vec<Right>, allowed: impl Fn(&Right) -> Result<bool, String>) -> Vec<Review> {
    let review = |right: Right| Review {
        allowed: allowed(&right),
        right,
    };
    rights.into_iter().map(review).collect()
}

/// An API server that grants what is needed, and nothing else.
fn api(namespaces: &[Namespace]) -> ApiServer {
    ApiServer::Reached {
        version: "v1.33.4".to_owned(),
        needed: reviews(needed(namespaces), |_| Ok(true)),
        not_needed: reviews(not_needed(namespaces), |_| Ok(false)),
    }
}

fn facts(objects: &[Value]) -> Facts {
    facts_by(rules(), objects)
}

fn facts_by(rules: Rules, objects: &[Value]) -> Facts {
    Facts {
        api: Ok(api(&[])),
        table: Ok(table_by(&rules, objects)),
        zones: zones(&["global", "96.10.in-addr.arpa"]),
        rules,
        headless_slices: Ok(Vec::new()),
        links: Ok(links(&["east", "west"])),
        namespaces: Ok(Vec::new()),
        mirror_ports: Ok(Vec::new()),
        odd_labels: Ok(Vec::new()),
        server_conflicts: Ok(Vec::new()),
        makers: Ok(vec!["linkerd/helm edge-26.8.3".to_owned()]),
        dns: Dns {
            server: None,
            resolver: Err(NotChecked::new("nobody asked", "ask")),
            zones: Vec::new(),
        },
    }
}

fn findings(facts: &Facts, of: Check) -> Vec<(Health, String)> {
    let findings = check(facts).0.into_iter();
    let own = findings.filter(|finding| finding.check == of);
    own.map(|finding| (finding.health, finding.sentence))
        .collect()
}

fn green(sentence: &str) -> Vec<(Health, String)> {
    vec![(Health::Green, sentence.to_owned())]
}

fn yellow(sentence: &str) -> Vec<(Health, String)> {
    vec![(Health::Yellow, sentence.to_owned())]
}

fn red(sentence: &str) -> Vec<(Health, String)> {
    vec![(Health::Red, sentence.to_owned())]
}

#[test]
fn nothing_is_wrong_with_a_healthy_installation() {
    let checkup = check(&facts(&healthy()));
    let ailing = checkup.0.iter().filter(|one| one.health != Health::Green);
    assert_eq!(ailing.collect::<Vec<_>>(), Vec::<&Finding>::new());
    assert!(checkup.is_success());
}

#[test]
fn every_finding_that_is_not_green_has_a_hint_and_no_other() {
    let nothing = || NotChecked::new("not asked", "ask");
    let mut ignorant = facts(&[]);
    ignorant.api = Err(nothing());
    ignorant.table = Err(nothing());
    ignorant.headless_slices = Err(nothing());
    ignorant.links = Err(nothing());
    ignorant.namespaces = Err(nothing());
    ignorant.mirror_ports = Err(nothing());
    ignorant.odd_labels = Err(nothing());
    ignorant.server_conflicts = Err(nothing());
    ignorant.makers = Err(nothing());
    let mut unreachable = facts(&[]);
    unreachable.api = Ok(ApiServer::Unreachable("refused".to_owned()));
    for facts in [ignorant, unreachable, facts(&[]), facts(&healthy())] {
        for finding in check(&facts).0 {
            let is_green = finding.health == Health::Green;
            assert_eq!(finding.hint.is_none(), is_green, "{finding:?}");
        }
    }
}

#[test]
fn what_could_not_be_looked_at_is_yellow_and_not_red() {
    let mut ignorant = facts(&healthy());
    ignorant.table = Err(NotChecked::new("there is no table", "make one"));
    let checkup = check(&ignorant);
    let not_checked = checkup
        .0
        .iter()
        .filter(|one| one.sentence.ends_with(": not checked, there is no table"));
    assert_eq!(not_checked.count(), 13);
    assert!(checkup.is_success());
}

// === The API server ===

#[test]
fn an_api_server_that_does_not_answer_is_red() {
    let mut facts = facts(&healthy());
    facts.api = Ok(ApiServer::Unreachable("Connection refused".to_owned()));
    let found = findings(&facts, Check::ApiServer);
    assert_eq!(
        found,
        red("the API server cannot be asked: Connection refused")
    );
}

#[test]
fn each_right_that_is_missing_is_red_by_its_name() {
    for (verb, resource) in [
        ("list", "services"),
        ("watch", "services"),
        ("list", "endpointslices"),
        ("watch", "endpointslices"),
    ] {
        let mut facts = facts(&healthy());
        facts.api = Ok(ApiServer::Reached {
            version: "v1.33.4".to_owned(),
            needed: reviews(needed(&[]), |right| {
                Ok((right.verb, right.resource) != (verb, resource))
            }),
            not_needed: Vec::new(),
        });
        let found = findings(&facts, Check::Permissions);
        let wrong: Vec<_> = found.iter().filter(|(h, _)| *h != Health::Green).collect();
        let sentence = format!("may not {verb} {resource} in all namespaces");
        assert_eq!(wrong, [&(Health::Red, sentence)]);
        assert_eq!(found.len(), 4);
    }
}

#[test]
fn rights_are_needed_in_each_namespace_that_is_watched() {
    let namespaces: Vec<Namespace> = ["prod", "shop"].map(|n| n.parse().unwrap()).into();
    let mut facts = facts(&healthy());
    facts.api = Ok(api(&namespaces));
    let all = findings(&facts, Check::Permissions);
    assert_eq!(all[0].1, "may list services in namespaces prod, shop");
    facts.api = Ok(ApiServer::Reached {
        version: "v1.33.4".to_owned(),
        needed: reviews(needed(&namespaces), |right| {
            let is_shop = right
                .namespace
                .as_ref()
                .is_some_and(|n| n.as_str() == "shop");
            Ok(right.verb != "watch" || !is_shop)
        }),
        not_needed: reviews(not_needed(&namespaces), |right| {
            Ok(right.namespace.is_none() && right.resource == "services")
        }),
    });
    let found = findings(&facts, Check::Permissions);
    let red: Vec<&str> = found
        .iter()
        .filter(|(health, _)| *health == Health::Red)
        .map(|(_, sentence)| sentence.as_str())
        .collect();
    let expected = [
        "may not watch services in namespace shop",
        "may not watch endpointslices in namespace shop",
    ];
    assert_eq!(red, expected);
    // The same right everywhere is more than is needed.
    let sentence = "may do more than is needed: list services in all namespaces, watch services in all namespaces";
    assert_eq!(findings(&facts, Check::MorePermissions), yellow(sentence));
}

#[test]
fn rights_beyond_what_is_needed_are_yellow() {
    let mut facts = facts(&healthy());
    facts.api = Ok(ApiServer::Reached {
        version: "v1.33.4".to_owned(),
        needed: reviews(needed(&[]), |_| Ok(true)),
        not_needed: reviews(not_needed(&[]), |right| {
            Ok(right.verb == "delete" || right.resource == "secrets")
        }),
    });
    let found = findings(&facts, Check::MorePermissions);
    let sentence = "may do more than is needed: delete endpointslices, delete services, get secrets, list secrets, watch \
                    secrets";
    assert_eq!(found, yellow(sentence));
}

#[test]
fn rights_that_are_not_reviewed_are_yellow() {
    let mut facts = facts(&healthy());
    facts.api = Ok(ApiServer::Reached {
        version: "v1.33.4".to_owned(),
        needed: reviews(needed(&[]), |_| Err("403".to_owned())),
        not_needed: reviews(not_needed(&[]), |_| Err("403".to_owned())),
    });
    let found = findings(&facts, Check::Permissions);
    assert!(
        found.iter().all(|(health, _)| *health == Health::Yellow),
        "{found:?}"
    );
    let found = findings(&facts, Check::MorePermissions);
    assert_eq!(
        found,
        yellow("more permissions than needed: not checked, 403")
    );
}

// === Mirrors ===

/// A mirror with a cluster IP, as every export has without headless mirroring.
fn other_mirror(namespace: &str, service: &str, cluster: &str) -> Value {
    let mut mirror = mirror(namespace, service, cluster);
    mirror["spec"]["clusterIP"] = json!("10.96.3.1");
    mirror
}

#[test]
fn mirrors_are_counted() {
    let found = findings(&facts(&healthy()), Check::Mirrors);
    let sentence = "2 headless mirrors of 2 clusters (east, west) with 2 endpoints";
    assert_eq!(found, green(sentence));
}

#[test]
fn a_cluster_without_mirrors_is_yellow() {
    // A Service of this cluster is no mirror.
    let [service, slice] = local("prod", "db", &[("db-0", "192.0.2.1", true)]);
    let facts = facts(&[service, slice]);
    assert_eq!(
        findings(&facts, Check::Mirrors),
        yellow("there are no mirrors")
    );
    let sentence = "headless mirroring: not checked, there are no mirrors";
    assert_eq!(findings(&facts, Check::HeadlessMirroring), yellow(sentence));
}

#[test]
fn mirrors_of_which_none_is_headless_say_that_headless_mirroring_is_off() {
    let facts = facts(&[other_mirror("prod", "db", "east")]);
    assert_eq!(
        findings(&facts, Check::Mirrors),
        green("1 mirror, none headless")
    );
    let sentence =
        "no mirror is headless: headless mirroring is off, or no headless Service is exported";
    assert_eq!(findings(&facts, Check::HeadlessMirroring), yellow(sentence));
}

#[test]
fn a_service_that_is_headless_from_one_cluster_alone_is_yellow() {
    let mut objects = healthy();
    objects.push(other_mirror("prod", "db", "north"));
    let mut facts = facts(&objects);
    facts.links = Ok(links(&["east", "west", "north"]));
    let sentence = "prod/db is headless in east, west, but not in north";
    assert_eq!(findings(&facts, Check::HeadlessMirroring), yellow(sentence));
    // Told once: it is no further conflict.
    assert_eq!(
        findings(&facts, Check::Conflicts),
        green("nothing else contradicts")
    );
    // Another service with a cluster IP is everyday.
    let mut objects = healthy();
    objects.push(other_mirror("prod", "web", "east"));
    let found = findings(&self::facts(&objects), Check::HeadlessMirroring);
    assert_eq!(found, green("headless mirroring is on"));
}

#[test]
fn mirrors_without_a_link_are_yellow() {
    let mut objects = healthy();
    objects.push(other_mirror("prod", "web", "north"));
    let mut facts = facts(&objects);
    facts.links = Ok(links(&["east"]));
    let sentence = "without a Link: cluster 'north' has 1 mirror, cluster 'west' has 2 mirrors";
    assert_eq!(findings(&facts, Check::OrphanedMirrors), yellow(sentence));
    facts.links = Ok(links(&["east", "west", "north", "south"]));
    let sentence = "every mirror's cluster has a Link";
    assert_eq!(findings(&facts, Check::OrphanedMirrors), green(sentence));
}

#[test]
fn links_are_known_by_their_own_names_whatever_their_clusters_are_called() {
    let mut rules = rules();
    let pair = ("west".parse().unwrap(), "oregon".parse().unwrap());
    rules.cluster_aliases.extend([pair]);
    let mut facts = facts_by(rules, &healthy());
    let sentence = "every mirror's cluster has a Link";
    assert_eq!(findings(&facts, Check::OrphanedMirrors), green(sentence));
    facts.links = Ok(links(&["east"]));
    let sentence = "without a Link: cluster 'oregon' has 2 mirrors";
    assert_eq!(findings(&facts, Check::OrphanedMirrors), yellow(sentence));
}

#[test]
fn mirrors_of_excluded_clusters_are_no_orphans() {
    let mut rules = rules();
    rules.excluded_clusters.insert("west".parse().unwrap());
    let mut facts = facts_by(rules, &healthy());
    facts.links = Ok(links(&["east"]));
    let sentence = "every mirror's cluster has a Link";
    assert_eq!(findings(&facts, Check::OrphanedMirrors), green(sentence));
}

#[test]
fn links_that_may_not_be_read_are_not_checked() {
    let mut facts = facts(&healthy());
    facts.links = Err(NotChecked::new(
        "Links cannot be read: 403",
        "ask an administrator",
    ));
    let sentence = "orphaned mirrors: not checked, Links cannot be read: 403";
    assert_eq!(findings(&facts, Check::OrphanedMirrors), yellow(sentence));
}

#[test]
fn headless_mirrors_without_endpoint_mirrors_are_yellow() {
    let mut objects = healthy();
    objects.push(mirror("prod", "cache", "east"));
    let found = findings(&facts(&objects), Check::EndpointMirrors);
    let sentence = "1 headless mirror without endpoint mirrors: Service/prod/cache-east";
    assert_eq!(found, yellow(sentence));
    let found = findings(&facts(&healthy()), Check::EndpointMirrors);
    assert_eq!(found, green("every headless mirror has endpoint mirrors"));
}

#[test]
fn hosts_that_are_listed_without_an_endpoint_mirror_are_yellow_by_name() {
    let mut objects = healthy();
    let hosts = [
        ("db-0", "10.96.1.1"),
        ("db-1", "10.96.1.2"),
        ("db-2", "10.96.1.3"),
    ];
    objects.push(listing("prod", "db-east", &hosts));
    let found = findings(&facts(&objects), Check::EndpointMirrors);
    let lost = "2 hosts without endpoint mirror: Service/prod/db-east lists db-1, db-2";
    assert_eq!(found, yellow(lost));
    // A mirror whose hosts are all missing is not one of a cluster that has none.
    objects.push(mirror("prod", "idle", "west"));
    objects.push(mirror("prod", "cache", "east"));
    objects.push(listing("prod", "cache-east", &[("c-0", "10.96.1.7")]));
    let both = "1 headless mirror without endpoint mirrors: Service/prod/idle-west; 3 hosts without endpoint mirror: \
                Service/prod/cache-east lists c-0, Service/prod/db-east lists db-1, db-2";
    let found = findings(&facts(&objects), Check::EndpointMirrors);
    assert_eq!(found, yellow(both));
}

#[test]
fn gateway_addresses_in_headless_mirrors_are_yellow_and_elsewhere_everyday() {
    let slice = |service: &str, nameless: &[&str]| HeadlessSlice {
        namespace: "prod".to_owned(),
        service: service.to_owned(),
        nameless: nameless.iter().map(|ip| (*ip).to_owned()).collect(),
    };
    let mut objects = healthy();
    objects.push(other_mirror("prod", "web", "east"));
    let mut facts = facts(&objects);
    facts.headless_slices = Ok(vec![
        slice("db-east", &[]),
        slice("web-east", &["198.51.100.10"]),
    ]);
    let sentence = "no headless mirror lists a gateway's address";
    assert_eq!(findings(&facts, Check::ClobberedMirrors), green(sentence));
    facts.headless_slices = Ok(vec![
        slice("db-east", &["198.51.100.10"]),
        slice("web-east", &["198.51.100.10"]),
    ]);
    let sentence = "overwritten with gateway addresses: Service/prod/db-east lists 198.51.100.10";
    assert_eq!(findings(&facts, Check::ClobberedMirrors), yellow(sentence));
}

/// A Link of `west` that says of a service that it is not mirrored.
fn failing(namespace: &str, name: &str, reason: &str) -> Vec<Link> {
    let mut links = links(&["east", "west"]);
    links[1].services.push(LinkedService {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        failure: Some(Failure {
            reason: reason.to_owned(),
            message: "Headless mirror services are disabled".to_owned(),
        }),
    });
    links
}

#[test]
fn services_that_links_say_are_not_mirrored_are_yellow_unless_they_are() {
    let none = "no Link reports that mirroring fails";
    let mut facts = facts(&healthy());
    assert_eq!(findings(&facts, Check::LinkStatus), green(none));
    for (name, reason, is_told) in [
        ("web", "Error", true),
        ("web", "InvalidService", true),
        ("db", "Error", true),
        // What holds for every headless Service, although it is mirrored.
        ("db", "InvalidService", false),
        // A check of its own.
        ("web", "MissingNamespace", false),
    ] {
        facts.links = Ok(failing("prod", name, reason));
        let sentence = format!(
            "Links report that mirroring fails: prod/{name} of cluster 'west' ({reason}: Headless mirror services are \
             disabled)"
        );
        let expected = if is_told {
            yellow(&sentence)
        } else {
            green(none)
        };
        assert_eq!(
            findings(&facts, Check::LinkStatus),
            expected,
            "{name} {reason}"
        );
    }
    // A mirror with a cluster IP is one, too.
    let mut objects = healthy();
    objects.push(other_mirror("prod", "web", "west"));
    facts.table = Ok(table_by(&facts.rules, &objects));
    facts.links = Ok(failing("prod", "web", "InvalidService"));
    assert_eq!(findings(&facts, Check::LinkStatus), green(none));
    // What is excluded has no mirror here that is used.
    facts.links = Ok(failing("prod", "lost", "Error"));
    facts
        .rules
        .excluded_clusters
        .insert("west".parse().unwrap());
    assert_eq!(findings(&facts, Check::LinkStatus), green(none));
}

#[test]
fn links_speak_of_clusters_by_their_own_names() {
    let mut rules = rules();
    let pair = ("west".parse().unwrap(), "oregon".parse().unwrap());
    rules.cluster_aliases.extend([pair]);
    let mut facts = facts_by(rules, &healthy());
    facts.links = Ok(failing("prod", "db", "InvalidService"));
    let found = findings(&facts, Check::LinkStatus);
    assert_eq!(found, green("no Link reports that mirroring fails"));
}

#[test]
fn namespaces_that_do_not_exist_here_are_yellow() {
    let mut facts = facts(&healthy());
    let exist = "every namespace that Links and flags name exists";
    assert_eq!(findings(&facts, Check::Namespaces), green(exist));
    facts.links = Ok(failing("shop", "cart", "MissingNamespace"));
    let of_link = "namespaces that do not exist here: 'shop', of cart in cluster 'west'";
    assert_eq!(findings(&facts, Check::Namespaces), yellow(of_link));
    let named = |name: &str, exists: bool| (name.parse().unwrap(), exists);
    facts.namespaces = Ok(vec![named("prdo", false), named("prod", true)]);
    let both = "namespaces that do not exist here: 'prdo', which a flag names, 'shop', of cart in cluster 'west'";
    assert_eq!(findings(&facts, Check::Namespaces), yellow(both));
    let hint = check(&facts).0.into_iter();
    let hint = hint.filter(|one| one.check == Check::Namespaces);
    let hint = hint.filter_map(|one| one.hint).next().unwrap();
    assert!(hint.contains("kubectl create namespace prdo"), "{hint}");
    // What is missing is told, whatever cannot be looked at.
    let nothing = || NotChecked::new("not asked", "ask");
    facts.links = Err(nothing());
    let of_flag = "namespaces that do not exist here: 'prdo', which a flag names";
    assert_eq!(findings(&facts, Check::Namespaces), yellow(of_flag));
    facts.namespaces = Ok(Vec::new());
    let not_checked = "missing namespaces: not checked, not asked";
    assert_eq!(findings(&facts, Check::Namespaces), yellow(not_checked));
}

#[test]
fn mirrors_that_two_links_write_are_known_to_a_server_alone() {
    let conflict = |kind: ConflictKind, name: &str| Conflict {
        kind,
        name: name.to_owned(),
        detail: "was the mirror of one, is now of another: do two links write it?".to_owned(),
    };
    let mut facts = facts(&healthy());
    let found = findings(&facts, Check::Identity);
    let none = "the server has seen no mirror become one of something else";
    assert_eq!(found, green(none));
    facts.server_conflicts = Ok(vec![
        conflict(ConflictKind::NotExported, "prod/db"),
        conflict(ConflictKind::Identity, "Service/prod/db-us-east"),
    ]);
    let sentence =
        "Service/prod/db-us-east was the mirror of one, is now of another: do two links write it?";
    assert_eq!(findings(&facts, Check::Identity), yellow(sentence));
    facts.server_conflicts = Err(NotChecked::new("only a running server can know it", "ask"));
    let sentence = "mirrors that two Links write: not checked, only a running server can know it";
    assert_eq!(findings(&facts, Check::Identity), yellow(sentence));
}

#[test]
fn objects_that_no_watch_selects_are_yellow() {
    let mut facts = facts(&healthy());
    let found = findings(&facts, Check::MirrorLabels);
    assert_eq!(found, green("every mirrored-service label is 'true'"));
    facts.odd_labels = Ok(vec!["Service/prod/db-east ('True')".to_owned()]);
    let sentence = "1 object left out for the value of label mirror.linkerd.io/mirrored-service: Service/prod/db-east \
                    ('True')";
    assert_eq!(findings(&facts, Check::MirrorLabels), yellow(sentence));
}

#[test]
fn mirrors_whose_names_would_be_too_long_are_yellow() {
    let none = "no mirror has a name of more than 63 characters";
    let of = |objects: &[Value], links: Option<Vec<Link>>| {
        let mut facts = facts(objects);
        facts.links = links.ok_or_else(|| NotChecked::new("not asked", "ask"));
        findings(&facts, Check::LongNames)
    };
    // This cluster is called `hub`: four characters more.
    let (fits, long) = ("h".repeat(59), "h".repeat(60));
    let own = |service: &str, host: &str, is_exported: bool| {
        let [mut service, slice] = local("prod", service, &[(host, "192.0.2.1", true)]);
        if is_exported {
            service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
        }
        [healthy(), vec![service, slice]].concat()
    };
    let sentence = |name: &str| {
        format!(
            "mirrors that Kubernetes refuses, with names of more than 63 characters: Service/prod/{name}"
        )
    };
    assert_eq!(of(&own(&fits, &fits, true), None), green(none));
    let here = sentence(&format!("{long}-hub in other clusters"));
    assert_eq!(of(&own(&long, "h-0", true), None), yellow(&here));
    assert_eq!(of(&own("web", &long, true), None), yellow(&here));
    // A member here only is mirrored nowhere.
    assert_eq!(of(&own("db", &long, false), None), green(none));
    // `-west` is five.
    let links = Some(failing("prod", &"h".repeat(58), "InvalidService"));
    assert_eq!(of(&healthy(), links), green(none));
    let there = failing("prod", &fits, "InvalidService");
    let sentence = sentence(&format!("{fits}-west"));
    assert_eq!(of(&healthy(), Some(there.clone())), yellow(&sentence));
    let mut facts = facts(&healthy());
    facts.links = Ok(there);
    let found = findings(&facts, Check::LinkStatus);
    assert_eq!(found, green("no Link reports that mirroring fails"));
}

#[test]
fn ports_that_may_have_to_be_opaque_are_yellow() {
    let mirror = |name: &str, unmarked: &[&str]| MirrorPorts {
        namespace: "prod".to_owned(),
        name: name.to_owned(),
        unmarked: unmarked.iter().map(|port| (*port).to_owned()).collect(),
    };
    let mut facts = facts(&healthy());
    // What is no mirror that is used is no concern.
    facts.mirror_ports = Ok(vec![mirror("db-east", &[]), mirror("x-east", &["9 (x)"])]);
    let found = findings(&facts, Check::OpaquePorts);
    assert_eq!(
        found,
        green("no port of a headless mirror has to be marked opaque")
    );
    let unmarked = ["4222 (client)", "6222"];
    facts.mirror_ports = Ok(vec![mirror("db-east", &unmarked), mirror("db-west", &[])]);
    let sentence = "not marked opaque: Service/prod/db-east 4222 (client), 6222";
    assert_eq!(findings(&facts, Check::OpaquePorts), yellow(sentence));
}

#[test]
fn gateways_that_are_down_are_yellow_by_cluster() {
    let mut objects = healthy();
    objects.push(endpoint("prod", "db", "west", "db-1", &["10.96.2.2"]));
    objects.push(gateway("prod", "db-1-west", false));
    let found = findings(&facts(&objects), Check::Gateways);
    let sentence = "the gateway is down of cluster 'west' (1 of 2 endpoints)";
    assert_eq!(found, yellow(sentence));
    let found = findings(&facts(&healthy()), Check::Gateways);
    assert_eq!(found, green("no gateway is down"));
}

// === Names ===

#[test]
fn a_short_name_that_several_claim_is_red_until_a_flag_decides() {
    let mut objects = healthy();
    objects.push(mirror("shop", "db", "east"));
    objects.push(endpoint("shop", "db", "east", "shop-db-0", &["10.96.1.9"]));
    let found = findings(&facts(&objects), Check::ShortNames);
    let sentence = "'db' is claimed by namespaces prod, shop; no flag decides, so it is NXDOMAIN";
    assert_eq!(found, red(sentence));
    let mut pinned = rules();
    let pin = ("db".parse().unwrap(), "shop".parse().unwrap());
    pinned.pinned_names.extend([pin]);
    let found = findings(&facts_by(pinned, &objects), Check::ShortNames);
    assert_eq!(found, green("no short name is contested"));
}

#[test]
fn other_conflicts_are_yellow() {
    let mut objects = healthy();
    objects.extend(local("prod", "db", &[("db-0", "192.0.2.1", true)]));
    let found = findings(&facts(&objects), Check::Conflicts);
    let sentence = "1 conflict: prod/db (not-exported: cluster 'hub' is a member here only: its Service is not exported)";
    assert_eq!(found, yellow(sentence));
}

#[test]
fn links_with_a_selector_of_their_own_do_not_make_not_exported() {
    let mut objects = healthy();
    objects.extend(local("prod", "db", &[("db-0", "192.0.2.1", true)]));
    let mut facts = facts(&objects);
    facts.links.as_mut().unwrap()[1].has_own_selector = true;
    let sentence = "nothing else contradicts; the Link of cluster 'west' selects exported Services by other labels, \
                    so that not-exported is not judged";
    assert_eq!(findings(&facts, Check::Conflicts), green(sentence));
    // Other conflicts are told as before.
    let annotations = &mut objects[0]["metadata"]["annotations"];
    annotations["global-dns/ttl"] = json!("soon");
    facts.table = Ok(table_by(&facts.rules, &objects));
    let sentence =
        "1 conflict: prod/db (annotation: annotation global-dns/ttl=soon makes no sense)";
    assert_eq!(findings(&facts, Check::Conflicts), yellow(sentence));
}

#[test]
fn objects_that_cannot_be_used_are_yellow_and_those_of_no_concern_are_not() {
    let mut objects = healthy();
    objects.push(other_mirror("prod", "web", "east"));
    let found = findings(&facts(&objects), Check::SkippedObjects);
    assert_eq!(found, green("every object can be used"));
    objects.push(endpoint("prod", "db", "east", "db-9", &["0.0.0.0"]));
    let found = findings(&facts(&objects), Check::SkippedObjects);
    assert_eq!(
        found,
        yellow("1 object left out: Service/prod/db-9-east (bad-address)")
    );
}

/// The figures of the README: 18 octets and the target for each SRV record, of all that a message holds.
#[test]
fn answers_that_no_message_holds_are_yellow() {
    let many = |count: usize| {
        let mut objects = vec![mirror("prod", "db", "east")];
        objects.extend((0..count).map(|number| {
            let ip = format!("10.96.{}.{}", number / 250, number % 250);
            let mut host = endpoint("prod", "db", "east", &format!("db-{number:04}"), &[&ip]);
            host["spec"]["ports"] = json!([{"name": "sql", "port": 26257}]);
            host
        }));
        findings(&facts(&objects), Check::AnswerSizes)
    };
    let fits = green("every answer fits a message of 65,535 octets");
    // Header 12, question 20, OPT 11; `db-0000.east.db.prod.global.` takes 29 octets, and the record 47.
    let most = (65_535 - 12 - 20 - 11) / 47;
    assert_eq!((most, many(most)), (1393, fits));
    let octets = 12 + 20 + 11 + (most + 1) * 47;
    let sentence =
        format!("longer than a message of 65,535 octets: db.prod.global. SRV ({octets} octets)");
    assert_eq!(many(most + 1), yellow(&sentence));
}

// === Versions ===

#[test]
fn versions_of_everybody_are_told() {
    let mut facts = facts(&healthy());
    let ours = concat!("global-dns ", env!("CARGO_PKG_VERSION"));
    let all = [
        ours,
        "Kubernetes v1.33.4",
        "Linkerd's multicluster extension by linkerd/helm edge-26.8.3",
    ];
    let expected: Vec<_> = all.map(|one| (Health::Green, one.to_owned())).into();
    assert_eq!(findings(&facts, Check::Versions), expected);
    facts.makers = Ok(Vec::new());
    let last = findings(&facts, Check::Versions).pop().unwrap();
    let sentence = "Linkerd's version is not told by any gateway's probe Service";
    assert_eq!(vec![last], green(sentence));
}

#[test]
fn a_kubernetes_that_hides_dead_gateways_is_yellow() {
    for (version, health) in [
        ("v1.21.14", Health::Yellow),
        ("v1.22.0", Health::Green),
        ("v1.33.4-gke.100", Health::Green),
        ("v1.31+", Health::Green),
        ("v0.0.0-master", Health::Green), // built without its version
        ("unknown", Health::Green),
    ] {
        let mut facts = facts(&healthy());
        facts.api = Ok(ApiServer::Reached {
            version: version.to_owned(),
            needed: Vec::new(),
            not_needed: Vec::new(),
        });
        let found = findings(&facts, Check::Versions);
        assert_eq!(found[1], (health, format!("Kubernetes {version}")));
    }
}

// === The report ===

#[test]
fn lines_are_grouped_and_those_that_are_not_green_have_a_hint_and_a_link() {
    let checkup = Checkup(vec![
        Check::ApiServer.green("it answers"),
        Check::Permissions.red("may not list services", "bind the role"),
        Check::Gateways.yellow("a gateway is down", "look at it"),
    ]);
    let expected = format!(
        "API server\n----------\n√ it answers\n× may not list services\n    bind the role\n    see {}\n\n\
         Mirrors\n-------\n‼ a gateway is down\n    look at it\n    see {}\n\n\
         Status: × (1 green, 1 yellow, 1 red)\n",
        Check::Permissions.link(),
        Check::Gateways.link(),
    );
    assert_eq!(checkup.to_text(Colours::Plain), expected);
    let coloured = checkup.to_text(Colours::Shown);
    for sign in [
        "\u{1b}[32m√\u{1b}[0m",
        "\u{1b}[33m‼\u{1b}[0m",
        "\u{1b}[31m×\u{1b}[0m",
    ] {
        assert!(coloured.contains(sign), "{coloured:?}");
    }
}

#[test]
fn programs_get_the_same_lines() {
    let checkup = Checkup(vec![
        Check::ApiServer.green("it answers"),
        Check::MorePermissions.yellow("may do more", "bind less"),
    ]);
    let expected = json!({
        "success": true, "green": 1, "yellow": 1, "red": 0,
        "checks": [
            {"category": "api-server", "check": "api-server", "health": "green", "sentence": "it answers",
             "hint": null, "link": null},
            {"category": "api-server", "check": "more-permissions", "health": "yellow", "sentence": "may do more",
             "hint": "bind less", "link": Check::MorePermissions.link()},
        ],
    });
    assert_eq!(serde_json::to_value(&checkup).unwrap(), expected);
}

#[test]
fn a_report_names_some_of_many() {
    assert_eq!(some_of([1, 2, 3, 4, 5]), "1, 2, 3, 4, 5");
    assert_eq!(some_of(1..=7), "1, 2, 3, 4, 5 and 2 more");
}

#[test]
fn every_check_has_a_heading_of_its_own_in_the_readme() {
    let readme = include_str!("../../README.md");
    let (_, section) = readme.split_once("\n## Checks\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let headings = section.lines().filter_map(|line| line.strip_prefix("### "));
    let anchors: Vec<String> = headings.map(anchor).collect();
    let wanted = Check::ALL.map(|check| check.anchor().to_owned());
    assert_eq!(anchors, wanted);
    // GitHub numbers anchors that occur twice.
    let every = readme.lines().filter(|line| line.starts_with('#'));
    let every: Vec<String> = every
        .map(|line| anchor(line.trim_start_matches(['#', ' '])))
        .collect();
    for anchor in &wanted {
        assert_eq!(
            every.iter().filter(|one| *one == anchor).count(),
            1,
            "{anchor}"
        );
    }
    assert_eq!(BTreeSet::from(wanted).len(), Check::ALL.len());
}

/// The anchor that GitHub makes of a heading: lower case, spaces to hyphens, nothing but letters, digits and hyphens.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase().replace(' ', "-");
    lower
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
        .collect()
}
