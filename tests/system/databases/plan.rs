//! The Services of the databases.

use support::multicluster::plan::{ALL, Member, Service};

// Old versions of etcd query the SRV name with `-ssl`, and the other name only if the first one exists.
const ETCD_PORTS: &[(&str, u16)] = &[("etcd-server-ssl", 2380), ("etcd-client", 2379)];

/// An etcd by names of the zone of all clusters.
pub const ETCD: Service = Service {
    name: "etcd",
    port_numbers: ETCD_PORTS,
    first: 10,
};
/// An etcd by the own names of the pods.
pub const DB: Service = Service {
    name: "db",
    port_numbers: ETCD_PORTS,
    first: 30,
};
pub const NATS: Service = Service {
    name: "nats",
    port_numbers: &[("cluster", 6222), ("client", 4222), ("monitor", 8222)],
    first: 20,
};
pub const RABBITMQ: Service = Service {
    name: "rabbitmq",
    // The last port is that of a second pod in a cluster: they share a network here.
    port_numbers: &[
        ("epmd", 4369),
        ("distribution", 25672),
        ("amqp", 5672),
        ("second", 25673),
    ],
    first: 40,
};
pub const SERVICES: [Service; 4] = [ETCD, NATS, DB, RABBITMQ];

/// Returns one member of each database in each cluster.
pub fn members() -> Vec<Member> {
    let of_service = |service: &'static Service| ALL.map(|cluster| service.member(cluster, 0));
    SERVICES.iter().flat_map(of_service).collect()
}
