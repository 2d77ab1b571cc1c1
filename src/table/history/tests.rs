use serde_json::{Value, json};

use super::*;
use crate::table::EndpointLiveness;
use crate::table::Table;
use crate::testing::{endpoint, gateway, local, mirror, service_keys, table};

/// A history with tables of services that have an endpoint each; its number is in the address.
struct Scene {
    history: History,
    objects: Vec<Value>,
    namespace: &'static str,
    generation: u64,
    /// Whether only services differ that change all the time.
    is_busy: bool,
}

fn at(milliseconds: u64) -> Timestamp {
    Timestamp(1_000_000 + milliseconds)
}

impl Scene {
    fn new(age: Duration) -> Self {
        Self {
            history: History::new(age, Arc::default(), at(0)),
            objects: Vec::new(),
            namespace: "prod",
            generation: 0,
            is_busy: false,
        }
    }

    /// Publishes a table in which a service has an endpoint with a number.
    fn publish(&mut self, service: &str, number: u8, time: u64) {
        self.publish_hosts(service, number, 1, time);
    }

    fn publish_hosts(&mut self, service: &str, number: u8, hosts: u8, time: u64) {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        let is_other = |object: &Value| !name(object).starts_with(&format!("{service}-"));
        self.objects.retain(is_other);
        let namespace = self.namespace;
        self.objects.push(mirror(namespace, service, "east"));
        for host in 0..hosts {
            let hostname = format!("{service}-{host}");
            let address = format!("10.{host}.0.{number}");
            let object = endpoint(namespace, service, "east", &hostname, &[&address]);
            self.objects.push(object);
        }
        self.push(service, time);
    }

    /// Publishes a table without a service.
    fn remove(&mut self, service: &str, time: u64) {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        let is_other = |object: &Value| !name(object).starts_with(&format!("{service}-"));
        self.objects.retain(is_other);
        self.push(service, time);
    }

    fn push(&mut self, service: &str, time: u64) {
        self.generation += 1;
        let next = published(table(&self.objects), self.generation);
        let mut key = service_keys(&[service]).pop_first().unwrap();
        key.namespace = self.namespace.parse().unwrap();
        let mut keys: ServiceKeys = [key].into();
        // Those of an earlier name.
        let last = self.history.current.table.as_ref();
        for service in last.iter().flat_map(|table| table.services()) {
            if next.table.as_ref().unwrap().find(&service.key) != Some(service) {
                keys.insert(service.key.clone());
            }
        }
        self.push_table(next, keys, Difference::Answers, time);
    }

    fn push_table(
        &mut self,
        next: Arc<Published>,
        services: ServiceKeys,
        difference: Difference,
        time: u64,
    ) -> Option<Arc<Published>> {
        let built = Built {
            difference,
            services,
            is_busy: self.is_busy,
            ..Built::default()
        };
        self.history.push(next, &built, at(time))
    }

    fn moment_at(&self, time: u64) -> Moment {
        self.history.at(at(time)).unwrap().moment()
    }

    /// Returns the number of a service at a time: 0 if it has no endpoint.
    fn number_at(&self, service: &str, time: u64) -> u8 {
        let moment = self.moment_at(time);
        let table = moment.published.table.as_ref();
        let service = table.and_then(|table| table.service("prod", service));
        let address = service.and_then(|one| one.names.v4.first());
        address.map_or(0, |address| address.octets()[3])
    }
}

fn published(table: Table, generation: u64) -> Arc<Published> {
    Arc::new(Published {
        table: Some(table),
        version: generation,
        generation,
        ..Published::default()
    })
}

const DAY: Duration = Duration::from_secs(24 * 3600);

#[test]
fn each_time_has_the_table_that_answered() {
    let mut scene = Scene::new(DAY);
    for number in 1..=5 {
        scene.publish("db", number, u64::from(number) * 1000);
    }
    for number in 1..=5 {
        let start = u64::from(number) * 1000;
        let numbers = [start - 1, start, start + 999].map(|time| scene.number_at("db", time));
        assert_eq!(numbers, [number - 1, number, number]);
    }
    assert!(scene.history.at(Timestamp(at(0).0 - 1)).is_none());
    assert_eq!(scene.history.start(), at(0));
}

/// Returns one of so many services that none of them changes all the time.
fn one_of_many(number: u8) -> String {
    format!("db{}", number % 25)
}

#[test]
fn burst_keeps_a_table_for_each_step_and_the_last_one() {
    let mut scene = Scene::new(DAY);
    for number in 1..=100 {
        scene.publish(&one_of_many(number), number, 1000 + u64::from(number) * 10);
    }
    let count = scene.history.steps.len();
    assert!((10..=12).contains(&count), "{count}");
    let newest = |time: u64| {
        let numbers = (0..25).map(|one| scene.number_at(&one_of_many(one), time));
        numbers.max().unwrap()
    };
    assert_eq!(newest(999_999), 100);
    let error = |time: u64| newest(time).abs_diff(((time - 1000) / 10) as u8);
    assert!((1010..2000).step_by(7).all(|time| error(time) <= 20));
}

#[test]
fn old_tables_are_forgotten() {
    let mut scene = Scene::new(Duration::from_secs(60));
    for number in 1..=100 {
        scene.publish(&one_of_many(number), number, u64::from(number) * 1000);
    }
    let count = scene.history.steps.len();
    assert!((60..=62).contains(&count), "{count}");
    // Without an age, there is no history.
    let mut scene = Scene::new(Duration::ZERO);
    for number in 1..=3 {
        scene.publish("db", number, u64::from(number) * 1000);
        assert_eq!(scene.history.steps.len(), 0);
    }
}

/// The past is made of the versions that were replaced. It equals what was published.
#[test]
fn table_of_the_past_equals_the_one_that_was_published() {
    let mut scene = Scene::new(DAY);
    let mut published = Vec::new();
    for number in 1..=60_u8 {
        let service = ["db", "web", "api"][usize::from(number) % 3];
        let time = u64::from(number) * 60_000;
        if number % 7 == 0 {
            scene.remove(service, time);
        } else {
            scene.publish_hosts(service, number, number % 3 + 1, time);
        }
        published.push((time, scene.moment_at(time).published));
    }
    for (time, expected) in published {
        let moment = scene.moment_at(time + 59_999);
        assert_eq!(moment.published.table, expected.table, "{time}");
        assert_eq!(moment.published.version, expected.version);
        assert!(moment.incomplete.is_empty());
        let of_version = scene.history.of_version(expected.version).unwrap();
        assert_eq!(of_version.moment().published.table, expected.table);
    }
}

/// Another namespace has few versions, and keeps them.
#[test]
fn namespace_with_most_octets_loses_its_oldest_versions() {
    let mut scene = Scene::new(DAY);
    scene.history.max_octets = 1 << 20;
    scene.publish("db", 1, 1000);
    scene.namespace = "shop";
    // Ever new names, with 20 hosts each.
    for number in 0..500_u64 {
        scene
            .objects
            .retain(|one| one["metadata"]["namespace"] != "shop");
        let service = format!("new{number}");
        scene.publish_hosts(&service, 1, 20, 2000 + 10_000 * number);
    }
    let octets = |history: &History| history.octets.values().sum::<usize>();
    assert!((1 << 19..=1 << 20).contains(&octets(&scene.history)));
    scene.namespace = "prod";
    scene.publish("db", 2, 20_000_000);
    assert_eq!(
        [1500, 20_000_000].map(|time| scene.number_at("db", time)),
        [1, 2]
    );
    let incomplete = |time| -> Vec<String> {
        let namespaces = scene.moment_at(time).incomplete.into_iter();
        namespaces.map(|one| one.to_string()).collect()
    };
    assert_eq!(incomplete(1500), ["shop"]);
    assert_eq!(incomplete(4_990_000), [""; 0]);
    // The sum is that of what is kept.
    let kept = scene
        .history
        .steps
        .iter()
        .flat_map(|step| step.versions.values());
    let kept: usize = kept.map(|version| octets_of(version.as_deref())).sum();
    assert_eq!(kept, octets(&scene.history));
}

/// A tenant whose service changes all the time leaves the others their history, also the version before their own change.
#[test]
fn tables_of_services_that_change_all_the_time_are_one() {
    let mut scene = Scene::new(DAY);
    for number in 1..=200 {
        scene.is_busy = number > 5;
        scene.publish("flap", number, 1000 + u64::from(number) * 200);
    }
    let count = scene.history.steps.len();
    assert!(count <= 8, "{count}");
    for (service, time) in [("x", 41_200), ("z", 41_220), ("flap", 41_240)] {
        scene.is_busy = service == "flap";
        scene.publish(service, 7, time);
    }
    for number in 1..=100 {
        scene.publish("flap", number, 41_240 + u64::from(number) * 200);
    }
    for (time, expected) in [
        (41_199, [0, 0]),
        (41_240, [7, 7]),
        (50_000, [7, 7]),
        (99_999, [7, 7]),
    ] {
        let numbers = ["x", "z"].map(|service| scene.number_at(service, time));
        assert_eq!(numbers, expected, "{time}");
    }
}

#[test]
fn nothing_stays_of_services_that_are_gone() {
    let mut scene = Scene::new(Duration::from_secs(60));
    for number in 0..2000_u64 {
        let (service, time) = (format!("new{number}"), number * 1000);
        scene.publish(&service, 1, time);
        scene.remove(&service, time + 500);
    }
    scene.publish("db", 1, 3_000_000);
    scene.publish("db", 2, 3_100_000);
    let History {
        steps,
        octets,
        lost,
        lists,
        ..
    } = &scene.history;
    let sizes = [steps.len(), octets.len(), lost.len(), lists.len()];
    assert_eq!(sizes, [1, 1, 0, 0]);
}

/// Without a history, too.
#[test]
fn tables_of_open_lists_are_kept_for_half_a_minute() {
    let mut scene = Scene::new(Duration::ZERO);
    for number in 1..=12_u8 {
        scene.publish("db", number, u64::from(number) * 100);
        let published = scene.moment_at(u64::from(number) * 100).published;
        let now = at(u64::from(number) * 100);
        scene.history.keep_for_list(published.clone(), now);
        scene.history.keep_for_list(published, now);
    }
    let known = |scene: &Scene| -> Vec<u64> {
        let is_known = |version: &u64| scene.history.of_version(*version).is_some();
        (0..20).filter(is_known).collect()
    };
    scene.publish("db", 20, 2000);
    assert_eq!(known(&scene), (5..=13).collect::<Vec<_>>());
    scene.publish("db", 21, 30_900);
    assert_eq!(known(&scene), [10, 11, 12, 14]);
}

#[test]
fn table_with_the_same_answers_replaces_the_last_one() {
    let mut scene = Scene::new(DAY);
    scene.publish("db", 1, 1000);
    let last = scene.moment_at(1000).published;
    let other = published(last.table.clone().unwrap(), last.generation);
    let none = ServiceKeys::new();
    let gone = scene.push_table(other.clone(), none, Difference::State, 2000);
    assert!(Arc::ptr_eq(&gone.unwrap(), &last));
    let moment = scene.moment_at(1500);
    assert!(Arc::ptr_eq(&moment.published, &other) && moment.start == at(1000));
}

/// A gateway that goes down changes no answer of its only cluster. The past still says that it was up.
#[test]
fn another_state_with_the_same_answers_is_a_moment_of_its_own() {
    let mut scene = Scene::new(DAY);
    scene.publish("db", 1, 1000);
    let objects = [&scene.objects[..], &[gateway("prod", "db-0-east", false)]].concat();
    let down = published(table(&objects), scene.generation);
    scene.push_table(down, service_keys(&["db"]), Difference::State, 2000);
    let liveness_at = |time: u64| {
        let moment = scene.moment_at(time);
        let service = moment.published.table.as_ref()?.service("prod", "db");
        Some(service?.endpoints.first()?.liveness)
    };
    let expected = [EndpointLiveness::Alive, EndpointLiveness::GatewayDown];
    assert_eq!([1500, 2500].map(liveness_at), expected.map(Some));
    assert_eq!(scene.number_at("db", 2500), 1);
    // So does a pod that starts, and answers nothing yet.
    let pod = local("prod", "db", &[("db-0", "10.0.0.1", false)]);
    let starting = published(table(&[&objects[..], &pod].concat()), scene.generation);
    scene.push_table(starting, service_keys(&["db"]), Difference::State, 3000);
    let not_ready_at = |time: u64| {
        let moment = scene.moment_at(time);
        let service = moment.published.table.as_ref()?.service("prod", "db");
        Some(service?.not_ready.len())
    };
    assert_eq!([2500, 3500].map(not_ready_at), [Some(0), Some(1)]);
}

/// Else a tenant whose orders change keeps more than the limit.
#[test]
fn orders_and_expected_clusters_count() {
    let octets = |clusters: usize| {
        let names: Vec<String> = (0..clusters).map(|one| format!("c{one}")).collect();
        let (order, expected) = (names.join(":"), names.join("+"));
        let own = json!({"metadata": {"namespace": "prod", "name": "db",
            "annotations": {"global-dns/failover": order, "global-dns/expected-clusters": expected}}, "spec": {}});
        octets_of(table(&[own]).service("prod", "db"))
    };
    assert!(octets(32) - octets(1) > 31 * 3 * size_of::<ClusterTerm>());
}

/// The nodes of an index would be those of each kept table, and nobody would count them.
#[test]
fn kept_tables_have_no_index_of_builds() {
    let own = json!({"metadata": {"namespace": "prod", "name": "db",
        "annotations": {"global-dns/failover": "east:west"}}, "spec": {}});
    let published = Published {
        table: Some(table(&[own])),
        ..Published::default()
    };
    let has_order = |published: &Published| {
        let table = published.table.as_ref().unwrap();
        !table.ordered.is_empty()
    };
    assert!(has_order(&published) && !has_order(&published.without_services()));
}
