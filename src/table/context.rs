//! What the build of one service reads and returns.
//!
//! A process remembers of a service only the [steps](Debounce) of its failover order (rule K7), and for ten seconds the order of the
//! Service of this cluster after that Service is gone (rule K6); and [since when clusters have no Link](Links) (rule L2). Everything
//! else follows from the objects of this moment, so replicas and restarts agree as soon as the delays have ended.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Service;
use super::endpoint::Source;
use super::failover::Debounce;
use super::links::{LinkList, Links};
use super::rules::Rules;
use super::store::{ServiceKeys, Store};
use crate::model::{
    ClusterName, FailoverOrder, Item, ItemKind, Line, ObjectKey, OwnForm, OwnService, Problem,
    ProblemKind, ServiceKey, ServiceSettings, Slice, Timestamp,
};

/// What the build of one service reads.
#[derive(Clone, Copy)]
pub(super) struct BuildContext<'b> {
    pub key: &'b ServiceKey,
    pub store: &'b Store,
    pub rules: &'b Rules,
    /// The items of the service with the keys of their objects: its own, and those of the services that it is an alias of.
    pub items: &'b [Source<'b>],
    /// What the last builds remember.
    pub timers: &'b Timers,
    /// The service in the last table.
    pub old: Option<&'b Service>,
    /// The problems that were found until now.
    pub problems: &'b RefCell<Problems>,
}

/// The problems of a service: one for each kind, cluster and name, so that they are sorted.
pub(super) type Problems = BTreeMap<(ProblemKind, Option<ClusterName>, Option<Line>), Problem>;

/// The build of one service.
pub(super) struct BuiltService {
    /// The service, if an object or a setting concerns it.
    pub service: Option<Service>,
    /// What the next build remembers of it.
    pub timers: ServiceTimers,
    /// Why the headless Service of this cluster is not a member of it.
    pub non_member: Option<Arc<Problem>>,
}

/// The timers of all services, and the time of a build. A build reads them; [`Self::apply`] records what it returns.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    /// The time of the build: of a clock that later changes of the wall clock do not affect. All delays and kept times are of it.
    pub now: Timestamp,
    /// The time of the wall clock, for times that a person or the API server wrote (rule K8).
    pub wall: Timestamp,
    /// Whether a complete table exists, which each table continues. Then delays apply.
    pub is_started: bool,
    /// Whether the process follows its source, so that it sees since when facts hold. A command that reads objects once does
    /// not know that.
    pub is_following: bool,
    /// Links and Leases.
    pub links: Links,
    services: BTreeMap<ServiceKey, ServiceTimers>,
    /// When services can change although no object does.
    wakes: BTreeSet<(Timestamp, ServiceKey)>,
}

/// The timers of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceTimers {
    /// That of its failover.
    pub(super) failover: Option<Debounce>,
    pub(super) order: Option<KeptOrder>,
    /// The time at which the service can change although no object does.
    pub(super) wake: Option<Timestamp>,
}

/// The failover order of a Service of this cluster, also after the Service is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptOrder {
    pub order: FailoverOrder,
    /// The time at which the order of a Service that is gone ends.
    pub end: Option<Timestamp>,
}

// === impl BuildContext ===

impl<'b> BuildContext<'b> {
    /// Reports problems of the service.
    pub(super) fn report(&self, found: impl IntoIterator<Item = Problem>) {
        let found: Vec<Problem> = found.into_iter().collect(); // may report others
        let mut problems = self.problems.borrow_mut();
        for problem in found {
            let problem = problem.of_service(self.key);
            let key = (problem.kind, problem.cluster.clone(), problem.name.clone());
            match problems.entry(key) {
                Entry::Occupied(mut known) => known.get_mut().merge(problem),
                Entry::Vacant(new) => _ = new.insert(problem),
            }
        }
    }

    /// Returns what the last build remembers of the service.
    pub(super) fn last(&self) -> Option<&'b ServiceTimers> {
        self.timers.services.get(self.key)
    }

    /// Returns whether the objects of a service arrive one after the other: it is new in a process that has a table, and does
    /// not have another order than before. The last table may have a service only for its settings.
    pub(super) fn is_arriving(&self, order: &FailoverOrder) -> bool {
        self.timers.is_started
            && self.old.is_none_or(|old| match &old.failover {
                Some(failover) => failover.order == *order,
                None => !old.is_known,
            })
    }

    /// Returns the Service of this cluster with the settings of the service. Of an alias, its own Service alone has them.
    pub(super) fn own(&self) -> Option<Source<'b>> {
        let mut items = self.items.iter().copied();
        items.find(|one| one.item.own().is_some() && one.service() == *self.key)
    }

    /// Returns whether a Service of this cluster has the name of the service, so that an annotation can be written.
    pub(super) fn has_own(&self) -> bool {
        let object = ObjectKey::of_service(self.key);
        self.own().is_some() || self.store.has_other_service(&object)
    }

    /// Returns what the annotations of that Service set.
    pub(super) fn settings(&self) -> Option<&'b ServiceSettings> {
        self.own()?.item.settings.as_deref()
    }

    /// Returns whether the service has pods (rule K5a): a headless mirror, or a headless Service of this cluster with a selector
    /// or an endpoint.
    pub(super) fn has_pods(&self) -> bool {
        let is_filled =
            |slice: &Slice| matches!(slice, Slice::Endpoints(listed) if !listed.entries.is_empty());
        let has_endpoint = |object: &ObjectKey| {
            let mut slices = self.store.slices_of(object).into_iter();
            slices.any(|(_, slice)| is_filled(slice))
        };
        self.items.iter().any(|one| match one.item.kind {
            ItemKind::HeadlessMirror => !self.is_excluded(one.item),
            ItemKind::Own(OwnService {
                form: OwnForm::Headless { has_selector },
                ..
            }) => has_selector || has_endpoint(one.object),
            _ => false,
        })
    }

    /// Returns whether Linkerd mirrors the service from another cluster, in any way. An endpoint mirror without its headless
    /// mirror is skipped (rule M2).
    pub(super) fn has_mirror(&self) -> bool {
        self.items
            .iter()
            .map(|one| one.item)
            .any(|item| item.own().is_none() && item.kind != ItemKind::EndpointMirror)
    }

    /// Returns whether an item is of an excluded cluster.
    pub(super) fn is_excluded(&self, item: &Item) -> bool {
        item.link().is_some_and(|link| self.rules.excludes(link))
    }
}

// === impl Timers ===

impl Timers {
    /// Dates new problems, if the process sees since when facts hold. `old` are those of the table before.
    pub fn date(&self, old: &[Problem], new: &mut [Problem]) {
        if self.is_following {
            Problem::date(self.is_started.then_some(old), new, self.now);
        }
    }

    /// Determines the states of links, at the time of the next build.
    pub fn update_links(
        &mut self,
        store: &mut Store,
        list: Option<LinkList>,
        rules: &Rules,
    ) -> Option<ServiceKeys> {
        self.links.is_first = self.is_following && !self.is_started;
        self.links.update(store, list, rules, self.now)
    }

    /// Records the timers of services that a build returned.
    pub fn apply(&mut self, next: Vec<(ServiceKey, ServiceTimers)>) {
        self.links.turned.clear();
        for (service, timers) in next {
            let wake = timers.wake;
            let last = if timers == ServiceTimers::default() {
                self.services.remove(&service)
            } else {
                self.services.insert(service.clone(), timers)
            };
            if let Some(wake) = last.and_then(|last| last.wake) {
                self.wakes.remove(&(wake, service.clone()));
            }
            self.wakes.extend(wake.map(|wake| (wake, service)));
        }
    }

    /// Returns the next time at which a service or a cluster can change although no object does.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.wakes
            .first()
            .map(|(wake, _)| *wake)
            .into_iter()
            .chain(self.links.wake())
            .min()
    }

    /// Returns the services of which something is remembered.
    pub fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.services.keys()
    }

    /// Takes the services that can change at the time of the build. Each of them has another time after it was built.
    pub fn take_due(&mut self) -> ServiceKeys {
        let later = (Timestamp(self.now.0 + 1), ServiceKey::default());
        let later = self.wakes.split_off(&later);
        let due = std::mem::replace(&mut self.wakes, later);
        due.into_iter().map(|(_, service)| service).collect()
    }
}
