//! The problems of a table: those that the readers and the build found, and those that follow from the state of a service, which
//! are derived here when the service is built.

use std::collections::{BTreeMap, BTreeSet};

use super::content::Table;
use super::endpoint::Endpoint;
use super::gate::Gate;
use super::links::{ClusterLink, LinkState, LinkStates};
use super::rules::NonMember;
use super::service::{NameFailure, Service};
use crate::model::{
    ClusterName, Hostname, Kind, ObjectKey, ObjectRef, Problem, ProblemKind, ServiceKey,
    ServiceName, list_some,
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
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        let skipped = self.skipped.iter().map(|(_, problem)| problem.as_ref());
        let of_services = self.services().flat_map(|service| &service.problems);
        let of_objects = skipped.chain(of_services);
        self.name_problems()
            .chain(of_objects)
            .chain(&*self.link_problems)
    }

    /// Returns the problem of the links of a cluster, if nobody maintains its mirrors.
    pub fn link_problem(&self, cluster: &ClusterName) -> Option<&Problem> {
        let mut problems = self.link_problems.iter();
        problems.find(|problem| problem.cluster.as_ref() == Some(cluster))
    }

    /// Returns the problems of every object that is not used, in no particular order.
    pub fn skipped(&self) -> impl Iterator<Item = &Problem> {
        self.problems().filter(|problem| problem.is_skip())
    }

    /// Returns the problems of names. Each concerns several services.
    pub fn name_problems(&self) -> impl Iterator<Item = &Problem> {
        let short_names = self.short_names.iter();
        let of_short_names = short_names.flat_map(|(_, short)| &short.problems);
        of_short_names.chain(&*self.zone_problems)
    }

    /// Returns the problems of names, and the one of all links, that an earlier table does not have. `changed` are the services in
    /// which they differ.
    pub fn new_problems<'k>(
        &self,
        last: Option<&Self>,
        changed: impl Iterator<Item = &'k ServiceKey>,
    ) -> Vec<&Problem> {
        let names = changed.flat_map(|key| [key.service.clone(), key.namespace.as_service()]);
        let names: BTreeSet<ServiceName> = names.collect();
        fn of<'t>(table: &'t Table, name: &ServiceName) -> &'t [Problem] {
            table
                .short_name(name.as_str())
                .map_or(&[], |short| &short.problems)
        }
        let of_names = names.iter().flat_map(|name| {
            let known = last.map_or(&[][..], |last| of(last, name));
            of(self, name).iter().filter(|one| !known.contains(one))
        });
        let known = last.map_or(&[][..], |last| &last.zone_problems);
        let of_zones = self.zone_problems.iter().filter(|one| !known.contains(one));
        let is_known = |one: &Problem| {
            let mut known = last.into_iter().flat_map(|last| &*last.link_problems);
            known.any(|known| known.fact() == one.fact())
        };
        let of_links = self.link_problems.iter();
        let of_links = of_links.filter(|one| one.cluster.is_none() && !is_known(one));
        of_names.chain(of_zones).chain(of_links).collect()
    }

    /// Returns the problem for which a reader skipped an object, if it did.
    pub fn skip_of(&self, kind: Kind, key: &ObjectKey) -> Option<&Problem> {
        let key = key.clone();
        let skipped = self.skipped.get(&ObjectRef { kind, key });
        skipped.map(AsRef::as_ref)
    }

    /// Returns why a headless Service of this cluster is not a member. Returns `None` if it is one or does not exist.
    pub fn non_member(&self, key: &ServiceKey) -> Option<Problem> {
        let ServiceKey { namespace, service } = key;
        let detail = match self.non_members.get(key)? {
            NonMember::Off => "it is not a member: localMembers is none".to_owned(),
            NonMember::NotExported(export) => format!(
                "it is not a member: {}: kubectl label service {service} --namespace {namespace} --overwrite mirror.linkerd.io/exported=true",
                export.defect().unwrap_or_default()
            ),
        };
        let object = ObjectRef::service(&ObjectKey::of_service(key));
        let problem = Problem::new(ProblemKind::LeftOut, detail);
        Some(problem.of_service(key).of_object(object))
    }
}

// === impl LinkStates ===

impl LinkStates {
    /// Returns the problems of links, sorted: one for each cluster that nobody maintains, and one if the states are unknown.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let of_clusters = self.clusters.values().filter_map(ClusterLink::problem);
        let mut problems: Vec<Problem> = of_clusters.collect();
        problems.extend(self.unknown.clone());
        // Several Links can have one name after aliases.
        problems.sort_by(|one, other| one.cmp(other).then(one.since().cmp(&other.since())));
        problems.dedup();
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
            LinkState::Unlinked { since } => (
                ProblemKind::Unlinked,
                since,
                "its endpoints are down".to_owned(),
            ),
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
        let mut own = self.endpoints_at(&[DEFAULT_CLUSTER_NAME]).iter();
        let detail = format!("'{DEFAULT_CLUSTER_NAME}', which is the same in every cluster");
        let problem = Problem::new(ProblemKind::ClusterName, detail);
        own.any(Endpoint::is_local)
            .then(|| problem.of_service(&self.key))
    }

    /// Adds the problems that follow from its state.
    pub(super) fn add_state_problems(&self, problems: &mut Vec<Problem>) {
        self.add_mirrors(problems);
        self.add_endpoints(problems);
        self.add_order(problems);
        problems.extend(self.gate.as_deref().and_then(Gate::problem));
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
            let detail = if !hosts.is_empty() {
                format!("lists {hosts}")
            } else if self.endpoints_at(&[cluster.as_str()]).is_empty() {
                format!("no host of cluster '{cluster}'")
            } else {
                continue;
            };
            let problem = Problem::new(ProblemKind::MissingHost, detail);
            problems.push(problem.of_cluster(cluster).of_object(object.clone()));
        }
    }

    /// Adds endpoints that are down or not ready, by cluster and cause, and pods of this cluster that are not ready.
    fn add_endpoints(&self, problems: &mut Vec<Problem>) {
        let mut down: BTreeMap<(ProblemKind, Option<&ClusterName>), Vec<&str>> = BTreeMap::new();
        for endpoint in &self.endpoints {
            // An unlinked cluster has a problem of its own.
            let kind = endpoint.liveness.problem();
            if let Some(kind) = kind.filter(|kind| *kind != ProblemKind::Unlinked) {
                let name = endpoint.hostname.as_ref();
                let name = name.map_or("its cluster IP", Hostname::as_str);
                let of_cluster = down.entry((kind, endpoint.cluster.as_ref()));
                of_cluster.or_default().push(name);
            }
        }
        for ((kind, cluster), names) in down {
            let name = cluster.map_or("", ClusterName::as_str);
            let names = list_some(names, MAX_LISTED);
            let problem = Problem::new(kind, format!("cluster '{name}': {names}"));
            problems.push(cluster.into_iter().fold(problem, Problem::of_cluster));
        }
        if !self.not_ready.is_empty() {
            let pods = self.not_ready.iter().map(|pod| pod.labels()[0]);
            let detail = format!("in this cluster: {}", list_some(pods, MAX_LISTED));
            problems.push(Problem::new(ProblemKind::PodNotReady, detail));
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
            problems.push(Problem::new(ProblemKind::StepWithoutEndpoint, step));
            return;
        }
        if failover.answering > 0 {
            problems.push(Problem::new(ProblemKind::StandbyAnswers, step));
        }
    }
}

// === impl Gate ===

impl Gate {
    /// Returns the problem of expected clusters that are missing, if there are any.
    fn problem(&self) -> Option<Problem> {
        let names = list_some(&self.missing, MAX_LISTED);
        let problem = match self.closes_until {
            Some(end) => {
                let detail = format!("not answered; waits for {names} until {}", end.to_text());
                Problem::new(ProblemKind::ExpectedClustersMissing, detail)
            }
            None => Problem::new(ProblemKind::ClusterMissing, names),
        };
        (!self.missing.is_empty()).then_some(problem)
    }
}
