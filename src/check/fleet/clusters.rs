//! The clusters that can be compared.

use std::collections::BTreeMap;

use super::causes::{Key, join, key_of};
use super::member::{Member, MemberFacts};
use crate::check::{Check, Finding};
use crate::report::{EndpointReport, EndpointState, ProblemReport, ServiceReport};

/// A cluster that was read, under the name that the comparison uses.
#[derive(Debug)]
pub(super) struct ComparedCluster<'m> {
    /// Its name in sentences, unique in the fleet.
    pub(super) name: String,
    pub(super) context: &'m str,
    pub(super) facts: &'m MemberFacts,
    /// The names of other clusters in its documents, if they differ from those of the comparison.
    pub(super) renamed: BTreeMap<&'m str, String>,
    /// The services of a table that is current. Empty if it is not.
    pub(super) services: BTreeMap<Key<'m>, &'m ServiceReport>,
}

/// Returns the members that were read, each cluster once, and the findings about the others.
pub(super) fn distinct(members: &[Member]) -> (Vec<(&str, &MemberFacts)>, Vec<Finding>) {
    let check = Check::FleetClusters;
    let (mut read, mut findings) = (Vec::new(), Vec::new());
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for Member { context, facts } in members {
        let facts = match facts {
            Ok(facts) => facts,
            Err(reason) => {
                let sentence = format!("{context} cannot be read: {}", reason.reason);
                findings.push(check.red(sentence, reason.hint.clone()));
                continue;
            }
        };
        let ids: Vec<&str> = facts
            .replicas
            .iter()
            .filter_map(|one| one.id.as_deref())
            .collect();
        if let Some(first) = ids.iter().find_map(|id| known.get(id)) {
            let sentence = format!("{first} and {context} are the same cluster");
            findings.push(check.red(sentence, "name each cluster once, by one context"));
            continue;
        }
        known.extend(ids.into_iter().map(|id| (id, context.as_str())));
        read.push((context.as_str(), facts));
    }
    if findings.is_empty() {
        let names = read.iter().map(|(context, _)| context);
        findings.push(check.green(format!("{} can be read", join(names))));
    }
    (read, findings)
}

// === impl ComparedCluster ===

impl<'m> ComparedCluster<'m> {
    pub(super) fn new(context: &'m str, facts: &'m MemberFacts, name: String) -> Self {
        let services = facts.table.services.iter();
        let is_current = facts.status.is_current();
        let services = services.filter(|_| is_current);
        Self {
            name,
            context,
            facts,
            renamed: BTreeMap::new(),
            services: services.map(|one| (key_of(one), one)).collect(),
        }
    }

    /// Returns the name of the comparison for a cluster in the documents.
    pub(super) fn name_of<'n>(&'n self, cluster: &'n str) -> &'n str {
        if cluster == self.facts.status.cluster {
            return &self.name;
        }
        self.renamed.get(cluster).map_or(cluster, String::as_str)
    }

    pub(super) fn is_current(&self) -> bool {
        self.facts.status.is_current()
    }

    pub(super) fn problems(&self) -> &'m [ProblemReport] {
        &self.facts.table.problems.0
    }

    /// Returns whether a problem concerns a cluster.
    pub(super) fn is_about(&self, problem: &ProblemReport, cluster: &str) -> bool {
        let named = problem.cluster.as_deref();
        named.is_some_and(|named| self.name_of(named) == cluster)
    }
}

/// Returns whether an endpoint is a pod of the server's cluster that is not ready. No other cluster has a mirror of it.
pub(super) fn is_unready_pod(endpoint: &EndpointReport) -> bool {
    endpoint.kind == "local"
        && !endpoint.hostname.is_empty()
        && endpoint.state == EndpointState::NotReady
}
