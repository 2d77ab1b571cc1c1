//! Computes one number for all answers of a table. Operators compare replicas by it.
//!
//! The hash is a sum of SipHash-2-4 values: one for each service with endpoints, one for each short name with an owner, one for
//! each short name that a canonical name hides, one for each service whose name fails, and one for each host without an endpoint
//! mirror. A sum does not depend on the order. Each value is the hash of a canonical form with a fixed key. In that form, numbers are
//! in network byte order, and texts follow their length. Tables with the same answers therefore have the same hash in every process
//! and in every build. The key is not secret, because the hash does not protect against forgery.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

use super::content::{NameScope, Table};
use super::endpoint::Endpoint;
use super::missing::MissingHost;
use super::name_index::{Members, Property, cluster_ranges};
use super::service::Service;

const KEY: [u8; 16] = *b"global-dns table";

/// Number of low bits that are dropped. Metrics are floating-point numbers, which have a mantissa of 53 bits.
const EXCESS: u32 = u64::BITS - f64::MANTISSA_DIGITS;

// === impl Table ===

impl Table {
    /// Returns a hash of all answers. Tables with the same answers have the same hash, in every process and in every
    /// build. The hash has 53 bits, so that a floating-point number represents it exactly.
    pub fn answers_hash(&self) -> u64 {
        hash_answers(self)
    }
}

/// Returns the hash of all answers of a table.
fn hash_answers(table: &Table) -> u64 {
    let has_endpoints = |service: &&Service| !service.endpoints.is_empty();
    let services = table
        .services()
        .filter(has_endpoints)
        .map(|service| hash_service("service", service));
    let short_names = table.short_names.iter().filter_map(|(name, short)| {
        let owner = short
            .owner
            .as_ref()
            .ok()
            .filter(|owner| owner.has_names_at(&[]))?;
        let namespace = owner.key.namespace.as_str();
        Some(hash_texts(["short name", name.as_str(), namespace]))
    });
    let hidden = table.name_problems.iter().flat_map(|(scope, problems)| {
        let hidden = match scope {
            NameScope::Namespace(_) => problems.as_slice(),
            // Other parts of the sum determine the answers.
            NameScope::Zone | NameScope::ShortName(_) => &[],
        };
        hidden
            .iter()
            .map(|one| hash_texts(["hidden", &one.subject()]))
    });
    let failing = table
        .services()
        .filter(|service| service.failure.is_some())
        .map(|service| hash_texts(["failing", &service.key.to_string()]));
    let missing = table.services().flat_map(missing_hosts);
    let parts = services.chain(short_names).chain(hidden).chain(failing);
    let parts = parts.chain(missing);
    parts.fold(0, u64::wrapping_add) >> EXCESS
}

/// Returns the hashes of the hosts whose names fail because their endpoint mirrors are missing.
fn missing_hosts(service: &Service) -> impl Iterator<Item = u64> {
    let hosts: BTreeSet<_> = service.missing.iter().map(MissingHost::labels).collect();
    let key = service.key.to_string();
    let failing = hosts
        .into_iter()
        .filter(|(cluster, hostname)| service.endpoints_at(&[hostname, cluster]).is_empty());
    failing.map(move |(cluster, hostname)| hash_texts(["missing", &key, cluster, hostname]))
}

/// Hashes one version of a service.
fn hash_service(version: &str, service: &Service) -> u64 {
    let mut form = CanonicalForm::default();
    form.text(version);
    form.text(service.key.namespace.as_str());
    form.text(service.key.service.as_str());
    form.number(service.ttl);
    form.count(service.endpoints.len());
    for endpoint in &service.endpoints {
        form.endpoint(endpoint);
    }
    let omitted = omitted(service);
    form.count(omitted.len());
    for row in omitted {
        form.number(row);
    }
    form.hash()
}

/// Returns the endpoints that owner names omit. It covers the names of the service and of its clusters, with and
/// without each port. Endpoints are numbered across all these names.
fn omitted(service: &Service) -> Vec<u32> {
    let mut endpoints = service.endpoints.iter();
    if endpoints.all(|endpoint| endpoint.is_alive() && endpoint.is_selected) {
        return Vec::new();
    }
    let ports = service.names.named_ports(&service.endpoints);
    let ports: BTreeMap<_, _> = ports
        .map(|(port, bits)| ((&port.name, port.protocol), bits))
        .collect();
    let names = || std::iter::once(&[][..]).chain(ports.values().copied());
    let (mut omitted, mut number) = (Vec::new(), 0);
    let mut add = |name: Members<'_>, selectable: Members<'_>| {
        let answered = selectable.answered(service.gateway_down);
        for endpoint in name.iter() {
            omitted.extend(Some(number).filter(|_| !answered.contains(endpoint)));
            number += 1;
        }
    };
    let whole = 0..service.endpoints.len();
    for bits in names() {
        let name = service.names.members(whole.clone(), bits);
        add(name.clone(), name.requiring(Property::Selected));
    }
    for range in cluster_ranges(&service.endpoints) {
        for bits in names() {
            let name = service.names.members(range.clone(), bits);
            add(name.clone(), name);
        }
    }
    omitted
}

fn hash_texts<const N: usize>(texts: [&str; N]) -> u64 {
    let mut form = CanonicalForm::default();
    texts.into_iter().for_each(|text| form.text(text));
    form.hash()
}

/// The canonical form of one part of the sum.
#[derive(Default)]
struct CanonicalForm(Vec<u8>);

impl CanonicalForm {
    fn number(&mut self, number: u32) {
        self.0.extend(number.to_be_bytes());
    }

    fn count(&mut self, count: usize) {
        self.number(count as u32); // there are some millions at most
    }

    fn octets(&mut self, octets: &[u8]) {
        self.count(octets.len());
        self.0.extend(octets);
    }

    fn text(&mut self, text: &str) {
        self.octets(text.as_bytes());
    }

    fn endpoint(&mut self, endpoint: &Endpoint) {
        let [hostname, cluster] = endpoint.labels();
        self.text(cluster);
        self.text(hostname);
        self.count(endpoint.addresses.len());
        for address in &endpoint.addresses {
            match address.ip {
                IpAddr::V4(ip) => self.octets(&ip.octets()),
                IpAddr::V6(ip) => self.octets(&ip.octets()),
            }
        }
        self.count(endpoint.ports.len());
        for port in &endpoint.ports {
            self.number(port.number.into());
            self.text(port.protocol.label());
            self.text(port.name.as_ref().map_or("", |name| name.as_str())); // no port name is empty
        }
    }

    fn hash(&self) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&KEY);
        hasher.write(&self.0);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::table::Table;
    use crate::testing::{endpoint, gateway, mirror, table};

    fn shop() -> Vec<Value> {
        let mut host = endpoint("prod", "db", "east", "db-0", &["10.96.0.1", "2001:db8::1"]);
        host["spec"]["ports"] = json!([{"name": "sql", "port": 26257}, {"port": 7000}]);
        vec![mirror("prod", "db", "east"), host]
    }

    /// The numbers come from another implementation of SipHash-2-4, applied to the form in the module documentation.
    #[test]
    fn hash_is_the_same_in_every_build() {
        assert_eq!(Table::default().answers_hash(), 0);
        assert_eq!(table(&shop()).answers_hash(), 3_599_905_452_044_747);
        // `west` is omitted at names that have another endpoint. It hides no name.
        let mut objects = shop();
        objects.push(mirror("prod", "db", "west"));
        let mut down = endpoint("prod", "db", "west", "db-0", &["10.96.0.2"]);
        down["spec"]["ports"] = json!([{"name": "sql", "port": 26257}]);
        objects.extend([down, gateway("prod", "db-0-west", false)]);
        // With a second namespace, the short name is ambiguous.
        objects.push(mirror("shop", "db", "east"));
        assert_eq!(table(&objects).answers_hash(), 6_439_144_540_262_087);
    }

    #[test]
    fn floating_point_number_represents_the_hash_exactly() {
        let hash = table(&shop()).answers_hash();
        assert_eq!((hash as f64) as u64, hash);
        assert!(hash < 1 << 53);
    }
}
