//! The names of clusters. Each cluster must have one name everywhere (rule M6).
//!
//! A cluster that others call by another name than it calls itself is recognized by its hosts. This is a guess, and its hint
//! says so.

use std::collections::{BTreeMap, BTreeSet};

use super::difference::{Differences, join};
use super::observer::{Key, Observer, is_unready_pod};
use crate::check::finding::{Check, Finding, key_of, text};

const CHECK: Check = Check::FleetNames;

/// Gives each cluster the name that the comparison uses, which is its own if it is unique, and each observer a name.
pub(super) fn unify(observers: &mut [Observer<'_>], found: &mut Differences<'_>) {
    let mut contexts: BTreeMap<&str, &str> = BTreeMap::new();
    for observer in observers.iter_mut() {
        let (own, context) = (observer.own_name(), observer.context);
        let first = *contexts.entry(own).or_insert(context);
        observer.cluster = own.to_owned();
        if first != context {
            found.add([Finding::failing(
                CHECK,
                format!("{first} and {context} both call themselves '{own}'"),
                "set another clusterName in one of them: databases store the names of their peers",
            )]);
            observer.cluster = format!("{own} ({context})");
        }
        observer.name = match observer.replica {
            None => observer.cluster.clone(),
            Some(replica) => format!("{} ({replica})", observer.cluster),
        };
    }
    let mut called: BTreeMap<(usize, &str), Vec<&str>> = BTreeMap::new();
    for (caller, cluster, name) in other_names(observers) {
        let renamed = observers[cluster].cluster.clone();
        observers[caller].renamed.insert(name, renamed);
        called
            .entry((cluster, name))
            .or_default()
            .push(observers[caller].context);
    }
    for ((cluster, name), callers) in called {
        let (own, context) = (observers[cluster].own_name(), observers[cluster].context);
        let callers = join(callers);
        found.add([Finding::failing(
            CHECK,
            format!("{context} calls itself '{own}', and is '{name}' in {callers}"),
            format!(
                "set clusterName: {name} in {context}, or clusterAliases: {{{name}: {own}}} in {callers}; the hosts of both \
                 names are equal"
            ),
        )]);
    }
}

/// Returns who calls whom by a name that is not the own one of any cluster: indexes of observers, and the name. The cluster is the
/// one with the most hosts in common, and its name is not known to the caller. One that does not know the caller is not linked,
/// rather than called by another name.
fn other_names<'m>(observers: &[Observer<'m>]) -> Vec<(usize, usize, &'m str)> {
    let own: BTreeSet<&str> = observers.iter().map(Observer::own_name).collect();
    let mut found = Vec::new();
    for (caller, by) in observers.iter().enumerate() {
        let known = by.other_clusters();
        for name in known.difference(&own) {
            let hosts = hosts_of(by, name);
            let equal = observers.iter().enumerate().filter_map(|(index, of)| {
                let others = of.other_clusters();
                let knows_caller = others.contains(by.own_name()) || !others.is_subset(&own);
                let is_possible =
                    of.context != by.context && knows_caller && !known.contains(of.own_name());
                let equal = hosts_of(of, of.own_name()).intersection(&hosts).count();
                (is_possible && equal > 0).then_some(((of.context.contains(name), equal), index))
            });
            let best = equal.max_by_key(|(rank, index)| (*rank, usize::MAX - index));
            found.extend(best.map(|(_, index)| (caller, index, *name)));
        }
    }
    found
}

/// Returns the hosts of a cluster: service and hostname.
fn hosts_of<'m>(observer: &Observer<'m>, cluster: &str) -> BTreeSet<(Key<'m>, &'m str)> {
    let endpoints = observer.table.endpoints.iter();
    let own = endpoints.filter(|one| text(one, "cluster") == cluster && !is_unready_pod(one));
    let hosts = own.map(|one| (key_of(one), text(one, "hostname")));
    hosts.collect()
}
