//! Changes objects as no API server and no controller writes them: forged, or invalid. Also the parts of objects that
//! [`super::kinds`] chooses.

use global_dns::model::{Kind, key};
use serde_json::{Value, json};

use super::choices::Choices;
use super::kinds;

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

/// Generates an object as the worlds have it, and its kind. Some are forged or invalid.
pub fn object(choices: &mut Choices<'_>) -> (Kind, Value) {
    let (kind, mut object) = kinds::object(choices);
    for _ in 0..choices.octet().saturating_sub(160) / 24 {
        corrupt(choices, &mut object);
    }
    (kind, object)
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
        1 => json!(choices.pick(kinds::NAMESPACES)),
        2 => json!(choices.pick(&["east", "west", "hub"])),
        3 => json!(format!(
            "{}.{}.{}",
            choices.pick(&["db-0", "db-1", LONG]),
            choices.pick(kinds::SERVICES),
            choices.pick(kinds::NAMESPACES)
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
        5 => object["spec"]["clusterIPs"] = json!([choices.pick(BAD_ADDRESSES)]),
        6 => object["endpoints"] = json!([{"addresses": [choices.pick(BAD_ADDRESSES)]}]),
        7 => object["endpoints"] = value,
        _ => {
            let label = choices.pick(&support::objects::KEYS);
            match value {
                Value::Null => drop(metadata["labels"].as_object_mut().map(|l| l.remove(label))),
                value => metadata["labels"][label] = value,
            }
        }
    }
}
