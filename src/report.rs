//! The table for people and programs: what `global-dns table` and `/api/v1/table` show.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::mirror::{GatewayDown, ObjectRef, Port, Protocol, ServiceKey, Skip, SkipReason};
use crate::table::{Conflict, Endpoint, Published, Service, Table};
use crate::zone::Zones;

/// The whole table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Counts the tables that differed from the one before.
    pub generation: u64,
    /// SOA serial.
    pub serial: u32,
    /// The table was saved by a process before (`--snapshot`), and nothing has confirmed it yet.
    #[serde(default)]
    pub stale: bool,
    /// The source has been silent for longer than `--max-stale`: SERVFAIL instead of what is shown.
    #[serde(default)]
    pub expired: bool,
    /// The zones, with final dots.
    pub zones: Vec<String>,
    /// Every service, sorted by namespace and name.
    pub services: Vec<ServiceReport>,
    /// Every object that was left out.
    pub skipped: Vec<SkipReport>,
    /// Every contradiction.
    pub conflicts: Vec<Conflict>,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceReport {
    /// `N`.
    pub namespace: String,
    /// `S`.
    pub service: String,
    /// Seconds.
    pub ttl: u32,
    /// It answers the short name too.
    pub owns_short_name: bool,
    /// Its endpoints, answered or not.
    pub endpoints: Vec<EndpointReport>,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// `C`.
    pub cluster: String,
    /// `H`.
    pub hostname: String,
    /// IPv4 and IPv6.
    pub addresses: Vec<IpAddr>,
    /// Ports.
    pub ports: Vec<PortReport>,
    /// What becomes of it.
    pub state: State,
    /// The object that it was read from; several, where equal names were united.
    pub object: String,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortReport {
    /// `P`, if the port has a name.
    pub name: Option<String>,
    /// `R`.
    pub protocol: Protocol,
    /// Port number.
    pub port: u16,
}

/// What becomes of an endpoint at `S.N.Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Answered.
    Answered,
    /// Answered although its gateway is down, because nothing else is left.
    LastResort,
    /// Left out: its gateway is down.
    GatewayDown,
    /// Left out: the local pod is not ready.
    NotReady,
}

/// One object that was left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkipReport {
    /// `Service/prod/db-0-west`.
    pub object: String,
    /// The kind of reason.
    pub reason: SkipReason,
    /// A sentence.
    pub detail: String,
}

// === impl Report ===

impl Report {
    /// Describes what is published.
    pub fn new(zones: &Zones, published: &Published) -> Self {
        let table = published.table.as_ref();
        let services = table.into_iter().flat_map(Table::sorted_services);
        let services = services.filter(|service| service.is_known);
        let mut skipped: Vec<_> = table.into_iter().flat_map(Table::skipped).collect();
        skipped.sort_by(|(one, _), (other, _)| one.cmp(other));
        let conflicts: BTreeSet<_> = table.into_iter().flat_map(Table::conflicts).collect();
        Self {
            generation: published.generation,
            serial: published.serial,
            stale: published.is_stale,
            expired: published.is_expired,
            zones: zones.iter().map(|zone| zone.name.to_string()).collect(),
            services: services
                .map(|service| ServiceReport::new(service, owns_short_name(service, table)))
                .collect(),
            skipped: skipped.iter().map(SkipReport::new).collect(),
            conflicts: conflicts.into_iter().cloned().collect(),
        }
    }

    /// Writes the report for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "generation {}, serial {}, zones {}",
            self.generation,
            self.serial,
            self.zones.join(" ")
        )?;
        if self.expired {
            writeln!(text, "older than --max-stale: SERVFAIL is answered instead")?;
        }
        if self.stale {
            writeln!(text, "saved by a process before, and not confirmed yet")?;
        }
        for service in &self.services {
            service.write(text)?;
        }
        writeln!(text, "\nskipped objects: {}", self.skipped.len())?;
        let skipped = self.skipped.iter().map(SkipReport::row);
        write_rows(text, &skipped.collect::<Vec<_>>())?;
        writeln!(text, "\nconflicts: {}", self.conflicts.len())?;
        let conflicts = self.conflicts.iter();
        let conflicts =
            conflicts.map(|c| [c.kind.name().to_owned(), c.name.clone(), c.detail.clone()]);
        write_rows(text, &conflicts.collect::<Vec<_>>())
    }
}

/// Writes rows with aligned columns, indented.
///
/// # Errors
///
/// None: writing to a `String` cannot fail.
pub fn write_rows<const N: usize>(text: &mut String, rows: &[[String; N]]) -> std::fmt::Result {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            write!(line, "  {cell:width$}")?;
        }
        writeln!(text, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Tells whether a service owns its short name.
fn owns_short_name(service: &Service, table: Option<&Table>) -> bool {
    let key = &service.key;
    let short = table.and_then(|table| table.short_name(key.service.as_str()));
    short.is_some_and(|short| short.owner.as_ref() == Ok(&key.namespace))
}

// === impl ServiceReport ===

impl ServiceReport {
    fn new(service: &Service, owns_short_name: bool) -> Self {
        Self {
            namespace: service.key.namespace.to_string(),
            service: service.key.service.to_string(),
            ttl: service.ttl,
            owns_short_name,
            endpoints: State::of_service(service)
                .map(|(e, state)| EndpointReport::new(&service.key, e, state))
                .collect(),
        }
    }

    /// Writes the service for people: a heading, and a row for each endpoint.
    fn write(&self, text: &mut String) -> std::fmt::Result {
        let short = if self.owns_short_name {
            ", also by its short name"
        } else {
            ""
        };
        let Self {
            service,
            namespace,
            ttl,
            ..
        } = self;
        writeln!(text, "\n{service}.{namespace}  ttl {ttl}{short}")?;
        if self.endpoints.is_empty() {
            return writeln!(text, "  no endpoint");
        }
        let heading = ["CLUSTER", "HOST", "ADDRESSES", "PORTS", "STATE", "OBJECT"];
        let mut rows = vec![heading.map(str::to_owned)];
        rows.extend(self.endpoints.iter().map(EndpointReport::row));
        write_rows(text, &rows)
    }
}

// === impl SkipReport ===

impl SkipReport {
    /// Describes an object that was left out.
    fn new((object, skip): &(ObjectRef, &Skip)) -> Self {
        Self {
            object: object.to_string(),
            reason: skip.reason,
            detail: skip.detail.clone(),
        }
    }

    /// Returns the object as a row of a table for people.
    fn row(&self) -> [String; 3] {
        [
            self.object.clone(),
            self.reason.to_string(),
            self.detail.clone(),
        ]
    }
}

// === impl EndpointReport ===

impl EndpointReport {
    /// Describes an endpoint of a service.
    pub fn new(service: &ServiceKey, endpoint: &Endpoint, state: State) -> Self {
        let objects = endpoint.object_refs(&service.namespace);
        let objects: Vec<String> = objects.map(|object| object.to_string()).collect();
        Self {
            cluster: endpoint.cluster.to_string(),
            hostname: endpoint.hostname.to_string(),
            addresses: endpoint
                .addresses
                .iter()
                .map(|address| address.ip)
                .collect(),
            ports: endpoint.ports.iter().map(PortReport::new).collect(),
            state,
            object: objects.join(" "),
        }
    }

    /// Returns the endpoint as a row of a table for people.
    pub fn row(&self) -> [String; 6] {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let ports: Vec<String> = self.ports.iter().map(PortReport::to_text).collect();
        [
            self.cluster.clone(),
            self.hostname.clone(),
            addresses.join(" "),
            ports.join(" "),
            self.state.name().to_owned(),
            self.object.clone(),
        ]
    }
}

impl PortReport {
    fn new(port: &Port) -> Self {
        let name = port.name.as_ref().map(ToString::to_string);
        Self {
            name,
            protocol: port.protocol,
            port: port.number,
        }
    }

    fn to_text(&self) -> String {
        let protocol = match self.protocol {
            Protocol::Tcp => "",
            Protocol::Udp => "/udp",
            Protocol::Sctp => "/sctp",
        };
        let name = self
            .name
            .as_ref()
            .map(|name| format!("{name}:"))
            .unwrap_or_default();
        format!("{name}{}{protocol}", self.port)
    }
}

// === impl State ===

impl State {
    /// Returns every endpoint of a service with what becomes of it.
    pub fn of_service(service: &Service) -> impl Iterator<Item = (&Endpoint, Self)> {
        let shows_dead = service
            .gateway_down
            .shows_dead(false, service.endpoints.iter());
        let includes = service.gateway_down == GatewayDown::Include;
        let state = move |endpoint: &Endpoint| match (endpoint.alive, shows_dead) {
            (true, _) => Self::Answered,
            (false, true) if includes => Self::Answered,
            (false, true) => Self::LastResort,
            (false, false) => Self::GatewayDown,
        };
        let endpoints = service
            .endpoints
            .iter()
            .map(move |endpoint| (endpoint, state(endpoint)));
        endpoints.chain(
            service
                .not_ready
                .iter()
                .map(|endpoint| (endpoint, Self::NotReady)),
        )
    }

    /// Returns the state's name in reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::LastResort => "last-resort",
            Self::GatewayDown => "gateway-down",
            Self::NotReady => "not-ready",
        }
    }
}

#[cfg(test)]
mod tests;
