//! The problems of a table: those that the readers and the build found, and those that follow from the state of a service, which
//! are derived here when the service is built.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::content::Table;
use super::context::BuildContext;
use super::failover::Gate;
use super::service::Service;
use super::short::hidden_by_zone;
use crate::model::{
    ClusterName, Hostname, Kind, Line, MAX_LISTED, ObjectKey, ObjectRef, Problem, ProblemKind,
    ServiceKey, list_some, most_similar,
};

/// Maximum number of names of which the nearest one is searched.
const MAX_SEARCHED: usize = 2000;

// === impl Table ===

impl Table {
    /// Returns every problem as reports list it, in no particular order. Objects of one namespace that were skipped for one reason are
    /// one problem.
    pub fn reported_problems(&self) -> impl Iterator<Item = Cow<'_, Problem>> {
        let mut united: BTreeMap<_, Problem> = BTreeMap::new();
        let mut skipped: Vec<_> = self.skipped.iter().collect();
        skipped.sort_by_key(|(object, _)| *object);
        for (object, problem) in skipped {
            let key = (problem.kind, problem.reason(), &object.key.namespace);
            match united.entry(key) {
                Entry::Occupied(mut known) => known.get_mut().unite(problem),
                Entry::Vacant(new) => _ = new.insert(Problem::clone(problem)),
            }
        }
        let united = united.into_values().map(Cow::Owned);
        self.other_problems().map(Cow::Borrowed).chain(united)
    }

    /// Returns every problem, in no particular order. Services of this cluster that are not members are not listed, because
    /// most clusters have many: [`Self::non_member`] returns that of one service.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let skipped = self.skipped.values().map(AsRef::as_ref);
        self.other_problems().chain(skipped)
    }

    /// Returns the problems that are not of skipped objects.
    fn other_problems(&self) -> impl Iterator<Item = &Problem> {
        let of_services = self.services().flat_map(|service| &service.problems);
        self.short_names
            .iter()
            .flat_map(|(_, short)| &short.problems)
            .chain(of_services)
            .chain(self.links.problems())
    }

    /// Returns the detail of a problem to print it: with the nearest name, if a setting names a cluster that nothing here knows.
    /// Each call searches up to 2,000 names.
    pub fn detail_of(&self, problem: &Problem) -> Line {
        let unknown = problem.unknown.as_ref();
        let words = match problem.kind {
            ProblemKind::SettingWithoutEffect => &["auto", "local"][..],
            _ => &[],
        };
        match unknown.and_then(|name| self.nearest_term(name, words)) {
            Some(nearest) => format!("{}; the nearest name is '{nearest}'", problem.detail).into(),
            None => problem.detail.clone(),
        }
    }

    /// Returns the most similar name of a cluster, if nothing here knows a cluster of this name. Searches up to 2,000 names.
    pub fn nearest_cluster(&self, unknown: &str) -> Option<String> {
        self.nearest_term(unknown, &[])
    }

    /// Returns the most similar name of a cluster, or of these words of an order.
    fn nearest_term(&self, unknown: &str, words: &[&str]) -> Option<String> {
        if self.knows_cluster(unknown) {
            return None;
        }
        let known = self.links.known.iter().take(MAX_SEARCHED);
        let words = words.iter().map(ToString::to_string);
        most_similar(unknown, known.map(ToString::to_string).chain(words))
    }

    /// Returns whether a mirror or a Link names a cluster, or it is this one.
    pub fn knows_cluster(&self, name: &str) -> bool {
        let name = ClusterName::interned(name);
        name.is_ok_and(|name| self.links.known.contains(&name))
    }

    /// Returns the clusters that a Link names, after aliases.
    pub fn linked_clusters(&self) -> BTreeSet<&ClusterName> {
        self.links
            .clusters
            .values()
            .filter(|one| one.is_linked())
            .map(|one| &one.cluster)
            .collect()
    }

    /// Returns the problems of the short names that depend on changed services, and those of all links and of the clusters of zones.
    pub fn problems_beside<'t>(
        &'t self,
        changed: impl Iterator<Item = &'t ServiceKey>,
    ) -> impl Iterator<Item = &'t Problem> {
        let names: BTreeSet<_> = changed.flat_map(ServiceKey::short_names).collect();
        let short = names
            .into_iter()
            .filter_map(|name| self.short_name(name.as_str()));
        let links = &self.links;
        let of_links = links.unknown.iter().chain(&links.unknown_of_zones);
        short.flat_map(|short| &short.problems).chain(of_links)
    }

    /// Returns the problem for which a reader skipped an object, if it did.
    pub fn skip_of(&self, kind: Kind, key: &ObjectKey) -> Option<&Problem> {
        let key = key.clone();
        self.skipped
            .get(&ObjectRef { kind, key })
            .map(AsRef::as_ref)
    }

    /// Returns why a headless Service of this cluster is not a member. Returns `None` if it is one or does not exist.
    pub fn non_member(&self, key: &ServiceKey) -> Option<&Problem> {
        self.non_members.get(key).map(AsRef::as_ref)
    }
}

// === impl BuildContext ===

impl BuildContext<'_> {
    /// Reports the problems that follow from the state of the service.
    pub(super) fn report_state(self, service: &Service) {
        self.report_endpoints(service);
        self.report(service.gate.as_deref().and_then(Gate::problem));
        self.report(hidden_by_zone(service, &service.key.labels().join(".")));
    }

    /// Reports endpoints that are down or not ready, by cluster and cause. An unlinked cluster has a problem of its own.
    fn report_endpoints(self, service: &Service) {
        let mut down: BTreeMap<(ProblemKind, Option<&ClusterName>), Vec<&str>> = BTreeMap::new();
        for endpoint in service.endpoints.iter().chain(&service.not_ready) {
            let kind = endpoint.liveness.problem();
            if let Some(kind) = kind.filter(|kind| *kind != ProblemKind::Unlinked) {
                let name = endpoint
                    .hostname
                    .as_ref()
                    .map_or("its cluster IP", Hostname::as_str);
                down.entry((kind, endpoint.cluster.as_ref()))
                    .or_default()
                    .push(name);
            }
        }
        for ((kind, cluster), names) in down {
            let name = cluster.map_or("", ClusterName::as_str);
            let names = list_some(names, MAX_LISTED);
            self.report([Problem {
                cluster: cluster.cloned(),
                ..Problem::new(kind, format!("cluster '{name}': {names}"))
            }]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{endpoint, table};

    #[test]
    fn objects_of_a_namespace_that_are_skipped_for_one_reason_are_one_problem() {
        let mut objects = Vec::new();
        for (namespace, count) in [("prod", 7), ("shop", 1)] {
            for number in 0..count {
                let host = format!("db-{number}");
                // Each has a value of its own.
                let address = format!("127.0.0.{}", number + 1);
                objects.push(endpoint(namespace, "db", "east", &host, &[&address]));
            }
        }
        let table = table(&objects);
        assert_eq!(table.problems().count(), 8);
        let mut reported: Vec<String> = table
            .reported_problems()
            .map(|one| one.to_string())
            .collect();
        reported.sort();
        assert_eq!(
            reported,
            [
                "Object cannot be used: Service/shop/db-0-east: a loopback address: '127.0.0.1'",
                "Object cannot be used: prod/db: a loopback address: '127.0.0.1': Service/prod/db-0-east, \
             Service/prod/db-1-east, Service/prod/db-2-east, Service/prod/db-3-east, Service/prod/db-4-east and 2 more",
            ]
        );
    }
}
