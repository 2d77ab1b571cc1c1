//! The server that is shown: its table, its source and its problems.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::{
    Causes, CurrentFacts, Document, Filter, ListedEndpoint, NameReply, PagePlace, TableFacts,
    Verdict, ViewError, ViewKind, is_shown,
};
use crate::clock::{unix_milliseconds, unix_seconds};
use crate::failures::Failures;
use crate::model::{
    ClusterName, MAX_LISTED, Namespace, Problem, ProblemKind, Timestamp, list_some,
};
use crate::server::counters::CounterSet;
use crate::server::{Certificate, RefusedClients};
use crate::source::events::Latest;
use crate::source::{Feeds, SteadyClock, problem_of_failures};
use crate::table::publish::Reader;
use crate::table::{Moment, Published, Service, Table};
use crate::zone::Zones;

/// What a server is called, and where it answers.
#[derive(Default)]
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
    /// The counters of the listeners.
    pub counters: CounterSet,
    /// The clients that are refused.
    pub refused: RefusedClients,
    /// Set when the process has received a signal to terminate.
    pub draining: Arc<AtomicBool>,
    /// The facts about the current table.
    pub facts: CurrentFacts,
}

/// What a request shows: a table of a server.
pub(super) struct Shown<'s> {
    pub server: &'s Server,
    pub filter: &'s Filter,
    pub published: Arc<Published>,
    /// The number of rows, or the place in a zone, before the page.
    pub offset: usize,
    /// When the table answered, if it is one of the past.
    pub past: Option<Moment>,
    /// The last event before the table was read, so that the table is at least as new.
    pub latest: Latest,
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
            counters: CounterSet::default(),
            refused: RefusedClients::default(),
            draining: Arc::default(),
            facts: CurrentFacts::default(),
        }
    }

    /// Returns the problems of the server: of its table as a whole, its source and its process.
    pub fn problems(&self, now: &Published) -> Vec<Problem> {
        let stopping = self
            .draining
            .load(Ordering::Relaxed)
            .then(|| Problem::new(ProblemKind::ShuttingDown, ""));
        let mut problems = Vec::from_iter(stopping);
        problems.extend(now.problem());
        problems.extend(self.feeds.problems());
        let certificate = self.certificate.iter().flat_map(|one| one.problems());
        for problem in certificate.chain(self.refused.problem(unix_seconds())) {
            // Their times are of the wall clock.
            let since = problem.since.map(|time| self.feeds.clock.of_wall(time));
            problems.push(problem.holds_since(since));
        }
        problems.extend(self.feeds.events.flapping_services().into_values());
        for (kind, failures) in [
            (ProblemKind::SourcePanicked, &self.feeds.panics),
            (ProblemKind::LogLinesLost, &self.lost_log_lines),
        ] {
            problems.extend(problem_of_failures(kind, failures, self.feeds.clock));
        }
        let table = now.table.iter();
        problems.extend(
            table
                .clone()
                .flat_map(|table| self.hidden_namespaces(table)),
        );
        problems.extend(table.flat_map(|table| self.gone_problem(table)));
        problems
    }

    /// Returns the problems of zones that take the names of a namespace from a zone above them.
    fn hidden_namespaces(&self, table: &Table) -> Vec<Problem> {
        let mut problems = Vec::new();
        for outer in self.zones.iter() {
            let suffix = format!(".{}", outer.name_suffix());
            for inner in self.zones.iter() {
                let Some(namespace) = inner.name.as_str().strip_suffix(&suffix) else {
                    continue;
                };
                let services = table.services_in(namespace);
                let count = services.filter(|one| one.should_answer()).count();
                if count > 0 {
                    let (inner, outer) = (inner.name.as_str(), outer.name.as_str());
                    let detail = format!(
                        "zone {inner} hides the names of namespace '{namespace}' in zone {outer}; services: {count}"
                    );
                    problems.push(Problem::new(ProblemKind::Shadowed, detail).of_name(inner));
                }
            }
        }
        problems
    }

    /// Returns the causes of the problems of the current table and of the server.
    pub fn causes(&self) -> Causes {
        Shown::now(self, &Filter::default()).causes()
    }
}

// === impl Shown ===

impl<'s> Shown<'s> {
    /// Returns the table that a filter selects: the current one, that of a time, or that of an earlier page.
    pub(super) fn new(server: &'s Server, filter: &'s Filter) -> Result<Self, ViewError> {
        let mut shown = Self::now(server, filter);
        if let Some(time) = filter.at {
            shown.select(time)?;
        }
        if let Some(PagePlace { version, offset }) = filter.place()? {
            shown.offset = offset;
            if shown.published.version != version {
                let earlier = server.reader.of_version(version);
                // No list begins before the first table.
                shown.published = earlier
                    .filter(|earlier| earlier.table.is_some())
                    .ok_or(ViewError::Gone)?;
            }
        }
        Ok(shown)
    }

    fn now(server: &'s Server, filter: &'s Filter) -> Self {
        let latest = server.feeds.events.latest();
        Self {
            server,
            filter,
            published: Arc::clone(&server.reader.load()),
            offset: 0,
            past: None,
            latest,
            facts: OnceCell::new(),
        }
    }

    /// Selects the table of a time.
    fn select(&mut self, time: Timestamp) -> Result<(), ViewError> {
        if time > Timestamp(unix_milliseconds()) {
            let text = time.to_text();
            return Err(ViewError::invalid("at", &text, "it is in the future"));
        }
        let (clock, reader) = (self.server.feeds.clock, &self.server.reader);
        let moment = reader.at(clock.of_wall(time)).ok_or_else(|| {
            let start = clock.wall(reader.history_start()).to_text();
            ViewError::NotKnown(format!(
                "the history begins at {start}; this server does not know earlier tables"
            ))
        })?;
        self.published = Arc::clone(&moment.published);
        self.past = Some(moment);
        Ok(())
    }

    /// Returns a document without sections.
    pub(super) fn document(&self, view: ViewKind) -> Document {
        Document {
            kind: view.name().to_owned(),
            replica: self.server.identity.replica.clone(),
            generation: self.published.generation,
            at: self.filter.at.map(Timestamp::to_exact_text),
            ..Document::default()
        }
    }

    /// Returns the rows of a page, and notes in the document where the next one begins.
    pub(super) fn page<T>(
        &self,
        rows: impl IntoIterator<Item = T>,
        document: &mut Document,
    ) -> Vec<T> {
        let mut rows = rows.into_iter().skip(self.offset);
        let page: Vec<T> = rows.by_ref().take(self.filter.page_size()).collect();
        if rows.next().is_some() {
            self.note_next(self.offset + page.len(), document);
        }
        page
    }

    /// Notes in a document where the next page begins. Its table is kept until then.
    pub(super) fn note_next(&self, offset: usize, document: &mut Document) {
        document.next = Some(format!("{}.{offset}", self.published.version));
        if self.filter.at.is_none() {
            let now = self.server.feeds.clock.now();
            self.server.reader.keep_for_list(&self.published, now);
        }
    }

    /// Returns a sentence about the selected namespaces whose changes are not kept for the time of the answers.
    pub(super) fn incomplete(&self) -> Option<String> {
        let incomplete = self.past.iter().flat_map(|past| &past.incomplete);
        let selected = incomplete.filter(|one| self.filter.has_namespace(one.as_str()));
        let names = list_some(selected, MAX_LISTED);
        (!names.is_empty()).then(|| {
            format!("the answers of {names} are those of a later time: the history is full, and lacks earlier ones")
        })
    }

    /// Returns the table, if there is one.
    pub(super) fn table(&self) -> Option<&Table> {
        self.published.table.as_ref()
    }

    /// Returns the clock of the process, to print its times.
    pub(super) fn clock(&self) -> SteadyClock {
        self.server.feeds.clock
    }

    /// Returns the verdict on a service of the table, if it has an own name.
    pub(super) fn verdict(&self, service: &Service) -> Option<Verdict> {
        Verdict::of(&self.server.zones, &self.published, service)
    }

    /// Returns the answer for the own name of a service of the table.
    pub(super) fn own_reply(&self, service: &Service) -> NameReply<'_> {
        NameReply::of_own_name(&self.server.zones, &self.published, service)
    }

    /// Returns the endpoints of a service of the table. They are returned if the replies for its own name contain them.
    pub(super) fn endpoints<'t>(
        &'t self,
        service: &'t Service,
    ) -> impl Iterator<Item = ListedEndpoint<'t>> {
        self.own_reply(service).endpoints(service)
    }

    /// Returns the services that should answer, sorted.
    pub(super) fn services(&self) -> Vec<&Service> {
        self.table()
            .into_iter()
            .flat_map(Table::sorted_services)
            .filter(|service| is_shown(&self.server.zones, service))
            .collect()
    }

    /// Returns the facts about the table. Those of the past are computed once for each request, and do not displace the current ones.
    pub(super) fn facts(&self) -> &TableFacts {
        self.facts.get_or_init(|| match self.filter.at {
            None => self.server.facts.of(&self.server.zones, &self.published),
            Some(_) => Arc::new(TableFacts::of(&self.server.zones, &self.published)),
        })
    }

    /// Returns the problems of the server that a table does not have itself. Of the past, only those of that table are known.
    pub(super) fn problems(&self) -> Vec<Problem> {
        match self.filter.at {
            None => self.server.problems(&self.published),
            Some(_) => self.published.problem().into_iter().collect(),
        }
    }

    /// Returns the causes of the problems of the table and of the server.
    pub(super) fn causes(&self) -> Causes {
        let mut causes = self.facts().causes.clone();
        self.problems()
            .iter()
            .for_each(|problem| causes.add(problem));
        causes
    }
}
