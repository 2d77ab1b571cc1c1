//! The questions that `check` sends to the server and to the cluster's DNS, and the addresses to connect to, from the table.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::model::{Port, Protocol};
use crate::table::{Endpoint, Grammar, Service, Table};
use crate::zone::{Name, Reading, RecordType, View, Zone, Zones, read};

/// A question for the addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The absolute name, with the final dot.
    pub name: String,
    /// A or AAAA.
    pub rtype: RecordType,
    /// Who chose the name.
    pub origin: QuestionOrigin,
}

/// Who chose the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionOrigin {
    /// `--name`: the user expects that it resolves.
    Flag,
    /// It is the name of a service of the table.
    Table,
}

/// An address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The endpoint: `db-0 of cluster east`.
    pub endpoint: String,
    /// Its address and port.
    pub address: SocketAddr,
}

/// Number of services to compare in each zone.
const SAMPLES: usize = 3;

/// Returns the questions for the services with addresses to compare.
pub fn samples(zone: &Zone, table: &Table) -> Vec<Question> {
    if zone.grammar != Grammar::Global {
        return Vec::new();
    }
    let services = table.sorted_services().into_iter();
    let questions = services.filter_map(|service| Question::of_service(zone, service));
    questions.take(SAMPLES).collect()
}

/// Chooses the service with the fewest endpoints of those with an alive one. Returns `None` if there is none.
pub fn smallest(zones: &Zones, table: &Table) -> Option<Question> {
    let zone = zones.iter().find(|zone| zone.grammar == Grammar::Global)?;
    let services = table.sorted_services().into_iter().filter_map(|service| {
        let selected = service.endpoints.iter().filter(|e| e.is_selected);
        let is_alive = selected.clone().any(Endpoint::is_alive);
        let sizes = selected.map(|endpoint| endpoint.addresses.len());
        let question = Question::of_service(zone, service).filter(|_| is_alive)?;
        Some((sizes.sum::<usize>(), question))
    });
    let (_, question) = services.min_by_key(|(size, _)| *size)?;
    Some(question)
}

/// Returns the question for a name: AAAA if the table has only IPv6 addresses for it, and otherwise A.
pub fn question_of(name: &Name, zones: &Zones, table: Option<&Table>) -> Question {
    let has_only_v6 = table.is_some_and(|table| {
        let view = view_of(name, zones, table);
        let endpoints = view.iter().flat_map(View::endpoints);
        let mut addresses = endpoints
            .flat_map(|endpoint| &endpoint.addresses)
            .peekable();
        addresses.peek().is_some() && addresses.all(|address| address.ip.is_ipv6())
    });
    Question {
        name: name.to_string(),
        rtype: if has_only_v6 {
            RecordType::AAAA
        } else {
            RecordType::A
        },
        origin: QuestionOrigin::Flag,
    }
}

/// Returns the part of the table that a name stands for.
fn view_of<'t>(name: &Name, zones: &'t Zones, table: &'t Table) -> Option<View<'t>> {
    match read(zones, table, name) {
        Reading::View(_, view) => Some(view),
        _ => None,
    }
}

/// Returns the answered addresses of a name with the TCP ports of their endpoints. A name of a port has only that port.
pub fn targets(
    name: &Name,
    answered: &BTreeSet<IpAddr>,
    zones: &Zones,
    table: &Table,
) -> Vec<Target> {
    let Some(view) = view_of(name, zones, table) else {
        return Vec::new();
    };
    let is_wanted = |own: &&Port| {
        let is_named = |port: &Port| (&port.name, port.protocol) == (&own.name, own.protocol);
        own.protocol == Protocol::Tcp && view.port.is_none_or(is_named)
    };
    let mut targets = Vec::new();
    for endpoint in view.endpoints() {
        let addresses = endpoint.addresses.iter().map(|address| address.ip);
        for ip in addresses.filter(|ip| answered.contains(ip)) {
            targets.extend(endpoint.ports.iter().filter(is_wanted).map(|port| Target {
                endpoint: describe(endpoint),
                address: SocketAddr::new(ip, port.number),
            }));
        }
    }
    targets
}

/// Describes an endpoint for a finding.
fn describe(endpoint: &Endpoint) -> String {
    match endpoint.labels() {
        ["", ""] => "the federated service".to_owned(),
        ["", cluster] => format!("cluster {cluster}"),
        [host, cluster] => format!("{host} of cluster {cluster}"),
    }
}

// === impl Question ===

impl Question {
    /// Returns the question for the name of a service: AAAA if it has only IPv6 addresses. Returns `None` if it has no address.
    fn of_service(zone: &Zone, service: &Service) -> Option<Self> {
        let (key, names) = (&service.key, &service.names);
        let has_v4 = !names.v4.is_empty();
        let has_address = has_v4 || !names.v6.is_empty();
        has_address.then(|| Self {
            name: format!("{}.{}.{}", key.service, key.namespace, zone.name),
            rtype: if has_v4 {
                RecordType::A
            } else {
                RecordType::AAAA
            },
            origin: QuestionOrigin::Table,
        })
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.rtype)
    }
}

#[cfg(test)]
mod tests;
