//! The problems of a table: those that the readers and the build found, and those that follow from the state of a service, which
//! are derived here when the service is built.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::content::Table;
use super::endpoint::{Endpoint, EndpointLiveness};
use super::gate::Gate;
use super::kind::ServiceKind;
use super::links::{ClusterLink, LinkState, LinkStates};
use super::rules::NonMember;
use super::service::{NameFailure, Service};
use crate::model::{
    ClusterName, Export, Kind, ObjectKey, ObjectRef, Problem, ProblemKind, ServiceKey, Timestamp,
    list_some,
};

/// The default of `--cluster-name`. It is suitable for trials only: databases that store the names of their peers need
/// a unique name (rule M6).
pub const DEFAULT_CLUSTER_NAME: &str = "local";

/// Maximum number of hosts, pods or objects in one sentence.
const MAX_LISTED: usize = 5;

// === impl Table ===

impl Table {
    /// Returns every problem, in no particular order. Services of this cluster that are not members are not listed, because
    /// most clusters have many: [`Self::non_member`] returns that of one service.
    pub fn problems(&self) -> impl Iterator<Item = Cow<'_, Problem>> {
        let skipped = self.skipped.iter().map(|(_, problem)| problem.as_ref());
        let of_names = self.name_problems().chain(skipped).map(Cow::Borrowed);
        let of_links = self.links.problems().into_iter().map(Cow::Owned);
        let of_services = self.services().flat_map(|service| &service.problems);
        of_names
            .chain(of_services.map(Cow::Borrowed))
            .chain(of_links)
    }

    /// Returns the problems of the links of a service's clusters.
    pub fn link_problems(&self, service: &Service) -> impl Iterator<Item = Problem> {
        let concerns = |problem: &Problem| {
            let cluster = problem.cluster.as_ref();
            cluster.is_some_and(|cluster| service.all_clusters().any(|own| own == cluster))
        };
        self.links.problems().into_iter().filter(concerns)
    }

    /// Returns the problems of every object that is not used, in no particular order.
    pub fn skipped(&self) -> impl Iterator<Item = &Problem> {
        let skipped = self.skipped.iter().map(|(_, problem)| problem.as_ref());
        let of_services = self.services().flat_map(|service| &service.problems);
        let stored = self.name_problems().chain(skipped).chain(of_services);
        stored.filter(|problem| problem.is_skip())
    }

    /// Returns the problems of names. Each concerns several services.
    pub fn name_problems(&self) -> impl Iterator<Item = &Problem> {
        self.name_problems.values().flatten()
    }

    /// Returns the problems of names that an earlier table does not have. If both tables share them, nothing is compared: there may
    /// be as many as services.
    pub fn new_name_problems(&self, last: Option<&Self>) -> Vec<&Problem> {
        if last.is_some_and(|last| Arc::ptr_eq(&self.name_problems, &last.name_problems)) {
            return Vec::new();
        }
        let known: BTreeSet<&Problem> = last.into_iter().flat_map(Self::name_problems).collect();
        self.name_problems()
            .filter(|one| !known.contains(one))
            .collect()
    }

    /// Returns the problems of links that an earlier table does not have.
    pub fn new_link_problems(&self, last: Option<&Self>) -> Vec<Problem> {
        if last.is_some_and(|last| last.links == self.links) {
            return Vec::new();
        }
        let known = last.map_or_else(Vec::new, |last| last.links.problems());
        let is_new = |one: &Problem| !known.iter().any(|known| known.fact() == one.fact());
        self.links.problems().into_iter().filter(is_new).collect()
    }

    /// Returns the problem for which a reader skipped an object, if it did.
    pub fn skip_of(&self, kind: Kind, key: &ObjectKey) -> Option<&Problem> {
        let key = key.clone();
        let skipped = self.skipped.get(&ObjectRef { kind, key });
        skipped.map(AsRef::as_ref)
    }

    /// Returns why a headless Service of this cluster is not a member. Returns `None` if it is one or does not exist.
    pub fn non_member(&self, key: &ServiceKey) -> Option<Problem> {
        let export = |why: &str, flag: &str| {
            let ServiceKey { namespace, service } = key;
            format!(
                "{why}: kubectl label service {service} --namespace {namespace}{flag} mirror.linkerd.io/exported=true"
            )
        };
        let detail = match self.non_members.get(key)? {
            NonMember::Off => "localMembers is none".to_owned(),
            NonMember::NotExported(Export::No | Export::Gateway) => {
                export("it is headless, but not exported", "")
            }
            NonMember::NotExported(Export::RemoteDiscovery) => export(
                "it is exported as remote-discovery, which Linkerd does not support for headless Services",
                " --overwrite",
            ),
            NonMember::NotExported(Export::Other) => export(
                "it is headless, but its label mirror.linkerd.io/exported is not 'true'",
                " --overwrite",
            ),
        };
        let object = ObjectRef::service(&ObjectKey::of_service(key));
        let problem = Problem::new(ProblemKind::NotAMember, detail);
        Some(problem.of_service(key).of_object(object))
    }
}

// === impl LinkStates ===

impl LinkStates {
    /// Returns the problems of links: one for each cluster that nobody maintains, and one if the states are unknown.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let of_clusters = self.clusters.values().filter_map(ClusterLink::problem);
        let mut problems: Vec<Problem> = of_clusters.collect();
        // Several Links can have one name after aliases.
        problems.sort_by(|one, other| one.cmp(other).then(one.since().cmp(&other.since())));
        problems.dedup();
        problems.extend(self.unknown.clone());
        problems
    }
}

// === impl ClusterLink ===

impl ClusterLink {
    /// Returns the problem of the cluster, if nobody maintains its mirrors.
    pub(super) fn problem(&self) -> Option<Problem> {
        let (kind, since, detail) = match &self.state {
            LinkState::Unknown(_) | LinkState::Linked => return None,
            LinkState::Frozen { since, detail } => (ProblemKind::Frozen, since, detail.to_string()),
            LinkState::Missing { since, end } => {
                let detail = format!("its endpoints count until {}", end.to_text());
                (ProblemKind::Unlinked, since, detail)
            }
            LinkState::Unlinked { since } => {
                let effect = "its endpoints are down".to_owned();
                (ProblemKind::Unlinked, since, effect)
            }
        };
        let problem = Problem::new(kind, detail).of_cluster(&self.cluster);
        Some(problem.holds_since(*since))
    }
}

// === impl Service ===

impl Service {
    /// Returns the problem that its endpoints of this cluster have the default cluster name. It is a problem of the server,
    /// which has it once. Commands may lack the settings of the server.
    pub fn default_cluster_name(&self) -> Option<Problem> {
        let is_default = |endpoint: &Endpoint| endpoint.kind == ServiceKind::Local;
        let mut own = self.endpoints_at(&[DEFAULT_CLUSTER_NAME]).iter();
        let detail = format!("'{DEFAULT_CLUSTER_NAME}', which is the same in every cluster");
        own.any(is_default)
            .then(|| self.problem(ProblemKind::DefaultClusterName, detail))
    }

    /// Adds the problems of its state to those that the build found.
    pub(super) fn with_state_problems(mut self) -> Self {
        let mut problems = Vec::from(std::mem::take(&mut self.problems));
        self.add_mirrors(&mut problems);
        self.add_endpoints(&mut problems);
        self.add_order(&mut problems);
        let gate = self.gate.as_deref();
        problems.extend(gate.and_then(|gate| self.problem_of_gate(gate)));
        problems.sort();
        self.problems = problems.into();
        self
    }

    /// Adds the times since which its problems hold: those of the version before it, or else `now`.
    pub(super) fn with_times(mut self, old: Option<&Self>, now: Timestamp) -> Self {
        let known = old.map_or(&[][..], |old| &old.problems);
        Problem::carry_times(known, &mut self.problems, now);
        self
    }

    /// Returns the problem of expected clusters that are missing, if there are any.
    fn problem_of_gate(&self, gate: &Gate) -> Option<Problem> {
        if gate.missing.is_empty() {
            return None;
        }
        let names = list_some(&gate.missing, MAX_LISTED);
        Some(match gate.closes_until {
            Some(end) => {
                let detail = format!("not answered; waits for {names} until {}", end.to_text());
                self.problem(ProblemKind::ExpectedClustersMissing, detail)
            }
            None => self.problem(ProblemKind::ClusterMissing, names),
        })
    }

    fn problem(&self, kind: ProblemKind, detail: impl Into<String>) -> Problem {
        Problem::new(kind, detail.into()).of_service(&self.key)
    }

    /// Adds headless mirrors without endpoint mirrors, and hosts that they list without one.
    fn add_mirrors(&self, problems: &mut Vec<Problem>) {
        for (cluster, object) in &self.mirrors {
            let missing = self.missing.iter().filter(|host| host.mirror == *object);
            let hosts = missing.map(|host| match host.address {
                Some(address) => format!("{} ({address})", host.hostname),
                None => host.hostname.to_string(),
            });
            let hosts = list_some(hosts, MAX_LISTED);
            let problem = if !hosts.is_empty() {
                self.problem(ProblemKind::MissingHost, format!("lists {hosts}"))
            } else if self.endpoints_at(&[cluster.as_str()]).is_empty() {
                let detail = format!("no host of cluster '{cluster}'");
                self.problem(ProblemKind::MissingHost, detail)
            } else {
                continue;
            };
            problems.push(problem.of_cluster(cluster).of_object(object.clone()));
        }
    }

    /// Adds endpoints that are down or not ready, by cluster and cause, and pods of this cluster that are not ready.
    fn add_endpoints(&self, problems: &mut Vec<Problem>) {
        let mut down: BTreeMap<(ProblemKind, Option<&ClusterName>), Vec<&Endpoint>> =
            BTreeMap::new();
        for endpoint in &self.endpoints {
            let kind = match endpoint.liveness {
                EndpointLiveness::GatewayDown => ProblemKind::GatewayDown,
                EndpointLiveness::NotReady => ProblemKind::ServiceNotReady,
                // The cluster has a problem of its own.
                EndpointLiveness::Alive | EndpointLiveness::Unlinked => continue,
            };
            let cluster = endpoint.cluster.as_ref();
            down.entry((kind, cluster)).or_default().push(endpoint);
        }
        for ((kind, cluster), endpoints) in down {
            let name = |endpoint: &&Endpoint| match &endpoint.hostname {
                Some(hostname) => hostname.to_string(),
                None => "its cluster IP".to_owned(),
            };
            let names = list_some(endpoints.iter().map(name), MAX_LISTED);
            let cluster_name = cluster.map_or("", ClusterName::as_str);
            let detail = format!("cluster '{cluster_name}': {names}");
            let problem = self.problem(kind, detail);
            problems.push(match cluster {
                Some(cluster) => problem.of_cluster(cluster),
                None => problem,
            });
        }
        if !self.not_ready.is_empty() {
            let pods = self.not_ready.iter().map(|pod| pod.labels()[0]);
            let detail = format!("in this cluster: {}", list_some(pods, MAX_LISTED));
            problems.push(self.problem(ProblemKind::PodNotReady, detail));
        }
    }

    /// Adds what is wrong with the step that answers.
    fn add_order(&self, problems: &mut Vec<Problem>) {
        let Some(failover) = &self.failover else {
            return;
        };
        let (number, order) = (failover.answering + 1, &failover.order);
        let step = format!("step {number} of {order}, {}", failover.answering_text());
        if self.failure == Some(NameFailure::StepWithoutEndpoint) {
            problems.push(self.problem(ProblemKind::StepWithoutEndpoint, step));
            return;
        }
        if failover.answering > 0 {
            problems.push(self.problem(ProblemKind::StandbyAnswers, step));
        }
    }
}
