//! The state of each feed: its last activity and its problems. `/readyz` and `/metrics` read it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Events;
use super::problem_log::log_ended;
use super::steady_clock::SteadyClock;
use crate::failures::Failures;
use crate::heartbeat::Heartbeat;
use crate::histogram::Histogram;
use crate::model::{Kind, Namespace, Problem, ProblemKind, Timestamp, list_some, sentence_of};
use crate::table::links::LinkList;

/// Maximum number of different messages about one outage that are logged. Messages may differ in figures, so the number
/// is bounded.
const MAX_MESSAGES: usize = 8;

/// Maximum time between the failures of two watches in one outage. A silent watch is noticed after 50 s.
const OUTAGE_SPREAD: Duration = Duration::from_secs(60);

/// Maximum number of feeds that one problem names.
const MAX_NAMED: usize = 10;

/// One stream of objects: a watch of a kind in all namespaces, or in one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Feed {
    /// The kind of the objects.
    pub kind: Kind,
    /// The namespace, if only some namespaces are watched.
    pub namespace: Option<Namespace>,
}

/// The state of every feed. Clones share it.
#[derive(Clone, Debug)]
pub struct Feeds {
    state: Arc<Mutex<FeedStates>>,
    /// The changes of answers by the feeds.
    pub events: Events,
    /// The heartbeat of the update loop.
    pub(crate) heartbeat: Heartbeat,
    /// The heartbeat of the thread that reads objects.
    pub(crate) reading: Heartbeat,
    /// The clock of the process, for the times of problems and delays.
    pub clock: SteadyClock,
    /// Panics of the source or of the update loop, which are then restarted.
    pub(crate) panics: Failures,
    /// The times from the arrival of changes, without those of lists, until they were published.
    pub(crate) answer_delays: Arc<Histogram>,
}

type FeedStates = BTreeMap<Feed, FeedState>;

#[derive(Debug)]
struct FeedState {
    /// The last activity, or the start.
    last_activity: Instant,
    /// Since when its first list is awaited: that of the process, or of a source that was restarted. `None`: it is listed.
    awaited_since: Option<Timestamp>,
    /// Why the source has no objects of its kind, if it does not define them.
    undefined: Option<LinkList>,
    /// That its list, its watch or its file fails, since when, also for other reasons, and why.
    failure: Option<Problem>,
    /// The different failures that were logged since the feed last had none.
    logged: Vec<String>,
}

// === impl Feeds ===

impl Feeds {
    /// Creates the state of every watch, of all namespaces or of each of `namespaces`.
    pub fn new(namespaces: &[Namespace]) -> Self {
        let feeds = Self {
            state: Arc::default(),
            events: Events::default(),
            heartbeat: Heartbeat::default(),
            reading: Heartbeat::default(),
            clock: SteadyClock::start(),
            panics: Failures::default(),
            answer_delays: Arc::default(),
        };
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_needed()) {
            if namespaces.is_empty() {
                feeds.add(kind, None);
            }
            for namespace in namespaces {
                feeds.add(kind, Some(namespace));
            }
        }
        feeds
    }

    /// Adds the watches of Links in `namespaces`. A table does not need them.
    pub fn with_links(self, namespaces: &[Namespace]) -> Self {
        for namespace in namespaces {
            self.add(Kind::Link, Some(namespace));
        }
        self
    }

    fn add(&self, kind: Kind, namespace: Option<&Namespace>) {
        let feed = Feed {
            kind,
            namespace: namespace.cloned(),
        };
        let state = FeedState {
            last_activity: Instant::now(),
            awaited_since: Some(self.clock.start),
            undefined: None,
            failure: None,
            logged: Vec::new(),
        };
        self.state.lock().insert(feed, state);
    }

    /// Notes that the source starts again. It lists every feed, and nothing is known of Links until then.
    pub(super) fn note_restart(&self) {
        for state in self.state.lock().values_mut() {
            state.awaited_since = Some(self.clock.now());
        }
    }

    /// Returns every feed.
    pub fn all(&self) -> BTreeSet<Feed> {
        self.state.lock().keys().cloned().collect()
    }

    /// Returns how the Links are listed, as the states of links need it (rule L2). Returns `None` before that is known.
    pub(super) fn link_list(&self) -> Option<LinkList> {
        let state = self.state.lock();
        let mut links = states(&state, false);
        if links.clone().any(FeedState::is_awaited) {
            return None;
        }
        let listed = links.clone().filter(|feed| feed.is_listed());
        // The requests for each namespace notice at different times that a definition appears.
        let undefined = listed.map(|feed| feed.undefined).reduce(Option::and)?;
        let is_complete = links
            .all(|feed| feed.is_listed() && feed.failure.is_none() && feed.undefined.is_none());
        Some(undefined.unwrap_or(LinkList::Listed { is_complete }))
    }

    /// Returns whether the first list of Links of a namespace is under way.
    pub(super) fn are_links_awaited(&self) -> bool {
        let state = self.state.lock();
        states(&state, false).any(FeedState::is_awaited)
    }

    /// Notes activity on a feed, which ends its failure.
    pub fn note_activity(&self, feed: &Feed) {
        self.note_heard(feed);
        self.end_failure(feed);
    }

    /// Notes that a feed was heard from.
    pub(super) fn note_heard(&self, feed: &Feed) {
        if let Some(state) = self.state.lock().get_mut(feed) {
            state.last_activity = Instant::now();
        }
    }

    /// Ends the failure of a feed.
    pub(super) fn end_failure(&self, feed: &Feed) {
        log_ended(&self.take_failure(feed), [], self.clock.now());
    }

    /// Takes the failure of a feed. Returns the problem that is over, unless a feed still fails that began to fail at about the same
    /// time: the last one ends the outage of the API server.
    fn take_failure(&self, feed: &Feed) -> Option<Problem> {
        let mut states = self.state.lock();
        let state = states.get_mut(feed)?;
        state.logged.clear();
        let over = state.failure.take()?;
        let begin = over.since?.before(OUTAGE_SPREAD);
        let mut others = states.values().filter_map(|one| one.failure.as_ref());
        (!others.any(|other| other.since >= Some(begin))).then_some(over)
    }

    /// Notes a complete list of a feed, or why the source has no objects of its kind.
    pub(super) fn note_listed(&self, feed: &Feed, undefined: Option<LinkList>) {
        if let Some(state) = self.state.lock().get_mut(feed) {
            state.awaited_since = None;
            state.undefined = undefined;
        }
        self.note_activity(feed);
    }

    /// Notes the failure of a feed's list, watch or file. Returns the problem to log: failures may alternate, and each is
    /// logged once.
    pub fn note_failure(&self, feed: &Feed, failure: &str) -> Option<Problem> {
        let mut state = self.state.lock();
        let state = state.get_mut(feed)?;
        let since = state.failure.as_ref().and_then(|last| last.since);
        let problem = Problem::new(ProblemKind::SourceUnavailable, failure)
            .of_name(feed.to_string())
            .holds_since(since.unwrap_or_else(|| self.clock.now()));
        state.failure = Some(problem);
        let is_logged = state.logged.iter().any(|other| other == failure);
        if is_logged || state.logged.len() >= MAX_MESSAGES {
            return None;
        }
        state.logged.push(failure.to_owned());
        Some(state.problem()?.of_name(feed.to_string()))
    }

    /// Returns the time since the oldest feed that a table needs was heard from. A feed without activity counts from the
    /// start.
    pub fn age(&self) -> Duration {
        let state = self.state.lock();
        states(&state, true)
            .map(|feed| feed.last_activity.elapsed())
            .max()
            .unwrap_or_default()
    }

    /// Returns the problems of the feeds: those that are not listed yet, and failures. Problems of one kind with the
    /// same cause are one: if the API server cannot be reached, every watch of it fails.
    pub fn problems(&self) -> Vec<Problem> {
        let state = self.state.lock();
        let mut united: BTreeMap<Problem, Vec<&Feed>> = BTreeMap::new();
        for (feed, state) in &*state {
            if let Some(problem) = state.problem() {
                united.entry(problem).or_default().push(feed);
            }
        }
        united
            .into_iter()
            .map(|(problem, feeds)| {
                let since = feeds
                    .iter()
                    .filter_map(|feed| state[feed].problem()?.since)
                    .min();
                problem
                    .of_name(list_some(feeds, MAX_NAMED))
                    .holds_since(since)
            })
            .collect()
    }

    /// Returns each current failure of the feeds that a table needs once, without their names.
    pub fn failures(&self) -> BTreeSet<String> {
        let state = self.state.lock();
        states(&state, true)
            .filter_map(|feed| feed.failure.as_ref())
            .map(|failure| failure.detail.to_string())
            .collect()
    }
}

/// Returns the states of the feeds that a table needs, or of the others: those of Links.
fn states(all: &FeedStates, are_needed: bool) -> impl Iterator<Item = &FeedState> + Clone {
    all.iter()
        .filter(move |(feed, _)| feed.kind.is_needed() == are_needed)
        .map(|(_, state)| state)
}

// === impl FeedState ===

impl FeedState {
    fn is_listed(&self) -> bool {
        self.awaited_since.is_none()
    }

    /// Returns whether the first list is under way.
    fn is_awaited(&self) -> bool {
        !self.is_listed() && self.failure.is_none()
    }

    /// Returns the problem that it is not listed yet, or fails.
    fn problem(&self) -> Option<Problem> {
        let missing = self.awaited_since.map_or("", |_| "not listed yet");
        let failure = self.failure.as_ref();
        let since = self.awaited_since.or(failure.and_then(|one| one.since))?;
        let failure = failure.map_or("", |one| &*one.detail);
        let detail = sentence_of(&[missing, failure]);
        Some(Problem::new(ProblemKind::SourceUnavailable, detail).holds_since(since))
    }
}

// === impl Feed ===

impl fmt::Display for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            None => write!(f, "{}s", self.kind),
            Some(namespace) => write!(f, "{}s in {namespace}", self.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternating_failures_are_logged_once_each() {
        let feeds = Feeds::new(&[]);
        let feed = feeds.all().pop_first().unwrap();
        let are_new = |problems: &[&str]| -> Vec<bool> {
            let problems = problems.iter();
            problems
                .map(|problem| feeds.note_failure(&feed, problem).is_some())
                .collect()
        };
        let alternating = ["refused", "silent", "refused", "silent"];
        assert_eq!(are_new(&alternating), [true, true, false, false]);
        assert_eq!(feeds.failures(), BTreeSet::from(["silent".to_owned()]));
        // After activity, the same failure is a new one.
        feeds.note_activity(&feed);
        assert_eq!(are_new(&alternating), [true, true, false, false]);
        // The number of logged messages is bounded.
        let many: Vec<String> = (0..100).map(|number| format!("in {number} s")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(are_new(&many).iter().filter(|is_new| **is_new).count(), 6);
    }

    #[test]
    fn outage_is_over_when_the_last_feed_that_failed_in_it_returns() {
        let feeds = Feeds::new(&[]).with_links(&["linkerd-multicluster".parse().unwrap()]);
        let [forbidden, first, last] = Vec::from_iter(feeds.all()).try_into().unwrap();
        // It fails all the time, since long before.
        feeds.note_failure(&forbidden, "403");
        if let Some(failure) = &mut feeds.state.lock().get_mut(&forbidden).unwrap().failure {
            failure.since = failure.since.map(|one| one.before(OUTAGE_SPREAD * 2));
        }
        for feed in [&first, &last] {
            feeds.note_failure(feed, "refused");
        }
        assert_eq!(feeds.take_failure(&first), None);
        assert_eq!(feeds.take_failure(&first), None);
        let problem = feeds.take_failure(&last).unwrap();
        assert_eq!(*problem.subject(), *last.to_string());
        assert!(problem.since.is_some());
        assert_eq!(feeds.take_failure(&last), None);
        assert!(feeds.take_failure(&forbidden).is_some());
    }

    /// The requests for each namespace notice at different times that the API server defines them.
    #[test]
    fn links_are_incomplete_while_a_namespace_has_no_definition_of_them() {
        let namespaces = ["a", "b"].map(|one| one.parse().unwrap());
        let feeds = Feeds::new(&[]).with_links(&namespaces);
        let links: Vec<Feed> = feeds
            .all()
            .into_iter()
            .filter(|one| !one.kind.is_needed())
            .collect();
        let undefined = Some(LinkList::Undefined);
        for (defined, expected) in [
            ([undefined, undefined], LinkList::Undefined),
            ([None, undefined], LinkList::Listed { is_complete: false }),
            ([undefined, None], LinkList::Listed { is_complete: false }),
            ([None, None], LinkList::Listed { is_complete: true }),
        ] {
            for (feed, undefined) in links.iter().zip(defined) {
                feeds.note_listed(feed, undefined);
            }
            assert_eq!(feeds.link_list(), Some(expected));
        }
    }

    #[test]
    fn failures_with_one_cause_are_one_problem() {
        let feeds = Feeds::new(&[]);
        let all = feeds.all();
        for feed in &all {
            feeds.note_listed(feed, None);
            feeds.note_failure(feed, "cannot reach https://10.0.0.1");
        }
        let problems = feeds.problems();
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        let expected = format!(
            "Source of objects is not available: {}: cannot reach https://10.0.0.1",
            names.join(", ")
        );
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].to_string(), expected);
        // A watch that fails for another reason is another problem.
        feeds.note_failure(&all.iter().next().unwrap().clone(), "403 Forbidden");
        assert_eq!(feeds.problems().len(), 2);
    }
}
