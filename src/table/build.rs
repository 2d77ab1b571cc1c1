//! The step from the store to a table: the rules of [`table`](super). It is a pure function, without a clock, I/O, locks, or logs.
//!
//! [`build`] rebuilds the services that changed and shares all others with the previous table. A build of all services
//! gives the same table; a property test checks this.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::build_service::build_service;
use super::content::{Difference, Table, services_of};
use super::context::{BuildContext, BuiltService, ServiceTimers, Timers};
use super::rules::Rules;
use super::shared::set;
use super::short::assign_owners;
use super::store::{ServiceKeys, Store};
use crate::model::{Problem, ProblemKind, ServiceKey};

/// The pause before the build of a service is repeated that panicked at the end of a delay.
const PANIC_PAUSE: Duration = Duration::from_secs(60);

/// The outcome of a build.
#[derive(Debug, Default)]
pub struct Built {
    /// The next table.
    pub table: Table,
    /// How it differs from the previous table.
    pub difference: Difference,
    /// The services that differ from those of the previous table.
    pub services: ServiceKeys,
    /// Whether only services differ that change all the time.
    pub is_busy: bool,
    /// The timers of services that differ from those before.
    pub timers: Vec<(ServiceKey, ServiceTimers)>,
}

/// A function that builds one service.
type BuildService<'b> = &'b dyn Fn(BuildContext<'_>) -> BuiltService;

/// A build that adds services one after the other.
pub struct Build<'b> {
    built: Built,
    last: &'b Table,
    store: &'b Store,
    rules: &'b Rules,
    timers: &'b Timers,
    build_service: BuildService<'b>,
}

/// Builds the table that follows `last` after the services in `dirty` changed.
pub fn build(
    last: &Table,
    store: &Store,
    dirty: &ServiceKeys,
    rules: &Rules,
    timers: &Timers,
) -> Built {
    Build::begin(last, store, rules, timers).of_all(dirty)
}

// === impl Build ===

impl<'b> Build<'b> {
    /// Begins with the services of the last table, and with the objects and links that the build reads.
    pub fn begin(last: &'b Table, store: &'b Store, rules: &'b Rules, timers: &'b Timers) -> Self {
        let mut table = last.clone();
        table.skipped = store.skipped().clone();
        table.links = timers.links.states.clone();
        let has_same_skips = table.skipped.ptr_eq(&last.skipped) || table.skipped == last.skipped;
        let mut built = Built {
            table,
            ..Built::default()
        };
        if !has_same_skips || !Arc::ptr_eq(&built.table.links, &last.links) {
            built.note(Difference::State);
        }
        Self {
            built,
            last,
            store,
            rules,
            timers,
            build_service: &build_service,
        }
    }

    /// Returns the services that must be built if those in `dirty` changed: these, those that list a host with the name of one of them
    /// (rule M1b), and their aliases.
    pub fn dependents(&self, dirty: &ServiceKeys) -> ServiceKeys {
        let mut services = dirty.clone();
        for key in dirty {
            services.extend(services_of(&self.last.listed_hosts, key.clone()).cloned());
        }
        for key in services.clone() {
            services.extend(self.rules.aliases.of_source(&key).iter().cloned());
        }
        services
    }

    /// Returns the services that must be built although no object of theirs changed: those with an order that names a cluster which
    /// something here began or ceased to know; and in the first table those that exist for a setting alone (rule K5).
    pub fn others(&self) -> ServiceKeys {
        let ordered = self
            .timers
            .links
            .turned
            .iter()
            .flat_map(|cluster| services_of(&self.last.ordered, cluster.clone()));
        let of_settings = self
            .rules
            .ordered_services()
            .chain(self.rules.aliases.names());
        let is_first = !self.timers.is_started;
        ordered
            .chain(of_settings.filter(|_| is_first))
            .cloned()
            .collect()
    }

    /// Builds a service. If that panics, its old version stays, with a problem.
    pub fn add(&mut self, key: ServiceKey) {
        let sources = self.rules.aliases.sources_of(&key);
        let items: Vec<_> = iter::once(&key)
            .chain(sources)
            .flat_map(|one| self.store.items_of(one))
            .collect();
        let context = BuildContext {
            key: &key,
            store: self.store,
            rules: self.rules,
            items: &items,
            timers: self.timers,
            old: self.last.find(&key),
            problems: &RefCell::default(),
        };
        let service = catch_unwind(AssertUnwindSafe(|| (self.build_service)(context)))
            .unwrap_or_else(|_| panicked(self.last, context));
        self.built.add(context, service);
    }

    /// Builds all services that must be built if those in `dirty` changed.
    fn of_all(mut self, dirty: &ServiceKeys) -> Built {
        let mut services = self.dependents(dirty);
        services.extend(self.others());
        for key in services {
            self.add(key);
        }
        self.finish()
    }

    /// Completes the table with what depends on several services.
    pub fn finish(self) -> Built {
        let mut built = self.built;
        let difference = assign_owners(
            &mut built.table,
            self.last,
            &built.services,
            self.rules,
            self.timers,
        );
        built.note(difference);
        built
    }
}

// === impl Built ===

impl Built {
    fn note(&mut self, difference: Difference) {
        self.difference = self.difference.max(difference);
    }

    /// Replaces a service with its new version.
    fn add(&mut self, context: BuildContext<'_>, built: BuiltService) {
        let BuildContext {
            key, old, timers, ..
        } = context;
        if set(&mut self.table.non_members, key, built.non_member) {
            self.note(Difference::State);
        }
        if context.last().unwrap_or(&ServiceTimers::default()) != &built.timers {
            self.timers.push((key.clone(), built.timers));
        }
        let new = built.service.map(|mut new| {
            let known = old.map_or(&[][..], |old| &old.problems);
            timers.date(known, &mut new.problems);
            Problem::assign_causes(&mut new.problems);
            Arc::new(new)
        });
        let hash = old.and_then(|old| old.answers);
        let has_same_answers = hash == new.as_ref().and_then(|new| new.answers);
        if self.table.replace(key, new) {
            self.services.insert(key.clone());
            self.note(if has_same_answers {
                Difference::State
            } else {
                Difference::Answers
            });
        }
    }
}

/// Returns the version of a service after its build panicked: the old one, with a problem.
fn panicked(last: &Table, context: BuildContext<'_>) -> BuiltService {
    let BuildContext { key, old, .. } = context;
    let mut service = old.cloned().unwrap_or_default();
    service.key = key.clone();
    let problem = Problem::new(ProblemKind::BuildPanicked, "its last version stays");
    let problems = service.problems.iter().cloned();
    let problems: BTreeSet<_> = problems.chain([problem.of_service(key)]).collect();
    service.problems = problems.into_iter().collect();
    let mut timers = context.last().cloned().unwrap_or_default();
    let now = context.timers.now;
    // A delay that has ended would cause one build after the other.
    if timers.wake.is_some_and(|wake| wake <= now) {
        timers.wake = Some(now.after(PANIC_PAUSE));
    }
    BuiltService {
        service: Some(service),
        timers,
        non_member: last.non_members.get(key).cloned(),
    }
}

#[cfg(test)]
mod tests;
