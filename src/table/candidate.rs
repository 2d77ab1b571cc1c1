//! A [`Candidate`]: what one item offers for some clusters.

use std::collections::BTreeSet;

use super::endpoint::{Endpoint, EndpointLiveness, MissingHost, Rank};
use super::links::Links;
use crate::model::{ClusterName, Item, ObjectKey, Problem, ProblemKind, ServiceKey};

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
