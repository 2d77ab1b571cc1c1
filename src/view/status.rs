//! The view `status`: the server, its source, and the clusters that it knows.

use serde_json::{Value, json};

use super::{ClusterDetail, ClusterReport, Document, Filter, Section, Shown, ViewError, text_of};
use crate::VERSION;
use crate::clock::unix_milliseconds;
use crate::model::Timestamp;
use crate::zone::Zone;

/// Adds the server, and the clusters of the filter.
pub(super) fn status(shown: &Shown<'_>, document: &mut Document) -> Result<(), ViewError> {
    let mut status = Section::new("", []);
    status.push([], &of_server(shown));
    let mut clusters = Section::new("clusters", []);
    for name in &shown.filter.cluster {
        clusters.push([], &ClusterDetail::new(shown, name)?);
    }
    document.sections.extend([status, clusters]);
    Ok(())
}

/// Describes the server.
fn of_server(shown: &Shown<'_>) -> Value {
    let (server, now, table) = (shown.server, &shown.published, shown.table());
    let (identity, zones, feeds) = (&server.identity, &server.zones, &server.feeds);
    let (facts, causes) = (shown.facts(), shown.causes());
    let (clusters, more_clusters) = ClusterReport::all(shown);
    let own_zone = zones.of_own_names();
    let history_start = feeds.clock.wall(server.reader.history_start());
    json!({
        // The name of the host: in a cluster, that of the pod.
        "replica": identity.replica,
        // `clusterName`.
        "cluster": text_of(identity.cluster.as_ref()),
        "version": VERSION,
        // The zones, with final dots, in the order of the settings.
        "zones": texts(zones.iter().map(|zone| &zone.name)),
        // What follows the namespace in the names of services, one for each zone, in their order.
        "nameSuffixes": texts(zones.iter().map(Zone::name_suffix)),
        // The one of them in which services have their own names: it is not of one cluster, unless all are.
        "ownSuffix": text_of(own_zone.map(Zone::name_suffix).as_ref()),
        // The addresses of the DNS port.
        "servers": identity.servers,
        // `loading`: there is no table yet.
        "state": if table.is_some() { "ready" } else { "loading" },
        // Since when the state holds, if it is known.
        "since": now.since.map(|since| feeds.clock.wall(since).to_text()),
        // The number of tables with other answers than the one before. Null before the first table, as the next two.
        "generation": table.map(|_| now.generation),
        // The SOA serial.
        "serial": table.map(|_| now.serial),
        // The hash of all answers, equal in replicas with equal answers: 53 bits, so that JavaScript has it exactly.
        "tableHash": table.map(|_| facts.hash),
        // The time since which the table answered, if it is one of the past.
        "from": shown.past.as_ref().map(|past| feeds.clock.wall(past.start).to_exact_text()),
        // The number of tables since the start.
        "tables": shown.latest.version,
        // The ID of the last event.
        "lastEvent": shown.latest.id,
        // The time at which the history begins.
        "historyStart": history_start.to_exact_text(),
        // The time of the server in UTC.
        "time": Timestamp(unix_milliseconds()).to_text(),
        // Seconds since the oldest watch was heard from.
        "age": feeds.age().as_secs(),
        // The watches.
        "watches": texts(feeds.all()),
        // How bad the worst problem or service is.
        "level": causes.state().max(facts.worst_state()),
        // The numbers of services by their state.
        "services": facts.states,
        // The numbers of problems by level.
        "problems": causes.levels(),
        // What was answered within the last hour and is not any more, for each namespace.
        "gone": shown.gone(&Filter::default()),
        // The clusters: this one, those of Links and Leases, and the first ones that only mirrors name.
        "clusters": clusters,
        // The number of further clusters that only mirrors name.
        "moreClusters": more_clusters,
        // The settings, as `serve --print-settings` prints them.
        "settings": server.settings,
    })
}

fn texts<T: ToString>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}
