//! Tests of each check, with and without the problem, and of the report.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use strum::VariantArray as _;

use super::dns::ReplySummary;
use super::end_to_end::{ConnectionAttempt, EndToEnd, ResolverReply};
use super::finding::Health;
use super::objects::{CheckedObjects, Gateway, Gateways, Link, parse_all, parse_links};
use super::permissions::{ApiServerStatus, Permission, Review, needed, not_needed};
use super::question::{Question, QuestionOrigin, Target};
use super::*;
use crate::model::{Namespace, ProblemKind};
use crate::report::Colors;
use crate::table::Rules;
use crate::testing::{
    backends, endpoint, gateway, link, listing, local, mirror, rules, service_mirror, table_by,
    table_with_links, zones,
};
use crate::wire::Rcode;
use crate::zone::RecordType;

/// Two clusters with a database each, without problems.
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
    let link = |cluster: &&str| json!({"spec": {"targetClusterName": cluster}}).to_string();
    parse_links(clusters.iter().map(link))
}

fn reviews(
    permissions: Vec<Permission>,
    allowed: impl Fn(&Permission) -> Result<bool, String>,
) -> Vec<Review> {
    let review = |permission: Permission| Review {
        allowed: allowed(&permission),
        permission,
    };
    permissions.into_iter().map(review).collect()
}

/// An API server that grants only the needed permissions.
fn api(namespaces: &[Namespace]) -> ApiServerStatus {
    ApiServerStatus::Reached {
        version: "v1.33.4".to_owned(),
        needed: reviews(needed(namespaces, &[]), |_| Ok(true)),
        not_needed: reviews(not_needed(namespaces), |_| Ok(false)),
    }
}

/// The probe Service of a gateway.
fn probe() -> String {
    let labels = json!({"mirror.linkerd.io/mirrored-gateway": "true"});
    let annotations = json!({"linkerd.io/created-by": "linkerd/helm edge-26.8.3"});
    json!({"metadata": {"labels": labels, "annotations": annotations}}).to_string()
}

pub(super) fn facts(objects: &[Value]) -> Facts {
    facts_by(rules(), objects)
}

fn facts_by(rules: Rules, objects: &[Value]) -> Facts {
    facts_with_links(rules, objects, &["east", "west"])
}

fn facts_with_links(rules: Rules, objects: &[Value], clusters: &[&str]) -> Facts {
    let links = clusters.iter().map(|cluster| link(cluster, cluster));
    let objects = [objects, &Vec::from_iter(links)].concat();
    Facts {
        api: Ok(api(&[])),
        table: Ok(table_with_links(&rules, &objects)),
        zones: zones(&["global"]),
        rules,
        objects: CheckedObjects {
            services: Ok(parse_all([probe()])),
            slices: Ok(Vec::new()),
            endpoints: Ok(Vec::new()),
            links: Ok(self::links(&["east", "west"])),
            gateways: Ok(None),
        },
        namespaces: Ok(Vec::new()),
        server_problems: Ok(Vec::new()),
        dns: Vec::new(),
        end_to_end: Ok(way()),
    }
}

fn no_objects(reason: impl Fn() -> NotChecked) -> CheckedObjects {
    CheckedObjects {
        services: Err(reason()),
        slices: Err(reason()),
        endpoints: Err(reason()),
        links: Err(reason()),
        gateways: Err(reason()),
    }
}

/// The metadata of a mirror in namespace `prod`, with labels.
fn mirror_metadata(name: &str, labels: &[(&str, &str)]) -> Value {
    let mirror = [("mirror.linkerd.io/mirrored-service", "true")];
    let labels: BTreeMap<&str, &str> = labels.iter().copied().chain(mirror).collect();
    json!({"namespace": "prod", "name": name, "labels": labels})
}

/// A slice of a mirror in namespace `prod`, with addresses that have no hostname.
fn mirror_slice(service: &str, addresses: &[&str]) -> String {
    let metadata = mirror_metadata(service, &[("kubernetes.io/service-name", service)]);
    json!({"metadata": metadata, "endpoints": [{"addresses": addresses}]}).to_string()
}

/// One name that resolves and accepts connections.
pub(super) fn way() -> EndToEnd {
    let reply = || ReplySummary {
        rcode: Rcode::NOERROR,
        authoritative: true,
        soa: None,
        records: BTreeSet::from(["db.prod.global. A 10.96.1.1".to_owned()]),
    };
    let no_name = || ReplySummary {
        rcode: Rcode::NXDOMAIN,
        records: BTreeSet::new(),
        ..reply()
    };
    let target = Target {
        endpoint: "db-0 of cluster east".to_owned(),
        address: "10.96.1.1:26257".parse().unwrap(),
    };
    EndToEnd {
        question: Question {
            name: "db.prod.global.".to_owned(),
            rtype: RecordType::A,
            origin: QuestionOrigin::Table,
        },
        server: "10.96.0.53:53".parse().unwrap(),
        direct: Ok(reply()),
        resolvers: Ok(vec![ResolverReply {
            server: "10.96.0.10:53".parse().unwrap(),
            answer: Ok(reply()),
            soa: Ok(no_name()),
            zone: "global".parse().unwrap(),
        }]),
        searched: vec![("db.prod.global.cluster.local.".to_owned(), Ok(no_name()))],
        connections: Some(Ok(vec![ConnectionAttempt {
            target,
            result: Ok(Some(Duration::from_micros(1_200))),
        }])),
    }
}

pub(super) fn findings(facts: &Facts, of: Check) -> Vec<(Health, String)> {
    let findings = check(facts).0.into_iter();
    let own = findings.filter(|finding| finding.check == of);
    own.map(|finding| (finding.health, finding.sentence.into()))
        .collect()
}

pub(super) fn green(sentence: &str) -> Vec<(Health, String)> {
    vec![(Health::Green, sentence.to_owned())]
}

fn grey(sentence: &str) -> Vec<(Health, String)> {
    vec![(Health::Grey, sentence.to_owned())]
}

pub(super) fn yellow(sentence: &str) -> Vec<(Health, String)> {
    vec![(Health::Yellow, sentence.to_owned())]
}

pub(super) fn red(sentence: &str) -> Vec<(Health, String)> {
    vec![(Health::Red, sentence.to_owned())]
}

#[test]
fn healthy_installation_is_green() {
    let diagnosis = check(&facts(&healthy()));
    let problems = diagnosis.0.iter().filter(|one| one.health != Health::Green);
    assert_eq!(problems.collect::<Vec<_>>(), Vec::<&Finding>::new());
    assert!(diagnosis.is_success());
}

#[test]
fn only_findings_that_are_not_green_have_a_hint() {
    let nothing = || NotChecked::new("not read", "read it");
    let mut missing = facts(&[]);
    missing.api = Err(nothing());
    missing.table = Err(nothing());
    missing.objects = no_objects(nothing);
    missing.namespaces = Err(nothing());
    missing.server_problems = Err(nothing());
    let mut unreachable = facts(&[]);
    unreachable.api = Ok(ApiServerStatus::Unreachable("refused".to_owned()));
    for facts in [missing, unreachable, facts(&[]), facts(&healthy())] {
        for finding in check(&facts).0 {
            let is_green = finding.health == Health::Green;
            assert_eq!(finding.hint.is_none(), is_green, "{finding:?}");
        }
    }
}

// === The API server ===

#[test]
fn unreachable_api_server_is_red() {
    let mut facts = facts(&healthy());
    facts.api = Ok(ApiServerStatus::Unreachable(
        "Connection refused".to_owned(),
    ));
    let found = findings(&facts, Check::ApiServer);
    assert_eq!(
        found,
        red("cannot reach the API server: Connection refused")
    );
}

#[test]
fn each_missing_permission_is_red() {
    for (verb, resource) in [
        ("list", "services"),
        ("watch", "services"),
        ("list", "endpointslices"),
        ("watch", "endpointslices"),
    ] {
        let mut facts = facts(&healthy());
        facts.api = Ok(ApiServerStatus::Reached {
            version: "v1.33.4".to_owned(),
            needed: reviews(needed(&[], &[]), |permission| {
                Ok((permission.verb, permission.resource) != (verb, resource))
            }),
            not_needed: Vec::new(),
        });
        let found = findings(&facts, Check::Permissions);
        let wrong: Vec<_> = found.iter().filter(|(h, _)| *h != Health::Green).collect();
        let sentence = format!("cannot {verb} {resource} in all namespaces");
        assert_eq!(wrong, [&(Health::Red, sentence)]);
        assert_eq!(found.len(), 4);
    }
}

#[test]
fn permissions_are_needed_in_each_watched_namespace() {
    let namespaces: Vec<Namespace> = ["prod", "shop"].map(|n| n.parse().unwrap()).into();
    let mut facts = facts(&healthy());
    facts.api = Ok(api(&namespaces));
    let all = findings(&facts, Check::Permissions);
    assert_eq!(all[0].1, "can list services in namespaces prod, shop");
    facts.api = Ok(ApiServerStatus::Reached {
        version: "v1.33.4".to_owned(),
        needed: reviews(needed(&namespaces, &[]), |permission| {
            let is_shop = permission
                .namespace
                .as_ref()
                .is_some_and(|n| n.as_str() == "shop");
            Ok(permission.verb != "watch" || !is_shop)
        }),
        not_needed: reviews(not_needed(&namespaces), |permission| {
            Ok(permission.namespace.is_none() && permission.resource == "services")
        }),
    });
    let found = findings(&facts, Check::Permissions);
    let red: Vec<&str> = found
        .iter()
        .filter(|(health, _)| *health == Health::Red)
        .map(|(_, sentence)| sentence.as_str())
        .collect();
    let expected =
        "cannot watch services in namespace shop; cannot watch endpointslices in namespace shop";
    assert_eq!(red, [expected]);
    // The same permission in all namespaces is more than needed.
    let sentence = "has more permissions than needed: list services in all namespaces, watch services in all namespaces";
    assert_eq!(findings(&facts, Check::MorePermissions), yellow(sentence));
}

#[test]
fn permissions_beyond_the_needed_are_yellow() {
    let mut facts = facts(&healthy());
    facts.api = Ok(ApiServerStatus::Reached {
        version: "v1.33.4".to_owned(),
        needed: reviews(needed(&[], &[]), |_| Ok(true)),
        not_needed: reviews(not_needed(&[]), |permission| {
            Ok(permission.verb == "delete" || permission.resource == "secrets")
        }),
    });
    let found = findings(&facts, Check::MorePermissions);
    let sentence = "has more permissions than needed: delete endpointslices, delete services, get secrets, list secrets, watch \
                    secrets";
    assert_eq!(found, yellow(sentence));
}

#[test]
fn permissions_that_are_not_reviewed_are_grey() {
    let mut facts = facts(&healthy());
    facts.api = Ok(ApiServerStatus::Reached {
        version: "v1.33.4".to_owned(),
        needed: reviews(needed(&[], &[]), |_| Err("403".to_owned())),
        not_needed: reviews(not_needed(&[]), |_| Err("403".to_owned())),
    });
    let found = findings(&facts, Check::Permissions);
    assert!(
        found.iter().all(|(health, _)| *health == Health::Grey),
        "{found:?}"
    );
    let found = findings(&facts, Check::MorePermissions);
    assert_eq!(
        found,
        grey("More permissions than needed: not checked, 403")
    );
}

// === Mirrors ===

/// A mirror with a cluster IP, as Linkerd creates it without headless mirroring.
fn other_mirror(namespace: &str, service: &str, cluster: &str) -> Value {
    service_mirror(namespace, service, cluster, "10.96.3.1")
}

#[test]
fn cluster_without_mirrors_is_yellow() {
    // A Service of this cluster is not a mirror.
    let [service, slice] = local("prod", "db", &[("db-0", "192.0.2.1", true)]);
    let facts = facts(&[service, slice]);
    assert_eq!(
        findings(&facts, Check::Mirrors),
        yellow("there are no mirrors")
    );
    let sentence = "Headless mirroring: not checked, there are no mirrors";
    assert_eq!(findings(&facts, Check::HeadlessMirroring), grey(sentence));
}

#[test]
fn mirrors_without_a_headless_one_are_yellow_beside_a_headless_service() {
    let mut objects = vec![other_mirror("prod", "db", "east")];
    let others = facts(&objects);
    assert_eq!(
        findings(&others, Check::Mirrors),
        green("1 mirror, none headless")
    );
    let sentence = "headless mirroring is not used";
    assert_eq!(findings(&others, Check::HeadlessMirroring), green(sentence));
    let [mut service, slice] = local("prod", "db", &[("db-0", "192.0.2.1", true)]);
    service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
    objects.extend([service, slice]);
    let sentence =
        "no mirror is headless, but this cluster has a headless member: headless mirroring is off";
    let found = findings(&facts(&objects), Check::HeadlessMirroring);
    assert_eq!(found, yellow(sentence));
}

/// The sentence of a cluster without a Link at the start of a process.
fn without_link(cluster: &str) -> String {
    format!("Cluster has no Link: {cluster}: its endpoints are down")
}

#[test]
fn mirrors_without_a_link_are_yellow() {
    let mut objects = healthy();
    objects.push(service_mirror("prod", "web", "north", "10.96.3.1"));
    let facts = facts_with_links(rules(), &objects, &["east", "west"]);
    let sentence = without_link("north");
    assert_eq!(findings(&facts, Check::OrphanedMirrors), yellow(&sentence));
    let facts = facts_with_links(rules(), &objects, &["east", "west", "north", "south"]);
    let sentence = "every mirror's cluster has a Link";
    assert_eq!(findings(&facts, Check::OrphanedMirrors), green(sentence));
}

#[test]
fn without_any_link_the_state_is_unknown() {
    let facts = facts_with_links(rules(), &healthy(), &[]);
    let sentence = "State of links is unknown: the namespaces of links.namespaces have neither a Link nor a Lease of a \
                    mirror controller";
    assert_eq!(findings(&facts, Check::OrphanedMirrors), yellow(sentence));
}

#[test]
fn links_that_are_not_read_are_not_checked() {
    let mut facts = facts(&healthy());
    facts.table = Ok(table_by(&rules(), &healthy()));
    let sentence = "Orphaned mirrors: not checked, Links are not read";
    assert_eq!(findings(&facts, Check::OrphanedMirrors), grey(sentence));
}

#[test]
fn headless_mirrors_without_endpoint_mirrors_are_yellow() {
    let mut objects = healthy();
    objects.push(mirror("prod", "cache", "east"));
    let found = findings(&facts(&objects), Check::EndpointMirrors);
    let sentence = "Headless mirror without endpoint mirrors: Service/prod/cache-east: no host of cluster 'east'";
    assert_eq!(found, yellow(sentence));
    let found = findings(&facts(&healthy()), Check::EndpointMirrors);
    assert_eq!(found, green("every headless mirror has endpoint mirrors"));
}

#[test]
fn hosts_without_an_endpoint_mirror_are_yellow() {
    let mut objects = healthy();
    let hosts = [
        ("db-0", "10.96.1.1"),
        ("db-1", "10.96.1.2"),
        ("db-2", "10.96.1.3"),
    ];
    objects.push(listing("prod", "db-east", &hosts));
    let found = findings(&facts(&objects), Check::EndpointMirrors);
    let lost = "Headless mirror without endpoint mirrors: Service/prod/db-east: lists db-1 (10.96.1.2), db-2 (10.96.1.3)";
    assert_eq!(found, yellow(lost));
    // A mirror with only missing hosts does not count as one without endpoint mirrors.
    objects.push(mirror("prod", "idle", "west"));
    objects.push(mirror("prod", "cache", "east"));
    objects.push(listing("prod", "cache-east", &[("c-0", "10.96.1.7")]));
    let lost = "Headless mirror without endpoint mirrors: Service/prod/cache-east: lists c-0 (10.96.1.7), Service/prod/db-east: lists db-1 \
                (10.96.1.2), db-2 (10.96.1.3), Service/prod/idle-west: no host of cluster 'west'";
    let found = findings(&facts(&objects), Check::EndpointMirrors);
    assert_eq!(found, yellow(lost));
}

#[test]
fn only_gateway_addresses_in_headless_mirrors_are_yellow() {
    let mut objects = healthy();
    objects.push(other_mirror("prod", "web", "east"));
    let mut facts = facts(&objects);
    let web = mirror_slice("web-east", &["198.51.100.10"]);
    facts.objects.slices = Ok(parse_all([&mirror_slice("db-east", &[]), &web]));
    let sentence = "no headless mirror lists a gateway's address";
    assert_eq!(findings(&facts, Check::ClobberedMirrors), green(sentence));
    let db = mirror_slice("db-east", &["198.51.100.10"]);
    facts.objects.slices = Ok(parse_all([&db, &web]));
    let sentence = "overwritten with gateway addresses: Service/prod/db-east lists 198.51.100.10";
    assert_eq!(findings(&facts, Check::ClobberedMirrors), yellow(sentence));
}

/// Links, with a service of `west` that is not mirrored.
fn failing(namespace: &str, name: &str, reason: &str) -> Vec<Link> {
    let mut links = links(&["east", "west"]);
    let condition = json!({
        "type": "Mirrored", "status": "False", "reason": reason,
        "message": "Headless mirror services are disabled",
    });
    let remote = json!({"namespace": namespace, "name": name});
    let service = json!({"remoteRef": remote, "conditions": [condition]});
    let services = &mut links[1].status.mirror_services;
    services.push(serde_json::from_value(service).unwrap());
    links
}

#[test]
fn failed_mirroring_in_a_link_is_yellow_unless_there_is_a_mirror() {
    let none = "no Link reports that mirroring fails";
    let mut facts = facts(&healthy());
    assert_eq!(findings(&facts, Check::LinkStatus), green(none));
    for (name, reason, is_reported) in [
        ("web", "Error", true),
        ("web", "InvalidService", true),
        ("db", "Error", true),
        // Linkerd reports this for every headless Service, although it is mirrored.
        ("db", "InvalidService", false),
        // The check `namespaces` reports it.
        ("web", "MissingNamespace", false),
    ] {
        facts.objects.links = Ok(failing("prod", name, reason));
        let sentence = format!(
            "Links report that mirroring fails: prod/{name} of cluster 'west' ({reason}: Headless mirror services are \
             disabled)"
        );
        let expected = if is_reported {
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
    // A mirror with a cluster IP counts as a mirror.
    let mut objects = healthy();
    objects.push(other_mirror("prod", "web", "west"));
    facts.table = Ok(table_by(&facts.rules, &objects));
    facts.objects.links = Ok(failing("prod", "web", "InvalidService"));
    assert_eq!(findings(&facts, Check::LinkStatus), green(none));
    // Mirrors of excluded clusters are not used here.
    facts.objects.links = Ok(failing("prod", "lost", "Error"));
    facts
        .rules
        .excluded_clusters
        .insert("west".parse().unwrap());
    assert_eq!(findings(&facts, Check::LinkStatus), green(none));
}

#[test]
fn namespaces_that_do_not_exist_here_are_yellow() {
    let mut facts = facts(&healthy());
    let exist = "every namespace that Links and flags name exists";
    assert_eq!(findings(&facts, Check::Namespaces), green(exist));
    facts.objects.links = Ok(failing("shop", "cart", "MissingNamespace"));
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
    // A missing namespace is reported even if other facts are missing.
    let nothing = || NotChecked::new("not read", "read it");
    facts.objects.links = Err(nothing());
    let of_flag = "namespaces that do not exist here: 'prdo', which a flag names";
    assert_eq!(findings(&facts, Check::Namespaces), yellow(of_flag));
    facts.namespaces = Ok(Vec::new());
    let not_checked = "Missing namespaces: not checked, not read";
    assert_eq!(findings(&facts, Check::Namespaces), grey(not_checked));
}

#[test]
fn problems_that_only_a_running_server_sees_are_yellow() {
    let problem = |kind: ProblemKind, subject: &str, detail: &str, count: u32| ServerProblem {
        kind,
        subject: subject.to_owned(),
        detail: detail.to_owned(),
        count,
    };
    let lease = "Lease linkerd-multicluster/service-mirror-write-east";
    let mut facts = facts(&healthy());
    let found = |facts: &Facts| findings(facts, Check::MirrorControllers);
    assert_eq!(
        found(&facts),
        green("the server has seen no mirror controller stop")
    );
    facts.server_problems = Ok(vec![
        problem(ProblemKind::NotExported, "prod/db", "", 1),
        problem(ProblemKind::Frozen, "east", lease, 1),
        problem(ProblemKind::Frozen, "west", "", 2),
    ]);
    let frozen = "Mirror controller has stopped: east: Lease linkerd-multicluster/service-mirror-write-east, west: 2 problems";
    assert_eq!(found(&facts), yellow(frozen));
    facts.server_problems = Err(NotChecked::new("only a running server can know it", "ask"));
    let expected = "Mirror controllers: not checked, only a running server can know it";
    assert_eq!(found(&facts), grey(expected));
}

#[test]
fn object_with_another_label_value_is_yellow() {
    let mut facts = facts(&healthy());
    let found = findings(&facts, Check::MirrorLabels);
    assert_eq!(found, green("every mirrored-service label is 'true'"));
    let labels = json!({"mirror.linkerd.io/mirrored-service": "True"});
    let metadata = json!({"namespace": "prod", "name": "db-east", "labels": labels});
    facts.objects.services = Ok(parse_all([json!({"metadata": metadata}).to_string()]));
    let sentence = "1 object ignored because of its label mirror.linkerd.io/mirrored-service: Service/prod/db-east \
                    ('True')";
    assert_eq!(findings(&facts, Check::MirrorLabels), yellow(sentence));
}

#[test]
fn mirror_names_that_are_too_long_are_yellow() {
    let none = "no mirror needs a name of more than 63 characters";
    let of = |objects: &[Value], links: Option<Vec<Link>>| {
        let mut facts = facts(objects);
        facts.objects.links = links.ok_or_else(|| NotChecked::new("not read", "read it"));
        findings(&facts, Check::LongNames)
    };
    // This cluster is `hub`: `-hub` has four characters.
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
            "mirror names of more than the 63 characters that Kubernetes accepts: Service/prod/{name}"
        )
    };
    assert_eq!(of(&own(&fits, &fits, true), None), green(none));
    let here = sentence(&format!("{long}-hub in other clusters"));
    assert_eq!(of(&own(&long, "h-0", true), None), yellow(&here));
    assert_eq!(of(&own("web", &long, true), None), yellow(&here));
    // A Service that is not exported is not mirrored.
    assert_eq!(of(&own("db", &long, false), None), green(none));
    // `-west` has five characters.
    let links = Some(failing("prod", &"h".repeat(58), "InvalidService"));
    assert_eq!(of(&healthy(), links), green(none));
    let there = failing("prod", &fits, "InvalidService");
    let sentence = sentence(&format!("{fits}-west"));
    assert_eq!(of(&healthy(), Some(there.clone())), yellow(&sentence));
    let mut facts = facts(&healthy());
    facts.objects.links = Ok(there);
    let found = findings(&facts, Check::LinkStatus);
    assert_eq!(found, green("no Link reports that mirroring fails"));
}

#[test]
fn dead_ports_are_red() {
    let none = "every port can be reached from other clusters";
    assert_eq!(findings(&facts(&healthy()), Check::DeadPorts), green(none));
    let mut objects = healthy();
    objects[1]["spec"]["ports"][0]["targetPort"] = json!(15432);
    let sentence = "Port cannot be reached from other clusters: prod/db: cluster 'east': port 26257 is 15432 in its pods";
    assert_eq!(findings(&facts(&objects), Check::DeadPorts), red(sentence));
}

#[test]
fn unmarked_ports_are_yellow() {
    let mirror = |host: &str, headless: &str, ports: Value| {
        let labels = [("mirror.linkerd.io/headless-mirror-svc-name", headless)];
        let metadata = mirror_metadata(&format!("{host}-{headless}"), &labels);
        json!({"metadata": metadata, "spec": {"ports": ports}}).to_string()
    };
    let none = || mirror("db-0", "db-east", json!([]));
    let mut facts = facts(&healthy());
    // Mirrors that are not used are ignored.
    let other = mirror("x-0", "x-east", json!([{"name": "x", "port": 9}]));
    facts.objects.services = Ok(parse_all([none(), other]));
    let found = findings(&facts, Check::OpaquePorts);
    assert_eq!(
        found,
        green("no port of an endpoint mirror needs to be marked opaque")
    );
    let unmarked = || json!([{"name": "client", "port": 4222}, {"port": 6222}]);
    let pods = ["db-1", "db-2"].map(|host| mirror(host, "db-east", unmarked()));
    facts.objects.services = Ok(parse_all([pods.to_vec(), vec![none()]].concat()));
    let sentence = "not marked opaque: Service/prod/db-east 4222 (client), 6222";
    assert_eq!(findings(&facts, Check::OpaquePorts), yellow(sentence));
    // The hint has the whole list.
    let hint = check(&facts).0.into_iter();
    let mut hint = hint.filter(|one| one.check == Check::OpaquePorts);
    let hint = hint.next().and_then(|one| one.hint).unwrap();
    let list = "config.linkerd.io/opaque-ports=25,587,3306,4444,5432,6379,9300,11211,PORTS ";
    assert!(hint.contains(list), "{hint:?}");
}

#[test]
fn gateway_that_keeps_addresses_is_yellow_if_pods_are_exported() {
    let gateway = |timeout: Option<&str>| {
        Ok(Gateway {
            name: "linkerd-multicluster/linkerd-gateway".to_owned(),
            cache_timeout: timeout.map(str::to_owned),
        })
    };
    let finding = |gateways: Gateways| {
        let mut facts = facts(&healthy());
        facts.objects.gateways = gateways;
        findings(&facts, Check::GatewayCache)
    };
    let none = "no headless Service is exported from here";
    assert_eq!(finding(Ok(None)), green(none));
    let denied = || Err(NotChecked::new("cannot list Deployments: 403", "ask"));
    for (timeout, text) in [
        (None, "(not set)"),
        (Some("1s"), "(1s)"),
        (Some(" 0s"), "( 0s)"),
        (Some(""), "()"),
    ] {
        // What can be read counts.
        let gateways = vec![gateway(Some("0s")), denied(), gateway(timeout)];
        let sentence = format!(
            "gateways that keep the address of a pod that is gone: Deployment/linkerd-multicluster/linkerd-gateway {text}"
        );
        assert_eq!(finding(Ok(Some(gateways))), yellow(&sentence));
    }
    let sentence = "Gateway address cache: not checked, cannot list Deployments: 403";
    let gateways = vec![gateway(Some("0s")), denied()];
    assert_eq!(finding(Ok(Some(gateways))), grey(sentence));
    let sentence =
        "Gateway address cache: not checked, there is no gateway in the namespaces of Links";
    assert_eq!(finding(Ok(Some(Vec::new()))), grey(sentence));
    let sentence = "no gateway keeps the address of a pod that is gone";
    let gateways = vec![gateway(Some("0s"))];
    assert_eq!(finding(Ok(Some(gateways))), green(sentence));
    let sentence = "Gateway address cache: not checked, not read";
    let unread = Err(NotChecked::new("not read", "read it"));
    assert_eq!(finding(unread), grey(sentence));
}

/// Sets the Endpoints of mirrors, each with its name in namespace `prod` and whether it has a slice.
fn set_endpoints(facts: &mut Facts, all: &[(&str, bool)]) {
    let endpoints = all.iter().map(|(name, _)| {
        let subsets = json!([{"addresses": [{"ip": "198.51.100.10"}]}]);
        json!({"metadata": mirror_metadata(name, &[]), "subsets": subsets}).to_string()
    });
    facts.objects.endpoints = Ok(parse_all(endpoints));
    let copied = all.iter().filter(|(_, has_slice)| *has_slice);
    facts.objects.slices = Ok(parse_all(copied.map(|(name, _)| mirror_slice(name, &[]))));
}

#[test]
fn endpoints_of_mirrors_without_a_slice_are_yellow_and_red_if_none_has_one() {
    let mut objects = healthy();
    objects.push(service_mirror("prod", "pay", "east", "10.96.3.1"));
    let mut facts = facts(&objects);
    let complete = green("every mirror with Endpoints has an EndpointSlice");
    assert_eq!(findings(&facts, Check::EndpointSlices), complete);
    let names = ["db-east", "db-0-east", "pay-east"];
    set_endpoints(&mut facts, &names.map(|name| (name, true)));
    assert_eq!(findings(&facts, Check::EndpointSlices), complete);
    // Each kind of mirror counts.
    for missing in names {
        let all = names.map(|name| (name, name != missing));
        set_endpoints(&mut facts, &all);
        let sentence = format!(
            "Endpoints of mirrors without an EndpointSlice (1 of 3): Endpoints/prod/{missing}"
        );
        let found = findings(&facts, Check::EndpointSlices);
        assert_eq!(found, yellow(&sentence));
    }
    set_endpoints(&mut facts, &names.map(|name| (name, false)));
    let sentence = "Endpoints of mirrors without an EndpointSlice (3 of 3): Endpoints/prod/db-0-east, \
                    Endpoints/prod/db-east, Endpoints/prod/pay-east";
    assert_eq!(findings(&facts, Check::EndpointSlices), red(sentence));
}

#[test]
fn gateways_that_are_down_are_yellow() {
    let mut objects = healthy();
    objects.push(endpoint("prod", "db", "west", "db-1", &["10.96.2.2"]));
    objects.push(gateway("prod", "db-1-west", false));
    let found = findings(&facts(&objects), Check::Gateways);
    let sentence = "Gateway is down: prod/db: cluster 'west': db-1";
    assert_eq!(found, yellow(sentence));
    let found = findings(&facts(&healthy()), Check::Gateways);
    assert_eq!(found, green("no gateway is down"));
}

/// A slice without a ready address means that the gateway is down, and no slice that nothing is ready over there.
#[test]
fn gateway_that_is_down_differs_from_a_service_without_ready_endpoints() {
    let mut objects = healthy();
    objects.push(service_mirror("prod", "pay", "north", "10.96.3.1"));
    objects.push(service_mirror("prod", "web", "south", "10.96.4.1"));
    objects.push(backends("prod", "web-south", true, false));
    let down = "Gateway is down: prod/web: cluster 'south': its cluster IP";
    let empty = "Service has no ready endpoint: prod/pay: cluster 'north': its cluster IP";
    let expected = [yellow(down), yellow(empty)].concat();
    let facts = facts_with_links(rules(), &objects, &["east", "west", "north", "south"]);
    assert_eq!(findings(&facts, Check::Gateways), expected);
}

// === Names ===

#[test]
fn ambiguous_short_name_is_red_unless_it_is_pinned() {
    let mut objects = healthy();
    objects.push(mirror("shop", "db", "east"));
    objects.push(endpoint("shop", "db", "east", "shop-db-0", &["10.96.1.9"]));
    let found = findings(&facts(&objects), Check::ShortNames);
    let sentence = "Short name is ambiguous: db: exists in namespaces prod, shop; no setting assigns it, so it is NXDOMAIN";
    assert_eq!(found, red(sentence));
    let mut pinned = rules();
    let pin = ("db".parse().unwrap(), "shop".parse().unwrap());
    pinned.pinned_names.extend([pin]);
    let found = findings(&facts_by(pinned, &objects), Check::ShortNames);
    assert_eq!(found, green("no short name is ambiguous"));
}

#[test]
fn other_conflicts_are_yellow() {
    let mut objects = healthy();
    objects.extend(local("prod", "db", &[("db-0", "192.0.2.1", true)]));
    let found = findings(&facts(&objects), Check::Conflicts);
    let sentence = "Member is not exported: prod/db: cluster 'hub' is a member here only, and only while a mirror of its name exists: its Service is not exported";
    assert_eq!(found, yellow(sentence));
}

#[test]
fn not_exported_is_ignored_if_a_link_has_its_own_selector() {
    let mut objects = healthy();
    objects.extend(local("prod", "db", &[("db-0", "192.0.2.1", true)]));
    let mut facts = facts(&objects);
    facts.objects.links.as_mut().unwrap()[1].spec.selector = Some(Default::default());
    let sentence = "there are no other conflicts; not-exported is not checked, because the Link of cluster 'west' selects \
                    exported Services by other labels";
    assert_eq!(findings(&facts, Check::Conflicts), green(sentence));
    // Other conflicts are still reported.
    let own = objects.len() - 2;
    objects[own]["metadata"]["annotations"]["global-dns/ttl"] = json!("soon");
    facts.table = Ok(table_by(&facts.rules, &objects));
    let sentence = "Setting of a service has no effect: prod/db: annotation global-dns/ttl=soon: it is not a number of seconds";
    assert_eq!(findings(&facts, Check::Conflicts), red(sentence));
}

#[test]
fn only_unusable_objects_are_yellow() {
    let mut objects = healthy();
    objects.push(other_mirror("prod", "web", "east"));
    let found = findings(&facts(&objects), Check::SkippedObjects);
    assert_eq!(found, green("no object is skipped"));
    objects.push(endpoint("prod", "db", "east", "db-9", &["0.0.0.0"]));
    let found = findings(&facts(&objects), Check::SkippedObjects);
    assert_eq!(
        found,
        yellow(
            "Object cannot be used: Service/prod/db-9-east: '0.0.0.0' is not the address of a host"
        )
    );
}

/// The manual has these figures: each SRV record takes 18 octets and the target.
#[test]
fn answers_that_exceed_a_message_are_yellow() {
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
fn versions_are_reported() {
    let mut facts = facts(&healthy());
    let ours = concat!("global-dns ", env!("CARGO_PKG_VERSION"));
    let all = [
        ours,
        "Kubernetes v1.33.4",
        "Linkerd multicluster extension linkerd/helm edge-26.8.3",
    ];
    let expected: Vec<_> = all.map(|one| (Health::Green, one.to_owned())).into();
    assert_eq!(findings(&facts, Check::Versions), expected);
    facts.objects.services = Ok(Vec::new());
    let last = findings(&facts, Check::Versions).pop().unwrap();
    let sentence = "unknown version of Linkerd: no gateway's probe Service has it";
    assert_eq!(vec![last], yellow(sentence));
}

// === The report ===

/// The root of all problems is one red line. Its consequences have one line in each category, without hints.
#[test]
fn consequences_share_a_line_without_hint() {
    let mut facts = facts(&healthy());
    let reason = || NotChecked::consequence("cannot reach the API server");
    facts.api = Ok(ApiServerStatus::Unreachable(
        "connection refused".to_owned(),
    ));
    facts.table = Err(reason());
    facts.objects = no_objects(reason);
    let diagnosis = check(&facts);
    assert_eq!(diagnosis.count(Health::Red), 1);
    let text = diagnosis.to_text(Colors::Plain);
    let start = format!(
        "API server\n----------\n× cannot reach the API server: connection refused\n    in a pod, check the ServiceAccount's \
         token and the NetworkPolicy; elsewhere, give --kubeconfig and --context\n    see {}\n\
         · not checked: permissions, more-permissions\n\nMirrors\n-------\n",
        Check::ApiServer.link()
    );
    assert!(text.starts_with(&start), "{text}");
    let names = "· not checked: short-names, conflicts, skipped-objects, answer-sizes, failover-orders, \
                 expected-clusters\n";
    assert!(text.contains(names), "{text}");
    assert_eq!(
        text.matches(", cannot reach the API server").count(),
        0,
        "{text}"
    );
}

#[test]
fn missing_permission_is_the_only_red_line() {
    let mut facts = facts(&healthy());
    facts.api = Ok(ApiServerStatus::Reached {
        version: "v1.33.4".to_owned(),
        needed: reviews(needed(&[], &[]), |_| Ok(false)),
        not_needed: reviews(not_needed(&[]), |_| Ok(false)),
    });
    facts.table = Err(NotChecked::new("403 Forbidden", "grant it"));
    let diagnosis = check(&facts);
    let red = diagnosis.0.iter().filter(|one| one.health == Health::Red);
    let red: Vec<&str> = red.map(|one| one.sentence.as_str()).collect();
    let sentence = "cannot list services in all namespaces; cannot watch services in all namespaces; cannot list \
                    endpointslices in all namespaces; cannot watch endpointslices in all namespaces";
    assert_eq!(red, [sentence]);
}

#[test]
fn objects_that_cannot_be_read_are_one_red_line() {
    let mut facts = facts(&healthy());
    facts.table = Err(NotChecked::new(
        "the list of services ended early",
        "try again",
    ));
    let found = findings(&facts, Check::ApiServer);
    assert_eq!(
        found,
        red("cannot read the objects: the list of services ended early")
    );
    let diagnosis = check(&facts);
    assert!(!diagnosis.is_success());
    // Checks that need other facts than the objects are not consequences.
    facts.server_problems = Err(NotChecked::new("--api is not set", "set it"));
    let text = check(&facts).to_text(Colors::Plain);
    assert!(
        text.contains("· Mirror controllers: not checked, --api is not set\n"),
        "{text}"
    );
}

#[test]
fn schema_has_all_checks() {
    let schema: Value = serde_json::from_str(include_str!("../report/schema/check.json")).unwrap();
    let listed = &schema["$defs"]["finding"]["properties"]["check"]["enum"];
    let names = Check::VARIANTS.iter().map(|check| check.name());
    assert_eq!(*listed, json!(names.collect::<Vec<_>>()));
}
#[test]
fn every_check_has_a_section_in_the_manual() {
    let manual = include_str!("../../charts/global-dns/docs/src/operate.md");
    let (_, chapter) = manual.split_once("\n## Checks\n").unwrap();
    let headings = chapter.lines().filter_map(|line| line.strip_prefix("### "));
    let expected = Check::VARIANTS.iter().map(|check| check.row().heading);
    assert_eq!(headings.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}
