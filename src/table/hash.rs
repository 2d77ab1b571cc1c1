//! One number for everything that a table answers, by which replicas are compared.
//!
//! It is a sum of SipHash-2-4 values: one for each service with endpoints, one for each short name with an owner, and one
//! for each short name that a canonical one hides. A sum has no order. Each value is made of a canonical form, in which
//! numbers are in network byte order and texts follow their length, with a fixed key. So tables that answer alike have
//! the same hash in every process and in every build. The key is no secret: this tells replicas apart, not forgeries.

use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::net::IpAddr;

use siphasher::sip::SipHasher24;

use super::{Contested, Endpoint, Service, Table};
use crate::mirror::{Port, PortName, Protocol};

const KEY: [u8; 16] = *b"global-dns table";

/// Bits of a sum that are left out: a floating-point number has 53 for its digits, and metrics are such numbers.
const EXCESS: u32 = u64::BITS - f64::MANTISSA_DIGITS;

/// Hashes everything that a table answers.
pub(super) fn of_answers(table: &Table) -> u64 {
    let answered = |service: &&Service| !service.endpoints.is_empty();
    let services = table.services().filter(answered).map(of_service);
    let short_names = table.short_names.iter().filter_map(|(name, short)| {
        let owner = short.owner.as_ref().ok()?;
        let service = table.service(owner.as_str(), name.as_str());
        service
            .filter(answered)
            .map(|_| of_texts(["short name", name.as_str(), owner.as_str()]))
    });
    let hidden = table.conflicts.iter().flat_map(|(contested, conflicts)| {
        let hidden = match contested {
            Contested::Namespace(_) => conflicts.as_slice(),
            // Reported, and answered or not as other parts of the sum say.
            Contested::Zone | Contested::ShortName(_) => &[],
        };
        hidden.iter().map(|one| of_texts(["hidden", &one.name]))
    });
    let parts = services.chain(short_names).chain(hidden);
    parts.fold(0, u64::wrapping_add) >> EXCESS
}

fn of_service(service: &Service) -> u64 {
    let mut form = Form::default();
    form.text("service");
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

/// Lists what owner names omit of the endpoints that they cover: the service's and the clusters' names, each with and
/// without each port. It numbers the endpoints of one name after the other.
fn omitted(service: &Service) -> Vec<u32> {
    if service.endpoints.iter().all(|endpoint| endpoint.alive) {
        return Vec::new();
    }
    let clusters = service
        .clusters()
        .map(|cluster| service.in_cluster(cluster.as_str()));
    let (mut omitted, mut number) = (Vec::new(), 0);
    for scope in std::iter::once(service.endpoints.as_slice()).chain(clusters) {
        for covered in by_port(scope).values() {
            let down = service.gateway_down;
            let shows_dead = down.shows_dead(false, covered.iter().copied());
            for endpoint in covered {
                if !endpoint.alive && !shows_dead {
                    omitted.push(number);
                }
                number += 1;
            }
        }
    }
    omitted
}

/// Returns what a name covers without a port, and with each. The work follows the ports that there are: who writes
/// Services chooses how many.
fn by_port(scope: &[Endpoint]) -> BTreeMap<Option<(&PortName, &Protocol)>, Vec<&Endpoint>> {
    let mut names = BTreeMap::from([(None, scope.iter().collect::<Vec<_>>())]);
    for endpoint in scope {
        for Port { name, protocol, .. } in &endpoint.ports {
            if let Some(name) = name {
                let name = Some((name, protocol));
                names.entry(name).or_default().push(endpoint);
            }
        }
    }
    names
}

fn of_texts<const N: usize>(texts: [&str; N]) -> u64 {
    let mut form = Form::default();
    texts.into_iter().for_each(|text| form.text(text));
    form.hash()
}

/// The canonical form of a part.
#[derive(Default)]
struct Form(Vec<u8>);

impl Form {
    fn number(&mut self, number: u32) {
        self.0.extend(number.to_be_bytes());
    }

    fn count(&mut self, count: usize) {
        self.number(count as u32); // millions at most
    }

    fn octets(&mut self, octets: &[u8]) {
        self.count(octets.len());
        self.0.extend(octets);
    }

    fn text(&mut self, text: &str) {
        self.octets(text.as_bytes());
    }

    fn endpoint(&mut self, endpoint: &Endpoint) {
        self.text(endpoint.cluster.as_str());
        self.text(endpoint.hostname.as_str());
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
            self.text(port.name.as_ref().map_or("", |name| name.as_str())); // a name is not empty
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

    use super::omitted;
    use crate::table::Table;
    use crate::testing::{endpoint, gateway, mirror, table};

    fn shop() -> Vec<Value> {
        let mut host = endpoint("prod", "db", "east", "db-0", &["10.96.0.1", "2001:db8::1"]);
        host["spec"]["ports"] = json!([{"name": "sql", "port": 26257}, {"port": 7000}]);
        vec![mirror("prod", "db", "east"), host]
    }

    /// The numbers are those of another implementation of SipHash-2-4, over the form that the module describes.
    #[test]
    fn the_hash_is_the_same_in_every_build() {
        assert_eq!(Table::default().answers_hash(), 0);
        assert_eq!(table(&shop()).answers_hash(), 3_599_905_452_044_747);
        // `west` is omitted at the names that have another endpoint, and hides nothing.
        let mut objects = shop();
        objects.push(mirror("prod", "db", "west"));
        let mut dead = endpoint("prod", "db", "west", "db-0", &["10.96.0.2"]);
        dead["spec"]["ports"] = json!([{"name": "sql", "port": 26257}]);
        objects.extend([dead, gateway("prod", "db-0-west", false)]);
        // A second claimant: nobody owns the short name.
        objects.push(mirror("shop", "db", "east"));
        assert_eq!(table(&objects).answers_hash(), 6_439_144_540_262_087);
    }

    #[test]
    fn a_metric_holds_the_hash_exactly() {
        let hash = table(&shop()).answers_hash();
        assert_eq!((hash as f64) as u64, hash);
        assert!(hash < 1 << 53);
    }

    /// The writer of a Service chooses how many ports there are. Looking for each port at each endpoint would take minutes.
    #[test]
    fn what_names_omit_is_found_in_time_that_follows_the_ports() {
        let ports = |host: usize| -> Value {
            let port = |port: usize| json!({"name": format!("p{host}-{port}"), "port": port + 1});
            (0..60).map(port).collect()
        };
        let mut objects = vec![
            mirror("prod", "db", "east"),
            gateway("prod", "h-0-east", false),
        ];
        for host in 0..1_000 {
            let ip = format!("10.96.{}.{}", host / 250, host % 250 + 1);
            let name = format!("h-{host}");
            let mut mirror = endpoint("prod", "db", "east", &name, &[&ip]);
            mirror["spec"]["ports"] = ports(host);
            objects.push(mirror);
        }
        let table = table(&objects);
        let started = std::time::Instant::now();
        // At the names of the service and of the cluster; the names of its own ports keep it.
        let omitted = omitted(table.service("prod", "db").unwrap());
        assert_eq!(omitted, [0, 61_000]);
        assert!(started.elapsed() < std::time::Duration::from_secs(60));
    }
}
