//! The names of clusters. Each cluster must have one name everywhere (rule M6).
//!
//! A cluster that others call by another name than it calls itself is recognized by its hosts. This is a guess, and its hint
//! says so.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::causes::{group, join};
use super::observer::{Key, Observer, is_unready_pod, key_of};
use crate::check::finding::{Check, Finding, text};

const CHECK: Check = Check::FleetNames;

/// Gives each cluster the name that the comparison uses, and each observer a name. Returns the differences.
pub(super) fn unify(observers: &mut [Observer<'_>]) -> Vec<Finding> {
    let calls = differing_names(observers);
    let mut findings = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (index, Observer { context, .. }) in observers.iter().enumerate() {
        let own = observers[index].own_name();
        let of_context = observers[..index]
            .iter()
            .position(|one| one.context == *context);
        if let Some(first) = of_context {
            names.push(names[first].clone());
            continue;
        }
        let called = calls.iter().filter(|(_, called, _)| *called == index);
        let callers = group(called.map(|(caller, _, name)| (*name, observers[*caller].context)));
        let others = observers.iter().filter(|one| {
            one.context != *context
                && !callers
                    .values()
                    .flatten()
                    .any(|caller| *caller == one.context)
        });
        let is_known = others.clone().any(|one| one.other_clusters().contains(own));
        let only = callers.keys().next().copied();
        let only = only.filter(|_| callers.len() == 1 && !is_known);
        for (name, callers) in &callers {
            let sentence = format!(
                "{context} calls itself '{own}', and is '{name}' in {}",
                join(callers)
            );
            let hint = match only {
                Some(_) => format!("set clusterName: {name} in {context}"),
                None => format!(
                    "set clusterAliases: {{{name}: {own}}} in {}, or link {context} under the name {own}; the hosts of both \
                     names are equal",
                    join(callers)
                ),
            };
            findings.push(Finding::failing(CHECK, sentence, hint));
        }
        let mut name = only.unwrap_or(own).to_owned();
        if let Some(other) = names.iter().position(|other| *other == name) {
            let sentence = format!(
                "{} and {context} both call themselves '{own}'",
                observers[other].context
            );
            let hint =
                "set another clusterName in one of them: databases store the names of their peers";
            findings.push(Finding::failing(CHECK, sentence, hint));
            name = format!("{name} ({context})");
        }
        names.push(name);
    }
    for (caller, called, name) in calls {
        observers[caller]
            .renamed
            .insert(name, names[called].clone());
    }
    let distinct: BTreeSet<&String> = names.iter().collect();
    if findings.is_empty() && distinct.len() > 1 {
        let sentence = format!("each cluster has one name: {}", join(distinct));
        findings.push(Finding::ok(CHECK, sentence));
    }
    for (observer, name) in observers.iter_mut().zip(names) {
        observer.name = match observer.replica {
            None => name.clone(),
            Some(replica) => format!("{name} ({replica})"),
        };
        observer.cluster = name;
    }
    findings
}

/// Returns who calls whom by a name that is not the own one of any cluster: indexes of observers, and the name. A cluster that
/// does not know the caller is not linked, rather than called by another name.
fn differing_names<'m>(observers: &[Observer<'m>]) -> Vec<(usize, usize, &'m str)> {
    let own: BTreeSet<&str> = observers.iter().map(Observer::own_name).collect();
    let known: Vec<BTreeSet<&'m str>> = observers.iter().map(Observer::other_clusters).collect();
    let mut guesses = Vec::new();
    for (caller, by) in observers.iter().enumerate() {
        for (called, of) in observers
            .iter()
            .enumerate()
            .filter(|(_, of)| of.context != by.context)
        {
            let knows_caller =
                known[called].contains(by.own_name()) || !known[called].is_subset(&own);
            let namesakes = observers
                .iter()
                .filter(|one| one.own_name() == of.own_name());
            let is_unique = namesakes.clone().all(|one| one.context == of.context);
            if is_unique && known[caller].contains(of.own_name()) || !knows_caller {
                continue;
            }
            let hosts = hosts_of(of, of.own_name());
            for name in known[caller]
                .difference(&own)
                .filter(|name| !known[called].contains(*name))
            {
                let equal = hosts_of(by, name).intersection(&hosts).count();
                let rank = Reverse((of.context.contains(name), equal));
                guesses.extend((equal > 0).then_some((rank, (caller, called, *name))));
            }
        }
    }
    guesses.sort_by_key(|(rank, _)| *rank);
    let mut found: Vec<(usize, usize, &str)> = Vec::new();
    for (_, (caller, called, name)) in guesses {
        if !found
            .iter()
            .any(|(by, of, other)| *by == caller && (*of == called || *other == name))
        {
            found.push((caller, called, name));
        }
    }
    found
}

/// Returns the hosts of a cluster: service and hostname.
fn hosts_of<'m>(observer: &Observer<'m>, cluster: &str) -> BTreeSet<(Key<'m>, &'m str)> {
    let endpoints = observer.endpoints.iter().filter(|one| !is_unready_pod(one));
    let own = endpoints.filter(|one| text(one, "cluster") == cluster);
    own.map(|one| (key_of(one), text(one, "hostname")))
        .collect()
}
