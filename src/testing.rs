//! Objects and rules for the tests beside the code, so that a new field touches one file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

use serde_json::{Value, json};

use crate::mirror::{GatewayDown, Kind, KubeObject, Object, ObjectKey, Watch, parse};
use crate::table::{Inputs, LocalMembers, Published, Publisher, Rules, ShortNames, Table, build};
use crate::zone::{Zone, ZoneKind, Zones};

/// A headless mirror.
pub(crate) fn mirror(namespace: &str, service: &str, cluster: &str) -> Value {
    json!({
        "metadata": {
            "namespace": namespace,
            "name": format!("{service}-{cluster}"),
            "labels": {
                "mirror.linkerd.io/mirrored-service": "true",
                "mirror.linkerd.io/cluster-name": cluster,
            },
        },
        "spec": {"clusterIP": "None"},
    })
}

/// An endpoint mirror with the ports sql 26257, dns 53/UDP, dns-tcp 53 and 7000 without a name.
pub(crate) fn endpoint(
    namespace: &str,
    service: &str,
    cluster: &str,
    host: &str,
    ips: &[&str],
) -> Value {
    json!({
        "metadata": {
            "namespace": namespace,
            "name": format!("{host}-{cluster}"),
            "labels": {
                "mirror.linkerd.io/mirrored-service": "true",
                "mirror.linkerd.io/cluster-name": cluster,
                "mirror.linkerd.io/headless-mirror-svc-name": format!("{service}-{cluster}"),
            },
            "annotations": {
                "mirror.linkerd.io/remote-svc-fq-name":
                    format!("{host}.{service}.{namespace}.svc.cluster.local"),
            },
        },
        "spec": {"clusterIP": ips[0], "clusterIPs": ips, "ports": [
            {"name": "sql", "port": 26257},
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53},
            {"port": 7000},
        ]},
    })
}

/// The slice of an endpoint mirror: whether its gateway is up.
pub(crate) fn gateway(namespace: &str, endpoint_mirror: &str, ready: bool) -> Value {
    json!({
        "metadata": {
            "namespace": namespace,
            "name": format!("{endpoint_mirror}-7xk2p"),
            "labels": {
                "kubernetes.io/service-name": endpoint_mirror,
                "mirror.linkerd.io/mirrored-service": "true",
                "mirror.linkerd.io/headless-mirror-svc-name": "parent",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["198.51.100.10"], "conditions": {"ready": ready}}],
    })
}

/// The slice of a headless mirror: the hosts that Linkerd lists.
pub(crate) fn listing(namespace: &str, headless_mirror: &str, hosts: &[(&str, &str)]) -> Value {
    let host = |(host, ip): &(&str, &str)| json!({"addresses": [ip], "hostname": host, "conditions": {"ready": true}});
    json!({
        "metadata": {
            "namespace": namespace,
            "name": format!("{headless_mirror}-slice"),
            "labels": {
                "kubernetes.io/service-name": headless_mirror,
                "mirror.linkerd.io/mirrored-service": "true",
            },
        },
        "addressType": "IPv4",
        "endpoints": hosts.iter().map(host).collect::<Vec<_>>(),
    })
}

/// A headless Service of this cluster with its slice: one pod for each host, ready or not.
pub(crate) fn local(namespace: &str, service: &str, pods: &[(&str, &str, bool)]) -> [Value; 2] {
    let endpoint = |(host, ip, ready): &(&str, &str, bool)| json!({"addresses": [ip], "hostname": host, "conditions": {"ready": ready}});
    [
        json!({
            "metadata": {"namespace": namespace, "name": service, "labels": {}},
            "spec": {"clusterIP": "None"},
        }),
        json!({
            "metadata": {
                "namespace": namespace,
                "name": format!("{service}-slice"),
                "labels": {
                    "kubernetes.io/service-name": service,
                    "service.kubernetes.io/headless": "",
                },
            },
            "addressType": "IPv4",
            "ports": [{"name": "sql", "port": 26257}],
            "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
        }),
    ]
}

/// Default rules, for a cluster called `hub` and the zone `global.`
pub(crate) fn rules() -> Rules {
    Rules {
        cluster_name: "hub".parse().unwrap(),
        cluster_aliases: BTreeMap::new(),
        excluded_clusters: BTreeSet::new(),
        ttl: 5,
        ttl_max: 30,
        gateway_down: GatewayDown::LastResort,
        local_members: LocalMembers::Matching,
        short_names: ShortNames::On,
        pinned_names: BTreeMap::new(),
        default_namespace: None,
        longest_zone: 8,
        has_reverse_zones: true,
    }
}

/// Applies objects as their watches would.
pub(crate) fn inputs(objects: &[Value]) -> Inputs {
    let mut inputs = Inputs::default();
    for object in objects {
        let kind = if object["addressType"].is_null() {
            Kind::Service
        } else {
            Kind::EndpointSlice
        };
        let watch = Watch::of(kind, &KubeObject::read(&object.to_string())).unwrap();
        let (key, object) = reduced(watch, object);
        inputs.apply(watch, key, object);
    }
    inputs
}

/// Reduces an object that has a name.
pub(crate) fn reduced(watch: Watch, object: &Value) -> (ObjectKey, Object) {
    let json = object.to_string();
    let object = KubeObject::read(&json);
    (object.key().unwrap(), parse::object(watch, &object))
}

/// Builds a table at once, by other rules.
pub(crate) fn table_by(rules: &Rules, objects: &[Value]) -> Table {
    let inputs = inputs(objects);
    build(&Table::default(), &inputs, &inputs.services(), rules).table
}

/// Builds a table at once.
pub(crate) fn table(objects: &[Value]) -> Table {
    table_by(&rules(), objects)
}

/// Publishes a table.
pub(crate) fn published(table: Table) -> Published {
    let publisher = Publisher::default();
    let built = crate::table::Built {
        table: table.clone(),
        answers_moved: true,
    };
    let now = publisher.publish(built, 1_790_000_000);
    Published {
        table: Some(table),
        generation: now.generation,
        serial: now.serial,
        is_stale: false,
        is_expired: false,
    }
}

/// Zones by their names; those below `arpa` are reverse zones with names in `global.`
pub(crate) fn zones(names: &[&str]) -> Zones {
    let zone = |name: &&str| Zone {
        name: name.parse().unwrap(),
        ttl: 5,
        negative_ttl: 5,
        ns_addresses: vec!["192.0.2.53".parse().unwrap()],
        kind: match name.ends_with(".arpa") {
            true => ZoneKind::Reverse("global".parse().unwrap()),
            false => ZoneKind::Forward,
        },
    };
    Zones::new(names.iter().map(zone).collect())
}

/// Mirrored services with one endpoint each.
pub(crate) fn mirrors(count: usize) -> Vec<Value> {
    let service = |number| {
        let name = format!("db{number}");
        let host = format!("{name}-0");
        let address = format!("10.0.0.{number}");
        [
            mirror("prod", &name, "east"),
            endpoint("prod", &name, "east", &host, &[&address]),
        ]
    };
    (1..=count).flat_map(service).collect()
}

/// What the listeners of a test run into, once each.
#[derive(Debug, Default)]
pub(crate) struct Trap {
    /// Answering the next message panics.
    pub(crate) panic: AtomicBool,
    /// Every call to receive panics, before it takes anything.
    pub(crate) deaf: AtomicBool,
    /// The next call to receive fails with this, as the kernel numbers its errors.
    pub(crate) receive: AtomicI32,
    /// So many calls to send fail, with that.
    pub(crate) send: [AtomicI32; 2],
}

// === impl Trap ===

impl Trap {
    pub(crate) fn answer(&self) {
        assert!(!self.panic.swap(false, SeqCst), "a trap of a test");
    }

    pub(crate) fn receive(&self) -> Result<(), i32> {
        assert!(!self.deaf.load(SeqCst), "a trap of a test");
        match self.receive.swap(0, SeqCst) {
            0 => Ok(()),
            error => Err(error),
        }
    }

    pub(crate) fn send(&self) -> Result<(), i32> {
        let [count, error] = &self.send;
        match count.fetch_update(SeqCst, SeqCst, |count| (count > 0).then_some(count - 1)) {
            Ok(_) => Err(error.load(SeqCst)),
            Err(_) => Ok(()),
        }
    }
}
