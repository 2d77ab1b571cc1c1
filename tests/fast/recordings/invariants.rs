//! Conditions that hold after every event of every recording.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use global_dns::model::Kind;
use serde_json::Value;

use crate::recordings::replay::{Recording, Replay};

#[test]
fn every_record_belongs_to_an_existing_object() {
    let mut checked = 0;
    for number in Recording::numbers() {
        let mut replay = Replay::of(&number);
        loop {
            checked += check_records(&replay, &number);
            if !replay.step() {
                break;
            }
        }
    }
    assert!(checked > 10_000, "only {checked} records were checked");
}

/// Compares addresses and ports of the whole zone with the current objects. Returns the number of records.
fn check_records(replay: &Replay, number: &str) -> usize {
    let place = format!("recording {number} after {} events", replay.at);
    let ports_by_address = allowed(replay);
    let zone = replay.zone_file();
    let records: Vec<Vec<&str>> = zone
        .lines()
        .map(|line| line.split(['\t', ' ']).collect())
        .collect();
    let mut addresses: BTreeMap<&str, IpAddr> = BTreeMap::new();
    for record in records
        .iter()
        .filter(|record| record[3] == "A" || record[3] == "AAAA")
    {
        let ip: IpAddr = record[4].parse().unwrap();
        if record[0] == "ns.dns.global." {
            continue;
        }
        assert!(
            !record[4].starts_with("198.51.100."),
            "{place}: gateway address at {}",
            record[0]
        );
        assert!(
            ports_by_address.contains_key(&ip),
            "{place}: {ip} at {} belongs to no object",
            record[0]
        );
        addresses.insert(record[0], ip);
    }
    for record in records.iter().filter(|record| record[3] == "SRV") {
        let (port, target) = (record[6].parse().unwrap(), record[7]);
        let ip = addresses.get(target);
        let ip = ip.unwrap_or_else(|| panic!("{place}: SRV target {target} does not resolve"));
        let allowed = &ports_by_address[ip];
        assert!(
            allowed.contains(&port),
            "{place}: port {port} of {target}, allowed: {allowed:?}"
        );
    }
    records.len()
}

/// Returns whether the cluster IP of a Service may be in an answer: of a mirror, or of an exported Service.
fn has_served_address(service: &Value) -> bool {
    let labels = &service["metadata"]["labels"];
    let is_mirror = labels["mirror.linkerd.io/mirrored-service"] == "true";
    let is_exported = labels["mirror.linkerd.io/exported"].is_string();
    (is_mirror || is_exported) && service["spec"]["clusterIP"] != "None"
}

/// Returns the valid addresses with their ports: cluster IPs with the ports of the Service, and ready local endpoints
/// with the ports of the slice.
fn allowed(replay: &Replay) -> BTreeMap<IpAddr, BTreeSet<u64>> {
    let numbers = |ports: &Value| {
        ports
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p["port"].as_u64().unwrap())
            .collect()
    };
    let mut allowed = BTreeMap::new();
    for ((kind, _), object) in &replay.objects {
        let labels = &object["metadata"]["labels"];
        match kind {
            Kind::Service if has_served_address(object) => {
                for ip in object["spec"]["clusterIPs"].as_array().unwrap() {
                    let ip = ip.as_str().unwrap().parse().unwrap();
                    allowed.insert(ip, numbers(&object["spec"]["ports"]));
                }
            }
            Kind::EndpointSlice if labels["service.kubernetes.io/headless"].is_string() => {
                for endpoint in object["endpoints"].as_array().unwrap() {
                    if endpoint["conditions"]["ready"] == true {
                        let ip = endpoint["addresses"][0].as_str().unwrap().parse().unwrap();
                        allowed.insert(ip, numbers(&object["ports"]));
                    }
                }
            }
            Kind::Service | Kind::EndpointSlice | Kind::Link => {}
        }
    }
    allowed
}

#[test]
fn incremental_build_equals_full_build() {
    for number in Recording::numbers() {
        let mut replay = Replay::of(&number);
        loop {
            let now = replay.reader.load();
            let (incremental, full) = (now.table.as_ref().unwrap(), replay.full_build());
            assert_eq!(
                *incremental, full,
                "recording {number} after {} events",
                replay.at
            );
            drop(now);
            if !replay.step() {
                break;
            }
        }
    }
}

#[test]
fn version_changes_with_the_table_and_generation_and_serial_with_answers() {
    for number in Recording::numbers() {
        let mut replay = Replay::of(&number);
        loop {
            let (last, before) = (Arc::clone(&replay.reader.load()), replay.records());
            if !replay.step() {
                break;
            }
            let (next, after) = (Arc::clone(&replay.reader.load()), replay.records());
            let place = format!("recording {number} after {} events", replay.at);
            let swaps = u64::from(last.table != next.table);
            assert_eq!(last.version + swaps, next.version, "{place}");
            let changes = next.generation - last.generation;
            assert!(
                changes <= swaps && (changes == 1 || before == after),
                "{place}"
            );
            assert_eq!(u64::from(next.serial - last.serial), changes, "{place}");
        }
    }
}
