//! The view `table`: one row for each service, those with trouble first, below what is wrong with the server and its source.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{
    Age, Cells, Document, EndpointState, Report, Section, Shown, State, Verdict,
    causes_above_services, gone, is_listed, text_of,
};
use crate::model::{GatewayDown, Line, MAX_LISTED, ProblemKind, ServiceKey, join_texts, list_some};
use crate::source::SteadyClock;
use crate::table::Service;
use crate::table::failover::{Failover, Step, StepHealth};
use crate::zone::Failure;

/// A service.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceRow {
    /// Namespace, label `N`.
    pub namespace: String,
    /// Name, label `S`.
    pub service: String,
    /// The kind that answers its name.
    pub kind: &'static str,
    /// How bad its state is for clients.
    pub state: State,
    /// The result of a query for its name: the best of A, AAAA and SRV.
    pub answer: &'static str,
    /// TTL of the records, seconds.
    pub ttl: u32,
    /// Whether its short name is that of this service.
    pub owns_short_name: bool,
    /// The number of endpoints that its name returns.
    pub returned: u32,
    /// The number of endpoints that are alive, returned or not.
    pub alive: u32,
    /// The number of endpoints.
    pub endpoints: u32,
    /// Its clusters.
    pub clusters: Vec<ClusterCell>,
    /// Its failover order, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverReport>,
    /// Whether endpoints that are down are answered beside others (rule M4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_down: Option<GatewayDown>,
    /// The clusters that its name expects, such as `local+east`. Empty: none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expected: String,
    /// The expected clusters that its name waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_clusters: Vec<Line>,
    /// Why its name fails, if it does. Queries for it are answered with SERVFAIL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The kind of its worst problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<ProblemKind>,
    /// What is wrong with every problem of that kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentence: Option<&'static str>,
}

/// What a cluster contributes to a service.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterCell {
    /// The cluster. Empty: an address of no single cluster.
    pub cluster: String,
    /// The clusters of the federated service, if it is an address of several ones.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub members: String,
    /// The state of its endpoints: the worst, if there are several.
    pub state: EndpointState,
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

/// The report on the failover order of a service.
#[derive(Serialize)]
pub(super) struct FailoverReport {
    /// The order, such as `east:west` or, if it moves by itself, `auto:local:east+west:*`.
    pub order: String,
    /// The setting that it comes from: `annotation`, `services` or `default`.
    pub origin: String,
    /// The step that answers, counted from one.
    pub step: usize,
    /// The steps, in order: the clusters as in the order, and what a step lacks, such as `west down since 2026-11-24T03:12:00Z`. An
    /// `empty` one has no endpoint. The time of one that is alive is that since which its way back counts.
    pub steps: Vec<String>,
}

/// Adds the services, below what is wrong with the server. A cluster of the filter selects the services with an endpoint in it.
pub(super) fn table(shown: &Shown<'_>, document: &mut Document) {
    let (filter, all) = (shown.filter, shown.services());
    let mut selected = Vec::new();
    for service in all.iter().filter(|service| filter.selects(service)) {
        if let Some(verdict) = shown.verdict(service)
            && is_listed(&filter.state, verdict.state.into())
        {
            selected.push((verdict, *service));
        }
    }
    selected.sort_by(|(verdict, service), (other_verdict, other)| {
        let by_state = other_verdict.state.cmp(&verdict.state);
        by_state.then_with(|| natural_parts(&service.key).cmp(natural_parts(&other.key)))
    });
    let rows = shown.page(selected, document);
    if filter.next.is_none() {
        document.sections.push(causes_above_services(shown));
    }
    if filter.next.is_none() && filter.state.is_empty() && filter.at.is_none() {
        let gone = shown.gone(filter);
        let is_told = !gone.is_empty();
        let section = is_told.then(|| gone::section(gone));
        document.sections.extend(section);
    }
    let rows = rows
        .iter()
        .map(|(verdict, service)| ServiceRow::new(shown, service, *verdict));
    let services = Section::of::<ServiceRow>("services", rows);
    document.sections.push(services);
    document.fail_if(3, filter.unmatched(&all));
}

/// Returns the numbers in the name of a service and the texts between them, so that db-2 comes before db-10: numbers of more digits are
/// greater. A text has none.
fn natural_parts(key: &ServiceKey) -> impl Iterator<Item = (usize, &[u8])> {
    let [service, namespace] = key.labels().map(str::as_bytes);
    let is_same = |one: &u8, next: &u8| one.is_ascii_digit() == next.is_ascii_digit();
    namespace
        .chunk_by(is_same)
        .chain(service.chunk_by(is_same))
        .map(|part| {
            (
                part.iter().filter(|octet| octet.is_ascii_digit()).count(),
                part,
            )
        })
}

// === impl ServiceRow ===

impl ServiceRow {
    /// Describes a service of the table that is shown.
    pub(super) fn new(shown: &Shown<'_>, service: &Service, verdict: Verdict) -> Self {
        let clusters = ClusterCell::of_service(shown, service);
        let sum = |count: fn(&ClusterCell) -> u32| clusters.iter().map(count).sum();
        let (gate, failover) = (service.gate.as_ref(), service.failover.as_deref());
        let table = shown.table();
        Self {
            namespace: service.key.namespace.to_string(),
            service: service.key.service.to_string(),
            kind: service.kind.into(),
            state: verdict.state,
            answer: verdict.result.into(),
            ttl: service.ttl,
            owns_short_name: table.is_some_and(|table| table.owns_short_name(&service.key)),
            returned: sum(|cell| cell.returned),
            alive: sum(|cell| cell.alive),
            endpoints: sum(|cell| cell.endpoints),
            clusters,
            failover: failover.map(|one| FailoverReport::new(one, shown.clock())),
            gateway_down: Some(service.gateway_down).filter(|rule| *rule != GatewayDown::default()),
            expected: gate.map_or_else(String::new, |gate| gate.expected.clusters()),
            missing_clusters: service.missing_clusters().to_vec(),
            failure: Failure::of_service(service).map(|failure| failure.to_string()),
            problem: verdict.problem,
            sentence: verdict.problem.map(|kind| kind.row().sentence),
        }
    }
}

impl Report for ServiceRow {
    fn cells(columns: Cells<Self>) -> Cells<Self> {
        columns
            .state("STATE", |one| <&str>::from(one.state).to_owned())
            .text("SERVICE", |one| {
                format!("{}.{}", one.service, one.namespace)
            })
            .text("ANSWER", |one| match one.answer {
                "NOERROR" => format!("{} of {}", one.returned, one.endpoints),
                other => other.to_owned(),
            })
            .wide("KIND", |one| one.kind.to_owned())
            .wide("CLUSTERS", |one| {
                join_texts(one.clusters.iter().map(ClusterCell::to_text), ", ")
            })
            .wide("ORDER", |one| text_of(one.failover.as_ref()))
            .text("PROBLEM", |one| text_of(one.sentence.as_ref()))
    }
}

// === impl ClusterCell ===

impl ClusterCell {
    /// Returns the cells of a service: its clusters, and those that its name waits for.
    pub(super) fn of_service(shown: &Shown<'_>, service: &Service) -> Vec<Self> {
        let mut cells: BTreeMap<&str, Self> = BTreeMap::new();
        for one in shown.endpoints(service) {
            let cell = cells
                .entry(one.cluster())
                .or_insert_with_key(|cluster| Self::new(cluster, EndpointState::Alive));
            cell.state = cell.state.min(one.state);
            if let Some(problem) = service.problem_of(one.endpoint) {
                cell.age = cell.age.earliest(Age::from(problem).printed(shown.clock()));
            }
            cell.endpoints += 1;
            cell.alive += u32::from(one.state.is_alive());
            cell.returned += u32::from(one.is_returned);
        }
        if let Some(cell) = cells.get_mut("") {
            cell.members = list_some(&service.federated, MAX_LISTED);
        }
        for cluster in service.missing_clusters() {
            cells
                .entry(cluster)
                .or_insert_with_key(|cluster| Self::new(cluster, EndpointState::Expected));
        }
        cells.into_values().collect()
    }

    fn new(cluster: &str, state: EndpointState) -> Self {
        Self {
            cluster: cluster.to_owned(),
            state,
            ..Self::default()
        }
    }

    /// Returns how many of its endpoints are alive, and the state unless all are.
    fn to_text(&self) -> String {
        let name = match self.cluster.as_str() {
            "" => format!("federated ({})", self.members),
            name => name.to_owned(),
        };
        let counts = match self.endpoints {
            0 => String::new(),
            all => format!(" {}/{all}", self.alive),
        };
        let state = match self.state {
            EndpointState::Alive => String::new(),
            other => format!(" {}", other.name()),
        };
        format!("{name}{counts}{state}")
    }
}

// === impl FailoverReport ===

impl FailoverReport {
    /// Describes the failover of a service. `clock` is that of the process.
    fn new(failover: &Failover, clock: SteadyClock) -> Self {
        let step = |(index, step): (usize, &Step)| {
            let clusters = failover.order.step_text(index);
            match (step.health, step.since) {
                (StepHealth::Alive, None) => clusters,
                (health, None) => format!("{clusters} {health}"),
                (health, Some(since)) => {
                    let since = clock.wall(since).to_text();
                    format!("{clusters} {health} since {since}")
                }
            }
        };
        Self {
            order: failover.order.to_string(),
            origin: failover.origin.to_string(),
            step: failover.answering + 1,
            steps: failover.steps.iter().enumerate().map(step).collect(),
        }
    }
}

impl fmt::Display for FailoverReport {
    /// Writes the order, the step that answers, and the others that are not alive or were not for a while.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (order, step, steps) = (&self.order, self.step, &self.steps);
        write!(f, "{order}: step {step} of {}", steps.len())?;
        steps
            .iter()
            .filter(|step| step.contains(' '))
            .try_for_each(|step| write!(f, "; {step}"))
    }
}
