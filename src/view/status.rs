//! The view `status`: the server, its source, and the clusters that it knows.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{
    ClusterDetail, ClusterReport, Document, Filter, Gone, Section, Shown, State, ViewError,
};
use crate::VERSION;
use crate::clock::unix_milliseconds;
use crate::model::{Level, Timestamp};
use crate::zone::Zone;

/// The state of a server.
#[derive(Serialize)]
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
    /// The one of them in which services have their own names: it is not of one cluster, unless all are.
    own_suffix: String,
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
    /// The clusters: this one, those of Links and Leases, and the first ones that only mirrors name.
    clusters: Vec<ClusterReport>,
    /// The number of further clusters that only mirrors name.
    more_clusters: usize,
    /// The settings, as `serve --print-settings` prints them.
    settings: Value,
}

/// Adds the server, and the clusters of the filter.
pub(super) fn status(shown: &Shown<'_>, document: &mut Document) -> Result<(), ViewError> {
    let mut status = Section::new("", []);
    status.push([], &Status::new(shown));
    let mut clusters = Section::new("clusters", []);
    for name in &shown.filter.cluster {
        clusters.push([], &ClusterDetail::new(shown, name)?);
    }
    document.sections.extend([status, clusters]);
    Ok(())
}

// === impl Status ===

impl Status {
    fn new(shown: &Shown<'_>) -> Self {
        let (server, now, table) = (shown.server, &shown.published, shown.table());
        let (identity, zones, feeds) = (&server.identity, &server.zones, &server.feeds);
        let (facts, causes) = (shown.facts(), shown.causes());
        let (clusters, more_clusters) = ClusterReport::all(shown);
        let history_start = feeds.clock.wall(server.reader.history_start());
        Self {
            replica: identity.replica.clone(),
            cluster: identity.cluster.iter().map(ToString::to_string).collect(),
            version: VERSION,
            zones: zones.iter().map(|zone| zone.name.to_string()).collect(),
            name_suffixes: zones.iter().map(Zone::name_suffix).collect(),
            own_suffix: zones
                .of_own_names()
                .map_or_else(String::new, Zone::name_suffix),
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
            gone: table.map_or_else(Vec::new, |table| server.gone(table, &Filter::default())),
            clusters,
            more_clusters,
            settings: Value::clone(&server.settings),
        }
    }
}
