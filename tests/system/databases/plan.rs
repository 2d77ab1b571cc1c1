//! The Services of the databases.

use support::multicluster::plan::{ALL, Member, Service};

// Old versions of etcd query the SRV name with `-ssl`, and the other name only if the first one exists.
pub const ETCD: Service = Service {
    name: "etcd",
    port_numbers: &[("etcd-server-ssl", 2380), ("etcd-client", 2379)],
    first: 10,
};
pub const NATS: Service = Service {
    name: "nats",
    port_numbers: &[("cluster", 6222), ("client", 4222), ("monitor", 8222)],
    first: 20,
};
pub const SERVICES: [Service; 2] = [ETCD, NATS];

/// Returns one member of each database in each cluster.
pub fn members() -> Vec<Member> {
    let of_service = |service: &'static Service| ALL.map(|cluster| service.member(cluster, 0));
    SERVICES.iter().flat_map(of_service).collect()
}
