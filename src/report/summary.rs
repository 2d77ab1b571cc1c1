//! The summary: one row for each service, with one cell for each cluster.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use strum::IntoStaticStr;

use super::lazy::Lazy;
use super::{Age, EndpointState, SchemaVersion, Shade};
use crate::model::Problem;
use crate::table::{Impact, Published, Service, Table};
use crate::zone::answer::answer_question;
use crate::zone::{AnswerResult, Name, RecordType, Zone, Zones};

/// The summary: a head, and the rows of all services. The types differ while it is streamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary<H = SummaryHead, S = Vec<ServiceRow>> {
    /// The state of the server, or that of a table without a server.
    #[serde(flatten)]
    pub head: H,
    /// The services, sorted by namespace and name.
    pub services: S,
}

/// What a reader of a summary needs of its head. Without a server, there is no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryHead {
    /// Version of the document's format.
    #[serde(rename = "schemaVersion")]
    pub schema_version: SchemaVersion,
    /// The zones, with final dots.
    pub zones: Vec<String>,
    /// Number of published tables that differ from the previous one.
    pub generation: Option<u64>,
    /// SOA serial.
    pub serial: Option<u32>,
    /// The other fields of a server.
    #[serde(flatten)]
    pub server: Map<String, Value>,
}

/// The row of a service in the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceRow {
    /// Namespace, label `N`.
    pub namespace: String,
    /// Name, label `S`.
    pub service: String,
    /// The kind that answers its name.
    pub kind: Cow<'static, str>,
    /// How bad its state is for clients.
    pub level: Impact,
    /// The result of a query for its name: the best of A, AAAA and SRV.
    pub result: Cow<'static, str>,
    /// The number of endpoints that its name returns.
    pub returned: u32,
    /// The number of endpoints that are alive, returned or not.
    pub alive: u32,
    /// The number of endpoints.
    pub endpoints: u32,
    /// Its clusters.
    pub cells: Vec<Cell>,
    /// Its failover order, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<StepNumber>,
}

/// The step of a failover order that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepNumber {
    /// Its number, counted from one.
    pub step: usize,
    /// The number of steps.
    pub steps: usize,
}

/// What a cluster contributes to a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The cluster. Empty: an address of no single cluster.
    pub cluster: String,
    /// The state of its endpoints: the worst, if there are several.
    pub state: CellState,
    /// The number of endpoints that are alive, returned or not.
    pub alive: u32,
    /// The number of endpoints.
    pub endpoints: u32,
    /// The number of endpoints that the name of the service returns.
    pub returned: u32,
    /// Since when an endpoint is down or not ready: the earliest time.
    #[serde(flatten)]
    pub age: Age,
}

/// The state of a cell, the worst first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum CellState {
    /// An endpoint is down.
    Down,
    /// The name waits for an endpoint of the cluster (rule K8).
    Expected,
    /// An endpoint is not ready.
    NotReady,
    /// An endpoint is left out by a rule.
    Omitted,
    /// Another step of the failover order answers.
    Standby,
    /// All endpoints are alive.
    Alive,
}

/// Writes a summary: a head, and the rows of all services.
///
/// # Errors
///
/// If writing fails.
pub fn write_summary(
    out: impl io::Write,
    head: &impl Serialize,
    zones: &Zones,
    published: &Published,
) -> io::Result<()> {
    let services = published.table.iter().flat_map(Table::sorted_services);
    let listed: Vec<&Service> = services.filter(|service| service.is_listed()).collect();
    let rows = listed.iter();
    let services = Lazy(rows.map(|service| ServiceRow::new(zones, published, service)));
    Ok(serde_json::to_writer(out, &Summary { head, services })?)
}

// === impl Summary ===

impl Summary {
    /// Sorts the services: those with trouble come first.
    pub fn sort(&mut self) {
        self.services.sort_by_key(|row| Reverse(row.level));
    }

    /// Summarizes a published table without a server.
    pub fn new(zones: &Zones, published: &Published) -> Self {
        let services = published.table.iter().flat_map(Table::sorted_services);
        let listed = services.filter(|service| service.is_listed());
        Self {
            head: SummaryHead {
                schema_version: SchemaVersion,
                zones: zones.iter().map(|zone| zone.name.to_string()).collect(),
                generation: Some(published.generation),
                serial: Some(published.serial),
                server: Map::new(),
            },
            services: listed
                .map(|service| ServiceRow::new(zones, published, service))
                .collect(),
        }
    }
}

// === impl ServiceRow ===

impl ServiceRow {
    /// Describes a service of the published table.
    pub fn new(zones: &Zones, published: &Published, service: &Service) -> Self {
        let mut cells: BTreeMap<&str, Cell> = BTreeMap::new();
        for (endpoint, state, is_returned) in EndpointState::of_service(service) {
            let cell = cells
                .entry(endpoint.labels()[1])
                .or_insert_with_key(|cluster| Cell::new(cluster, CellState::Alive));
            cell.state = cell.state.min(state.into());
            service
                .problem_of(endpoint)
                .into_iter()
                .for_each(|problem| cell.note_age(problem));
            cell.endpoints += 1;
            cell.alive += u32::from(state.is_alive());
            cell.returned += u32::from(is_returned);
        }
        for cluster in service.missing_clusters() {
            let cell = cells.entry(cluster);
            cell.or_insert_with_key(|cluster| Cell::new(cluster, CellState::Expected));
        }
        let cells: Vec<Cell> = cells.into_values().collect();
        let sum = |count: fn(&Cell) -> u32| cells.iter().map(count).sum();
        let failover = service.failover.as_deref();
        Self {
            namespace: service.key.namespace.to_string(),
            service: service.key.service.to_string(),
            kind: service.kind.name().into(),
            level: service.impact(),
            result: <&str>::from(result(zones, published, service)).into(),
            returned: sum(|cell| cell.returned),
            alive: sum(|cell| cell.alive),
            endpoints: sum(|cell| cell.endpoints),
            cells,
            failover: failover.map(|failover| StepNumber {
                step: failover.answering + 1,
                steps: failover.steps.len(),
            }),
        }
    }
}

/// Returns the result of a query for the name of a service, the best of its types.
fn result(zones: &Zones, published: &Published, service: &Service) -> AnswerResult {
    let key = &service.key;
    let suffix = zones.iter().next().map(Zone::name_suffix);
    let own = suffix.map(|suffix| format!("{}.{}.{suffix}", key.service, key.namespace));
    let Some(own) = own.and_then(|name| Name::from_text(&name)) else {
        return AnswerResult::NxDomain;
    };
    let results = RecordType::OF_SERVICES
        .into_iter()
        .map(|rtype| answer_question(zones, published, &own, rtype).result());
    results.min().unwrap_or(AnswerResult::NxDomain)
}

// === impl Cell ===

impl Cell {
    fn new(cluster: &str, state: CellState) -> Self {
        Self {
            cluster: cluster.to_owned(),
            state,
            alive: 0,
            endpoints: 0,
            returned: 0,
            age: Age::default(),
        }
    }

    /// Notes a problem of an endpoint. The earliest counts.
    fn note_age(&mut self, problem: &Problem) {
        let age = Age::from(problem);
        if self.age.since.is_none() || age.since.is_some() && age.since < self.age.since {
            self.age = age;
        }
    }
}

// === impl CellState ===

impl CellState {
    /// Returns the state's name in documents.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl From<EndpointState> for CellState {
    fn from(state: EndpointState) -> Self {
        match state {
            EndpointState::Alive => Self::Alive,
            EndpointState::Down => Self::Down,
            EndpointState::NotReady => Self::NotReady,
            EndpointState::Standby => Self::Standby,
            EndpointState::Omitted => Self::Omitted,
        }
    }
}

impl From<EndpointState> for Shade {
    fn from(state: EndpointState) -> Self {
        CellState::from(state).into()
    }
}

impl From<CellState> for Shade {
    fn from(state: CellState) -> Self {
        match state {
            CellState::Alive => Self::Good,
            CellState::Down => Self::Bad,
            CellState::Expected | CellState::NotReady => Self::Attention,
            CellState::Standby | CellState::Omitted => Self::Idle,
        }
    }
}

// === impl Impact ===

impl From<Impact> for Shade {
    fn from(impact: Impact) -> Self {
        match impact {
            Impact::Fine => Self::Good,
            Impact::Attention => Self::Attention,
            Impact::Failing => Self::Bad,
        }
    }
}
