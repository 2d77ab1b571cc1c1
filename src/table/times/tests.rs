use serde_json::{Value, json};

use super::*;
use crate::model::ProblemKind;
use crate::table::Service;
use crate::testing::{Server, endpoint, gateway, local, mirror, mirrors, rules};

impl Server {
    fn service(&self) -> &Service {
        self.table.service("prod", "db").unwrap()
    }

    /// Returns the times in seconds of the problems of a kind.
    fn since(&self, kind: ProblemKind) -> Vec<u32> {
        let problems = self.table.problems().filter(|one| one.kind == kind);
        problems.map(|one| one.since().unwrap().seconds()).collect()
    }

    /// Returns the times in seconds since which endpoints are down or not ready.
    fn endpoints(&self) -> Vec<Option<u32>> {
        let service = self.service();
        let endpoints = service.endpoints.iter().chain(&service.not_ready);
        endpoints
            .map(|one| service.since(one).map(Timestamp::seconds))
            .collect()
    }
}

/// Returns `prod/db` with hosts of `east`, each with whether its gateway is up.
fn db(hosts: &[bool]) -> Vec<Value> {
    let mut objects = vec![mirror("prod", "db", "east")];
    for (index, is_up) in hosts.iter().enumerate() {
        let address = format!("10.96.0.{}", index + 1);
        let host = format!("db-{index}");
        objects.push(endpoint("prod", "db", "east", &host, &[&address]));
        objects.push(gateway("prod", &format!("{host}-east"), *is_up));
    }
    objects
}

#[test]
fn endpoints_and_problems_keep_their_times_until_they_are_gone() {
    let mut server = Server::new(rules());
    let kind = ProblemKind::GatewayDown;
    server.see(10, &db(&[true, true]));
    assert_eq!(
        (server.endpoints(), server.since(kind)),
        (vec![None; 2], vec![])
    );
    server.see(20, &db(&[false, true]));
    // Another change of the service, and of another one.
    let mut more = db(&[false, false]);
    more.extend(mirrors(1));
    server.see(30, &more);
    assert_eq!(server.endpoints(), [Some(20), Some(30)]);
    assert_eq!(server.since(kind), [20]);
    server.see(40, &db(&[true, false]));
    server.see(50, &db(&[false, false]));
    assert_eq!(server.endpoints(), [Some(50), Some(30)]);
    assert_eq!(server.since(kind), [20]);
    server.see(60, &db(&[true, true]));
    server.see(70, &db(&[false, true]));
    assert_eq!(server.endpoints(), [Some(70), None]);
    assert_eq!(server.since(kind), [70]);
}

#[test]
fn earlier_table_keeps_its_times() {
    let mut server = Server::new(rules());
    server.see(10, &db(&[false]));
    let earlier = server.table.clone();
    server.see(20, &db(&[true]));
    server.see(30, &db(&[false]));
    let service = earlier.service("prod", "db").unwrap();
    let since = service.since(&service.endpoints[0]);
    assert_eq!(since, Some(Timestamp::from_seconds(10)));
    assert_eq!(server.endpoints(), [Some(30)]);
}

/// Otherwise each build would be a new generation, and replicas with the same answers would differ.
#[test]
fn times_change_no_table() {
    let objects = db(&[false, true]);
    let (mut first, mut second) = (Server::new(rules()), Server::new(rules()));
    first.see(10, &objects);
    second.see(20, &objects);
    assert_eq!(first.table, second.table);
    assert_eq!(first.table.answers_hash(), second.table.answers_hash());
    assert!(!first.see(30, &objects));
    assert_eq!(first.endpoints(), [Some(10), None]);
    assert_eq!(second.endpoints(), [Some(20), None]);
}

/// A command has one table, and does not know for how long its content holds.
#[test]
fn command_knows_no_times() {
    let table = crate::testing::table(&db(&[false]));
    let service = table.service("prod", "db").unwrap();
    assert_eq!(service.since(&service.endpoints[0]), None);
    assert!(table.problems().all(|problem| problem.since().is_none()));
}

#[test]
fn pod_that_is_not_ready_is_told_from_a_ready_one_of_its_name() {
    let pods = |pods: &[(&str, &str, bool)]| {
        let [mut service, slice] = local("prod", "db", pods);
        service["metadata"]["labels"]["mirror.linkerd.io/exported"] = json!("true");
        [service, slice]
    };
    let mut server = Server::new(rules());
    let old = ("db-0", "10.0.0.1", false);
    server.see(10, &pods(&[old]));
    server.see(20, &pods(&[old, ("db-0", "10.0.0.2", true)]));
    assert_eq!(server.endpoints(), [None, Some(10)]);
    assert_eq!(server.since(ProblemKind::PodNotReady), [10]);
}

#[test]
fn problem_of_a_setting_or_a_name_keeps_its_time_if_its_detail_changes() {
    let mut server = Server::new(rules());
    let with_order = |order: &str| {
        let [mut service, slice] = local("prod", "db", &[]);
        service["metadata"]["annotations"]["global-dns/gateway-down"] = json!(order);
        [db(&[true]), vec![service, slice]].concat()
    };
    server.see(10, &with_order("nonsense"));
    server.see(20, &with_order("other nonsense"));
    assert_eq!(server.since(ProblemKind::SettingWithoutEffect), [10]);
    let with_others = |namespaces: &[&str]| {
        let others = namespaces.iter().map(|one| mirror(one, "db", "east"));
        [with_order("other nonsense"), others.collect()].concat()
    };
    server.see(30, &with_others(&["shop"]));
    server.see(40, &with_others(&["shop", "test"]));
    assert_eq!(server.since(ProblemKind::ShortName), [30]);
    assert_eq!(server.since(ProblemKind::SettingWithoutEffect), [10]);
}

#[test]
fn healthy_endpoints_cost_no_memory() {
    assert_eq!(size_of::<Times>(), 16);
    assert_eq!(size_of::<(u64, Timestamp)>(), 16);
    let mut server = Server::new(rules());
    server.see(10, &db(&[true; 100]));
    assert_eq!(server.service().times.len(), 0);
    server.see(20, &db(&[false; 100]));
    assert_eq!(server.service().times.len(), 100);
}

#[test]
fn service_that_is_gone_forgets_its_times() {
    let mut server = Server::new(rules());
    server.see(10, &db(&[false]));
    server.see(20, &[]);
    server.see(30, &db(&[false]));
    assert_eq!(server.endpoints(), [Some(30)]);
}
