//! Log messages about problems and changes of answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::info;

use super::events::Events;
use super::problem_log::{log_more, log_problem};
use crate::model::{ClusterName, Hostname, ProblemKind, ServiceKey};
use crate::table::change::{Change, ChangeKind};
use crate::table::difference::Difference;
use crate::table::store::ServiceKeys;
use crate::table::{Built, Published, Rules, Table};

/// Maximum number of lines about problems of one kind that a table causes. The others are one line with their number:
/// thousands of services may wait for the same gateway.
const MAX_LOGGED: usize = 20;

/// The log of problems. Each is logged once, when it appears.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// Whether the warning about the default cluster name was logged.
    warned_of_cluster_name: bool,
}

impl ChangeLog {
    /// Publishes a table together with its events, and logs its differences from the last one. Returns the number of
    /// failovers.
    pub(super) fn publish(
        &mut self,
        last: &Published,
        built: Built,
        rules: &Rules,
        events: &Events,
        publish: impl FnOnce(Built) -> Arc<Published>,
    ) -> usize {
        // The events are made before the table is visible. This copy shares its content.
        let next = built.table.clone();
        let services = built.services.clone();
        let own = &rules.cluster_name;
        let difference = Difference::between(last.table.as_ref(), &next, &services, own);
        let changes = difference.changes.clone();
        let now = events.note_published(last, changes, &services, || publish(built));
        self.log_new(&difference, &next, &services);
        if now.generation != last.generation {
            let (generation, serial) = (now.generation, now.serial);
            let changed_services = services.len();
            info!(generation, serial, changed_services, "Published table");
        }
        let failovers = difference.changes.iter();
        let failovers = failovers.filter(|change| change.kind == ChangeKind::Failover);
        failovers.map(|change| change.count).sum()
    }

    fn log_new(&mut self, difference: &Difference<'_>, next: &Table, services: &ServiceKeys) {
        let mut counts: BTreeMap<ProblemKind, usize> = BTreeMap::new();
        for problem in &difference.problems {
            let count = counts.entry(problem.kind).or_default();
            *count += 1;
            if *count <= MAX_LOGGED {
                log_problem(problem);
            }
        }
        for (kind, count) in counts {
            if let Some(more @ 1..) = count.checked_sub(MAX_LOGGED) {
                log_more(kind, more);
            }
        }
        difference.changes.iter().for_each(log_change);
        if self.warned_of_cluster_name {
            return;
        }
        let find = |key: &ServiceKey| next.service(key.namespace.as_str(), key.service.as_str());
        let problem = services
            .iter()
            .find_map(|key| find(key)?.default_cluster_name());
        if let Some(problem) = problem {
            self.warned_of_cluster_name = true;
            log_problem(&problem);
        }
    }
}

/// Logs a change, with the fields and the sentence of its event.
fn log_change(change: &Change) {
    let service = change.service.as_ref();
    info!(
        kind = <&str>::from(change.kind),
        namespace = service.map(|key| key.namespace.as_str()),
        service = service.map(|key| key.service.as_str()),
        cluster = change.cluster.as_ref().map(ClusterName::as_str),
        hostname = change.hostname.as_ref().map(Hostname::as_str),
        before = change.before.as_deref(),
        after = change.after.as_deref(),
        count = change.count,
        "{}",
        change.text
    );
}
