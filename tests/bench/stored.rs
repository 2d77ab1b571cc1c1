//! Objects in the etcd of an API server. Written to etcd directly, 200,000 objects take a minute. Written through the
//! API server, which allocates cluster IPs one by one, they take most of an hour.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::print_line;

/// Keys per request. The limit of etcd is 128.
const AT_ONCE: usize = 100;

/// Writes Services and EndpointSlices to etcd as the API server does, and claims the addresses of the Services.
///
/// # Errors
///
/// If etcd rejects them, or an object has another kind.
pub(crate) fn store(etcd: SocketAddr, objects: Vec<Value>) -> Result<()> {
    let began = Instant::now();
    let count = objects.len();
    let mut entries = Vec::new();
    for (number, mut object) in objects.into_iter().enumerate() {
        let metadata = &mut object["metadata"];
        metadata["creationTimestamp"] = json!("2025-01-01T00:00:00Z");
        metadata["uid"] = json!(format!("c0ffee00-0000-4000-8000-{number:012}"));
        entries.extend(claims(&object)?);
        entries.push((key(&object)?, object));
    }
    for entries in entries.chunks(AT_ONCE) {
        write(etcd, entries)?;
    }
    let took = began.elapsed();
    print_line(&format!("stored {count} objects in {took:.0?}"));
    Ok(())
}

/// Returns the key of an object.
fn key(object: &Value) -> Result<String> {
    let folder = match object["kind"].as_str() {
        Some("Service") => "services/specs",
        Some("EndpointSlice") => "endpointslices",
        kind => anyhow::bail!("cannot store an object of kind {kind:?}"),
    };
    let part = |name: &str| object["metadata"][name].as_str().context("a name");
    Ok(format!(
        "/registry/{folder}/{}/{}",
        part("namespace")?,
        part("name")?
    ))
}

/// Returns the IPAddress objects of a Service. Otherwise the API server would create them during the measurement.
fn claims(service: &Value) -> Result<Vec<(String, Value)>> {
    let metadata = &service["metadata"];
    let addresses = service["spec"]["clusterIPs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let claim = |address: &str| {
        let labels = json!({
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        });
        let (namespace, name) = (&metadata["namespace"], &metadata["name"]);
        let parent =
            json!({"group": "", "resource": "services", "namespace": namespace, "name": name});
        let claim = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "IPAddress",
            "metadata": {
                "name": address,
                "labels": labels,
                "uid": metadata["uid"],
                "creationTimestamp": metadata["creationTimestamp"],
            },
            "spec": {"parentRef": parent},
        });
        (format!("/registry/ipaddresses/{address}"), claim)
    };
    Ok(addresses
        .filter(|address| *address != "None")
        .map(claim)
        .collect())
}

/// Writes entries with one transaction of etcd's HTTP API.
fn write(etcd: SocketAddr, entries: &[(String, Value)]) -> Result<()> {
    let puts = entries.iter().map(|(key, value)| {
        let (key, value) = (
            BASE64_STANDARD.encode(key),
            BASE64_STANDARD.encode(value.to_string()),
        );
        json!({"requestPut": {"key": key, "value": value}})
    });
    let body = json!({"success": puts.collect::<Vec<_>>()}).to_string();
    let mut stream = TcpStream::connect(etcd)?;
    write!(
        stream,
        "POST /v3/kv/txn HTTP/1.1\r\nHost: {etcd}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    ensure!(reply.starts_with("HTTP/1.1 200 "), "etcd: {reply}");
    Ok(())
}
