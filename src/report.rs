//! The report on the table, as text and JSON: the output of `global-dns table` and `/api/v1/table`.
//!
//! `README.md` in `report/` describes every JSON document, and `report/schema/` has a JSON Schema for each.

mod document;

pub mod events;
mod failover;
mod problems;
mod select;
mod stream;
mod wide;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use document::{ConflictList, RecordReport, SchemaVersion};
pub use failover::{FailoverReport, StepReport};
pub use problems::{ConflictReport, ProblemReport, SkipReport};

use crate::model::{GatewayDown, Port, Problem, Protocol, ServiceKey};
use crate::table::{Endpoint, EndpointLiveness, Published, Service, Table};
use crate::zone::Zones;

pub use select::Selection;
pub use stream::write_report;

/// The columns of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    /// The usual columns.
    Narrow,
    /// All columns.
    Wide,
}

/// The report on the whole table. The types of its lists differ while it is streamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report<
    S = Vec<ServiceReport>,
    K = Vec<SkipReport>,
    C = Vec<ConflictReport>,
    P = Vec<ProblemReport>,
> {
    /// Version of the document's format.
    #[serde(rename = "schemaVersion")]
    pub schema_version: SchemaVersion,
    /// Number of published tables that differ from the previous one.
    pub generation: u64,
    /// SOA serial.
    pub serial: u32,
    /// Whether the table comes from a snapshot of an earlier process (`--snapshot`) and is not confirmed yet.
    #[serde(default)]
    pub stale: bool,
    /// Whether the source has not been heard from for longer than `--max-stale`. Queries are then answered with
    /// SERVFAIL.
    #[serde(default)]
    pub expired: bool,
    /// The zones, with final dots.
    pub zones: Vec<String>,
    /// All services, sorted by namespace and name.
    pub services: S,
    /// The problems of objects that are skipped.
    pub skipped: K,
    /// The problems that are conflicts.
    pub conflicts: C,
    /// All problems.
    pub problems: P,
}

/// The parts of a table that are reported, sorted.
pub(super) struct Parts<'t> {
    pub(super) services: Vec<&'t Service>,
    pub(super) problems: Vec<Cow<'t, Problem>>,
}

/// The report on one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceReport {
    /// Namespace, label `N`.
    pub namespace: String,
    /// Name, label `S`.
    pub service: String,
    /// The kind that answers its name.
    #[serde(default)]
    pub kind: String,
    /// TTL of the records, seconds.
    pub ttl: u32,
    /// Whether the service owns its short name.
    pub owns_short_name: bool,
    /// Its failover order, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverReport>,
    /// The expected clusters that its name waits for. If there are any, the name is answered with SERVFAIL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaited: Vec<String>,
    /// Its endpoints, including those that are omitted from answers.
    pub endpoints: Vec<EndpointReport>,
}

/// The report on one endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// Cluster, label `C`. Empty for a federated service.
    pub cluster: String,
    /// Hostname, label `H`. Empty for a cluster IP.
    pub hostname: String,
    /// The kind of its source object.
    #[serde(default)]
    pub kind: String,
    /// IPv4 and IPv6 addresses.
    pub addresses: Vec<IpAddr>,
    /// Ports.
    pub ports: Vec<PortReport>,
    /// State in answers.
    pub state: EndpointState,
    /// Source object. A merged endpoint has several.
    pub object: String,
}

/// The report on one port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortReport {
    /// Name, label `P`, if the port has one.
    pub name: Option<String>,
    /// Protocol, label `R`.
    pub protocol: Protocol,
    /// Port number.
    pub port: u16,
}

/// The state of an endpoint in answers for `S.N.Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndpointState {
    /// The endpoint is returned.
    Answered,
    /// The endpoint is returned although its gateway is down, because no gateway is up.
    LastResort,
    /// The endpoint is omitted because its gateway is down.
    GatewayDown,
    /// The endpoint is omitted because the local pod is not ready.
    NotReady,
    /// The endpoint is returned for the name of its cluster only, because another kind answers `S.N.Z`.
    OtherKind,
    /// The endpoint is alive, and is returned for the name of its cluster only, because another step of the failover order
    /// answers.
    Standby,
    /// The endpoint is omitted because no Link names its cluster (rule L3).
    Unlinked,
}

// === impl Report ===

impl Report {
    /// Makes the report on the published table.
    pub fn new(zones: &Zones, published: &Published) -> Self {
        let table = published.table.as_ref();
        let parts = Parts::of(published);
        let services = parts.services.iter();
        let services = services
            .map(|service| ServiceReport::new(service, owns_short_name(service, table)))
            .collect();
        let skipped = parts.skipped().map(SkipReport::from).collect();
        let conflicts = parts.conflicts().map(ConflictReport::from).collect();
        let problems = parts.problems.iter();
        let problems = problems.map(|problem| ProblemReport::from(problem.as_ref()));
        Self::with_lists(
            zones,
            published,
            (services, skipped, conflicts, problems.collect()),
        )
    }

    /// Returns the report as text.
    pub fn to_text(&self) -> String {
        self.to_text_of(TextForm::Narrow)
    }

    /// Returns it as text with the given columns.
    pub fn to_text_of(&self, form: TextForm) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write(&mut text, form);
        text
    }

    fn write(&self, text: &mut String, form: TextForm) -> std::fmt::Result {
        writeln!(
            text,
            "generation {}, serial {}, zones {}",
            self.generation,
            self.serial,
            self.zones.join(" ")
        )?;
        match form {
            TextForm::Narrow => self.services.iter().try_for_each(|one| one.write(text))?,
            TextForm::Wide => self.write_wide(text)?,
        }
        writeln!(text, "\nproblems: {}", self.problems.len())?;
        let problems = self.problems.iter().map(ProblemReport::row);
        write_rows(text, &problems.collect::<Vec<_>>())
    }
}

impl<S, K, C, P> Report<S, K, C, P> {
    /// Makes the report on the published table with these lists.
    pub(super) fn with_lists(
        zones: &Zones,
        published: &Published,
        (services, skipped, conflicts, problems): (S, K, C, P),
    ) -> Self {
        Self {
            schema_version: SchemaVersion,
            generation: published.generation,
            serial: published.serial,
            stale: published.is_stale,
            expired: published.is_expired,
            zones: zones.iter().map(|zone| zone.name.to_string()).collect(),
            services,
            skipped,
            conflicts,
            problems,
        }
    }
}

// === impl Parts ===

impl<'t> Parts<'t> {
    pub(super) fn of(published: &'t Published) -> Self {
        let table = published.table.as_ref();
        let services = table.into_iter().flat_map(Table::sorted_services);
        let of_table = table.into_iter().flat_map(Table::problems);
        let own = published.problems(None).map(Cow::Owned);
        let mut problems: Vec<_> = own.chain(of_table).collect();
        problems.sort();
        problems.dedup();
        Self {
            services: services.filter(|service| service.is_listed()).collect(),
            problems,
        }
    }

    pub(super) fn skipped(&self) -> impl Iterator<Item = &Problem> + Clone {
        let problems = self.problems.iter().map(AsRef::as_ref);
        problems.filter(|problem| problem.is_skip())
    }

    pub(super) fn conflicts(&self) -> impl Iterator<Item = &Problem> + Clone {
        let problems = self.problems.iter().map(AsRef::as_ref);
        problems.filter(|problem| problem.is_conflict())
    }
}
/// Writes indented rows with aligned columns. A column without content is left out.
///
/// # Errors
///
/// Never returns an error, because writing to a `String` cannot fail.
pub fn write_rows<const N: usize>(text: &mut String, rows: &[[String; N]]) -> std::fmt::Result {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row).filter(|(width, _)| **width > 0) {
            write!(line, "  {cell:width$}")?;
        }
        writeln!(text, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Returns whether a service owns its short name.
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
            kind: service.kind.to_string(),
            ttl: service.ttl,
            owns_short_name,
            failover: service.failover.as_deref().map(FailoverReport::new),
            awaited: service.awaited().iter().map(ToString::to_string).collect(),
            endpoints: EndpointState::of_service(service)
                .map(|(e, state)| EndpointReport::new(&service.key, e, state))
                .collect(),
        }
    }

    /// Writes the service as text: a heading and a row for each endpoint.
    fn write(&self, text: &mut String) -> std::fmt::Result {
        let short = if self.owns_short_name {
            ", owns its short name"
        } else {
            ""
        };
        let Self {
            service,
            namespace,
            kind,
            ttl,
            ..
        } = self;
        writeln!(text, "\n{service}.{namespace}  {kind}, ttl {ttl}{short}")?;
        if let Some(FailoverReport {
            order, step, steps, ..
        }) = &self.failover
        {
            let clusters = steps.get(step - 1).map_or("", |step| &step.clusters);
            let count = steps.len();
            writeln!(
                text,
                "  failover order {order}: answering step {step} of {count}, {clusters}"
            )?;
        }
        if !self.awaited.is_empty() {
            writeln!(
                text,
                "  its name is not answered; it waits for clusters: {}",
                self.awaited.join(", ")
            )?;
        }
        if self.endpoints.is_empty() {
            return writeln!(text, "  no endpoints");
        }
        let mut rows = vec![EndpointReport::HEAD.map(str::to_owned)];
        rows.extend(self.endpoints.iter().map(EndpointReport::row));
        write_rows(text, &rows)
    }
}

// === impl EndpointReport ===

impl EndpointReport {
    /// The headings of [`Self::row`].
    pub const HEAD: [&str; 6] = ["CLUSTER", "HOST", "ADDRESSES", "PORTS", "STATE", "OBJECT"];

    /// Makes the report on an endpoint of a service.
    pub fn new(service: &ServiceKey, endpoint: &Endpoint, state: EndpointState) -> Self {
        let objects = endpoint.object_refs(&service.namespace);
        let objects: Vec<String> = objects.map(|object| object.to_string()).collect();
        Self {
            cluster: endpoint.labels()[1].to_owned(),
            hostname: endpoint.labels()[0].to_owned(),
            kind: endpoint.kind.to_string(),
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

    /// Returns the endpoint as a row of text.
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

// === impl EndpointState ===

impl EndpointState {
    /// Returns all endpoints of a service with their states.
    pub fn of_service(service: &Service) -> impl Iterator<Item = (&Endpoint, Self)> {
        let included = service.name_addresses.included;
        let includes = service.gateway_down == GatewayDown::Include;
        let state = move |endpoint: &Endpoint| match (endpoint.liveness, included.has(endpoint)) {
            (EndpointLiveness::Alive, _) if endpoint.is_standby => Self::Standby,
            (EndpointLiveness::Unlinked, is_included) if endpoint.is_standby || !is_included => {
                Self::Unlinked
            }
            // A standby that could not take over needs the same attention as any gateway that is down.
            _ if endpoint.is_standby => Self::GatewayDown,
            _ if !endpoint.is_selected => Self::OtherKind,
            (EndpointLiveness::Alive, _) => Self::Answered,
            (EndpointLiveness::Unlinked, true) => Self::LastResort,
            (_, true) if includes => Self::Answered,
            (_, true) => Self::LastResort,
            (_, false) => Self::GatewayDown,
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
            Self::OtherKind => "other-kind",
            Self::Standby => "standby",
            Self::Unlinked => "unlinked",
        }
    }
}

#[cfg(test)]
mod tests;
