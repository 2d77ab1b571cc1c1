//! The names of clusters. Each cluster must have one name everywhere (rule M6).
//!
//! A cluster that others call by another name than it calls itself is recognized by its hosts. This is a guess, and its hint
//! says so.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::causes::{Key, group, join, key_of, verb};
use super::clusters::{ComparedCluster, is_unready_pod};
use super::member::MemberFacts;
use crate::check::{Check, Finding};

/// The hosts of a cluster: service and hostname.
type HostNames<'m> = BTreeSet<(Key<'m>, &'m str)>;

/// A name that a cluster has for another one, as far as its hosts tell.
struct Guess<'m> {
    /// The number of equal hosts.
    equal: usize,
    /// Whether the context of the other cluster has the name.
    is_of_context: bool,
    caller: usize,
    called: usize,
    name: &'m str,
}

/// Gives each cluster the name that the comparison uses. Returns the differences.
pub(super) fn canonical<'m>(
    read: &[(&'m str, &'m MemberFacts)],
) -> (Vec<ComparedCluster<'m>>, Vec<Finding>) {
    let renamed = differing_names(read);
    let mut clusters: Vec<ComparedCluster<'m>> = Vec::new();
    let mut findings = Vec::new();
    for (index, (context, facts)) in read.iter().copied().enumerate() {
        let own = facts.status.cluster.as_str();
        let called = renamed.iter().filter(|(_, called, _)| *called == index);
        let callers = group(called.map(|(caller, _, name)| (*name, *caller)));
        let is_known = read.iter().enumerate().any(|(caller, (_, facts))| {
            let is_other = caller != index && !callers.values().flatten().any(|one| *one == caller);
            is_other && names_of(facts).contains(own)
        });
        let only = callers.keys().next().copied();
        let only = only.filter(|_| callers.len() == 1 && !is_known);
        for (name, callers) in &callers {
            let contexts = join(callers.iter().map(|caller| read[*caller].0));
            let call = verb(callers.len(), "calls", "call");
            let (sentence, hint) = match only {
                Some(_) => (
                    format!("{context} calls itself '{own}', and {contexts} {call} it '{name}'"),
                    format!("set clusterName: {name} in {context}"),
                ),
                None => (
                    format!("{contexts} {call} {context} '{name}', and it calls itself '{own}'"),
                    format!(
                        "set clusterAliases: {{{name}: {own}}} in {contexts}, or link {context} under the name {own}; the hosts of \
                         both names are equal"
                    ),
                ),
            };
            findings.push(Check::FleetNames.red(sentence, hint));
        }
        let name = only.unwrap_or(own).to_owned();
        let name = match clusters.iter().find(|other| other.name == name) {
            Some(other) => {
                findings.push(Check::FleetNames.red(
                    format!("{} and {context} both call themselves '{own}'", other.context),
                    "set another --cluster-name in one of them: databases store the names of their peers",
                ));
                format!("{name} ({context})")
            }
            None => name,
        };
        clusters.push(ComparedCluster::new(context, facts, name));
    }
    for (caller, called, name) in renamed {
        let canonical = clusters[called].name.clone();
        clusters[caller].renamed.insert(name, canonical);
    }
    if findings.is_empty() && clusters.len() > 1 {
        let names = join(clusters.iter().map(|cluster| cluster.name.as_str()));
        let sentence = format!("each cluster has one name: {names}");
        findings.push(Check::FleetNames.green(sentence));
    }
    (clusters, findings)
}

/// Returns the names of other clusters that are not their own: who calls whom by which name.
fn differing_names<'m>(read: &[(&'m str, &'m MemberFacts)]) -> Vec<(usize, usize, &'m str)> {
    let own: BTreeSet<&str> = read
        .iter()
        .map(|(_, facts)| facts.status.cluster.as_str())
        .collect();
    let names: Vec<BTreeSet<&str>> = read.iter().map(|(_, facts)| names_of(facts)).collect();
    let hosts: Vec<BTreeMap<&str, HostNames<'m>>> =
        read.iter().map(|(_, facts)| hosts_of(facts)).collect();
    let strange = |index: usize| {
        names[index]
            .iter()
            .filter(|name| !own.contains(*name))
            .copied()
    };
    let mut guesses = Vec::new();
    for caller in 0..read.len() {
        for called in (0..read.len()).filter(|called| *called != caller) {
            let (context, facts) = read[called];
            let name = facts.status.cluster.as_str();
            let back = read[caller].1.status.cluster.as_str();
            // A cluster that does not know the caller is not linked, rather than called by another name.
            let knows_caller = names[called].contains(back) || strange(called).next().is_some();
            let count = read.iter().filter(|(_, one)| one.status.cluster == name);
            let is_unique = count.count() == 1;
            if (is_unique && names[caller].contains(name)) || !knows_caller {
                continue;
            }
            for other in strange(caller).filter(|other| !names[called].contains(other)) {
                let of = |index: usize, name: &str| hosts[index].get(name);
                let (Some(seen), Some(known)) = (of(caller, other), of(called, name)) else {
                    continue;
                };
                let equal = seen.intersection(known).count();
                if equal > 0 {
                    guesses.push(Guess {
                        equal,
                        is_of_context: context.contains(other),
                        caller,
                        called,
                        name: other,
                    });
                }
            }
        }
    }
    guesses.sort_by_key(|guess| Reverse((guess.is_of_context, guess.equal)));
    let mut found: Vec<(usize, usize, &str)> = Vec::new();
    for Guess {
        caller,
        called,
        name,
        ..
    } in guesses
    {
        let is_used = found
            .iter()
            .any(|(by, of, other)| *by == caller && (*of == called || *other == name));
        if !is_used {
            found.push((caller, called, name));
        }
    }
    found
}

/// Returns the names of other clusters in the documents of a cluster.
pub(super) fn names_of(facts: &MemberFacts) -> BTreeSet<&str> {
    let own = facts.status.cluster.as_str();
    let linked = facts
        .status
        .clusters
        .iter()
        .filter(|one| !one.is_own)
        .map(|one| one.name.as_str());
    let endpoints = facts
        .table
        .services
        .iter()
        .flat_map(|service| &service.endpoints);
    let of_endpoints = endpoints.map(|endpoint| endpoint.cluster.as_str());
    let all = linked.chain(of_endpoints);
    all.filter(|name| *name != own && !name.is_empty())
        .collect()
}

/// Returns the hosts of a table by their cluster.
fn hosts_of(facts: &MemberFacts) -> BTreeMap<&str, HostNames<'_>> {
    let mut hosts: BTreeMap<&str, HostNames<'_>> = BTreeMap::new();
    for service in &facts.table.services {
        let endpoints = service.endpoints.iter();
        for endpoint in endpoints.filter(|endpoint| !is_unready_pod(endpoint)) {
            let of_cluster = hosts.entry(&endpoint.cluster).or_default();
            of_cluster.insert((key_of(service), &endpoint.hostname));
        }
    }
    hosts
}
