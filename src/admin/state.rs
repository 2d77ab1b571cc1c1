//! The state that the handlers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;

use super::liveness::Liveness;
use super::metrics::Metrics;
use crate::model::{ClusterName, Namespace, Problem, ProblemKind};
use crate::source::Feeds;
use crate::table::Published;
use crate::table::publish::Reader;
use crate::zone::Zones;

/// The state that the handlers share.
#[derive(Clone)]
pub struct AdminState {
    /// The current table.
    pub reader: Reader,
    /// The zones that are served.
    pub zones: Arc<Zones>,
    /// `--cluster-name`.
    pub cluster_name: ClusterName,
    /// The namespaces of `--namespace`; empty: all.
    pub namespaces: Arc<[Namespace]>,
    /// The state of the feeds.
    pub feeds: Feeds,
    /// The metrics.
    pub metrics: Metrics,
    /// Set when the process has received a signal to terminate.
    pub draining: Arc<AtomicBool>,
    /// The loops that must make progress.
    pub liveness: Liveness,
    /// The runtime of the API. It also renders the metrics, so that nothing delays a probe.
    pub api_runtime: Handle,
}

impl AdminState {
    /// Returns the problem that the server is shutting down, if it is.
    pub(super) fn shutdown(&self) -> Option<Problem> {
        let is_draining = self.draining.load(Ordering::Relaxed);
        is_draining.then(|| Problem::new(ProblemKind::ShuttingDown, ""))
    }

    /// Returns the problems of this server, and one of each kind of the content of the table with the number of them.
    pub(super) fn problems(&self, now: &Arc<Published>) -> Vec<(u32, Problem)> {
        let of_server = self.shutdown().into_iter();
        let of_server = of_server.chain(self.metrics.problems(now));
        let facts = self.metrics.facts.of(now);
        let of_table = facts.problems.serious().cloned();
        of_server.map(|one| (1, one)).chain(of_table).collect()
    }
}
