//! The question that is asked from end to end, and the addresses to connect to, from the table.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::model::{Port, Protocol};
use crate::table::{Endpoint, Table};
use crate::zone::{Name, Reading, RecordType, View, ZoneKind, Zones, read};

/// A question that is asked from end to end.
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
    /// The smallest service of the table.
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

/// Chooses the service with the fewest endpoints of those with an alive one. Returns `None` if there is none.
pub fn smallest(zones: &Zones, table: &Table) -> Option<Question> {
    let zone = zones.iter().find(|zone| zone.kind == ZoneKind::Forward)?;
    let services = table.sorted_services().into_iter().filter_map(|service| {
        let selected = service.endpoints.iter().filter(|e| e.is_selected);
        let is_alive = selected.clone().any(|endpoint| endpoint.is_alive());
        let rtype = match (
            &service.name_addresses.v4[..],
            &service.name_addresses.v6[..],
        ) {
            ([_, ..], _) => RecordType::A,
            ([], [_, ..]) => RecordType::AAAA,
            ([], []) => return None,
        };
        let size = selected
            .map(|endpoint| endpoint.addresses.len())
            .sum::<usize>();
        is_alive.then_some((size, &service.key, rtype))
    });
    let (_, key, rtype) = services.min()?;
    Some(Question {
        name: format!("{}.{}.{}", key.service, key.namespace, zone.name),
        rtype,
        origin: QuestionOrigin::Table,
    })
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

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.rtype)
    }
}
