//! The server that is shown: its table, its source and its problems.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::causes::Causes;
use super::document::Document;
use super::error::ViewError;
use super::facts::{CurrentFacts, TableFacts};
use super::filter::Filter;
use super::kind::View;
use super::page::Place;
use crate::clock::{unix_milliseconds, unix_seconds};
use crate::failures::Failures;
use crate::model::{ClusterName, Namespace, Problem, ProblemKind, Timestamp};
use crate::server::{Certificate, RefusedClients};
use crate::source::{Feeds, problem_of_failures};
use crate::table::Published;
use crate::table::publish::Reader;
use crate::zone::Zones;

/// What a server is called, and where it answers.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The name of this cluster.
    pub cluster: Option<ClusterName>,
    /// The name of the host: in a cluster, that of the pod. Empty: a command that has read the objects itself.
    pub replica: String,
    /// The addresses of the DNS port.
    pub servers: Vec<SocketAddr>,
}

/// The server that is shown. Clones share it.
#[derive(Clone)]
pub struct Server {
    /// The current table, and the earlier ones.
    pub reader: Reader,
    /// The zones that are served.
    pub zones: Arc<Zones>,
    /// What this server is called, and where it answers.
    pub identity: Arc<Identity>,
    /// The settings, as a document. No secret is among them.
    pub settings: Arc<Value>,
    /// The watched namespaces; empty: all.
    pub namespaces: Arc<[Namespace]>,
    /// The state of the feeds.
    pub feeds: Feeds,
    /// The log lines that could not be written.
    pub lost_log_lines: Failures,
    /// The certificate, if there is an encrypted listener.
    pub certificate: Option<Arc<Certificate>>,
    /// The clients that are refused.
    pub refused: RefusedClients,
    /// Set when the process has received a signal to terminate.
    pub draining: Arc<AtomicBool>,
    /// The facts about the current table.
    pub facts: CurrentFacts,
}

/// A table that is shown.
pub(super) struct Shown {
    pub(super) published: Arc<Published>,
    /// The time of the answers, if it is one of the past.
    pub(super) at: Option<Timestamp>,
    /// The time since which it answered, if it is one of the past.
    pub(super) start: Option<Timestamp>,
    facts: OnceCell<Arc<TableFacts>>,
}

// === impl Server ===

impl Server {
    /// Makes a server of objects, without listeners and settings.
    pub fn of_objects(reader: Reader, feeds: Feeds, zones: Zones, identity: Identity) -> Self {
        Self {
            reader,
            zones: Arc::new(zones),
            identity: Arc::new(identity),
            settings: Arc::default(),
            namespaces: Arc::new([]),
            feeds,
            lost_log_lines: Failures::default(),
            certificate: None,
            refused: RefusedClients::default(),
            draining: Arc::default(),
            facts: CurrentFacts::default(),
        }
    }

    /// Returns the table that a filter selects: the current one, that of a time, or that of an earlier page.
    pub(super) fn shown(&self, filter: &Filter) -> Result<Shown, ViewError> {
        let mut shown = self.at(filter)?;
        if let Some(Place { version, .. }) = Place::of(filter)?
            && shown.published.version != version
        {
            let earlier = self.reader.of_version(version);
            shown.published = earlier.ok_or(ViewError::Gone)?;
        }
        Ok(shown)
    }

    fn now(&self) -> Shown {
        Shown {
            published: Arc::clone(&self.reader.load()),
            at: None,
            start: None,
            facts: OnceCell::new(),
        }
    }

    fn at(&self, filter: &Filter) -> Result<Shown, ViewError> {
        let Some(time) = filter.at else {
            return Ok(self.now());
        };
        if time > Timestamp(unix_milliseconds()) {
            let text = time.to_text();
            return Err(ViewError::invalid("at", &text, "it is in the future"));
        }
        let clock = self.feeds.clock;
        let moment = self.reader.at(clock.of_wall(time)).map_err(|early| {
            let start = clock.wall(early.start).to_text();
            ViewError::NotKnown(format!(
                "the history begins at {start}; this server does not know earlier tables"
            ))
        })?;
        Ok(Shown {
            published: moment.published,
            at: Some(time),
            start: Some(clock.wall(moment.start)),
            facts: OnceCell::new(),
        })
    }

    /// Returns a document without sections.
    pub(super) fn document(&self, view: View, shown: &Shown) -> Document {
        Document {
            kind: view.name().to_owned(),
            replica: self.identity.replica.clone(),
            generation: shown.published.generation,
            at: shown.at.map(Timestamp::to_exact_text),
            ..Document::default()
        }
    }

    /// Returns the problem that the server is shutting down, if it is.
    pub fn shutdown(&self) -> Option<Problem> {
        let is_draining = self.draining.load(Ordering::Relaxed);
        is_draining.then(|| Problem::new(ProblemKind::ShuttingDown, ""))
    }

    /// Returns the problems of the server: of its table as a whole, its source and its process.
    pub fn problems(&self, now: &Published) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.shutdown().into_iter().collect();
        problems.extend(now.problem());
        problems.extend(self.feeds.problems());
        problems.extend(self.certificate.iter().flat_map(|one| one.problems()));
        problems.extend(self.refused.problem(unix_seconds()));
        problems.extend(self.feeds.panic_problem());
        problems.extend(self.feeds.events.flapping());
        let lost_lines = problem_of_failures(ProblemKind::LogLinesLost, &self.lost_log_lines);
        problems.extend(lost_lines);
        problems
    }

    /// Returns the facts about a table that is shown. Those of the past are computed once for each request.
    pub(super) fn facts_of<'s>(&self, shown: &'s Shown) -> &'s TableFacts {
        let facts = || match shown.at {
            None => self.facts.of(&shown.published),
            Some(_) => Arc::new(TableFacts::of(&shown.published)),
        };
        shown.facts.get_or_init(facts)
    }

    /// Returns the problems of the server that a table does not have itself. Of the past, only those of that table are known.
    pub(super) fn problems_of(&self, shown: &Shown) -> Vec<Problem> {
        let mut problems = match shown.at {
            None => self.problems(&shown.published),
            Some(_) => shown.published.problem().into_iter().collect(),
        };
        problems.extend(self.facts_of(shown).default_cluster_name.clone());
        problems
    }

    /// Returns the causes of the problems of the current table and of the server.
    pub fn causes(&self) -> Causes {
        self.causes_of(&self.now())
    }

    /// Returns the causes of the problems of a table and of the server.
    pub(super) fn causes_of(&self, shown: &Shown) -> Causes {
        let mut causes = self.facts_of(shown).causes.clone();
        let problems = self.problems_of(shown);
        problems.iter().for_each(|problem| causes.add(problem));
        causes
    }
}
