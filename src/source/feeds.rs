//! Signs of life: when each feed was last heard of, and what ails it. Read by `/readyz` and `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::mirror::{Namespace, Watch};

/// Ways in which one trouble is told: sentences may differ in figures, and nobody wants a line for each try.
const MOST_TOLD: usize = 8;

/// One stream of objects: a watch, of all namespaces or of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Feed {
    /// Which objects.
    pub watch: Watch,
    /// The namespace, where only some are watched.
    pub namespace: Option<Namespace>,
}

/// The state of every feed. Cheap to clone: all clones are one.
#[derive(Clone, Debug)]
pub struct Feeds {
    state: Arc<Mutex<State>>,
    /// Feeds that are to be listed once more, and when: their last list is held.
    relists: watch::Sender<BTreeMap<Feed, Instant>>,
}

#[derive(Debug)]
struct State {
    started: Instant,
    feeds: BTreeMap<Feed, Signs>,
    panics: u64,
}

#[derive(Clone, Debug, Default)]
struct Signs {
    last_life: Option<Instant>,
    is_listed: bool,
    /// The problem of its watch, or of its file.
    problem: Option<String>,
    /// Why its last list failed. A watch that goes on keeps the feed alive, but does not end this.
    list_problem: Option<String>,
    /// What ailed it since it was last well, each once.
    told: Vec<String>,
    held: Option<String>,
}

// === impl Feeds ===

impl Feeds {
    /// Notes which feeds there are: every watch, of all namespaces or of each of `namespaces`.
    pub fn new(namespaces: &[Namespace]) -> Self {
        let scopes: Vec<Option<Namespace>> = match namespaces {
            [] => vec![None],
            some => some.iter().cloned().map(Some).collect(),
        };
        let feed = |watch| {
            scopes.iter().map(move |namespace| Feed {
                watch,
                namespace: namespace.clone(),
            })
        };
        let feeds = Watch::ALL
            .into_iter()
            .flat_map(feed)
            .map(|feed| (feed, Signs::default()));
        let state = State {
            started: Instant::now(),
            feeds: feeds.collect(),
            panics: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            relists: watch::Sender::default(),
        }
    }

    /// Notes that what there is until feeds are heard of was true this long ago.
    pub fn restored(&self, age: Duration) {
        let mut state = self.state.lock();
        state.started = state.started.checked_sub(age).unwrap_or(state.started);
    }

    /// Returns every feed.
    pub fn all(&self) -> BTreeSet<Feed> {
        self.state.lock().feeds.keys().cloned().collect()
    }

    /// Notes that something was heard of a feed, which ends what ailed its watch.
    pub fn alive(&self, feed: &Feed) {
        if let Some(signs) = self.state.lock().feeds.get_mut(feed) {
            signs.last_life = Some(Instant::now());
            signs.problem = None;
            if signs.list_problem.is_none() {
                signs.told.clear();
            }
        }
    }

    /// Notes that a feed has been listed completely.
    pub fn listed(&self, feed: &Feed) {
        if let Some(signs) = self.state.lock().feeds.get_mut(feed) {
            signs.is_listed = true;
            signs.list_problem = None;
        }
        self.alive(feed);
    }

    /// Notes what ails a feed, in a sentence. Tells whether that is news: one trouble may show in several ways, by turns.
    pub fn failed(&self, feed: &Feed, problem: &str) -> bool {
        self.note_problem(feed, problem, |signs| &mut signs.problem)
    }

    /// Notes, in a sentence, why a list of a feed failed. Tells whether that is news.
    pub(super) fn list_failed(&self, feed: &Feed, problem: &str) -> bool {
        self.note_problem(feed, problem, |signs| &mut signs.list_problem)
    }

    fn note_problem(
        &self,
        feed: &Feed,
        problem: &str,
        of: impl FnOnce(&mut Signs) -> &mut Option<String>,
    ) -> bool {
        let mut state = self.state.lock();
        let Some(signs) = state.feeds.get_mut(feed) else {
            return false;
        };
        *of(signs) = Some(problem.to_owned());
        let is_news =
            signs.told.len() < MOST_TOLD && !signs.told.iter().any(|told| told == problem);
        if is_news {
            signs.told.push(problem.to_owned());
        }
        is_news
    }

    /// Notes that a feed's list is held, in a sentence, and asks for another one at `due`.
    pub(super) fn hold(&self, feed: &Feed, sentence: String, due: Instant) {
        if let Some(signs) = self.state.lock().feeds.get_mut(feed) {
            signs.held = Some(sentence);
        }
        self.relists
            .send_modify(|relists| _ = relists.insert(feed.clone(), due));
    }

    /// Notes that no list of a feed is held any more.
    pub(super) fn release(&self, feed: &Feed) {
        if let Some(signs) = self.state.lock().feeds.get_mut(feed) {
            signs.held = None;
        }
        self.take_relist(feed);
    }

    /// Waits until a feed is to be listed once more.
    pub(super) async fn relist_due(&self, feed: &Feed) {
        let mut relists = self.relists.subscribe();
        let asked = relists.wait_for(|relists| relists.contains_key(feed)).await;
        let Some(due) = asked.ok().and_then(|relists| relists.get(feed).copied()) else {
            return; // never: we hold a sender
        };
        sleep_until(due).await;
    }

    /// Notes that a feed is being listed once more.
    pub(super) fn take_relist(&self, feed: &Feed) {
        self.relists
            .send_if_modified(|relists| relists.remove(feed).is_some());
    }

    /// Tells whether feeds are to be listed once more now, and notes that they are.
    pub(super) fn take_due_relists(&self) -> bool {
        let now = Instant::now();
        self.relists.send_if_modified(|relists| {
            let asked = relists.len();
            relists.retain(|_, due| now < *due);
            relists.len() < asked
        })
    }

    /// Returns how many feeds there are whose list is held.
    pub fn held(&self) -> usize {
        let state = self.state.lock();
        let is_held = |signs: &&Signs| signs.held.is_some();
        state.feeds.values().filter(is_held).count()
    }

    /// Counts a panic of the source, or of what follows it.
    pub(super) fn panicked(&self) {
        self.state.lock().panics += 1;
    }

    /// Returns how often the source panicked, and was begun anew.
    pub fn panics(&self) -> u64 {
        self.state.lock().panics
    }

    /// Returns how long ago the feed that has been silent longest was last heard of; since the start, if never.
    pub fn age(&self) -> Duration {
        let state = self.state.lock();
        let last = |signs: &Signs| signs.last_life.unwrap_or(state.started);
        state
            .feeds
            .values()
            .map(last)
            .min()
            .unwrap_or(state.started)
            .elapsed()
    }

    /// Returns, in sentences, which feeds have not been listed yet, whose list is held, and what ails the others.
    pub fn troubles(&self) -> Vec<String> {
        let sentences = |(feed, signs): (&Feed, &Signs)| {
            let mut told = signs.problems();
            if !signs.is_listed {
                let why = told.concat();
                let colon = if why.is_empty() { "" } else { ": " };
                told = vec![format!("not listed yet{colon}{why}")];
            }
            told.extend(signs.held.clone());
            told.into_iter()
                .map(|sentence| format!("{feed}: {sentence}"))
                .collect::<Vec<_>>()
        };
        self.state.lock().feeds.iter().flat_map(sentences).collect()
    }

    /// Returns, in sentences, what ails feeds at the moment.
    pub fn problems(&self) -> Vec<String> {
        let sentences = |(feed, signs): (&Feed, &Signs)| {
            let of_feed = |problem| format!("{feed}: {problem}");
            signs
                .problems()
                .into_iter()
                .map(of_feed)
                .collect::<Vec<_>>()
        };
        self.state.lock().feeds.iter().flat_map(sentences).collect()
    }
}

// === impl Signs ===

impl Signs {
    /// Returns the problem of the feed. One that was listed once and cannot be listed again is named as such.
    fn problems(&self) -> Vec<String> {
        let of_list = self.list_problem.as_ref().map(|problem| {
            let prefix = if self.is_listed {
                "the last list failed: "
            } else {
                ""
            };
            format!("{prefix}{problem}")
        });
        self.problem.iter().cloned().chain(of_list).collect()
    }
}

// === impl Feed ===

impl fmt::Display for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            None => write!(f, "{}", self.watch),
            Some(namespace) => write!(f, "{} in {namespace}", self.watch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_shows_in_several_ways_by_turns_is_told_once_each() {
        let feeds = Feeds::new(&[]);
        let feed = feeds.all().pop_first().unwrap();
        let told = |problems: &[&str]| -> Vec<bool> {
            let failed = problems.iter().map(|problem| feeds.failed(&feed, problem));
            failed.collect()
        };
        let by_turns = ["refused", "silent", "refused", "silent"];
        assert_eq!(told(&by_turns), [true, true, false, false]);
        assert!(feeds.problems()[0].ends_with(": silent"));
        // Well in between, it is another trouble.
        feeds.alive(&feed);
        assert_eq!(told(&by_turns), [true, true, false, false]);
        // Sentences without end are not told without end.
        let many: Vec<String> = (0..100).map(|number| format!("in {number} s")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(told(&many).iter().filter(|is_news| **is_news).count(), 6);
    }

    #[test]
    fn a_list_that_fails_is_told_until_one_succeeds_and_the_watch_does_not_end_it() {
        let feeds = Feeds::new(&[]);
        let feed = feeds.all().pop_first().unwrap();
        let of_feed = || -> Vec<String> {
            let mut troubles = feeds.troubles();
            troubles.retain(|told| told.starts_with(&feed.to_string()));
            troubles
        };
        assert!(feeds.list_failed(&feed, "refused"));
        assert_eq!(of_feed(), [format!("{feed}: not listed yet: refused")]);
        feeds.listed(&feed);
        assert!(of_feed().is_empty());

        assert!(feeds.list_failed(&feed, "refused"));
        feeds.alive(&feed);
        let told = format!("{feed}: the last list failed: refused");
        assert_eq!(of_feed(), feeds.problems());
        assert_eq!(feeds.problems(), [told]);
        // One warning, however often a watch that goes on is heard in between.
        assert!(!feeds.list_failed(&feed, "refused"));
        assert!(feeds.failed(&feed, "silent"));
        assert_eq!(of_feed().len(), 2);
        feeds.listed(&feed);
        assert!(of_feed().is_empty());
    }
}
