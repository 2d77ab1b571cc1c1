//! Isolation of namespaces: objects in one namespace never change the answers for canonical names of another namespace,
//! to the octet. Short names change only with a reported conflict.

mod forgeries;

use crate::table::Timers;
use std::sync::LazyLock;
use std::time::Duration;

use crate::testing::support::query::Parts;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model::{Kind, KubeObject, Object, ObjectKey, Problem, key, parse};
use crate::table::{Rules, Service, Store, Table, build};
use crate::testing::{
    endpoint, exported, gateway, local, mirror, published, rules, table_by, zones,
};
use crate::wire::{Access, QueryContext, ResponseSettings, Transport, parse as read_query};
use crate::wire::{respond, write};
use crate::zone::{AnswerOrder, RecordType};

use forgeries::{any_forgery, any_rules, forgeries};

const VICTIM: &str = "prod";

/// Returns the services of the victim's namespace: one with all kinds of endpoints, one in one cluster, one with all
/// gateways down, one without endpoints, and one of this cluster only.
fn victim() -> Vec<Value> {
    let with_overrides = |mut object: Value| {
        object["metadata"]["annotations"] =
            json!({key::TTL: "9", key::GATEWAY_DOWN: "last-resort"});
        object
    };
    let mut objects = vec![
        with_overrides(mirror(VICTIM, "db", "east")),
        endpoint(VICTIM, "db", "east", "db-0", &["10.96.0.1", "2001:db8::1"]),
        endpoint(VICTIM, "db", "east", "db-1", &["10.96.0.2"]),
        gateway(VICTIM, "db-1-east", false),
        mirror(VICTIM, "db", "west"),
        endpoint(VICTIM, "db", "west", "db-0", &["10.96.0.3"]),
        gateway(VICTIM, "db-0-west", true),
        mirror(VICTIM, "cache", "east"),
        endpoint(VICTIM, "cache", "east", "cache-0", &["10.96.0.4"]),
        mirror(VICTIM, "down", "west"),
        endpoint(VICTIM, "down", "west", "down-0", &["10.96.0.5"]),
        gateway(VICTIM, "down-0-west", false),
        mirror(VICTIM, "idle", "east"),
    ];
    objects.extend(local(
        VICTIM,
        "db",
        &[("db-0", "192.0.2.1", true), ("db-1", "192.0.2.2", false)],
    ));
    let [mut solo, slice] = local(VICTIM, "solo", &[("solo-0", "192.0.2.3", true)]);
    solo["metadata"]["labels"] = json!({key::EXPORTED: "true"});
    objects.extend([solo, slice]);
    objects
}

const SERVICES: [&str; 5] = ["db", "cache", "down", "idle", "solo"];

/// Returns names at and below a service of the victim. Their labels exist there or are used by an attacker.
fn names_below(base: &str) -> Vec<String> {
    let clusters = ["east", "west", "hub", "north", "db"];
    let hosts = [
        "db-0", "db-1", "cache-0", "down-0", "solo-0", "evil-0", "east",
    ];
    let mut scopes = vec![base.to_owned()];
    for cluster in clusters {
        scopes.push(format!("{cluster}.{base}"));
        scopes.extend(hosts.iter().map(|host| format!("{host}.{cluster}.{base}")));
    }
    let prefixes = ["", "_sql._tcp.", "_dns._udp.", "_evil._tcp.", "_tcp."];
    let named = |scope: &String| prefixes.map(|prefix| format!("{prefix}{scope}.global"));
    scopes.iter().flat_map(named).collect()
}

/// Names, and the questions for each of them and each type. They are the same in all cases.
struct Questions {
    names: Vec<String>,
    packets: Vec<Vec<u8>>,
}

static CANONICAL: LazyLock<Questions> = LazyLock::new(|| {
    let base = |service: &&str| names_below(&format!("{service}.{VICTIM}"));
    Questions::of(SERVICES.iter().flat_map(base).collect())
});

static SHORT: LazyLock<Questions> = LazyLock::new(|| {
    let names = SERVICES.iter().flat_map(|service| names_below(service));
    Questions::of(names.collect())
});

impl Questions {
    fn of(names: Vec<String>) -> Self {
        let of_name = |name: &String| [1, 28, 33].map(|rtype| Parts::new(name, rtype).packet(7).0);
        let packets = names.iter().flat_map(of_name).collect();
        Self { names, packets }
    }

    /// Returns the names whose replies differ.
    fn differences(&self, one: &[Vec<u8>], other: &[Vec<u8>]) -> Vec<&str> {
        assert_eq!((one.len(), other.len()), [self.packets.len(); 2].into());
        let pairs = one.chunks(3).zip(other.chunks(3)).zip(&self.names);
        let differing = pairs.filter(|((one, other), _)| one != other);
        differing.map(|(_, name)| name.as_str()).collect()
    }
}

/// A server without sockets, which takes objects and returns replies.
struct Server {
    store: Store,
    table: Table,
    rules: Rules,
    settings: ResponseSettings,
}

impl Server {
    fn new(rules: Rules) -> Self {
        let settings = ResponseSettings {
            zones: zones(&["global"]),
            access: Access::around(&[]),
            order: AnswerOrder::Rotate,
            udp_max: 1232,
            server_id: "server".to_owned(),
            tcp_idle: Duration::from_secs(30),
        };
        let (store, table) = (Store::default(), Table::default());
        Self {
            store,
            table,
            rules,
            settings,
        }
    }

    fn of(rules: Rules, objects: &[Value]) -> Self {
        let mut server = Self::new(rules);
        server.list(objects);
        server
    }

    /// Lists all objects again, as after a restart.
    fn list(&mut self, objects: &[Value]) {
        self.store = Store::default();
        for object in objects {
            if let Some((kind, key, object)) = read_object(object) {
                self.store.apply(kind, key, Some(object));
            }
        }
        let dirty = self.store.services();
        self.table = build(
            &Table::default(),
            &self.store,
            &dirty,
            &self.rules,
            &Timers::default(),
        )
        .table;
    }

    /// Applies an event.
    fn apply(&mut self, object: &Value) {
        if let Some((kind, key, object)) = read_object(object) {
            let dirty = self.store.apply(kind, key, Some(object));
            self.table = build(
                &self.table,
                &self.store,
                &dirty,
                &self.rules,
                &Timers::default(),
            )
            .table;
        }
    }

    fn delete(&mut self, object: &Value) {
        if let Some((kind, key, _)) = read_object(object) {
            let dirty = self.store.apply(kind, key, None);
            self.table = build(
                &self.table,
                &self.store,
                &dirty,
                &self.rules,
                &Timers::default(),
            )
            .table;
        }
    }

    /// Returns the complete replies to questions, in wire format.
    fn replies(&self, questions: &Questions) -> Vec<Vec<u8>> {
        let now = published(self.table.clone());
        let mut out = vec![0; 4096];
        let mut reply = |packet: &Vec<u8>| {
            let query = read_query(packet);
            let context = QueryContext {
                transport: Transport::Tcp,
                is_allowed: true,
                turn: 0,
            };
            let reply = respond(&self.settings, &now, &query, &context).unwrap();
            let written = write(&reply, &query, packet, &mut out);
            assert!(!written.is_truncated);
            out[..written.length].to_vec()
        };
        questions.packets.iter().map(&mut reply).collect()
    }

    /// Returns the existing names for which another server has different records. Additional records are ignored, and
    /// SRV targets may be canonical or short. Names that do not exist here may exist there.
    fn other_records<'n>(&self, other: &Self, names: &[&'n str]) -> Vec<&'n str> {
        let types = [RecordType::A, RecordType::AAAA, RecordType::SRV];
        let ask = |server: &Self, name: &str| {
            types.map(|rtype| {
                let records = super::ask(&server.settings.zones, &server.table, name, rtype);
                records.replace(&format!(".{VICTIM}.global."), ".global.")
            })
        };
        let differing = names.iter().filter(|name| {
            let here = ask(self, name);
            here != ask(other, name) && !here[0].starts_with("NXDOMAIN")
        });
        differing.copied().collect()
    }

    /// Returns whether a name has no records.
    fn has_no_records(&self, name: &str) -> bool {
        let (zones, table) = (&self.settings.zones, &self.table);
        [RecordType::A, RecordType::AAAA, RecordType::SRV]
            .iter()
            .all(|rtype| {
                let answer = super::ask(zones, table, name, *rtype);
                answer.starts_with("NXDOMAIN") || answer.starts_with("NODATA")
            })
    }

    /// Returns the services of the victim.
    fn services(&self) -> Vec<Option<Service>> {
        let service = |name: &str| self.table.service(VICTIM, name).cloned();
        SERVICES.map(service).into()
    }

    /// Returns whether a reported conflict of short names explains a different answer for a name.
    fn explains(&self, name: &str) -> bool {
        let name = name.strip_suffix(".global").unwrap();
        let is_below = |owner: &str| name == owner || name.ends_with(&format!(".{owner}"));
        let concerns = |conflict: Problem| {
            let kind = conflict.kind.name();
            ["short-name", "shadowed"].contains(&kind) && is_below(&conflict.subject())
        };
        self.table.conflicts().any(concerns)
    }
}

/// Reads an object, if it matters.
fn read_object(object: &Value) -> Option<(Kind, ObjectKey, Object)> {
    let kind = if object["addressType"].is_null() {
        Kind::Service
    } else {
        Kind::EndpointSlice
    };
    let json = object.to_string();
    let read = KubeObject::read(&json);
    let (key, object) = parse::reduce(kind, &read)?;
    Some((kind, key, object))
}

/// The services of the victim, and the replies for their canonical names.
struct Untouched {
    services: Vec<Option<Service>>,
    replies: Vec<Vec<u8>>,
}

impl Untouched {
    fn of(server: &Server) -> Self {
        Self {
            services: server.services(),
            replies: server.replies(&CANONICAL),
        }
    }

    /// Asserts that another server has the same services and replies.
    fn assert_equals(&self, server: &Server) -> Result<(), TestCaseError> {
        prop_assert_eq!(&self.services, &server.services());
        let replies = server.replies(&CANONICAL);
        let differing = CANONICAL.differences(&self.replies, &replies);
        prop_assert_eq!(differing, Vec::<&str>::new());
        Ok(())
    }
}

/// Limits the number of cases to a hundred. The environment may set fewer.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        // A hundred of the 256 cases of other tests, because each builds many tables.
        cases: config.cases * 100 / 256,
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn forged_objects_change_no_name_of_another_namespace(
        forgeries in prop::collection::vec(any_forgery(), 1..40),
        rules in any_rules(),
    ) {
        let before = Server::of(rules.clone(), &victim());
        let mut after = Server::of(rules.clone(), &victim());
        for forgery in &forgeries {
            after.apply(forgery);
        }
        let untouched = Untouched::of(&before);
        untouched.assert_equals(&after)?;
        // A short name may lose its owner, which is reported, but it never gets another owner. A flag protects it.
        let (short_before, short) = (before.replies(&SHORT), after.replies(&SHORT));
        let changed = SHORT.differences(&short_before, &short);
        for name in before.other_records(&after, &changed) {
            prop_assert!(after.explains(name), "{} changed without a reported conflict", name);
            if name.split('.').count() == 2 {
                prop_assert!(after.has_no_records(name), "{} changed its owner", name);
                prop_assert_eq!(&rules.default_namespace, &None, "{}", name);
            }
        }
        // A restart lists all objects at once, in any order, and changes nothing.
        for objects in [[victim(), forgeries.clone()].concat(), [forgeries.clone(), victim()].concat()] {
            let restarted = Server::of(rules.clone(), &objects);
            untouched.assert_equals(&restarted)?;
            let differing = SHORT.differences(&short, &restarted.replies(&SHORT));
            prop_assert_eq!(differing, Vec::<&str>::new());
        }
        // Deleted objects have no effect.
        for forgery in &forgeries {
            after.delete(forgery);
        }
        untouched.assert_equals(&after)?;
        let differing = SHORT.differences(&short_before, &after.replies(&SHORT));
        prop_assert_eq!(differing, Vec::<&str>::new());
    }
}

fn moved(mut object: Value, namespace: &str) -> Value {
    let annotations = &mut object["metadata"]["annotations"];
    if let Some(fq_name) = annotations.get(key::REMOTE_FQ_NAME).and_then(Value::as_str) {
        let own = fq_name.replace(".evil.", &format!(".{namespace}."));
        annotations[key::REMOTE_FQ_NAME] = json!(own);
    }
    object["metadata"]["namespace"] = json!(namespace);
    object
}

#[test]
fn no_parsed_field_affects_another_namespace() {
    let before = Untouched::of(&Server::of(rules(), &victim()));
    for (field, objects) in forgeries() {
        let after = Server::of(rules(), &[victim(), objects.clone()].concat());
        if let Err(error) = before.assert_equals(&after) {
            panic!("{field}: {error}");
        }
        // The same objects in the victim's namespace have an effect, so the assertion above can fail.
        let own = objects
            .into_iter()
            .map(|object| moved(object, VICTIM))
            .collect();
        let own = Server::of(rules(), &[victim(), own].concat());
        assert!(
            before.assert_equals(&own).is_err(),
            "{field} has no effect in its own namespace"
        );
    }
}

/// Returns a service with the name of the victim's namespace, in a cluster with the name of one of the victim's
/// services. Its short names are `db.prod.global` and names below it.
fn namesake(cluster: &str, host: &str) -> Vec<Value> {
    vec![
        mirror("evil", VICTIM, cluster),
        endpoint("evil", VICTIM, cluster, host, &["10.66.6.6"]),
    ]
}

#[test]
fn short_name_never_replaces_an_equal_canonical_name() {
    let before = Untouched::of(&Server::of(rules(), &victim()));
    for (service, host) in [
        ("db", "north"),
        ("db", "east"),
        ("idle", "evil-0"),
        ("down", "west"),
        ("solo", "hub"),
    ] {
        let after = Server::of(rules(), &[victim(), namesake(service, host)].concat());
        if let Err(error) = before.assert_equals(&after) {
            panic!("{service}, {host}: {error}");
        }
        let name = format!("{service}.{VICTIM}.global");
        assert!(
            after.explains(&name),
            "no conflict reports that {name} does not belong to evil/prod"
        );
    }
}

#[test]
fn srv_targets_never_have_addresses_of_another_service() {
    let server = Server::of(rules(), &[victim(), namesake("db", "east")].concat());
    let additional = |name: &str| server.replies(&Questions::of(vec![name.to_owned()]))[2][11];
    assert_eq!(additional("_sql._tcp.prod.global"), 1);
    assert_eq!(additional("_sql._tcp.prod.evil.global"), 1);
    assert_eq!(additional("_sql._tcp.db.prod.global"), 4);
    // As a short name, the target would be `east.db.prod.global`, a name of the victim.
    let srv = |name| super::ask(&server.settings.zones, &server.table, name, RecordType::SRV);
    assert_eq!(
        srv("_sql._tcp.prod.global"),
        srv("_sql._tcp.prod.evil.global")
    );
    assert!(srv("_sql._tcp.prod.global").ends_with(" east.db.prod.evil.global."));
}

/// A cluster `east` of service `db` in namespace `prod`, with the short name `east.db.global`.
fn cluster_of_db() -> Vec<Value> {
    vec![
        mirror("prod", "db", "east"),
        endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
    ]
}

/// Returns a Service of this cluster that is no member and has one annotation.
fn with_setting(namespace: &str, service: &str, annotation: &str, value: &str) -> Value {
    let mut service = exported(namespace, service, "10.96.9.9");
    service["metadata"]["labels"] = json!({});
    service["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:01Z");
    service["metadata"]["annotations"] = json!({annotation: value});
    service
}

fn answers(rules: &Rules, objects: &[Value], names: &[&str]) -> Vec<String> {
    let (zones, table) = (zones(&["global"]), table_by(rules, objects));
    let ask = |name: &&str| {
        if name.starts_with('_') {
            super::ask(&zones, &table, name, RecordType::SRV)
        } else {
            super::ask(&zones, &table, name, RecordType::A)
        }
    };
    names.iter().map(ask).collect()
}

const NAMES_OF_EAST: [&str; 6] = [
    "east.db.global",
    "db-0.east.db.global",
    "_sql._tcp.east.db.global",
    "_other._tcp.east.db.global",
    "_sql._tcp.db.global",
    "db-9.east.db.global",
];

#[test]
fn settings_and_skipped_objects_hide_no_names() {
    let expected = answers(&rules(), &cluster_of_db(), &NAMES_OF_EAST);
    assert_eq!(expected[0], "A 10.96.0.1");
    assert_eq!(expected[2], "SRV 0 10 26257 db-0.east.db.global.");
    let ordered = Rules {
        services: [(
            crate::model::ServiceKey {
                namespace: "db".parse().unwrap(),
                service: "east".parse().unwrap(),
            },
            crate::testing::ordered("west"),
        )]
        .into(),
        ..rules()
    };
    let setting = |key, value| vec![with_setting("db", "east", key, value)];
    for (case, rules, objects) in [
        (
            "expected clusters",
            rules(),
            setting(key::EXPECTED_CLUSTERS, "west"),
        ),
        (
            "an invalid annotation",
            rules(),
            setting(key::EXPECTED_CLUSTERS, "west,"),
        ),
        (
            "a failover order",
            rules(),
            setting(key::FAILOVER, "west:*"),
        ),
        ("a flag", ordered, Vec::new()),
        (
            "an endpoint mirror without its parent",
            rules(),
            vec![endpoint("db", "east", "west", "east-0", &["10.96.6.6"])],
        ),
    ] {
        let all = [cluster_of_db(), objects.clone()].concat();
        assert_eq!(answers(&rules, &all, &NAMES_OF_EAST), expected, "{case}");
        let table = table_by(&rules, &all);
        assert_eq!(table.name_problems().count(), 0, "{case}");
    }
}

/// Nobody else has the name.
#[test]
fn closed_gate_without_any_member_fails_its_own_name_only() {
    let gate =
        |namespace, service| with_setting(namespace, service, key::EXPECTED_CLUSTERS, "west");
    assert_eq!(
        answers(
            &rules(),
            &[gate("db", "east")],
            &["east.db.global", "west.east.db.global", "east.global"]
        ),
        ["SERVFAIL", "NXDOMAIN global.", "NXDOMAIN global."]
    );
    // A flag assigns the short name to the namespace of the settings.
    let by_default = Rules {
        default_namespace: Some("shop".parse().unwrap()),
        ..rules()
    };
    let pinned = Rules {
        pinned_names: [("db".parse().unwrap(), "shop".parse().unwrap())].into(),
        ..rules()
    };
    let alone = [gate("shop", "db")];
    let both = [cluster_of_db(), alone.to_vec()].concat();
    for (rules, objects, answer) in [
        (&by_default, &alone[..], "SERVFAIL"),
        (&by_default, &both[..], "A 10.96.0.1"),
        (&pinned, &alone[..], "SERVFAIL"),
        // A pinned name has no fallback.
        (&pinned, &both[..], "SERVFAIL"),
    ] {
        assert_eq!(answers(rules, objects, &["db.global"]), [answer]);
    }
}

#[test]
fn member_without_endpoints_keeps_its_names() {
    let [mut own, _] = local("db", "east", &[]);
    own["metadata"]["labels"] = json!({key::EXPORTED: "true"});
    for (case, object) in [
        ("a headless mirror", mirror("db", "east", "west")),
        ("an exported headless Service", own),
    ] {
        let all = [cluster_of_db(), vec![object]].concat();
        assert_eq!(
            answers(&rules(), &all, &NAMES_OF_EAST[..2]),
            ["NXDOMAIN global."; 2],
            "{case}"
        );
        let conflicts: Vec<_> = table_by(&rules(), &all)
            .name_problems()
            .map(Problem::subject)
            .collect();
        assert_eq!(conflicts, ["east.db"], "{case}");
    }
}
