//! The state that the handlers share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;

use super::attention::Causes;
use super::liveness::Liveness;
use super::metrics::Metrics;
use crate::model::{ClusterName, Namespace, Problem, ProblemKind};
use crate::source::Feeds;
use crate::table::Published;
use crate::table::publish::Reader;
use crate::zone::Zones;

/// What a server is called, and where it answers.
#[derive(Debug)]
pub struct Identity {
    /// `--cluster-name`.
    pub cluster: ClusterName,
    /// The name of the host: in a cluster, that of the pod.
    pub replica: String,
    /// The addresses of the DNS port.
    pub servers: Vec<SocketAddr>,
}

/// The state that the handlers share.
#[derive(Clone)]
pub struct AdminState {
    /// The current table.
    pub reader: Reader,
    /// The zones that are served.
    pub zones: Arc<Zones>,
    /// What this server is called, and where it answers.
    pub identity: Arc<Identity>,
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

    /// Returns the problems of this server. The table has the others.
    pub(super) fn server_problems(&self, now: &Arc<Published>) -> impl Iterator<Item = Problem> {
        let facts = self.metrics.facts.of(now);
        let of_server = self.shutdown().into_iter();
        let of_server = of_server.chain(self.metrics.problems(now));
        of_server.chain(facts.default_cluster_name.clone())
    }

    /// Returns the causes of all problems.
    pub(super) fn causes(&self, now: &Arc<Published>) -> Causes {
        let mut causes = self.metrics.facts.of(now).causes.clone();
        self.server_problems(now)
            .for_each(|problem| causes.add(&problem));
        causes
    }
}
