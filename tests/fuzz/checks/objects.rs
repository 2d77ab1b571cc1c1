//! Generates objects of a cluster: most as Linkerd and Kubernetes write them, some forged or invalid.

use global_dns::model::{Kind, key};
use serde_json::{Value, json};
use support::objects as builders;

use super::choices::Choices;

const NAMESPACES: &[&str] = &["prod", "shop", "db", "dns"];
const SERVICES: &[&str] = &["db", "cache", "prod", "ns", "dns-version"];
const CLUSTERS: &[&str] = &["east", "west", "hub", "db", "ns"];
const HOSTS: &[&str] = &["db-0", "db-1", "ns", "0", LONG];
const ADDRESSES: &[&str] = &[
    "10.96.0.1",
    "10.96.0.2",
    "10.0.0.1",
    "198.51.100.7",
    "2001:db8::1",
    "2001:db8::2",
];
const LONG: &str = "x23456789-123456789-123456789-123456789-123456789-123456789-123";
const BAD_ADDRESSES: &[&str] = &[
    "0.0.0.0",
    "127.0.0.1",
    "127.255.255.254",
    "224.0.0.1",
    "239.255.255.255",
    "255.255.255.255",
    "::",
    "::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:0.0.0.0",
    "::ffff:224.0.0.1",
    "None",
    "",
    "10.96.0.256",
    "10.96.0.1/32",
    "fe80::1%eth0",
    "db.example",
];
/// Values that are invalid in most fields.
const BAD_LABELS: &[&str] = &[
    "",
    "DB",
    "a.b",
    "-a",
    "a-",
    "a_b",
    "*",
    "_sql",
    "x23456789-123456789-123456789-123456789-123456789-123456789-1234",
    "prod/db",
    "\u{fc}",
    "true",
];
const ANNOTATIONS: &[&str] = &["last-resort", "include", "1", "30", "0", "-1", "x"];

/// Generates an object and its kind.
pub fn object(choices: &mut Choices<'_>) -> (Kind, Value) {
    let (kind, mut object) = match choices.octet() % 8 {
        0 => (Kind::Service, mirror(choices)),
        1..=3 => (Kind::Service, endpoint_mirror(choices)),
        4 => (Kind::Service, local(choices)),
        5 => (Kind::EndpointSlice, gateway_slice(choices)),
        6 => (Kind::EndpointSlice, local_slice(choices)),
        _ => (Kind::Service, other_mirror(choices)),
    };
    for _ in 0..choices.octet().saturating_sub(192) / 24 {
        corrupt(choices, &mut object);
    }
    (kind, object)
}

/// Chooses namespace, service and cluster of an object.
fn identity(choices: &mut Choices<'_>) -> [&'static str; 3] {
    let octet = usize::from(choices.octet());
    // All parts come from one octet, and small values give the common cases.
    [
        NAMESPACES[octet / 64 % NAMESPACES.len()],
        SERVICES[octet / 8 % 8 % SERVICES.len()],
        CLUSTERS[octet % 8 % CLUSTERS.len()],
    ]
}

fn mirror(choices: &mut Choices<'_>) -> Value {
    let [namespace, service, cluster] = identity(choices);
    let mut object = builders::mirror(namespace, service, cluster).service();
    let created = format!("2024-01-0{}T00:00:00Z", choices.octet() % 9 + 1);
    object["metadata"]["creationTimestamp"] = json!(created);
    annotate(choices, &mut object);
    object
}

fn endpoint_mirror(choices: &mut Choices<'_>) -> Value {
    let [namespace, service, cluster] = identity(choices);
    let host = choices.pick(HOSTS);
    let ips = addresses(choices);
    let mirror = builders::mirror(namespace, service, cluster);
    let mut object = mirror.endpoint_mirror(host, &ips);
    object["spec"]["ports"] = ports(choices);
    object
}

fn local(choices: &mut Choices<'_>) -> Value {
    let [namespace, service, _] = identity(choices);
    let mut object = builders::local(namespace, service).service();
    if !choices.rarely(3) {
        object["metadata"]["labels"][key::EXPORTED] = json!("true");
    }
    annotate(choices, &mut object);
    object
}

/// Generates a mirror with a cluster IP, a flat mirror, or a federated service.
fn other_mirror(choices: &mut Choices<'_>) -> Value {
    let mut object = mirror(choices);
    match choices.octet() % 3 {
        0 => object["spec"]["clusterIP"] = json!("10.96.0.3"),
        1 => object["metadata"]["labels"][key::REMOTE_DISCOVERY] = json!("db"),
        _ => {
            object["metadata"]["labels"][key::CLUSTER_NAME].take();
        }
    }
    object
}

fn gateway_slice(choices: &mut Choices<'_>) -> Value {
    let [namespace, service, cluster] = identity(choices);
    let (host, octet) = (choices.pick(HOSTS), choices.octet());
    if octet / 8 % 4 == 3 {
        return headless_slice([namespace, service, cluster], host, octet);
    }
    let endpoints = match octet % 4 {
        0 | 1 => json!([{"addresses": ["198.51.100.10"], "conditions": {"ready": false}}]),
        2 => json!([{"addresses": ["198.51.100.10"], "conditions": {"ready": true}}]),
        _ => json!([]),
    };
    let slice = builders::mirror(namespace, service, cluster).slice(host, true);
    with_endpoints(slice, octet / 4 % 2, endpoints)
}

/// Generates the slice of a headless mirror with one or two hosts, or overwritten with the gateway address.
fn headless_slice([namespace, service, cluster]: [&str; 3], host: &str, octet: u8) -> Value {
    let endpoints = match octet % 4 {
        0 => json!([{"addresses": ["198.51.100.10"], "conditions": {"ready": true}}]),
        1 => json!([{"addresses": ["10.96.0.1"], "hostname": host}]),
        _ => json!([
            {"addresses": ["10.96.0.2"], "hostname": "db-1"},
            {"addresses": ["10.96.0.1"], "hostname": host},
        ]),
    };
    let slice = builders::mirror(namespace, service, cluster).listing(&[]);
    with_endpoints(slice, octet / 4 % 2, endpoints)
}

fn local_slice(choices: &mut Choices<'_>) -> Value {
    let [namespace, service, _] = identity(choices);
    let mut endpoints = Vec::new();
    for _ in 0..choices.octet() % 4 {
        let mut endpoint = json!({
            "addresses": addresses(choices),
            "conditions": {"ready": !choices.rarely(3)},
        });
        if !choices.rarely(4) {
            endpoint["hostname"] = json!(choices.pick(HOSTS));
        }
        if choices.rarely(3) {
            endpoint["targetRef"] = json!({"uid": choices.pick(&["1", "2"])});
        }
        endpoints.push(endpoint);
    }
    let mut local = builders::local(namespace, service);
    if choices.rarely(3) {
        local = local.without_selector();
    }
    let number = choices.octet() % 2;
    let family = choices.pick(&["IPv4", "IPv4", "IPv6", "FQDN"]);
    let mut slice = local.slice(&number.to_string(), family, &endpoints);
    slice["ports"] = ports(choices);
    slice
}

fn addresses(choices: &mut Choices<'_>) -> Vec<&'static str> {
    let octet = choices.octet();
    let one = ADDRESSES[usize::from(octet) % ADDRESSES.len()];
    match octet / 6 {
        0..=27 => vec![one],
        28..=33 => vec![one, choices.pick(ADDRESSES)],
        34..=39 => vec![choices.pick(BAD_ADDRESSES)],
        40 => vec![one, choices.pick(BAD_ADDRESSES)],
        _ => vec![],
    }
}

/// Generates the ports of a Service or a slice.
pub fn ports(choices: &mut Choices<'_>) -> Value {
    match choices.octet() % 8 {
        0 | 1 => json!([{"name": "sql", "port": 26257}]),
        2 => {
            json!([{"name": "sql", "port": 26257}, {"name": "dns", "port": 53, "protocol": "UDP"}])
        }
        3 => json!([{"port": 7000}]),
        4 => json!([{"name": "sql", "port": 1}, {"name": "x", "port": 1}, {"port": 1}]),
        5 => json!([{"name": "SQL_", "port": 5}, {"port": 0}, {"port": 70000}, {"port": -1}]),
        6 => json!([{"name": "m", "port": 9, "protocol": "SCTP"}, {"port": 8, "protocol": "X"}]),
        _ => Value::Null,
    }
}

/// Returns one of two slices of a Service, with these endpoints.
pub fn with_endpoints(mut slice: Value, number: u8, endpoints: Value) -> Value {
    let metadata = &mut slice["metadata"];
    let service = metadata["labels"][key::SERVICE_NAME].as_str().unwrap();
    metadata["name"] = json!(format!("{service}-{number}"));
    slice["endpoints"] = endpoints;
    slice
}

/// Adds an annotation of this server to some objects.
pub fn annotate(choices: &mut Choices<'_>, object: &mut Value) {
    if choices.rarely(4) {
        let annotation = choices.pick(&[key::TTL, key::GATEWAY_DOWN]);
        object["metadata"]["annotations"][annotation] = json!(choices.pick(ANNOTATIONS));
    }
}

/// Changes one field to a forged or invalid value.
fn corrupt(choices: &mut Choices<'_>, object: &mut Value) {
    let metadata = &mut object["metadata"];
    let value = match choices.octet() % 6 {
        0 => json!(choices.pick(BAD_LABELS)),
        1 => json!(choices.pick(NAMESPACES)),
        2 => json!(choices.pick(CLUSTERS)),
        3 => json!(format!(
            "{}.{}.{}",
            choices.pick(HOSTS),
            choices.pick(SERVICES),
            choices.pick(NAMESPACES)
        )),
        4 => Value::Null,
        _ => choices.pick(&[1, 2, 3, 4]).into(),
    };
    match choices.octet() % 12 {
        0 => metadata["namespace"] = value,
        1 => metadata["name"] = value,
        2 => metadata["creationTimestamp"] = value,
        3 => metadata["annotations"][key::REMOTE_FQ_NAME] = value,
        4 => object["spec"]["clusterIP"] = value,
        5 => object["spec"]["clusterIPs"] = json!([value]),
        6 => object["endpoints"] = json!([{"addresses": [value]}]),
        7 => object["endpoints"] = value,
        _ => {
            let label = choices.pick(&builders::KEYS);
            match value {
                Value::Null => drop(metadata["labels"].as_object_mut().map(|l| l.remove(label))),
                value => metadata["labels"][label] = value,
            }
        }
    }
}
