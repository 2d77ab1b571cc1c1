//! Rules, stores and tables for unit tests, and single objects of the builders in `tests/support`.

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::{Value, json};
use support::objects::{self, nameless_port, numbered_mirror, port};

use crate::clock::unix_milliseconds;
use crate::model::{
    Family, Kind, KubeObject, Object, ObjectKey, Problem, ServiceKey, ServiceSettings, Timestamp,
    parse,
};
use crate::source::Events;
use crate::table::change::Change;
use crate::table::store::ServiceKeys;
use crate::table::{Built, Difference, Published, Publisher, Rules, Store, Table, Timers, build};
use crate::zone::print::ZoneFile;
use crate::zone::{Grammar, Zone, Zones};

#[path = "../tests/support/shared.rs"]
pub mod support;

/// Cluster IP of a Service, in tests that use only its slice.
const ANY_IP: &str = "10.96.0.1";

/// Returns a headless mirror.
pub(crate) fn mirror(namespace: &str, service: &str, cluster: &str) -> Value {
    objects::mirror(namespace, service, cluster).service()
}

/// Returns an endpoint mirror with the ports sql 26257, dns 53/UDP, dns-tcp 53 and 7000 without a name.
pub(crate) fn endpoint(
    namespace: &str,
    service: &str,
    cluster: &str,
    host: &str,
    ips: &[&str],
) -> Value {
    let ports = vec![
        port("sql", "TCP", 26257),
        port("dns", "UDP", 53),
        port("dns-tcp", "TCP", 53),
        nameless_port("TCP", 7000),
    ];
    objects::mirror(namespace, service, cluster)
        .all_ports(ports)
        .endpoint_mirror(host, ips)
}

/// Returns services of namespace `prod`.
pub(crate) fn service_keys(names: &[&str]) -> ServiceKeys {
    let key = |name: &&str| ServiceKey {
        namespace: "prod".parse().unwrap(),
        service: name.parse().unwrap(),
    };
    names.iter().map(key).collect()
}

/// Returns the slice of an endpoint mirror, with the readiness of its gateway.
pub(crate) fn gateway(namespace: &str, endpoint_mirror: &str, is_ready: bool) -> Value {
    let (host, cluster) = endpoint_mirror.rsplit_once('-').unwrap();
    objects::mirror(namespace, "db", cluster).slice(host, is_ready)
}

/// Returns the slice of a headless mirror, with the hosts that Linkerd lists.
pub(crate) fn listing(namespace: &str, headless_mirror: &str, hosts: &[(&str, &str)]) -> Value {
    let (service, cluster) = headless_mirror.rsplit_once('-').unwrap();
    objects::mirror(namespace, service, cluster).listing(hosts)
}

/// Returns a headless Service of this cluster and its slice, with one endpoint for each host.
pub(crate) fn local(namespace: &str, service: &str, hosts: &[(&str, &str, bool)]) -> [Value; 2] {
    let endpoint =
        |(host, ip, is_ready): &(&str, &str, bool)| objects::endpoint(Some(host), ip, *is_ready);
    let endpoints: Vec<Value> = hosts.iter().map(endpoint).collect();
    let local = objects::local(namespace, service);
    [local.service(), local.slice("slice", "IPv4", &endpoints)]
}

/// Returns a mirror with a cluster IP, through the gateway of its cluster.
pub(crate) fn service_mirror(namespace: &str, service: &str, cluster: &str, ip: &str) -> Value {
    objects::gateway_mirror(namespace, service, cluster, ip).service()
}

/// Returns a mirror with a cluster IP in a flat network.
pub(crate) fn flat_mirror(namespace: &str, service: &str, cluster: &str, ip: &str) -> Value {
    objects::flat_mirror(namespace, service, cluster, ip).service()
}

/// Returns a federated service with members such as `web@east,web@west`.
pub(crate) fn federated(namespace: &str, service: &str, ip: &str, members: &str) -> Value {
    objects::federated(namespace, service, ip, members).service()
}

/// Returns an exported Service of this cluster with a cluster IP.
pub(crate) fn exported(namespace: &str, service: &str, ip: &str) -> Value {
    objects::exported(namespace, service, ip).service()
}

/// Returns the slice of a Service with a cluster ANY_IP: of a mirror, with its gateway, or of an exported Service.
pub(crate) fn backends(namespace: &str, service: &str, is_mirror: bool, is_ready: bool) -> Value {
    let service = if is_mirror {
        let (service, cluster) = service.rsplit_once('-').unwrap();
        objects::gateway_mirror(namespace, service, cluster, ANY_IP)
    } else {
        objects::exported(namespace, service, ANY_IP)
    };
    service.slice(is_ready)
}

/// Returns a Link to a cluster.
pub(crate) fn link(name: &str, cluster: &str) -> Value {
    json!({
        "metadata": {"namespace": "linkerd-multicluster", "name": name},
        "spec": {"targetClusterName": cluster},
    })
}

/// Returns the default rules, for cluster `hub` and zone `global.`
pub(crate) fn rules() -> Rules {
    rules_with("")
}

/// Returns the rules of further settings.
pub(crate) fn rules_with(settings: &str) -> Rules {
    let text = format!("clusterName: hub\n{settings}");
    let settings = crate::settings::Settings::parse("", &text);
    settings.unwrap().rules()
}

/// Returns a store with these objects, which matter.
pub(crate) fn store(objects: &[Value]) -> Store {
    let mut store = Store::default();
    for object in objects {
        let json = object.to_string();
        let (kind, object) = (kind_of(object), KubeObject::read(&json));
        let (key, object) = parse::reduce(kind, &object).unwrap();
        store.apply(kind, key, Some(object));
    }
    store
}

impl Store {
    /// Returns all services that have an object.
    pub(crate) fn services(&self) -> ServiceKeys {
        let objects = Kind::ALL.map(|kind| self.objects(kind).iter());
        let service = |(key, object): (&ObjectKey, &Object)| Some(key.service(object.service()?));
        let services = objects.into_iter().flatten().filter_map(service);
        services.collect()
    }
}

impl Table {
    /// Returns every conflict, in no particular order.
    pub(crate) fn conflicts(&self) -> impl Iterator<Item = Problem> {
        self.problems()
            .filter(|problem| problem.kind.row().family == Family::Conflict)
            .cloned()
    }
}

/// Returns the kind of an object.
pub(crate) fn kind_of(object: &Value) -> Kind {
    if !object["spec"]["targetClusterName"].is_null() {
        Kind::Link
    } else if !object["addressType"].is_null() {
        Kind::EndpointSlice
    } else {
        Kind::Service
    }
}

/// Parses an object that matters.
pub(crate) fn parsed(kind: Kind, object: &Value) -> (ObjectKey, Object) {
    let json = object.to_string();
    parse::reduce(kind, &KubeObject::read(&json)).unwrap()
}

/// Builds a table with other rules.
pub(crate) fn table_by(rules: &Rules, objects: &[Value]) -> Table {
    let store = store(objects);
    build(
        &Table::default(),
        &store,
        &store.services(),
        rules,
        &Timers::default(),
    )
    .table
}

/// Builds a table.
pub(crate) fn table(objects: &[Value]) -> Table {
    table_by(&rules(), objects)
}

/// A server that sees the objects change.
pub(crate) struct Server {
    pub(crate) table: Table,
    pub(crate) timers: Timers,
    rules: Rules,
}

impl Server {
    pub(crate) fn new(rules: Rules) -> Self {
        let mut timers = Timers::default();
        timers.is_following = true;
        Self {
            table: Table::default(),
            timers,
            rules,
        }
    }

    /// Sees these objects at a time in seconds. Returns whether the table changed.
    pub(crate) fn see(&mut self, second: u64, objects: &[Value]) -> bool {
        self.timers.wall = Timestamp::from_seconds(second);
        self.see_with_wall_clock(second, objects)
    }

    /// As [`Self::see`], without a change of the wall clock.
    pub(crate) fn see_with_wall_clock(&mut self, second: u64, objects: &[Value]) -> bool {
        self.timers.now = Timestamp::from_seconds(second);
        let mut store = store(objects);
        self.timers.update_links(&mut store, None, &self.rules);
        let mut services = store.services();
        services.extend(self.table.services().map(|service| service.key.clone()));
        services.extend(self.timers.take_due());
        let built = build(&self.table, &store, &services, &self.rules, &self.timers);
        self.timers.apply(built.timers);
        self.table = built.table;
        built.difference > Difference::None
    }
}

/// Returns a zone as a zone file.
pub(crate) fn zone_file(zones: &Zones, zone: &Zone, published: &Published) -> String {
    let file = ZoneFile::new(zones, zone, published).unwrap();
    let mut text = String::new();
    for owner in file.parts().flat_map(|part| file.names(part)) {
        let _ = file.visit_records(&owner, |record| {
            text += &format!("{record}\n");
            ControlFlow::Continue(())
        });
    }
    text
}

/// Returns a published table.
pub(crate) fn published(table: Table) -> Published {
    let publisher = Publisher::default();
    let built = Built {
        table: table.clone(),
        difference: Difference::Answers,
        ..Built::default()
    };
    let now = publisher.publish(built, Timestamp::from_seconds(1_790_000_000), 1_790_000_000);
    let now = now.unwrap_or_default();
    Published {
        table: Some(table),
        generation: now.generation,
        serial: now.serial,
        ..Published::default()
    }
}

/// Returns zones with these names. Those with `=mcs` have that grammar, others with `=` are of that cluster.
pub(crate) fn zones(names: &[&str]) -> Zones {
    let zone = |name: &&str| Zone {
        name: name.split('=').next().unwrap().parse().unwrap(),
        ttl: 5,
        ns_addresses: vec!["192.0.2.53".parse().unwrap()],
        grammar: match name.split_once('=') {
            None => Grammar::Global,
            Some((_, "mcs")) => Grammar::Mcs,
            Some((_, cluster)) => Grammar::Cluster(cluster.parse().unwrap()),
        },
    };
    Zones(names.iter().map(zone).collect())
}

/// Returns mirrored services with one endpoint each.
pub(crate) fn mirrors(count: usize) -> Vec<Value> {
    (1..=count).flat_map(numbered_mirror).collect()
}

/// Returns the settings of a service with an order.
pub(crate) fn ordered(order: &str) -> ServiceSettings {
    ServiceSettings {
        failover: Some(Some(order.parse().unwrap())),
        ..ServiceSettings::default()
    }
}

/// Records a change at this moment.
pub(crate) fn record_now(events: &Events, change: Change) {
    events.record([(Timestamp(unix_milliseconds()), change)]);
}

/// Returns the least CPU time of this thread that some runs of a function take. Other threads and processes do not count.
pub(crate) fn cpu_time(runs: usize, mut run: impl FnMut()) -> Duration {
    let spent = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        let nanoseconds = text.split(' ').next().unwrap().parse().unwrap();
        Duration::from_nanos(nanoseconds)
    };
    let times = (0..runs).map(|_| {
        std::thread::yield_now(); // the kernel accounts at a switch
        let before = spent();
        run();
        std::thread::yield_now();
        spent() - before
    });
    times.min().unwrap()
}
