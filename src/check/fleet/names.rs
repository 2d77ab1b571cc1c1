//! The names of clusters. Each cluster must have one name everywhere (rule M6).
//!
//! A cluster that others call by another name than it calls itself is recognized by its hosts. This is a guess, and its hint
//! says so.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::causes::{group, join, verb};
use super::observer::{Key, Observer, is_unready_pod, key_of};
use crate::check::finding::{Check, Finding, text};

/// Who calls whom by which name: indexes of observers.
type Call<'m> = (usize, usize, &'m str);

/// Gives each cluster the name that the comparison uses, and each observer a name. Returns the differences.
pub(super) fn unify(observers: &mut [Observer<'_>]) -> Vec<Finding> {
    let calls = differing_names(observers);
    let mut findings = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (index, observer) in observers.iter().enumerate() {
        let (own, context) = (observer.own_name(), observer.context);
        let same = |other: usize| observers[other].context == context;
        if let Some(first) = (0..index).find(|other| same(*other)) {
            names.push(names[first].clone());
            continue;
        }
        let called = calls.iter().filter(|(_, called, _)| *called == index);
        let callers = group(called.map(|(caller, _, name)| (*name, *caller)));
        let is_caller = |other: usize| callers.values().flatten().any(|one| *one == other);
        let is_known = (0..observers.len()).any(|other| {
            let knows = || observers[other].other_clusters().contains(own);
            !same(other) && !is_caller(other) && knows()
        });
        let only = callers.keys().next().copied();
        let only = only.filter(|_| callers.len() == 1 && !is_known);
        for (name, callers) in &callers {
            let mut contexts: Vec<&str> = callers
                .iter()
                .map(|caller| observers[*caller].context)
                .collect();
            contexts.dedup();
            let call = verb(contexts.len(), "calls", "call");
            let contexts = join(contexts);
            findings.push(match only {
                Some(_) => Finding::failing(
                    Check::FleetNames,
                    format!("{context} calls itself '{own}', and {contexts} {call} it '{name}'"),
                    format!("set clusterName: {name} in {context}"),
                ),
                None => Finding::failing(
                    Check::FleetNames,
                    format!("{contexts} {call} {context} '{name}', and it calls itself '{own}'"),
                    format!(
                        "set clusterAliases: {{{name}: {own}}} in {contexts}, or link {context} under the name {own}; the hosts \
                         of both names are equal"
                    ),
                ),
            });
        }
        let name = only.unwrap_or(own).to_owned();
        match names.iter().position(|other| *other == name) {
            Some(other) => {
                let other = observers[other].context;
                findings.push(Finding::failing(
                    Check::FleetNames,
                    format!("{other} and {context} both call themselves '{own}'"),
                    "set another clusterName in one of them: databases store the names of their peers",
                ));
                names.push(format!("{name} ({context})"));
            }
            None => names.push(name),
        }
    }
    for (caller, called, name) in calls {
        observers[caller]
            .renamed
            .insert(name, names[called].clone());
    }
    let distinct: BTreeSet<&String> = names.iter().collect();
    if findings.is_empty() && distinct.len() > 1 {
        let sentence = format!("each cluster has one name: {}", join(distinct));
        findings.push(Finding::ok(Check::FleetNames, sentence));
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

/// Returns the names of other clusters that are not their own.
fn differing_names<'m>(observers: &[Observer<'m>]) -> Vec<Call<'m>> {
    let own: BTreeSet<&str> = observers.iter().map(Observer::own_name).collect();
    let names: Vec<BTreeSet<&'m str>> = observers.iter().map(Observer::other_clusters).collect();
    let strange: Vec<BTreeSet<&'m str>> = names
        .iter()
        .map(|names| names.difference(&own).copied().collect())
        .collect();
    let mut guesses = Vec::new();
    for (caller, by) in observers
        .iter()
        .enumerate()
        .filter(|(caller, _)| !strange[*caller].is_empty())
    {
        for (called, of) in observers
            .iter()
            .enumerate()
            .filter(|(_, of)| of.context != by.context)
        {
            // A cluster that does not know the caller is not linked, rather than called by another name.
            let knows_caller = names[called].contains(by.own_name()) || !strange[called].is_empty();
            let namesakes = observers
                .iter()
                .filter(|one| one.own_name() == of.own_name());
            let is_unique = namesakes
                .map(|one| one.context)
                .collect::<BTreeSet<_>>()
                .len()
                == 1;
            if (is_unique && names[caller].contains(of.own_name())) || !knows_caller {
                continue;
            }
            let known = hosts_of(of, of.own_name());
            for name in strange[caller].difference(&names[called]) {
                let equal = hosts_of(by, name).intersection(&known).count();
                if equal > 0 {
                    guesses.push((
                        Reverse((of.context.contains(name), equal)),
                        (caller, called, *name),
                    ));
                }
            }
        }
    }
    guesses.sort_by_key(|(rank, _)| *rank);
    let mut found: Vec<Call<'m>> = Vec::new();
    for (_, (caller, called, name)) in guesses {
        let is_used =
            |(by, of, other): &Call<'m>| *by == caller && (*of == called || *other == name);
        if !found.iter().any(is_used) {
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
