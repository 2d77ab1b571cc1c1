//! What the items of a service offer: the first step of a build.

use std::collections::BTreeSet;

use super::context::BuildContext;
use super::endpoint::{Endpoint, EndpointLiveness, MissingHost, Rank};
use super::links::Links;
use super::{cluster_ip, headless, local};
use crate::model::{
    ClusterName, Item, ItemKind, MAX_LISTED, ObjectKey, ObjectRef, Problem, ProblemKind,
    ServiceKey, list_some,
};

/// Collects what the items of a service offer. Items of excluded clusters offer nothing. A service is known if there is a
/// candidate, also one without endpoints.
pub(super) fn candidates<'s>(
    context: BuildContext<'s>,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate<'s>> {
    let BuildContext { key, rules, .. } = context;
    let mut of_hosts = headless::endpoint_mirrors(context);
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for (object, item) in context.items {
        if let Some(link) = item.link().filter(|link| rules.excludes(link)) {
            let cluster = rules.name_of(link);
            let detail = format!("cluster '{cluster}' is excluded by the setting excludeClusters");
            let problem = Problem::new(ProblemKind::LeftOut, detail).of_cluster(&cluster);
            problems.push(problem.of_object(ObjectRef::service(object)));
            continue;
        }
        candidates.extend(match item.kind {
            ItemKind::EndpointMirror => None,
            ItemKind::HeadlessMirror => {
                headless::candidate(object, item, &mut of_hosts, context, problems)
            }
            ItemKind::GatewayMirror | ItemKind::FlatMirror | ItemKind::Federated => {
                cluster_ip::candidate(object, item, context)
            }
            ItemKind::Own(own) => local::candidate(object, item, own, context, problems),
        });
    }
    headless::report_orphans(of_hosts, rules, problems);
    let is_known = |source: &ServiceKey| candidates.iter().any(|one| one.item.service == *source);
    let sources = rules.aliases.sources_of(key).iter();
    let unknown = list_some(sources.filter(|source| !is_known(source)), MAX_LISTED);
    if !unknown.is_empty() {
        problems.push(Problem::new(ProblemKind::UnknownAlias, unknown));
    }
    // Of endpoints with one name, that of a mirror comes first.
    candidates.sort_by_key(|candidate| candidate.item.own().is_some());
    for candidate in &mut candidates {
        candidate.omit_long_names(key, rules.longest_zone, problems);
    }
    candidates
}

/// What one item offers for the clusters that it stands for (rule K1).
pub(super) struct Candidate<'s> {
    /// The item: a headless mirror with all its endpoint mirrors, a mirror with a cluster IP, a federated service, or a Service
    /// of this cluster.
    pub(super) item: &'s Item,
    /// The key of its object.
    pub(super) object: &'s ObjectKey,
    pub(super) rank: Rank,
    /// The clusters, after aliases. A federated service has several, or none.
    pub(super) clusters: BTreeSet<ClusterName>,
    /// Whether no Link names these clusters any more (rule L3).
    pub(super) is_unlinked: bool,
    /// The endpoints that can be answered.
    pub(super) endpoints: Vec<Endpoint>,
    /// The pods of this cluster that are not ready.
    pub(super) not_ready: Vec<Endpoint>,
    /// The hosts without an endpoint that a headless mirror lists.
    pub(super) missing: Vec<MissingHost>,
    /// Which names it answers.
    pub(super) role: Role,
}

/// Which names the endpoints of a candidate answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The name of the service and those of its cluster.
    Answers,
    /// Those of its cluster. Another step of the order answers the name of the service (rule K5).
    Standby,
    /// Those of its cluster. A better candidate answers the name of the service (rule K1).
    ClusterOnly,
    /// None.
    Omitted,
}

// === impl Candidate ===

impl<'s> Candidate<'s> {
    /// Makes the candidate of an item. Endpoints of an unlinked cluster are down (rule L3).
    pub(super) fn new(
        (object, item): (&'s ObjectKey, &'s Item),
        rank: Rank,
        clusters: BTreeSet<ClusterName>,
        mut endpoints: Vec<Endpoint>,
        links: &Links,
    ) -> Self {
        let is_unlinked = links.is_item_unlinked(item);
        if is_unlinked {
            for endpoint in &mut endpoints {
                endpoint.liveness = EndpointLiveness::Unlinked;
            }
        }
        Self {
            item,
            object,
            rank,
            clusters,
            is_unlinked,
            endpoints,
            not_ready: Vec::new(),
            missing: Vec::new(),
            role: Role::Answers,
        }
    }

    /// Returns whether it is one address of no one cluster.
    pub(super) fn is_shared(&self) -> bool {
        self.rank == Rank::Federated
    }

    /// Returns whether its endpoints answer the name of the service.
    pub(super) fn is_answering(&self) -> bool {
        self.role == Role::Answers && !self.endpoints.is_empty()
    }

    /// Omits endpoints whose longest name, `H.C.S.N.Z`, has more than 255 octets (rule M9).
    pub(super) fn omit_long_names(
        &mut self,
        key: &ServiceKey,
        longest_zone: usize,
        problems: &mut Vec<Problem>,
    ) {
        let [service, namespace] = key.labels();
        let mut is_valid = |endpoint: &Endpoint| {
            let [hostname, cluster] = endpoint.labels();
            let labels = [hostname, cluster, service, namespace];
            let labels = labels.into_iter().filter(|label| !label.is_empty());
            let octets = labels.clone().map(|label| label.len() + 1).sum::<usize>() + longest_zone;
            if octets <= 255 {
                return true;
            }
            let name = labels.collect::<Vec<_>>().join(".");
            let detail =
                format!("the name {name}.<zone> has {octets} octets; at most 255 are allowed");
            let problem = Problem::new(ProblemKind::UnusableObject, detail);
            let objects = endpoint.objects.iter().cloned();
            problems.extend(objects.map(|object| problem.clone().of_object(object)));
            false
        };
        self.endpoints.retain(&mut is_valid);
        self.not_ready.retain(&mut is_valid);
    }
}
