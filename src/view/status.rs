//! The view `status`: the server, its source, and the clusters that it knows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::age::Age;
use super::document::{Cells, Document, Report, Section};
use super::error::ViewError;
use super::gone::Gone;
use super::server::Shown;
use super::state::State;
use crate::VERSION;
use crate::clock::unix_milliseconds;
use crate::model::{ClusterName, Level, Timestamp};
use crate::source::SteadyClock;
use crate::table::Table;
use crate::zone::Zone;

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// The name of the host: in a cluster, that of the pod.
    replica: String,
    /// `clusterName`.
    cluster: String,
    version: &'static str,
    /// The zones, with final dots, in the order of the settings.
    zones: Vec<String>,
    /// What follows the namespace in the names of services, one for each zone, in their order.
    name_suffixes: Vec<String>,
    /// The addresses of the DNS port.
    servers: Vec<String>,
    /// `loading`: there is no table yet; `ready`.
    state: &'static str,
    /// Since when the state holds, if it is known.
    since: Option<String>,
    /// The number of tables with other answers than the one before. Null before the first table, as the next two.
    generation: Option<u64>,
    /// The SOA serial.
    serial: Option<u32>,
    /// The hash of all answers, equal in replicas with equal answers: 53 bits, so that JavaScript has it exactly.
    table_hash: Option<u64>,
    /// The time since which the table answered, if it is one of the past.
    from: Option<String>,
    /// The number of tables since the start.
    tables: u64,
    /// The ID of the last event.
    last_event: u64,
    /// The time at which the history begins.
    history_start: String,
    /// The time of the server in UTC.
    time: String,
    /// Seconds since the oldest watch was heard from.
    age: u64,
    /// The watches.
    watches: Vec<String>,
    /// How bad the worst problem or service is.
    level: State,
    /// The numbers of services by their state.
    services: BTreeMap<State, u32>,
    /// The numbers of problems by level.
    problems: BTreeMap<Level, u32>,
    /// What was answered within the last hour and is not any more, for each namespace.
    gone: Vec<Gone>,
    /// The clusters: this one, and those of Links.
    clusters: Vec<ClusterReport>,
    /// The settings, as `serve --print-settings` prints them.
    settings: Value,
}

/// Adds the server.
pub(super) fn status(shown: &Shown<'_>, document: &mut Document) -> Result<(), ViewError> {
    let status = Section::of::<Status>("", [Status::new(shown)]);
    document.sections.push(status);
    Ok(())
}

// === impl Status ===

impl Status {
    fn new(shown: &Shown<'_>) -> Self {
        let (server, now, table) = (shown.server, &shown.published, shown.table());
        let (identity, zones, feeds) = (&server.identity, &server.zones, &server.feeds);
        let (facts, causes) = (shown.facts(), shown.causes());
        let history_start = feeds.clock.wall(server.reader.history_start());
        Self {
            replica: identity.replica.clone(),
            cluster: identity.cluster.iter().map(ToString::to_string).collect(),
            version: VERSION,
            zones: zones.iter().map(|zone| zone.name.to_string()).collect(),
            name_suffixes: zones.iter().map(Zone::name_suffix).collect(),
            servers: identity.servers.iter().map(ToString::to_string).collect(),
            state: if table.is_some() { "ready" } else { "loading" },
            since: now.since.map(|since| feeds.clock.wall(since).to_text()),
            generation: table.map(|_| now.generation),
            serial: table.map(|_| now.serial),
            table_hash: table.map(|_| facts.hash),
            from: shown.start.map(Timestamp::to_exact_text),
            tables: shown.latest.version,
            last_event: shown.latest.id,
            history_start: history_start.to_exact_text(),
            time: Timestamp(unix_milliseconds()).to_text(),
            age: feeds.age().as_secs(),
            watches: feeds.all().iter().map(ToString::to_string).collect(),
            level: causes.state().max(facts.worst_state()),
            services: facts.states.clone(),
            problems: causes.levels(),
            gone: table.map_or_else(Vec::new, |table| server.gone(table)),
            clusters: ClusterReport::all(identity.cluster.as_ref(), table, feeds.clock),
            settings: Value::clone(&server.settings),
        }
    }
}

impl Report for Status {
    fn cells(columns: Cells<Self>) -> Cells<Self> {
        columns
            .state("STATE", |one| <&str>::from(one.level).to_owned())
            .text("CLUSTER", |one| one.cluster.clone())
            .text("ZONES", |one| one.zones.join(" "))
            .text("VERSION", |one| one.version.to_owned())
            .time("SINCE", |one| one.since.clone().unwrap_or_default())
    }
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterReport {
    /// Its name, after aliases.
    pub name: String,
    /// Whether it is the cluster of the server.
    pub is_own: bool,
    /// The state of its Links: `linked`, `frozen`, `missing`, `unlinked` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<&'static str>,
    /// Since when nobody maintains its mirrors, if that is so.
    #[serde(flatten)]
    pub age: Age,
}

// === impl ClusterReport ===

impl ClusterReport {
    /// Returns the cluster of the server, if it is known, and those of Links. `clock` is that of the process.
    pub(super) fn all(
        own: Option<&ClusterName>,
        table: Option<&Table>,
        clock: SteadyClock,
    ) -> Vec<Self> {
        let report = |name: &ClusterName, is_own, link| {
            let problem = table.and_then(|table| table.link_problem(name));
            Self {
                name: name.to_string(),
                is_own,
                link,
                age: problem.map(Age::from).unwrap_or_default().printed(clock),
            }
        };
        let own = own.map(|own| report(own, true, None));
        let links = table.iter().flat_map(|table| table.links.clusters.values());
        let linked = links.map(|link| report(&link.cluster, false, Some(link.state.into())));
        own.into_iter().chain(linked).collect()
    }
}
