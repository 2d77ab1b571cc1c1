//! `/api/v1/status`: the state of the server at a glance, with a sentence for each problem.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::Json;
use axum::extract::State as FromState;
use serde::Serialize;

use super::{AdminState, MAX_SENTENCES};
use crate::VERSION;
use crate::clock::unix_seconds;
use crate::report::SchemaVersion;
use crate::table::{Published, ServiceKind, Table};
use crate::zone::{Zone, ZoneKind};

/// A certificate with less time is reported. It is the default of `prometheusRule.certificateDays` of the chart.
const CERTIFICATE_DAYS: u64 = 7;

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// The response of `/api/v1/status`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    schema_version: SchemaVersion,
    version: &'static str,
    /// `--cluster-name`.
    cluster: String,
    /// The zones, with final dots, in the order of the flags.
    zones: Vec<String>,
    /// What follows the namespace in the names of services, one for each zone of `--zone`, in their order.
    name_suffixes: Vec<String>,
    state: TableState,
    /// `None` before the first table.
    generation: Option<u64>,
    /// `None` before the first table.
    serial: Option<u32>,
    /// The hash of all answers, equal in replicas with equal answers. `None` before the first table.
    table_hash: Option<u64>,
    /// The time since the last activity of the watch that has been inactive longest.
    table_age_seconds: f64,
    /// The number of queries since the start.
    queries: u64,
    /// A sentence for each thing that is wrong.
    problems: Vec<String>,
}

/// The state of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum TableState {
    /// There is no table yet.
    Loading,
    /// The table is confirmed by its source.
    Ready,
    /// The table comes from a snapshot of an earlier process.
    Stale,
    /// The table is older than `--max-stale`.
    Expired,
}

pub(super) async fn status(FromState(state): FromState<AdminState>) -> Json<Status> {
    let now = state.reader.load();
    let has_table = now.table.is_some();
    Json(Status {
        schema_version: SchemaVersion,
        version: VERSION,
        cluster: state.cluster_name.to_string(),
        zones: state
            .zones
            .iter()
            .map(|zone| zone.name.to_string())
            .collect(),
        name_suffixes: state.zones.iter().filter_map(name_suffix).collect(),
        state: TableState::of(&now),
        generation: has_table.then_some(now.generation),
        serial: has_table.then_some(now.serial),
        table_hash: has_table.then(|| state.metrics.facts.of(&now).hash),
        table_age_seconds: state.feeds.age().as_secs_f64(),
        queries: state.metrics.counters.queries(),
        problems: problems(&state, &now),
    })
}

/// Returns what follows the namespace in the names of services of a zone.
fn name_suffix(zone: &Zone) -> Option<String> {
    match &zone.kind {
        ZoneKind::Forward => Some(zone.name.to_string()),
        ZoneKind::ClusterSet => Some(format!("svc.{}", zone.name)),
        ZoneKind::Reverse(_) => None,
    }
}

/// Returns a sentence for each problem: of the table and its source, of its content, and of the process.
fn problems(state: &AdminState, now: &Arc<Published>) -> Vec<String> {
    let mut problems = Vec::new();
    if state.draining.load(Relaxed) {
        problems.push("the server is shutting down".to_owned());
    }
    if now.table.is_none() {
        problems.push("there is no complete table yet: answering SERVFAIL".to_owned());
    }
    problems.extend(state.problems());
    problems.extend_from_slice(&state.metrics.facts.of(now).sentences);
    problems.extend(certificate(state));
    problems.extend(failures(state));
    problems
}

/// Returns a sentence for each problem of the content of a table.
pub(super) fn table_problems(table: &Table) -> Vec<String> {
    let problems = unreachable_clusters(table).into_iter();
    let problems = problems.chain(conflicts(table));
    problems.chain(skipped(table)).collect()
}

/// Returns a sentence for each cluster with endpoints that cannot be reached.
fn unreachable_clusters(table: &Table) -> Vec<String> {
    let mut clusters: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for endpoint in table.services().flat_map(|service| &service.endpoints) {
        let [all, down, local] = clusters.entry(endpoint.labels()[1]).or_default();
        *all += 1;
        *down += usize::from(!endpoint.alive);
        *local += usize::from(!endpoint.alive && endpoint.kind == ServiceKind::Local);
    }
    let sentence = |(cluster, [all, down, local]): (&str, [usize; 3])| {
        let reason = match (down == local, down == all) {
            (true, _) => "they have no ready endpoints",
            (false, true) => "its gateway is down",
            (false, false) => "the gateway is down, or they have no ready endpoints",
        };
        format!("cluster {cluster}: {down} of {all} endpoints cannot be reached: {reason}")
    };
    clusters.retain(|_, [_, down, _]| *down > 0);
    let more = clusters.len().saturating_sub(MAX_SENTENCES);
    let sentences = clusters.into_iter().take(MAX_SENTENCES).map(sentence);
    let more = (more > 0).then(|| format!("{more} other clusters have such endpoints, too"));
    sentences.chain(more).collect()
}

/// Returns a sentence with the number of conflicts and the first of them.
fn conflicts(table: &Table) -> Option<String> {
    let count = table.conflicts().count();
    let first = table.conflicts().min()?;
    let (kind, name, detail) = (first.kind.name(), first.subject(), &first.detail);
    Some(match count {
        1 => format!("there is a conflict: {kind} of {name}: {detail}"),
        _ => format!("there are {count} conflicts; the first is {kind} of {name}: {detail}"),
    })
}

/// Returns a sentence with the number of objects that should not have been skipped, and the first of them.
fn skipped(table: &Table) -> Option<String> {
    let objects = || table.skipped().filter(|problem| problem.is_serious());
    let count = objects().count();
    let first = objects().min_by_key(|problem| &problem.object)?;
    let (object, reason) = (first.subject(), first.kind);
    Some(match count {
        1 => format!("an object is skipped: {object}: {reason}"),
        _ => format!("{count} objects are skipped; the first is {object}: {reason}"),
    })
}

/// Returns a sentence if the certificate of the encrypted listeners expires soon.
fn certificate(state: &AdminState) -> Option<String> {
    let expiry = state.metrics.certificate_expiry.as_ref()?.load(Relaxed);
    let now = u64::from(unix_seconds());
    match expiry.checked_sub(now) {
        None => Some("the certificate of the encrypted listeners has expired".to_owned()),
        Some(left) if left < CERTIFICATE_DAYS * DAY => {
            let days = left / DAY;
            Some(format!(
                "the certificate of the encrypted listeners expires in {days} days"
            ))
        }
        Some(_) => None,
    }
}

/// Returns a sentence for each kind of failure since the start.
fn failures(state: &AdminState) -> impl Iterator<Item = String> {
    let counts = [
        (
            state.metrics.snapshot_failures.load(Relaxed),
            "the snapshot could not be written",
        ),
        (
            state.feeds.panic_count(),
            "the source panicked and was restarted",
        ),
        (
            state.metrics.lost_log_lines.load(Relaxed),
            "a log line was lost",
        ),
    ];
    let failures = counts.into_iter().filter(|(count, _)| *count > 0);
    failures.map(|(count, what)| format!("since the start, {what} (count: {count})"))
}

// === impl TableState ===

impl TableState {
    fn of(now: &Published) -> Self {
        match (&now.table, now.is_expired, now.is_stale) {
            (None, _, _) => Self::Loading,
            (Some(_), true, _) => Self::Expired,
            (Some(_), false, true) => Self::Stale,
            (Some(_), false, false) => Self::Ready,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        backends, endpoint, exported, gateway, local, mirror, published, service_mirror, table,
    };

    #[test]
    fn clusters_with_gateways_that_are_down_are_named() {
        let table = table(&[
            mirror("prod", "db", "west"),
            endpoint("prod", "db", "west", "db-0", &["10.1.0.1"]),
            gateway("prod", "db-0-west", false),
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.0.0.1"]),
            gateway("prod", "db-0-east", true),
            service_mirror("prod", "web", "east", "10.0.0.8"),
            backends("prod", "web-east", true, false),
            exported("prod", "api", "10.9.0.8"),
            backends("prod", "api", false, false),
        ]);
        assert_eq!(
            unreachable_clusters(&table),
            [
                "cluster east: 1 of 2 endpoints cannot be reached: the gateway is down, or they have no ready endpoints",
                "cluster hub: 1 of 1 endpoints cannot be reached: they have no ready endpoints",
                "cluster west: 1 of 1 endpoints cannot be reached: its gateway is down",
            ]
        );
        assert_eq!((conflicts(&table), skipped(&table)), (None, None));
    }

    #[test]
    fn conflicts_and_skipped_objects_are_counted_and_the_first_is_named() {
        let orphan = |host: &str| endpoint("prod", "db", "east", host, &["10.0.0.1"]);
        let one = table(&[orphan("db-0")]);
        assert_eq!(
            skipped(&one).as_deref(),
            Some("an object is skipped: Service/prod/db-0-east: no-parent")
        );
        let two = table(&[orphan("db-1"), orphan("db-0")]);
        assert_eq!(
            skipped(&two).as_deref(),
            Some("2 objects are skipped; the first is Service/prod/db-0-east: no-parent")
        );
        let both = |service: &str| {
            let first = mirror("prod", service, "east");
            let own = local("shop", service, &[("a", "10.9.0.1", true)]);
            [vec![first, mirror("shop", service, "east")], own.to_vec()].concat()
        };
        let shared = table(&both("db"));
        let sentence = conflicts(&shared).unwrap();
        let count = shared.conflicts().count();
        assert!(count > 1, "{sentence}");
        let first = shared.conflicts().min().unwrap();
        let start = format!(
            "there are {count} conflicts; the first is {} of ",
            first.kind.name()
        );
        assert!(sentence.starts_with(&start), "{sentence}");
        assert!(sentence.contains(first.subject().as_str()), "{sentence}");
    }

    #[test]
    fn state_names_the_worst() {
        let mut now = Published::default();
        assert_eq!(TableState::of(&now), TableState::Loading);
        now = published(Table::default());
        assert_eq!(TableState::of(&now), TableState::Ready);
        now.is_stale = true;
        assert_eq!(TableState::of(&now), TableState::Stale);
        now.is_expired = true;
        assert_eq!(TableState::of(&now), TableState::Expired);
    }
}
