use serde_json::Value;

use super::*;
use crate::table::EndpointLiveness;
use crate::table::Table;
use crate::testing::{endpoint, gateway, local, mirror, service_keys, table};

/// A history with tables of services that have an endpoint each; its number is in the address.
struct Scene {
    history: History,
    objects: Vec<Value>,
    generation: u64,
}

fn at(milliseconds: u64) -> Timestamp {
    Timestamp(1_000_000 + milliseconds)
}

impl Scene {
    fn new(age: Duration) -> Self {
        Self {
            history: History::new(age, Arc::default(), at(0)),
            objects: Vec::new(),
            generation: 0,
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
        self.objects.push(mirror("prod", service, "east"));
        for host in 0..hosts {
            let hostname = format!("{service}-{host}");
            let address = format!("10.{host}.0.{number}");
            let object = endpoint("prod", service, "east", &hostname, &[&address]);
            self.objects.push(object);
        }
        self.generation += 1;
        let next = published(table(&self.objects), self.generation);
        let keys = service_keys(&[service]);
        self.history.push(next, &keys, at(time));
    }

    /// Returns the number of a service at a time: 0 if it has no endpoint.
    fn number_at(&self, service: &str, time: u64) -> u8 {
        let moment = self.history.at(at(time)).unwrap();
        let table = moment.published.table.as_ref();
        let service = table.and_then(|table| table.service("prod", service));
        let address = service.and_then(|one| one.names.v4.first());
        address.map_or(0, |address| address.octets()[3])
    }
}

fn published(table: Table, generation: u64) -> Arc<Published> {
    Arc::new(Published {
        table: Some(table),
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

#[test]
fn burst_keeps_a_table_for_each_step_and_the_last_one() {
    let mut scene = Scene::new(DAY);
    for number in 1..=100 {
        scene.publish("db", number, 1000 + u64::from(number) * 10);
    }
    let count = scene.history.tables.len() - 1;
    assert!((10..=12).contains(&count), "{count}");
    assert_eq!(scene.number_at("db", 999_999), 100);
    let error = |time: u64| {
        scene
            .number_at("db", time)
            .abs_diff(((time - 1000) / 10) as u8)
    };
    assert!((1010..2000).all(|time| error(time) <= 20));
}

#[test]
fn old_tables_and_too_many_endpoints_are_forgotten() {
    let mut scene = Scene::new(Duration::from_secs(60));
    for number in 1..=100 {
        scene.publish("db", number, u64::from(number) * 1000);
    }
    let count = scene.history.tables.len() - 1;
    assert!((60..=62).contains(&count), "{count}");
    // Without an age, there is no history.
    let mut scene = Scene::new(Duration::ZERO);
    for number in 1..=3 {
        scene.publish("db", number, u64::from(number) * 1000);
        assert_eq!(scene.history.tables.len() - 1, 0);
    }
    // A large service leaves room for fewer versions.
    let mut scene = Scene::new(DAY);
    for number in 1..=150 {
        scene.publish_hosts("db", number, 250, u64::from(number) * 60_000);
    }
    let count = scene.history.tables.len() - 1;
    assert!((70..=80).contains(&count), "{count}");
    assert!(scene.history.changed() <= MAX_CHANGED);
    assert_eq!(scene.number_at("db", 150 * 60_000), 150);
}

/// A tenant whose service changes all the time leaves the others their history.
#[test]
fn versions_beyond_a_hundred_an_hour_are_merged() {
    let mut scene = Scene::new(DAY);
    for minute in 0..=60 {
        scene.publish("db", minute, 600 + u64::from(minute) * 60_000);
        for second in 1..60 {
            let number = second % 200 + 1;
            scene.publish(
                "flap",
                number,
                u64::from(minute) * 60_000 + u64::from(second) * 1000,
            );
        }
    }
    let count = scene.history.tables.len() - 1;
    assert!(count < 61 + 3 * MAX_VERSIONS, "{count}");
    for minute in 0..=60 {
        let time = u64::from(minute) * 60_000 + 700;
        assert_eq!(scene.number_at("db", time), minute);
    }
}

#[test]
fn table_with_the_same_answers_replaces_the_last_one() {
    let mut scene = Scene::new(DAY);
    scene.publish("db", 1, 1000);
    let last = scene.history.at(at(1000)).unwrap().published;
    let other = published(last.table.clone().unwrap(), last.generation);
    let gone = scene
        .history
        .push(other.clone(), &service_keys(&[]), at(2000));
    assert!(Arc::ptr_eq(&gone[0], &last));
    let moment = scene.history.at(at(1500)).unwrap();
    assert!(Arc::ptr_eq(&moment.published, &other) && moment.start == at(1000));
}

/// A gateway that goes down changes no answer of its only cluster. The past still says that it was up.
#[test]
fn another_state_with_the_same_answers_is_a_moment_of_its_own() {
    let mut scene = Scene::new(DAY);
    scene.publish("db", 1, 1000);
    let objects = [&scene.objects[..], &[gateway("prod", "db-0-east", false)]].concat();
    let down = published(table(&objects), scene.generation);
    let gone = scene.history.push(down, &service_keys(&["db"]), at(2000));
    assert!(gone.is_empty());
    let liveness_at = |time: u64| {
        let moment = scene.history.at(at(time)).unwrap();
        let service = moment.published.table.as_ref()?.service("prod", "db");
        Some(service?.endpoints.first()?.liveness)
    };
    let expected = [EndpointLiveness::Alive, EndpointLiveness::GatewayDown];
    assert_eq!([1500, 2500].map(liveness_at), expected.map(Some));
    assert_eq!(scene.number_at("db", 2500), 1);
    // So does a pod that starts, and answers nothing yet.
    let pod = local("prod", "db", &[("db-0", "10.0.0.1", false)]);
    let starting = published(table(&[&objects[..], &pod].concat()), scene.generation);
    scene
        .history
        .push(starting, &service_keys(&["db"]), at(3000));
    let not_ready_at = |time: u64| {
        let moment = scene.history.at(at(time)).unwrap();
        let service = moment.published.table.as_ref()?.service("prod", "db");
        Some(service?.not_ready.len())
    };
    assert_eq!([2500, 3500].map(not_ready_at), [Some(0), Some(1)]);
}
