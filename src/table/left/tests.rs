use super::*;
use crate::model::ProblemKind;
use crate::table::Timers;
use crate::testing::{self, endpoint, federated, local, mirror, mirrors, rules};
use serde_json::{Value, json};

/// A server that sees the objects change.
struct Server(testing::Server);

impl Server {
    fn new(objects: &[Value]) -> Self {
        let mut server = Self(testing::Server::new(rules()));
        server.see(0, objects);
        server
    }

    /// Sees these objects at a time in seconds. Returns the problems of clusters that left, with their times.
    fn see(&mut self, second: u64, objects: &[Value]) -> Vec<String> {
        self.0.see(second, objects);
        let problems = self.0.table.problems();
        let left = problems.filter(|one| one.kind == ProblemKind::ClusterLeft);
        left.map(|one| one.with_time()).collect()
    }
}

fn db(cluster: &str, hosts: &[&str]) -> Vec<Value> {
    let mut objects = vec![mirror("prod", "db", cluster)];
    let address = |index: usize| format!("10.96.0.{}", index + cluster.len());
    objects.extend(
        hosts
            .iter()
            .enumerate()
            .map(|(index, host)| endpoint("prod", "db", cluster, host, &[&address(index)])),
    );
    objects
}

fn left(cluster: &str, why: &str) -> Vec<String> {
    let start = format!("Cluster left a service: prod/db: cluster '{cluster}'");
    vec![format!("{start}: {why} (since 1970-01-01T00:00:10Z)")]
}

#[test]
fn cluster_that_left_is_reported_for_an_hour_with_its_cause() {
    let both = [db("east", &["db-0", "db-1"]), db("west", &["db-0"])].concat();
    let unexported = left(
        "east",
        "it does not export the service any more; its last endpoints: db-0, db-1",
    );
    let empty = left(
        "east",
        "it has no pod, or none of them is ready; its last endpoints: db-0, db-1",
    );
    for (without, expected) in [
        (db("west", &["db-0"]), &unexported),
        ([db("east", &[]), db("west", &["db-0"])].concat(), &empty),
        // The service is gone, too.
        (
            Vec::new(),
            &[
                unexported.clone(),
                left(
                    "west",
                    "it does not export the service any more; its last endpoints: db-0",
                ),
            ]
            .concat(),
        ),
    ] {
        let mut server = Server::new(&both);
        assert_eq!(server.see(10, &without), *expected);
        assert_eq!(server.see(20, &without), *expected);
        assert_eq!(server.see(3609, &without), *expected);
        assert_eq!(server.see(3610, &without), [""; 0]);
        assert!(without.len() > 1 || server.0.table.services().next().is_none());
    }
}

#[test]
fn cluster_that_returns_is_not_reported() {
    let both = [db("east", &["db-0"]), db("west", &["db-0"])].concat();
    let mut server = Server::new(&both);
    assert_eq!(server.see(10, &db("west", &["db-0"])).len(), 1);
    assert_eq!(server.see(20, &both), [""; 0]);
    assert_eq!(server.see(30, &both), [""; 0]);
}

#[test]
fn first_table_reports_nothing() {
    let mut server = Server::new(&[]);
    assert_eq!(server.see(10, &db("east", &[])), [""; 0]);
}

#[test]
fn members_of_this_cluster_that_are_not_ready_are_told_apart() {
    let pods = |ready| {
        let mut own = local("prod", "db", &[("db-0", "10.0.0.1", ready)]).to_vec();
        own[0]["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
        own
    };
    let mut server = Server::new(&pods(true));
    let why = "none of its pods is ready; its last endpoints: db-0";
    assert_eq!(server.see(10, &pods(false)), left("hub", why));
    let mut server = Server::new(&pods(true));
    let own = pods(true).swap_remove(0);
    let why = "it has no pod, or none of them is ready; its last endpoints: db-0";
    assert_eq!(server.see(10, &[own]), left("hub", why));
}

#[test]
fn cluster_that_leaves_a_federation_is_reported() {
    let web = |members| vec![federated("prod", "db", "10.96.1.1", members)];
    let mut server = Server::new(&web("db@east,db@west"));
    let why = "it does not export the service any more";
    assert_eq!(server.see(10, &web("db@west")), left("east", why));
}

fn gone() -> LeftCluster {
    LeftCluster {
        cluster: "east".parse().unwrap(),
        since: Timestamp(0),
        cause: LeaveCause::Unexported,
        endpoints: Line::default(),
    }
}

/// It may have left before the process started, and no object of the service may change after that.
#[test]
fn service_is_built_again_when_a_cluster_left_it_an_hour_ago() {
    let mut timers = Timers::default();
    let service = testing::service_keys(&["db"]).pop_first().unwrap();
    timers.note_left(&service, vec![gone()]);
    assert_eq!(timers.next_wake(), Some(Timestamp::from_seconds(3600)));
    timers.now = Timestamp::from_seconds(3600);
    assert_eq!(timers.due(), [service.clone()].into());
    timers.note_left(&service, Vec::new());
    assert_eq!((timers.next_wake(), timers.due()), (None, [].into()));
}

/// Everybody who can create a Service can add and remove clusters.
#[test]
fn number_of_remembered_services_is_bounded() {
    let mut timers = Timers::default();
    let service = |number: usize| crate::model::ServiceKey {
        namespace: "prod".parse().unwrap(),
        service: format!("db{number}").parse().unwrap(),
    };
    let table = testing::table(&mirrors(1));
    let old = table.service("prod", "db1").unwrap();
    let gone = gone();
    for number in 0..MAX_SERVICES {
        assert!(timers.left_before(&service(number), Some(old)).1.is_some());
        timers.note_left(&service(number), vec![gone.clone()]);
    }
    assert!(
        timers
            .left_before(&service(MAX_SERVICES), Some(old))
            .1
            .is_none()
    );
    // One that is known can lose another cluster.
    assert!(timers.left_before(&service(0), Some(old)).1.is_some());
    timers.note_left(&service(0), Vec::new());
    assert!(
        timers
            .left_before(&service(MAX_SERVICES), Some(old))
            .1
            .is_some()
    );
}
