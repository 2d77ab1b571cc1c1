//! The state that the handlers share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::runtime::Handle;

use super::liveness::Liveness;
use super::metrics::Metrics;
use crate::clock::unix_milliseconds;
use crate::model::{ClusterName, Namespace, Problem, ProblemKind, Timestamp};
use crate::source::Feeds;
use crate::table::publish::Reader;
use crate::table::{BeforeHistory, Moment, Published};
use crate::zone::Zones;

/// What a server is called, and where it answers.
#[derive(Debug)]
pub struct Identity {
    /// The name of this cluster.
    pub cluster: ClusterName,
    /// The name of the host: in a cluster, that of the pod.
    pub replica: String,
    /// The addresses of the DNS port.
    pub servers: Vec<SocketAddr>,
}

/// Maximum number of characters of a text in the sentence about it.
const MAX_SHOWN: usize = 100;

/// The state that the handlers share.
#[derive(Clone)]
pub struct AdminState {
    /// The current table.
    pub reader: Reader,
    /// The zones that are served.
    pub zones: Arc<Zones>,
    /// What this server is called, and where it answers.
    pub identity: Arc<Identity>,
    /// The settings, as a document.
    pub settings: Arc<Value>,
    /// The watched namespaces; empty: all.
    pub namespaces: Arc<[Namespace]>,
    /// The state of the feeds.
    pub feeds: Feeds,
    /// The metrics.
    pub metrics: Metrics,
    /// Set when the addresses of DNS are open, after the first table.
    pub is_open: Arc<AtomicBool>,
    /// Set when the process has received a signal to terminate.
    pub draining: Arc<AtomicBool>,
    /// The loops that must make progress.
    pub liveness: Liveness,
    /// The runtime of the API. It also renders the metrics, so that nothing delays a probe.
    pub api_runtime: Handle,
}

/// The time of a request is not one that this server can tell something about.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoMoment {
    #[error("'{0}' is not a time; use RFC 3339, such as 2026-11-24T03:12:00Z")]
    Unreadable(String),
    #[error("{0} is in the future")]
    Future(String),
    #[error("{1}; this server does not know earlier tables")]
    Early(Timestamp, BeforeHistory),
}

impl AdminState {
    /// Returns the table that answered at a time, or the current one, and the time.
    pub(super) fn table_at(
        &self,
        at: Option<&str>,
    ) -> Result<(Arc<Published>, Option<Timestamp>), NoMoment> {
        let Some(text) = at else {
            return Ok((Arc::clone(&self.reader.load()), None));
        };
        let (moment, time) = self.moment_at(text)?;
        Ok((moment.published, Some(time)))
    }

    /// Returns the table that answered at a time, and the time.
    pub(super) fn moment_at(&self, text: &str) -> Result<(Moment, Timestamp), NoMoment> {
        let time = NoMoment::parse(text)?;
        if time > Timestamp(unix_milliseconds()) {
            return Err(NoMoment::Future(shown(text)));
        }
        let clock = self.feeds.clock;
        let mut moment = self.reader.at(clock.of_wall(time)).map_err(|mut early| {
            early.start = clock.wall(early.start);
            NoMoment::Early(time, early)
        })?;
        moment.start = clock.wall(moment.start);
        Ok((moment, time))
    }

    /// Returns the problem that the server is shutting down, if it is.
    pub(super) fn shutdown(&self) -> Option<Problem> {
        let is_draining = self.draining.load(Ordering::Relaxed);
        is_draining.then(|| Problem::new(ProblemKind::ShuttingDown, ""))
    }

    /// Returns the problems of this server. The table has the others.
    pub(super) fn server_problems(&self, now: &Arc<Published>) -> impl Iterator<Item = Problem> {
        let shutdown = self.shutdown().into_iter();
        shutdown.chain(self.metrics.server_problems(now))
    }

    /// Returns the problems of this server that a table does not have itself. `at` is the time of a table of the past.
    pub(super) fn problems_at(
        &self,
        table: &Arc<Published>,
        at: Option<Timestamp>,
    ) -> Vec<Problem> {
        match at {
            None => self.server_problems(table).collect(),
            Some(_) => self.past_problems(table).collect(),
        }
    }

    /// Returns the problems of a server that had a table in the past. Others than those of the table are not known.
    pub(super) fn past_problems(&self, past: &Arc<Published>) -> impl Iterator<Item = Problem> {
        let facts = self.metrics.facts.of_past(past);
        let of_table = past.problem().into_iter();
        of_table.chain(facts.default_cluster_name.clone())
    }
}

/// Returns the start of a text.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

// === impl NoMoment ===

impl NoMoment {
    /// Reads the time of a request.
    pub(super) fn parse(text: &str) -> Result<Timestamp, Self> {
        Timestamp::from_text(text).ok_or_else(|| Self::Unreadable(shown(text)))
    }
}

impl IntoResponse for NoMoment {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Unreadable(_) | Self::Future(_) => StatusCode::BAD_REQUEST,
            Self::Early(..) => StatusCode::NOT_FOUND,
        };
        (status, format!("{self}\n")).into_response()
    }
}
