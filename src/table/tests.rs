use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::mirror::{Object, ObjectKey, ObjectRef, Skip, Watch, watch::key};
use crate::testing::{
    endpoint, gateway, inputs, listing, local, mirror, published, reduced, rules, table, table_by,
    zones,
};
use crate::zone::print::zone_file;

fn annotated(mut object: Value, annotation: &str, value: &str) -> Value {
    object["metadata"]["annotations"][annotation] = json!(value);
    object
}

fn key_of(namespace: &str, service: &str) -> ServiceKey {
    ServiceKey {
        namespace: namespace.parse().unwrap(),
        service: service.parse().unwrap(),
    }
}

fn kinds(table: &Table) -> Vec<&'static str> {
    table
        .conflicts()
        .map(|conflict| conflict.kind.name())
        .collect()
}

/// One object appears, changes or goes.
#[derive(Clone, Debug)]
struct Step {
    watch: Watch,
    object: Value,
    goes: bool,
}

/// Few objects, so that they meet each other.
fn any_step() -> impl Strategy<Value = Step> {
    let one_of = |labels: &[&'static str]| prop::sample::select(labels.to_vec());
    let (namespace, service) = (one_of(&["prod", "shop", "east"]), one_of(&["db", "prod"]));
    let (cluster, host) = (one_of(&["east", "west"]), one_of(&["h-0", "h-1"]));
    let place = (namespace, service, cluster, host);
    (place, 0..10, 1..4_u8, any::<bool>(), 0..4).prop_map(|(place, kind, ip, ready, goes)| {
        let (namespace, service, cluster, host) = place;
        let ip = format!("10.96.0.{ip}");
        let (watch, object) = match kind {
            0 | 1 => (Watch::MirrorServices, mirror(namespace, service, cluster)),
            2 => {
                let ttl = if ready { "9" } else { "7" };
                let mirror = annotated(mirror(namespace, service, cluster), key::TTL, ttl);
                (Watch::MirrorServices, mirror)
            }
            3 | 4 => {
                let endpoint = endpoint(namespace, service, cluster, host, &[&ip]);
                (Watch::MirrorServices, endpoint)
            }
            5 => {
                let mut endpoint = endpoint(namespace, service, cluster, host, &[&ip]);
                endpoint["spec"]["ports"] = json!([{"name": "sql", "port": 5432}]);
                (Watch::MirrorServices, endpoint)
            }
            6 => {
                let endpoint_mirror = format!("{host}-{cluster}");
                let slice = gateway(namespace, &endpoint_mirror, ready);
                (Watch::MirrorSlices, slice)
            }
            7 => {
                let [service, _] = local(namespace, service, &[]);
                (Watch::LocalServices, service)
            }
            8 => {
                // Overwritten with a gateway's address, now and then.
                let hosts = [(if ready { host } else { "" }, ip.as_str())];
                let slice = listing(namespace, &format!("{service}-{cluster}"), &hosts);
                (Watch::MirrorSlices, slice)
            }
            _ => {
                let [_, slice] = local(namespace, service, &[(host, &ip, ready)]);
                (Watch::LocalSlices, slice)
            }
        };
        let goes = goes == 0;
        Step {
            watch,
            object,
            goes,
        }
    })
}

proptest! {
    /// Whatever happened before, in one step after the other.
    #[test]
    fn building_what_changed_is_building_everything_and_tells_whether_it_differs(
        steps in prop::collection::vec(any_step(), 1..40),
        rules in any_rules(),
    ) {
        let (mut inputs, mut last) = (Inputs::default(), Table::default());
        for Step { watch, object, goes } in steps {
            let (key, object) = reduced(watch, &object);
            let dirty = match goes {
                true => inputs.delete(watch, key),
                false => inputs.apply(watch, key, object),
            };
            let Built { table, is_changed } = build(&last, &inputs, &dirty, &rules);
            prop_assert_eq!(is_changed, table != last);
            let has_moved = answers(&table) != answers(&last);
            prop_assert_eq!(has_moved, table.answers_hash() != last.answers_hash());
            let all = build(&Table::default(), &inputs, &inputs.services(), &rules).table;
            prop_assert!(table == all, "{table:?} is not {all:?}");
            last = table;
        }
    }

    /// A replica that saw more, in another order, and a process that starts from what the first one saved, answer alike.
    #[test]
    fn answers_and_their_hash_follow_from_the_objects_and_from_no_history(
        steps in prop::collection::vec(any_step(), 1..40),
        others in prop::collection::vec(any_step(), 0..20),
        seed in any::<u64>(),
        rules in any_rules(),
    ) {
        let mut first = Replica::default();
        for Step { watch, object, goes } in steps {
            let (key, object) = reduced(watch, &object);
            first.apply(&rules, watch, key, (!goes).then_some(object));
        }
        let objects = |watch| first.inputs.objects(watch).iter();
        let mut events: Vec<_> = Watch::ALL
            .into_iter()
            .flat_map(|watch| objects(watch).map(move |(key, object)| (watch, key.clone(), Some(object.clone()))))
            .collect();
        let mut second = Replica::default();
        for Step { watch, object, .. } in others {
            let (key, object) = reduced(watch, &object);
            if !first.inputs.objects(watch).contains_key(&key) {
                events.push((watch, key.clone(), None));
            }
            second.apply(&rules, watch, key, Some(object));
        }
        fastrand::Rng::with_seed(seed).shuffle(&mut events);
        for (watch, key, object) in events {
            second.apply(&rules, watch, key, object);
        }
        let mut restarted = Replica::default();
        for watch in Watch::ALL {
            let saved = serde_json::to_string(&objects(watch).collect::<Vec<_>>()).unwrap();
            let saved: Vec<(ObjectKey, Object)> = serde_json::from_str(&saved).unwrap();
            let dirty = restarted.inputs.reset(watch, None, saved.into_iter().collect());
            restarted.build(&rules, &dirty);
        }
        for other in [&second, &restarted] {
            prop_assert_eq!(answers(&first.table), answers(&other.table));
            prop_assert_eq!(first.table.answers_hash(), other.table.answers_hash());
            prop_assert!(first.table.short_names == other.table.short_names);
        }
    }
}

/// What one process has seen, and what it answers.
#[derive(Default)]
struct Replica {
    inputs: Inputs,
    table: Table,
}

impl Replica {
    fn apply(&mut self, rules: &Rules, watch: Watch, key: ObjectKey, object: Option<Object>) {
        let dirty = match object {
            Some(object) => self.inputs.apply(watch, key, object),
            None => self.inputs.delete(watch, key),
        };
        self.build(rules, &dirty);
    }

    fn build(&mut self, rules: &Rules, dirty: &inputs::Dirty) {
        self.table = build(&self.table, &self.inputs, dirty, rules).table;
    }
}

/// Everything that a table answers.
fn answers(table: &Table) -> Vec<String> {
    let zones = zones(&["global", "10.in-addr.arpa"]);
    let now = published(table.clone());
    zones
        .iter()
        .map(|zone| zone_file(&zones, zone, &now))
        .collect()
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let short_names = prop::sample::select(vec![
        ShortNames::On,
        ShortNames::On,
        ShortNames::Pinned,
        ShortNames::Off,
    ]);
    let namespace = || prop::sample::select(vec!["prod", "shop", "none"]);
    let default_namespace = prop::option::weighted(0.3, namespace());
    let pin = prop::option::weighted(0.3, namespace());
    let gateway_down = prop::sample::select(vec![GatewayDown::LastResort, GatewayDown::Exclude]);
    (short_names, default_namespace, pin, gateway_down).prop_map(
        |(short_names, default_namespace, pin, gateway_down)| Rules {
            short_names,
            default_namespace: default_namespace.map(|name| name.parse().unwrap()),
            pinned_names: pin
                .map(|name| ("db".parse().unwrap(), name.parse().unwrap()))
                .into_iter()
                .collect(),
            gateway_down,
            ..rules()
        },
    )
}

#[test]
fn a_list_replaces_what_its_watch_has_seen_in_its_namespace_and_nothing_else() {
    let listed = |objects: &[Value]| -> inputs::Objects {
        let reduced = |object| reduced(Watch::MirrorServices, object);
        objects.iter().map(reduced).collect()
    };
    let (prod, shop) = (mirror("prod", "db", "east"), mirror("shop", "db", "east"));
    let all = [prod.clone(), shop.clone()];
    let names =
        |dirty: inputs::Dirty| -> Vec<String> { dirty.iter().map(ToString::to_string).collect() };
    let watch = Watch::MirrorServices;
    let mut inputs = inputs(&all);
    assert_eq!(*inputs.objects(watch), listed(&all));
    // The same again is no news.
    assert_eq!(inputs.count_lost(watch, None, &listed(&all)), 0);
    assert_eq!(names(inputs.reset(watch, None, listed(&all))), [""; 0]);
    let empty = inputs::Objects::new();
    assert_eq!(inputs.count_lost(watch, None, &empty), 2);
    assert_eq!(inputs.count_lost(watch, Some("shop"), &empty), 1);
    // What changed is lost too.
    let changed = annotated(shop.clone(), key::TTL, "9");
    let all = [prod, changed];
    assert_eq!(inputs.count_lost(watch, None, &listed(&all)), 1);
    assert_eq!(names(inputs.reset(watch, None, listed(&all))), ["shop/db"]);
    // A list of one namespace is silent about the others.
    assert_eq!(
        names(inputs.reset(watch, Some("shop"), inputs::Objects::new())),
        ["shop/db"]
    );
    assert_eq!(names(inputs.services()), ["prod/db"]);
    assert_eq!(inputs.count_lost(watch, Some("prod"), &empty), 1);
    assert_eq!(inputs.count_lost(watch, Some("shop"), &empty), 0);
    assert_eq!(
        names(inputs.reset(watch, None, inputs::Objects::new())),
        ["prod/db"]
    );
    assert_eq!(names(inputs.services()), [""; 0]);
}

#[test]
fn what_a_list_lacks_of_each_service_is_counted_by_watch_and_namespace() {
    let lost = |objects: &[Value], watch, namespace, listed: &[&Value]| -> Vec<String> {
        let listed = listed.iter().map(|object| reduced(watch, object)).collect();
        let losses = inputs(objects).losses(watch, namespace, &listed);
        let line = |(service, loss): (&ServiceKey, &inputs::Loss)| {
            format!("{service}: {} of {}", loss.gone, loss.seen)
        };
        losses.iter().map(line).collect()
    };
    let host = |namespace, host| endpoint(namespace, "db", "east", host, &["10.96.0.1"]);
    let mut objects = vec![
        mirror("prod", "db", "east"),
        host("prod", "db-0"),
        host("prod", "db-1"),
        mirror("shop", "db", "east"),
        gateway("prod", "db-0-east", true),
    ];
    objects.extend(local("prod", "cache", &[("cache-0", "10.0.0.1", true)]));
    let none: [&Value; 0] = [];
    let services = Watch::MirrorServices;
    let all = ["prod/db: 3 of 3", "shop/db: 1 of 1"];
    assert_eq!(lost(&objects, services, None, &none), all);
    assert_eq!(lost(&objects, services, Some("prod"), &none), all[..1]);
    assert_eq!(lost(&objects, services, Some("shop"), &none), all[1..]);
    let without_one = [&objects[0], &objects[1], &objects[3]];
    assert_eq!(
        lost(&objects, services, None, &without_one),
        ["prod/db: 1 of 3", "shop/db: 0 of 1"]
    );
    // What is listed otherwise is not gone.
    let changed = annotated(objects[0].clone(), key::TTL, "9");
    let changed = [&changed, &objects[1], &objects[2]];
    assert_eq!(
        lost(&objects, services, Some("prod"), &changed),
        ["prod/db: 0 of 3"]
    );
    for (watch, expected) in [
        (Watch::MirrorSlices, "prod/db: 1 of 1"),
        (Watch::LocalServices, "prod/cache: 1 of 1"),
        (Watch::LocalSlices, "prod/cache: 1 of 1"),
    ] {
        assert_eq!(lost(&objects, watch, None, &none), [expected], "{watch:?}");
    }
}

#[test]
fn what_cannot_be_used_is_in_the_table_with_its_reason_until_it_goes() {
    let mut unnamed = endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]);
    unnamed["metadata"]["labels"]["mirror.linkerd.io/cluster-name"] = json!("no.label");
    let skipped = |inputs: &Inputs| -> Vec<String> {
        let table = build(&Table::default(), inputs, &inputs.services(), &rules()).table;
        let line = |(object, skip): (ObjectRef, &Skip)| format!("{object}: {}", skip.reason.name());
        table.skipped().map(line).collect()
    };
    let mut inputs = inputs(&[mirror("prod", "db", "east"), unnamed.clone()]);
    assert_eq!(skipped(&inputs), ["Service/prod/db-0-east: bad-name"]);
    inputs.delete(
        Watch::MirrorServices,
        reduced(Watch::MirrorServices, &unnamed).0,
    );
    assert_eq!(skipped(&inputs), [""; 0]);
}

#[test]
fn a_mirror_that_stays_what_it_is_or_comes_anew_has_not_changed_its_identity() {
    let watch = Watch::MirrorServices;
    let mut inputs = inputs(&[mirror("prod", "db", "east")]);
    let service = key_of("prod", "db");
    let mut apply = |object: &Value, goes: bool| {
        let (key, object) = reduced(watch, object);
        match goes {
            true => inputs.delete(watch, key),
            false => inputs.apply(watch, key, object),
        };
        inputs.changed(&service).count()
    };
    let host = |ip: &str| endpoint("prod", "db", "east", "db-0", &[ip]);
    assert_eq!(apply(&host("10.96.0.1"), false), 0);
    assert_eq!(apply(&host("10.96.0.2"), false), 0);
    let remote = "mirror.linkerd.io/remote-svc-fq-name";
    let other = annotated(host("10.96.0.2"), remote, "db-7.db.prod.svc.cluster.local");
    assert_eq!(apply(&other, false), 1);
    assert_eq!(apply(&other, true), 0);
    assert_eq!(apply(&host("10.96.0.2"), false), 0);
}

#[test]
fn names_of_255_octets_are_answered_and_longer_ones_reported() {
    let (host, service, namespace) = ("h".repeat(63), "s".repeat(63), "n".repeat(63));
    let endpoints = |cluster: &str| {
        let table = table(&[
            mirror(&namespace, &service, cluster),
            endpoint(&namespace, &service, cluster, &host, &["10.96.0.1"]),
        ]);
        let service = table.service(&namespace, &service).unwrap();
        let skipped = table.skipped().map(|(_, skip)| skip.detail.as_str());
        let octets = skipped.map(|detail| detail.contains("would take 256 octets, more than 255"));
        (service.endpoints.len(), octets.collect::<Vec<_>>())
    };
    // 64 octets for each of the three, those of the cluster, and 8 for `global.`
    assert_eq!(endpoints(&"c".repeat(54)), (1, vec![]));
    assert_eq!(endpoints(&"c".repeat(55)), (0, vec![true]));
}

#[test]
fn members_settle_what_they_ask_for() {
    let settled = |rules: &Rules, wishes: &[(&str, &str)]| {
        let clusters = ["east", "north", "west"];
        let mirrors = clusters.iter().zip(wishes).map(|(cluster, (ttl, down))| {
            let mut mirror = mirror("prod", "db", cluster);
            for (key, value) in [(key::TTL, ttl), (key::GATEWAY_DOWN, down)] {
                if !value.is_empty() {
                    mirror = annotated(mirror, key, value);
                }
            }
            mirror
        });
        let table = table_by(rules, &mirrors.collect::<Vec<_>>());
        let service = table.service("prod", "db").unwrap();
        let reports = service.conflicts.len();
        (service.ttl, service.gateway_down, reports)
    };
    use GatewayDown::{Exclude, Include, LastResort};
    assert_eq!(settled(&rules(), &[("", ""), ("", "")]), (5, LastResort, 0));
    // One who asks is not contradicted by those who do not.
    assert_eq!(
        settled(&rules(), &[("9", "exclude"), ("", "")]),
        (9, Exclude, 0)
    );
    assert_eq!(
        settled(&rules(), &[("9", "include"), ("9", "include")]),
        (9, Include, 0)
    );
    // The rule that answers most.
    assert_eq!(
        settled(&rules(), &[("", "exclude"), ("", "last-resort")]),
        (5, LastResort, 1)
    );
    assert_eq!(
        settled(
            &rules(),
            &[("", "exclude"), ("", "include"), ("", "last-resort")]
        ),
        (5, Include, 1)
    );
    // From 1 to --ttl-max.
    assert_eq!(settled(&rules(), &[("1", "")]), (1, LastResort, 0));
    assert_eq!(settled(&rules(), &[("0", "")]), (1, LastResort, 1));
    assert_eq!(settled(&rules(), &[("30", "")]), (30, LastResort, 0));
    assert_eq!(settled(&rules(), &[("31", "")]), (30, LastResort, 1));
    // Which does not bind the operator.
    let long = Rules { ttl: 60, ..rules() };
    assert_eq!(settled(&long, &[("", "")]), (60, LastResort, 0));
}

#[test]
fn names_that_the_zone_keeps_for_itself_are_reported() {
    let hidden = |namespace: &str, service: &str, cluster: &str, has_endpoint: bool| {
        let mut objects = vec![mirror(namespace, service, cluster)];
        if has_endpoint {
            objects.push(endpoint(namespace, service, cluster, "h-0", &["10.96.0.1"]));
        }
        let table = table(&objects);
        let names = table.conflicts().map(|c| (c.kind.name(), c.name.clone()));
        names.collect::<Vec<_>>()
    };
    let shadowed = |name: &str| vec![("shadowed", name.to_owned())];
    assert_eq!(
        hidden("prod", "dns-version", "east", true),
        shadowed("dns-version")
    );
    assert_eq!(hidden("prod", "dns-version", "east", false), []);
    assert_eq!(hidden("prod", "dns", "ns", true), shadowed("ns.dns"));
    assert_eq!(hidden("prod", "dns", "ns", false), []);
    assert_eq!(hidden("prod", "dns", "east", true), []);
    assert_eq!(hidden("dns", "ns", "east", true), shadowed("ns.dns"));
    assert_eq!(hidden("dns", "ns", "east", false), []);
}

#[test]
fn a_conflict_is_news_once() {
    let contested = |objects: &[Value]| table(objects);
    let (prod, shop) = (mirror("prod", "db", "east"), mirror("shop", "db", "east"));
    let one = contested(std::slice::from_ref(&prod));
    let two = contested(&[prod.clone(), shop.clone()]);
    let news = |table: &Table, last: &Table| table.new_conflicts(last).len();
    assert_eq!((kinds(&one), kinds(&two)), (vec![], vec!["short-name"]));
    assert_eq!((news(&two, &one), news(&two, &two.clone())), (1, 0));
    let three = contested(&[
        prod,
        shop,
        mirror("prod", "web", "east"),
        mirror("shop", "web", "east"),
    ]);
    assert_eq!((news(&three, &two), news(&two, &three)), (1, 0));
}

#[test]
fn conflicts_are_called_as_metrics_call_them() {
    let names = ConflictKind::ALL.map(ConflictKind::name);
    let expected = [
        "short-name",
        "shadowed",
        "cluster-name",
        "endpoint",
        "identity",
        "headless",
        "not-exported",
        "annotation",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_short_name_that_a_flag_gives_to_nobody_is_still_known() {
    let db = "db".parse().unwrap();
    let rules = Rules {
        short_names: ShortNames::Pinned,
        pinned_names: [(db, "shop".parse().unwrap())].into(),
        ..rules()
    };
    let table = table_by(
        &rules,
        &[mirror("prod", "db", "east"), mirror("prod", "web", "east")],
    );
    let owner = |name| table.short_name(name).unwrap().owner.clone();
    let pin = "shop".parse().unwrap();
    assert_eq!(owner("db"), Err(NoOwner::Pinned(pin)));
    assert_eq!(owner("web"), Err(NoOwner::Unpinned));
    assert!(table.short_name("cache").is_none());
}

#[test]
fn a_pod_that_is_not_ready_is_listed_once() {
    let pods = |pods: &[(&str, &str, bool)]| {
        let mut objects = vec![mirror("prod", "db", "east")];
        objects.extend(local("prod", "db", pods));
        let table = table(&objects);
        let service = table.service("prod", "db").unwrap();
        (service.endpoints.len(), service.not_ready.len())
    };
    assert_eq!(
        pods(&[("db-0", "192.0.2.1", true), ("db-1", "192.0.2.2", false)]),
        (1, 1)
    );
    // Another entry says that the same pod is ready.
    assert_eq!(
        pods(&[("db-0", "192.0.2.1", true), ("db-0", "192.0.2.1", false)]),
        (1, 0)
    );
    assert_eq!(
        pods(&[("db-0", "192.0.2.1", true), ("db-0", "192.0.2.2", false)]),
        (1, 1)
    );
}

#[test]
fn an_object_of_another_namespace_is_another_object() {
    let mut inputs = inputs(&[mirror("prod", "db", "east"), mirror("shop", "db", "east")]);
    let dirty = inputs.delete(Watch::MirrorServices, ObjectKey::new("prod", "db-east"));
    assert_eq!(dirty, [key_of("prod", "db")].into());
    assert_eq!(inputs.services(), [key_of("shop", "db")].into());
}

#[test]
fn two_entries_without_a_pod_are_one_if_one_source_gives_each_family() {
    let conflicts = |local_ips: &[&str], link_ip: Option<&str>| {
        let [mut service, slice] = local("prod", "db", &[]);
        service["metadata"]["labels"] = json!({key::EXPORTED: "true"});
        let mut objects = vec![service];
        for (number, ip) in local_ips.iter().enumerate() {
            let mut slice = slice.clone();
            slice["metadata"]["name"] = json!(format!("db-{number}"));
            slice["endpoints"] = json!([{"addresses": [ip], "hostname": "db-0"}]);
            objects.push(slice);
        }
        objects.extend(link_ip.map(|_| mirror("prod", "db", "hub")));
        objects.extend(link_ip.map(|ip| endpoint("prod", "db", "hub", "db-0", &[ip])));
        let table = table(&objects);
        let kinds = kinds(&table);
        kinds.iter().filter(|kind| **kind == "endpoint").count()
    };
    assert_eq!(conflicts(&["192.0.2.1", "2001:db8::1"], None), 0);
    assert_eq!(conflicts(&["192.0.2.1", "192.0.2.1"], None), 0);
    assert_eq!(conflicts(&["192.0.2.1", "192.0.2.2"], None), 1);
    assert_eq!(conflicts(&["2001:db8::1", "2001:db8::2"], None), 1);
    assert_eq!(conflicts(&["192.0.2.1"], Some("2001:db8::1")), 1);
}
