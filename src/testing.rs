//! Builders of objects and rules for unit tests. If a field is added, only this file changes.

use crate::table::Timers;
use serde_json::{Value, json};

use crate::model::{Kind, KubeObject, Object, ObjectKey, Watch, parse};
use crate::table::links::LinkList;
use crate::table::{Published, Publisher, Rules, Store, Table, build};
use crate::zone::{Zone, ZoneKind, Zones};

/// Returns a headless mirror.
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

/// Returns an endpoint mirror with the ports sql 26257, dns 53/UDP, dns-tcp 53 and 7000 without a name.
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

/// Returns the slice of an endpoint mirror, with the readiness of its gateway.
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

/// Returns the slice of a headless mirror, with the hosts that Linkerd lists.
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

/// Returns a headless Service of this cluster and its slice, with one pod for each host.
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

/// Returns the `spec` of a Service with a cluster IP and port http 80.
fn cluster_ip(ip: &str) -> Value {
    json!({"clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "http", "port": 80}]})
}

/// Returns a mirror with a cluster IP, through the gateway of its cluster.
pub(crate) fn service_mirror(namespace: &str, service: &str, cluster: &str, ip: &str) -> Value {
    let mut mirror = mirror(namespace, service, cluster);
    mirror["spec"] = cluster_ip(ip);
    mirror
}

/// Returns a mirror with a cluster IP in a flat network.
pub(crate) fn flat_mirror(namespace: &str, service: &str, cluster: &str, ip: &str) -> Value {
    let mut mirror = service_mirror(namespace, service, cluster, ip);
    let labels = &mut mirror["metadata"]["labels"];
    labels["multicluster.linkerd.io/remote-discovery"] = json!(cluster);
    labels["multicluster.linkerd.io/remote-service"] = json!(service);
    mirror
}

/// Returns a federated service with members such as `web@east,web@west`.
pub(crate) fn federated(namespace: &str, service: &str, ip: &str, members: &str) -> Value {
    json!({
        "metadata": {
            "namespace": namespace,
            "name": format!("{service}-federated"),
            "labels": {"mirror.linkerd.io/mirrored-service": "true"},
            "annotations": {"multicluster.linkerd.io/remote-discovery": members},
        },
        "spec": cluster_ip(ip),
    })
}

/// Returns an exported Service of this cluster with a cluster IP.
pub(crate) fn exported(namespace: &str, service: &str, ip: &str) -> Value {
    json!({
        "metadata": {
            "namespace": namespace,
            "name": service,
            "labels": {"mirror.linkerd.io/exported": "true"},
        },
        "spec": cluster_ip(ip),
    })
}

/// Returns the slice of a Service with a cluster IP: of a mirror, with its gateway, or of an exported Service.
pub(crate) fn backends(namespace: &str, service: &str, is_mirror: bool, ready: bool) -> Value {
    let labels = if is_mirror {
        json!({"mirror.linkerd.io/mirrored-service": "true"})
    } else {
        json!({
            "mirror.linkerd.io/exported": "true",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        })
    };
    let mut slice = json!({
        "metadata": {"namespace": namespace, "name": format!("{service}-b4cke"), "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["198.51.100.10"], "conditions": {"ready": ready}}],
    });
    slice["metadata"]["labels"]["kubernetes.io/service-name"] = json!(service);
    slice
}

/// Returns a ServiceImport with port http 80, exported by clusters `east` and `west`.
pub(crate) fn import(namespace: &str, service: &str, form: &str, ips: &[&str]) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": service},
        "spec": {"type": form, "ips": ips, "ports": [{"name": "http", "port": 80}]},
        "status": {"clusters": [{"cluster": "west"}, {"cluster": "east"}]},
    })
}

/// Returns a slice of a ServiceImport with port sql 26257. An endpoint with an empty hostname has none.
pub(crate) fn import_slice(
    namespace: &str,
    service: &str,
    cluster: &str,
    endpoints: &[(&str, &str)],
) -> Value {
    let endpoint = |(host, ip): &(&str, &str)| {
        let mut endpoint = json!({"addresses": [ip], "conditions": {"ready": true}});
        if !host.is_empty() {
            endpoint["hostname"] = json!(host);
        }
        endpoint
    };
    json!({
        "metadata": {
            "namespace": namespace,
            "name": format!("derived-{service}-{cluster}-7xk2p"),
            "labels": {
                "kubernetes.io/service-name": format!("derived-{service}"),
                "multicluster.kubernetes.io/service-name": service,
                "multicluster.kubernetes.io/source-cluster": cluster,
            },
        },
        "addressType": "IPv4",
        "ports": [{"name": "sql", "port": 26257}],
        "endpoints": endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// Returns the slice of Submariner for a Service with a cluster IP in another cluster.
pub(crate) fn submariner_slice(
    namespace: &str,
    service: &str,
    cluster: &str,
    ip: &str,
    ready: bool,
) -> Value {
    let mut slice = import_slice(namespace, service, cluster, &[("", ip)]);
    let labels = &mut slice["metadata"]["labels"];
    labels["endpointslice.kubernetes.io/managed-by"] = json!("lighthouse-agent.submariner.io");
    labels["lighthouse.submariner.io/sourceNamespace"] = json!(namespace);
    slice["endpoints"][0]["conditions"]["ready"] = json!(ready);
    slice
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
    Rules {
        has_reverse_zones: true,
        ..Rules::new("hub".parse().unwrap())
    }
}

/// Returns a store with these objects, each from the watch that selects it.
pub(crate) fn store(objects: &[Value]) -> Store {
    let mut store = Store::default();
    for object in objects {
        let json = object.to_string();
        let watch = Watch::for_object(kind_of(object), &KubeObject::read(&json)).unwrap();
        let (key, object) = parsed(watch, object);
        store.apply(watch, key, object);
    }
    store
}

/// Returns the kind of an object.
pub(crate) fn kind_of(object: &Value) -> Kind {
    let is_import = object["spec"]["type"]
        .as_str()
        .is_some_and(|kind| kind != "ExternalName");
    if !object["spec"]["targetClusterName"].is_null() {
        Kind::Link
    } else if !object["addressType"].is_null() {
        Kind::EndpointSlice
    } else if is_import {
        Kind::ServiceImport
    } else {
        Kind::Service
    }
}

/// Parses an object that has a name.
pub(crate) fn parsed(watch: Watch, object: &Value) -> (ObjectKey, Object) {
    let json = object.to_string();
    let object = KubeObject::read(&json);
    (object.key().unwrap(), parse::parse_object(watch, &object))
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

/// Builds a table of objects and Links.
pub(crate) fn table_with_links(rules: &Rules, objects: &[Value]) -> Table {
    let store = store(objects);
    let mut timers = Timers::default();
    let list = LinkList::Listed { requested: None };
    timers.links.update(&store, list, rules, timers.now);
    build(&Table::default(), &store, &store.services(), rules, &timers).table
}

/// Builds a table.
pub(crate) fn table(objects: &[Value]) -> Table {
    table_by(&rules(), objects)
}

/// Returns a published table.
pub(crate) fn published(table: Table) -> Published {
    let publisher = Publisher::default();
    let built = crate::table::Built {
        table: table.clone(),
        is_changed: true,
        services: Default::default(),
        timers: Vec::new(),
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

/// Returns zones with these names. Those below `arpa` are reverse zones with targets in `global.` Those with `=mcs` have
/// that profile.
pub(crate) fn zones(names: &[&str]) -> Zones {
    let zone = |name: &&str| Zone {
        name: name.trim_end_matches("=mcs").parse().unwrap(),
        ttl: 5,
        negative_ttl: 5,
        ns_addresses: vec!["192.0.2.53".parse().unwrap()],
        kind: match *name {
            name if name.ends_with(".arpa") => ZoneKind::Reverse("global".parse().unwrap()),
            name if name.ends_with("=mcs") => ZoneKind::ClusterSet,
            _ => ZoneKind::Forward,
        },
    };
    Zones::new(names.iter().map(zone).collect())
}

/// Returns mirrored services with one endpoint each.
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
