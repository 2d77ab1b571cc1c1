mod changes;
mod imports;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::model::{Problem, ProblemKind, Watch};
use crate::table::Endpoint;
use crate::testing::{
    endpoint, exported, federated, flat_mirror, gateway, local, mirror, parsed, rules,
    service_mirror, store,
};

const DELAYS: Delays = Delays {
    failover: Duration::from_secs(2),
    failback: Duration::from_secs(30),
};

/// A table with the states of its services.
struct World {
    rules: Rules,
    store: Store,
    table: Table,
    /// The services whose gate opened.
    opened: Vec<ServiceKey>,
    /// The times at which states can change although nothing else happens.
    wakes: BTreeMap<ServiceKey, u64>,
}

impl World {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            store: Store::default(),
            table: Table::default(),
            opened: Vec::new(),
            wakes: BTreeMap::new(),
        }
    }

    /// Replaces all objects at a time in milliseconds, and returns the changes of steps.
    fn set(&mut self, now: u64, objects: &[Value]) -> Vec<String> {
        let mut next = store(objects);
        let mut dirty = next.services();
        dirty.extend(self.store.services());
        for (service, state) in self.store.states() {
            next.set_state(service, state.clone());
        }
        self.store = next;
        self.publish(now, &dirty)
    }

    /// Applies the change of one object, or its deletion.
    fn apply(&mut self, now: u64, watch: Watch, object: &Value, exists: bool) -> Vec<String> {
        let (key, object) = parsed(watch, object);
        let dirty = if exists {
            self.store.apply(watch, key, object)
        } else {
            self.store.delete(watch, key)
        };
        self.publish(now, &dirty)
    }

    /// Builds services that changed, and returns the changes of steps.
    fn publish(&mut self, now: u64, dirty: &ServiceKeys) -> Vec<String> {
        let had_state: ServiceKeys = self.store.states().keys().cloned().collect();
        let before = self.table.clone();
        let built = build(&self.table, &self.store, dirty, &self.rules);
        let advanced = advance(built, &mut self.store, &self.rules, Timestamp(now), DELAYS);
        self.table = advanced.built.table;
        self.opened.extend(advanced.opened);
        if self.table != before {
            assert!(advanced.built.is_changed);
        }
        // Services without a state cost nothing.
        for (service, wake) in &advanced.wakes {
            assert!(had_state.contains(service) || self.store.state(service).is_some());
            match wake {
                Some(wake) => self.wakes.insert(service.clone(), wake.0),
                None => self.wakes.remove(service),
            };
        }
        for (key, state) in self.store.states() {
            let service = self
                .table
                .service(key.namespace.as_str(), key.service.as_str());
            if state.gone_since.is_none() {
                let service = service.expect("a service with a state");
                let settings = state.settings.clone();
                let shown = ServiceState {
                    settings,
                    ..ServiceState::of(&self.table, service)
                };
                assert_eq!(shown, *state);
            }
        }
        // A build of all services from the same store gives the same table.
        let mut all = self.store.services();
        all.extend(self.rules.expected_clusters.keys().cloned());
        let full = build(&Table::default(), &self.store, &all, &self.rules);
        assert_eq!(full.table, self.table);
        let changes = advanced.transitions.iter();
        changes
            .map(|one| format!("{} -> {} {:?}", one.from, one.to, one.reason))
            .collect()
    }

    fn service(&self) -> &Service {
        self.table.service("prod", "db").expect("prod/db")
    }

    /// Returns the clusters that the name of the service returns.
    fn answer(&self) -> Vec<&str> {
        Self::answer_of(self.service())
    }

    fn answer_of(service: &Service) -> Vec<&str> {
        let includes_down = service.name_addresses.includes_down;
        let is_returned = |e: &&Endpoint| e.is_selected && (e.alive || includes_down);
        let endpoints = service.endpoints.iter().filter(is_returned);
        let mut clusters: Vec<&str> = endpoints.map(|endpoint| endpoint.labels()[1]).collect();
        clusters.dedup();
        clusters
    }
}

/// Returns the headless mirrors of east and west, each with one endpoint. Dead ones have a gateway that is down.
fn headless(east: bool, west: bool) -> Vec<Value> {
    let cluster = |cluster: &str, ip: &str, alive: bool| {
        let host = format!("db-0-{cluster}");
        [
            mirror("prod", "db", cluster),
            endpoint("prod", "db", cluster, "db-0", &[ip]),
            gateway("prod", &host, alive),
        ]
    };
    [
        cluster("east", "10.0.0.1", east),
        cluster("west", "10.0.0.2", west),
    ]
    .concat()
}

/// Returns the Service of this cluster with an annotation and without pods.
fn annotated(key: &str, value: &str) -> Value {
    let [mut service, _] = local("prod", "db", &[]);
    service["metadata"]["annotations"][key] = json!(value);
    service
}

fn with(objects: Vec<Value>, other: Value) -> Vec<Value> {
    objects.into_iter().chain([other]).collect()
}

fn order(text: &str) -> Value {
    annotated("global-dns/failover", text)
}

#[test]
fn annotation_moves_the_name_and_no_other_name() {
    let mut world = World::new(rules());
    world.set(0, &headless(true, true));
    assert_eq!(world.answer(), ["east", "west"]);
    let changes = world.set(1, &with(headless(true, true), order("east:west")));
    assert_eq!((world.answer(), changes.len()), (vec!["east"], 0));
    let changes = world.set(2, &with(headless(true, true), order("west")));
    assert_eq!(world.answer(), ["west"]);
    assert_eq!(changes, ["east -> west NewOrder"]);
    assert_eq!(world.service().in_cluster("east").len(), 1);
    world.set(3, &with(headless(true, true), annotated("other", "")));
    assert_eq!(world.answer(), ["east", "west"]);
}

#[test]
fn dead_step_is_left_after_the_delay_and_preferred_again_after_the_other() {
    let mut world = World::new(rules());
    let objects = |east, west| with(headless(east, west), order("east:west"));
    world.set(0, &objects(true, true));
    assert!(world.set(1_000, &objects(false, true)).is_empty());
    // The answer is not empty while the delay lasts.
    assert_eq!(world.answer(), ["east"]);
    assert!(world.set(2_999, &objects(false, true)).is_empty());
    assert_eq!(
        world.set(3_000, &objects(false, true)),
        ["east -> west Dead"]
    );
    assert_eq!(world.answer(), ["west"]);
    assert!(world.set(4_000, &objects(true, true)).is_empty());
    assert_eq!(
        world.set(34_000, &objects(true, true)),
        ["west -> east Recovered"]
    );
    // Both are dead: the step that answered last goes on.
    world.set(40_000, &objects(false, false));
    assert!(world.set(99_000, &objects(false, false)).is_empty());
    assert_eq!(world.answer(), ["east"]);
}

#[test]
fn mirror_that_disappears_for_a_moment_causes_no_failover_of_another_step() {
    let mut world = World::new(rules());
    let [east, west] = ["east", "west"].map(|cluster| {
        let ip = format!("10.0.0.{}", cluster.len());
        flat_mirror("prod", "db", cluster, &ip)
    });
    world.set(0, &[east.clone(), west.clone(), order("west:east")]);
    assert_eq!(world.answer(), ["west"]);
    assert!(
        world
            .set(10, &[west.clone(), order("west:east")])
            .is_empty()
    );
    assert!(world.set(70, &[east, west, order("west:east")]).is_empty());
    assert_eq!(world.answer(), ["west"]);
}

#[test]
fn cluster_ip_mirror_without_its_slice_waits_for_the_delay() {
    let mut world = World::new(rules());
    let mirrors = ["east", "west"].map(|cluster| {
        let ip = format!("10.0.0.{}", cluster.len());
        service_mirror("prod", "db", cluster, &ip)
    });
    let slices = ["east", "west"]
        .map(|cluster| crate::testing::backends("prod", &format!("db-{cluster}"), true, true));
    let all = |slices: &[Value]| [&mirrors[..], slices, &[order("west:east")]].concat();
    world.set(0, &all(&slices));
    assert_eq!(world.answer(), ["west"]);
    // Linkerd deletes and creates a slice within 35 milliseconds.
    assert!(world.set(10, &all(&slices[..1])).is_empty());
    assert!(world.set(45, &all(&slices)).is_empty());
    assert_eq!(world.answer(), ["west"]);
}

#[test]
fn default_order_applies_to_services_that_are_not_headless() {
    let rules = Rules {
        failover: Some("local:*".parse().unwrap()),
        ..rules()
    };
    let mut world = World::new(rules.clone());
    world.set(0, &headless(true, true));
    assert_eq!(world.answer(), ["east", "west"]);
    assert_eq!(world.service().failover, None);
    let mut world = World::new(rules);
    let mirror = flat_mirror("prod", "db", "east", "10.0.0.1");
    let own = [
        exported("prod", "db", "10.0.0.9"),
        crate::testing::backends("prod", "db", false, true),
    ];
    world.set(0, &[&[mirror.clone()][..], &own].concat());
    assert_eq!(world.answer(), ["hub"]);
    world.set(1, &[mirror]);
    assert_eq!(world.answer(), ["east"]);
}

#[test]
fn first_setting_decides_the_order() {
    let key = store(&headless(true, true)).services().pop_first().unwrap();
    let rules = Rules {
        service_failover: [(key, "west".parse().unwrap())].into(),
        ..rules()
    };
    let mut world = World::new(rules);
    world.set(0, &headless(true, true));
    assert_eq!(world.answer(), ["west"]);
    world.set(1, &with(headless(true, true), order("east")));
    assert_eq!(world.answer(), ["east"]);
    // An invalid annotation is reported, and the flag decides.
    world.set(2, &with(headless(true, true), order("east,west")));
    assert_eq!(world.answer(), ["west"]);
    let conflicts: Vec<&str> = world.table.conflicts().map(|c| &*c.detail).collect();
    assert!(
        conflicts.iter().any(|detail| detail.starts_with(
            "annotation global-dns/failover=east,west is invalid: 'east,west' is not the name of a cluster"
        )),
        "{conflicts:?}"
    );
}

#[test]
fn annotations_of_mirrors_are_ignored_and_shown() {
    let mut objects = headless(true, true);
    for object in &mut objects {
        object["metadata"]["annotations"]["global-dns/failover"] = json!("west");
        object["metadata"]["annotations"]["global-dns/expected-clusters"] = json!("mars");
    }
    let mut world = World::new(rules());
    world.set(0, &objects);
    assert_eq!(world.answer(), ["east", "west"]);
    assert_eq!(world.service().failover, None);
    assert!(world.service().awaited().is_empty());
    let problems = &world.service().problems;
    let is_ignored = |one: &&Problem| one.kind == ProblemKind::IgnoredAnnotation;
    assert_eq!(problems.iter().filter(is_ignored).count(), 4);
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let first = "Annotation of a mirror is ignored: Service/prod/db-east: global-dns/failover=west";
    assert!(texts.iter().any(|text| text == first), "{texts:?}");
}

#[test]
fn order_does_not_apply_to_a_federated_service() {
    let mut world = World::new(rules());
    let objects = [
        federated("prod", "db", "10.0.0.5", "db@east,db@west"),
        order("east"),
    ];
    world.set(0, &objects);
    assert_eq!(world.service().failover, None);
    let unused = world.service().unused_order.as_deref().unwrap();
    assert_eq!(unused.0.to_string(), "east");
    assert_eq!(world.service().endpoints.len(), 1);
    assert!(world.service().endpoints[0].is_selected);
}

#[test]
fn flat_step_hides_the_steps_after_it() {
    let mut world = World::new(rules());
    let mirrors = ["east", "west"].map(|cluster| {
        let ip = format!("10.0.0.{}", cluster.len());
        flat_mirror("prod", "db", cluster, &ip)
    });
    let step = |world: &World| world.service().failover.as_ref().unwrap().flat_step();
    world.set(0, &[&mirrors[..], &[order("east:west")]].concat());
    assert_eq!(step(&world), Some(0));
    world.set(1, &[&mirrors[..], &[order("north:east+west")]].concat());
    assert_eq!(step(&world), None);
}

#[test]
fn service_for_annotations_only_is_no_member() {
    let mut policy = exported("prod", "db", "10.0.0.9");
    policy["metadata"]["labels"] = json!({"global-dns/policy": "true"});
    policy["metadata"]["annotations"] = json!({"global-dns/failover": "west:*"});
    let mut world = World::new(rules());
    world.set(0, &with(headless(true, true), policy.clone()));
    assert_eq!(world.answer(), ["west"]);
    assert!(world.service().in_cluster("hub").is_empty());
    world.set(1, &[policy]);
    assert!(world.table.service("prod", "db").is_none());
    // A headless Service without pods is no conflict either.
    world.set(2, &with(headless(true, true), order("west")));
    assert_eq!(world.table.conflicts().count(), 0);
}

#[test]
fn name_waits_for_expected_clusters() {
    let expected = || annotated("global-dns/expected-clusters", "east+west");
    let mut world = World::new(rules());
    // No mirror exists yet, and the Service of this cluster is no member.
    world.set(0, &[expected()]);
    let awaited = |world: &World| {
        let awaited = world.service().awaited().iter();
        awaited.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(awaited(&world), ["east", "west"]);
    assert!(world.table.of(Profile::Global).has_names_in("prod"));
    assert!(world.opened.is_empty());
    let (east, all) = (headless(true, true)[..3].to_vec(), headless(true, false));
    world.set(1, &with(east, expected()));
    assert_eq!(awaited(&world), ["west"]);
    // An endpoint that is not alive counts as well.
    world.set(2, &with(all, expected()));
    assert!(awaited(&world).is_empty());
    assert_eq!(world.opened.len(), 1);
    // An open gate stays open.
    world.set(3, &[expected()]);
    assert!(awaited(&world).is_empty());
    assert_eq!(world.opened.len(), 1);
}

#[test]
fn flag_names_expected_clusters_without_any_object() {
    let key = store(&headless(true, true)).services().pop_first().unwrap();
    let rules = Rules {
        expected_clusters: [(key, crate::model::expected_clusters("east+west").unwrap())].into(),
        ..rules()
    };
    let mut world = World::new(rules);
    world.set(0, &[]);
    assert_eq!(world.service().awaited().len(), 2);
    world.set(1, &headless(true, true));
    assert!(world.service().awaited().is_empty());
    // The annotation comes before the flag.
    let other = annotated("global-dns/expected-clusters", "north");
    let mut world = World::new(world.rules);
    world.set(0, &with(headless(true, true), other));
    assert_eq!(world.service().awaited().len(), 1);
}

#[test]
fn federated_service_counts_the_clusters_of_its_annotation() {
    let mut world = World::new(rules());
    let expected = annotated("global-dns/expected-clusters", "east+west");
    world.set(
        0,
        &[
            federated("prod", "db", "10.0.0.5", "db@east"),
            expected.clone(),
        ],
    );
    assert_eq!(world.service().awaited().len(), 1);
    world.set(
        1,
        &[
            federated("prod", "db", "10.0.0.5", "db@east,db@west"),
            expected,
        ],
    );
    assert!(world.service().awaited().is_empty());
}

#[test]
fn old_mirror_counts_although_it_has_no_endpoint() {
    let mut world = World::new(rules());
    let mut mirrors = ["east", "west"].map(|cluster| mirror("prod", "db", cluster));
    for mirror in &mut mirrors {
        mirror["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    let objects = with(
        mirrors.to_vec(),
        annotated("global-dns/expected-clusters", "east+west"),
    );
    let created = 1_767_225_600_000; // 2026-01-01
    world.set(created + 1_000, &objects);
    assert_eq!(world.service().awaited().len(), 2);
    world.set(created + 3_600_000, &objects);
    assert!(world.service().awaited().is_empty());
}

/// A snapshot is a file that anybody may have edited.
#[test]
fn state_that_contradicts_itself_is_removed() {
    let step = json!({"health": "alive", "since": 5});
    let state = |answering: u64, steps: &[Value]| {
        let failover = json!({"order": "east:west", "answering": answering, "steps": steps});
        let state: ServiceState =
            serde_json::from_value(json!({"failover": failover, "gate": null})).unwrap();
        state
            .validated()
            .failover
            .map(|failover| failover.answering)
    };
    let steps = [step.clone(), step.clone()];
    assert_eq!(state(1, &steps), Some(1));
    assert_eq!(state(2, &steps), None);
    assert_eq!(state(0, &steps[..1]), None);
    assert_eq!(state(0, &[]), None);
}

/// The system clock may have been set back since the state was saved.
#[test]
fn time_in_the_future_postpones_a_change_by_one_delay_at_most() {
    let health = [StepHealth::Dead, StepHealth::Alive];
    let order: crate::model::FailoverOrder = "east:west".parse().unwrap();
    let mut state = FailoverState::new(order.clone(), &[StepHealth::Alive; 2], Timestamp(0));
    state.steps[0] = crate::table::failover::StepState {
        health: StepHealth::Dead,
        since: Timestamp(900_000),
    };
    let (state, wake) = state.next(&order, &health, Timestamp(1_000), DELAYS);
    assert_eq!((state.answering, wake), (0, Some(Timestamp(3_000))));
    let (state, _) = state.next(&order, &health, Timestamp(3_000), DELAYS);
    assert_eq!(state.answering, 1);
}
