//! Generates objects of all kinds of services together: each mirror in each form, federated services, Services of this
//! cluster, and the slices of all of them. Names and addresses are chosen so that the objects meet.

use global_dns::model::{Kind, key};
use serde_json::{Value, json};
use support::objects as builders;

use super::choices::Choices;
use super::objects::{annotate, ports, with_endpoints};

/// The namespace `db` has the name of a service, so that its names hide short names.
pub const NAMESPACES: &[&str] = &["prod", "shop", "db"];
/// The service `east` has the name of a cluster. The service `db-0` has the name of a pod (rule M1b).
pub const SERVICES: &[&str] = &["db", "web", "db-0", "east"];
const CLUSTERS: &[&str] = &["east", "west", "hub"];
const HOSTS: &[&str] = &["db-0", "db-1"];
pub const GATEWAY: &str = "198.51.100.10";

/// The names that an object is made from. The same octet gives the same names for each form.
#[derive(Clone, Copy)]
struct Identity {
    namespace: &'static str,
    service: &'static str,
    cluster: &'static str,
}

/// Generates an object and its kind.
pub fn object(choices: &mut Choices<'_>) -> (Kind, Value) {
    let form = choices.octet();
    let identity = Identity::choose(choices);
    match form % 12 {
        0 | 1 => (Kind::Service, mirror_in_a_form(choices, identity)),
        2 => (Kind::Service, endpoint_mirror(choices, identity)),
        3 => (Kind::Service, federated(choices, identity)),
        4 | 5 => (Kind::Service, local(choices, identity)),
        6 | 7 => (Kind::EndpointSlice, mirror_slice(choices, identity)),
        8 => (Kind::EndpointSlice, endpoint_slice(choices, identity)),
        9 => (Kind::EndpointSlice, host_list(choices, identity)),
        _ => (Kind::EndpointSlice, local_slice(choices, identity)),
    }
}

// === impl Identity ===

impl Identity {
    fn choose(choices: &mut Choices<'_>) -> Self {
        let octet = usize::from(choices.octet());
        // Most objects are in one namespace and of one service, so that they meet often.
        Self {
            cluster: CLUSTERS[[0, 0, 1, 2][octet % 4]],
            service: SERVICES[[0, 0, 0, 2, 2, 1, 1, 3][octet / 4 % 8]],
            namespace: NAMESPACES[[0, 0, 0, 0, 0, 1, 1, 2][octet / 32]],
        }
    }

    fn mirror(self) -> builders::Mirror {
        builders::mirror(self.namespace, self.service, self.cluster)
    }
}

// === Services ===

/// Generates a mirror of a whole Service: headless, gateway or flat. All forms have one name and one address, so that
/// the next one changes the kind in place.
fn mirror_in_a_form(choices: &mut Choices<'_>, identity: Identity) -> Value {
    let octet = choices.octet();
    // Half of them are headless, because only these have endpoint mirrors.
    let (form, forged) = ([0, 1, 2, 3, 0, 0][usize::from(octet % 6)], octet / 6 % 3);
    let mirror = identity.mirror();
    let mut object = mirror.service();
    if form > 0 {
        object["spec"] = spec(choices, identity.namespace, &mirror.name());
    }
    let labels = &mut object["metadata"]["labels"];
    match form {
        2 => {
            labels[key::REMOTE_DISCOVERY] = json!(identity.cluster);
            labels[key::REMOTE_SERVICE] = json!(identity.service);
        }
        // A mirror that is exported again has the labels of the first mirror, or a forged label.
        3 if forged == 0 => labels[key::REMOTE_DISCOVERY] = json!("elsewhere"),
        3 if forged == 1 => labels[key::REMOTE_SERVICE] = json!("No_Name"),
        _ => {}
    }
    annotate(choices, &mut object);
    // Linkerd copies the annotations of the exported Service, which decide nothing here (rule K6).
    if octet / 18 > 11 {
        let annotations = &mut object["metadata"]["annotations"];
        annotations[key::FAILOVER] = json!("west");
        annotations[key::EXPECTED_CLUSTERS] = json!("north");
        annotations[key::GATEWAY_DOWN] = json!("include");
    }
    object
}

fn endpoint_mirror(choices: &mut Choices<'_>, identity: Identity) -> Value {
    let host = choices.pick(HOSTS);
    let mut object = identity.mirror().endpoint_mirror(host, &[]);
    let name = format!("{host}-{}", identity.cluster);
    object["spec"] = spec(choices, identity.namespace, &name);
    object
}

fn federated(choices: &mut Choices<'_>, identity: Identity) -> Value {
    let octet = choices.octet();
    let (namespace, service) = (identity.namespace, identity.service);
    let mut object = builders::federated(namespace, service, "", "").service();
    object["spec"] = spec(choices, namespace, &format!("{service}-federated"));
    let annotations = &mut object["metadata"]["annotations"];
    *annotations = json!({});
    if !octet.is_multiple_of(8) {
        let members = [
            format!("{service}@east"),
            format!("{service}@west,{service}@east"),
            format!("{service}@east,{service}@east"),
            format!("{service}.shop@west"),
            format!("No_Name@east,{service}@"),
        ];
        annotations[key::REMOTE_DISCOVERY] = json!(members[usize::from(octet) / 8 % members.len()]);
    }
    if octet.is_multiple_of(2) {
        annotations[key::LOCAL_DISCOVERY] = json!(service);
    }
    annotate(choices, &mut object);
    object
}

/// Generates a Service of this cluster, headless or not, exported in each way.
fn local(choices: &mut Choices<'_>, identity: Identity) -> Value {
    let octet = choices.octet();
    let (namespace, name) = (identity.namespace, identity.service);
    let mut object = builders::local(namespace, name).service();
    if !octet.is_multiple_of(3) {
        object["spec"] = spec(choices, namespace, name);
    }
    let exports = [Some("true"), Some("remote-discovery"), None, Some("skip")];
    if let Some(export) = exports[usize::from(octet / 3 % 4)] {
        object["metadata"]["labels"][key::EXPORTED] = json!(export);
    }
    annotate(choices, &mut object);
    if octet / 12 > 9 {
        decide(choices, &mut object);
    }
    object
}

/// Makes a Service of this cluster one that decides something: with settings, of any type, and created at some time.
fn decide(choices: &mut Choices<'_>, object: &mut Value) {
    let octet = choices.octet();
    match octet % 8 {
        0 => object["spec"] = json!({"type": "ExternalName", "externalName": "db.example"}),
        1 => object["spec"] = json!({"clusterIP": "None", "selector": {"app": "db"}}),
        2 | 3 => object["spec"] = json!({"clusterIP": "None"}),
        _ => {}
    }
    if (octet / 8).is_multiple_of(4) {
        object["metadata"]["labels"] = json!({});
    }
    let created = [
        "2024-01-01T00:00:00Z",
        "2026-09-21T13:43:20Z",
        "2026-09-21T14:13:10Z",
    ];
    if let Some(created) = created.get(usize::from(octet / 32 % 4)) {
        object["metadata"]["creationTimestamp"] = json!(created);
    }
    let annotations = &mut object["metadata"]["annotations"];
    for _ in 0..=octet / 128 {
        let (key, values) = choices.pick(SETTINGS);
        annotations[key] = json!(choices.pick(values));
    }
}

/// Settings with values, some of which cannot be read.
const SETTINGS: &[(&str, &[&str])] = &[
    (key::FAILOVER, ORDERS),
    (key::FAILOVER, ORDERS),
    (key::EXPECTED_CLUSTERS, CLUSTER_LISTS),
    (key::GATEWAY_DOWN, &["include", "last-resort"]),
    (key::TTL, &["1", "20", "300"]),
];
const ORDERS: &[&str] = &[
    "east:west",
    "local:*",
    "hub:west",
    "*:east",
    "north:east",
    "east+west:local",
    "west,east",
    "West:east",
    "west:",
    " east : west ",
    "we_st:east",
    "east+west",
    "local+east:west+north",
    "auto:east:west",
    "auto:local:*",
    "Auto,west:north+east",
    "auto:we_st:east",
    "auto",
    "east:auto",
    "east=90+west:*",
    ":east",
    "",
];
const CLUSTER_LISTS: &[&str] = &[
    "east+west",
    "local",
    "east,west",
    "East",
    "local+east+",
    "north",
    "we_st",
    "",
    "east+north until 2026-09-21T14:13:45Z",
    "west until 2036-01-01T00:00Z",
    "north until 2024-01-01T00:00:00Z",
    "north until yesterday",
];

/// Generates the part of a Service with a cluster IP. No other Service has its addresses, unless its name is the same.
fn spec(choices: &mut Choices<'_>, namespace: &str, name: &str) -> Value {
    let octet = choices.octet();
    // A new Service of the same name may have another address.
    let [v4, v6] = addresses(namespace, name, octet / 8 % 2);
    let ips = match octet % 8 {
        0..=4 => vec![v4],
        5 | 6 => vec![v4, v6],
        _ => vec![v6],
    };
    json!({"clusterIP": ips[0], "clusterIPs": ips, "ports": ports(choices)})
}

/// Returns the addresses of a Service.
pub fn addresses(namespace: &str, name: &str, variant: u8) -> [String; 2] {
    let number = |text: &str| {
        let octets = text.bytes().map(u32::from);
        octets.fold(7_u32, |sum, octet| sum.wrapping_mul(31).wrapping_add(octet))
    };
    let [_, a, b, c] = number(&format!("{namespace}/{name}/{variant}")).to_be_bytes();
    [
        format!("10.{a}.{b}.{c}"),
        format!("2001:db8::{a:x}{b:02x}:{c:x}"),
    ]
}

// === Slices ===

/// Generates the slice of a mirror with a cluster IP: ready, not ready, or empty.
fn mirror_slice(choices: &mut Choices<'_>, identity: Identity) -> Value {
    let octet = choices.octet();
    let (namespace, service) = (identity.namespace, identity.service);
    let mirror = builders::gateway_mirror(namespace, service, identity.cluster, GATEWAY);
    with_endpoints(mirror.slice(true), octet / 4 % 2, gateway(octet))
}

/// Generates the slice of an endpoint mirror.
fn endpoint_slice(choices: &mut Choices<'_>, identity: Identity) -> Value {
    let (host, octet) = (choices.pick(HOSTS), choices.octet());
    let slice = identity.mirror().slice(host, true);
    with_endpoints(slice, octet / 4 % 2, gateway(octet))
}

/// Generates the slice of a headless mirror. It lists the addresses of the mirrors of its pods (rule M1b).
fn host_list(choices: &mut Choices<'_>, identity: Identity) -> Value {
    let octet = choices.octet();
    let host = |host: &str, variant: u8| {
        let name = format!("{host}-{}", identity.cluster);
        let [ip, _] = addresses(identity.namespace, &name, variant);
        json!({"addresses": [ip], "hostname": host, "conditions": {"ready": octet.is_multiple_of(2)}})
    };
    let hosts = match octet / 2 % 4 {
        0 | 1 => json!([host("db-0", octet / 8 % 2)]),
        2 => json!([host("db-1", 0), host("db-0", octet / 8 % 2)]),
        _ => gateway(octet),
    };
    let mut slice = identity.mirror().listing(&[]);
    match octet / 32 {
        0..4 => {}
        4 => slice["ports"] = json!([{"name": "sql", "port": 26257}]),
        5 => slice["ports"] = json!([{"name": "dns", "port": 53, "protocol": "UDP"}]),
        6 => slice["ports"] = json!([{"name": "renamed", "port": 26257}]),
        _ => slice["ports"] = json!([]),
    }
    with_endpoints(slice, octet / 16 % 2, hosts)
}

/// Generates a slice of a Service of this cluster: of the controller for a headless or an exported Service, or written by
/// hand.
fn local_slice(choices: &mut Choices<'_>, identity: Identity) -> Value {
    let octet = choices.octet();
    let (namespace, name) = (identity.namespace, identity.service);
    let local = builders::local(namespace, name);
    let slice = match octet % 4 {
        0 | 3 => local.slice("", "IPv4", &[]),
        1 => local.without_selector().slice("", "IPv4", &[]),
        _ => builders::exported(namespace, name, GATEWAY).slice(true),
    };
    let pod = |number: u8| {
        let ready = !(octet / 8).is_multiple_of(number + 3);
        json!({
            "addresses": [format!("192.0.2.{}", octet / 64 * 16 + number)],
            "hostname": HOSTS[usize::from(number) % 2],
            "conditions": {"ready": ready},
            "targetRef": {"uid": format!("{number}")},
        })
    };
    let pods: Value = (0..=octet / 4 % 2).map(pod).collect();
    let mut slice = with_endpoints(slice, octet / 32 % 2, pods);
    slice["ports"] = ports(choices);
    slice
}

/// Returns the endpoints of a mirror: the address of its gateway.
fn gateway(octet: u8) -> Value {
    match octet % 4 {
        0 | 1 => json!([{"addresses": [GATEWAY], "conditions": {"ready": true}}]),
        2 => json!([{"addresses": [GATEWAY], "conditions": {"ready": false}}]),
        _ => json!([]),
    }
}
