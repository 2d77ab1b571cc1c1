//! Builds one service: `candidates` → `choose` → `order` → `service`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::candidate::Candidate;
use super::choose::kind_of;
use super::context::{BuildContext, BuiltService, ServiceTimers};
use super::endpoint::{Rank, Source};
use super::failover::{Failover, Gate, StepHealth};
use super::name_index::compute::name_index;
use super::{NameFailure, Service};
use crate::model::{
    ClusterName, ItemKind, Kind, MAX_LISTED, ObjectRef, OwnService, Problem, ProblemKind,
    ServiceKey, list_some,
};

/// What people have decided about a service, with what follows from it at this moment.
#[derive(Clone)]
struct Decision {
    failover: Option<Box<Failover>>,
    gate: Option<Box<Gate>>,
    ttl: u32,
}

/// Builds one service.
pub(super) fn build_service(context: BuildContext<'_>) -> BuiltService {
    let BuildContext {
        key, rules, timers, ..
    } = context;
    let mut candidates = context.candidates();
    // What people decide (rule K6).
    let kept = context.kept_order();
    let written = context.order_of(kept.as_ref(), &candidates);
    let ttl = context.ttl();
    let is_set = context.settings().is_some()
        || kept.is_some()
        || rules.order_of(key).flatten().is_some()
        || !rules.aliases.sources_of(key).is_empty();
    // What answers (rules K1, K5, K8).
    context.choose(&mut candidates, written.is_some());
    let gate = context.own().and_then(|own| {
        // A cluster is present also if another candidate answers for it, or if the endpoint belongs to no single cluster.
        let present = candidates
            .iter()
            .filter(|one| !one.endpoints.is_empty())
            .flat_map(|one| &one.clusters)
            .cloned()
            .collect();
        Gate::new(own.item, &present, rules, timers.wall)
    });
    let (failover, debounce) = written
        .map(|written| context.order(written, &mut candidates))
        .unzip();
    let debounce = match failover {
        Some(_) => debounce.flatten(),
        None => context.remembered_default(&candidates),
    };
    let gate_wake = |gate: &Gate| gate.wake(timers.now, timers.wall);
    let wakes = [
        kept.as_ref().and_then(|kept| kept.end),
        gate.as_ref().and_then(gate_wake),
        debounce.as_ref().and_then(|debounce| debounce.wake(rules)),
    ];
    let decision = Decision {
        failover: failover.map(Box::new),
        gate: gate.map(Box::new),
        ttl,
    };
    let alone = context.alone(&decision);
    let service = context.service(decision, alone, candidates);
    let is_any = service.is_known || !service.problems.is_empty() || is_set;
    BuiltService {
        service: is_any.then_some(service),
        timers: ServiceTimers {
            failover: debounce,
            order: kept,
            wake: wakes.into_iter().flatten().min(),
        },
        non_member: context.non_member(),
    }
}

// === impl BuildContext ===

impl<'s> BuildContext<'s> {
    /// Collects what the items of a service offer. Items of excluded clusters offer nothing. A service is known if there is a
    /// candidate, also one without endpoints.
    fn candidates(self) -> Vec<Candidate<'s>> {
        let BuildContext { key, rules, .. } = self;
        let mut of_hosts = self.endpoint_mirrors();
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        let mut slices = self.store.cursor(Kind::EndpointSlice);
        for &source in self.items {
            let Source { object, item } = source;
            if let Some(link) = item.link().filter(|link| rules.excludes(link)) {
                let cluster = rules.name_of(link);
                let detail =
                    format!("cluster '{cluster}' is excluded by the setting excludeClusters");
                let problem = Problem::new(ProblemKind::LeftOut, detail).of_cluster(&cluster);
                self.report([problem.of_object(ObjectRef::service(object))]);
                continue;
            }
            candidates.extend(match item.kind {
                ItemKind::EndpointMirror => None,
                ItemKind::HeadlessMirror => self.headless_mirror(source, &mut of_hosts),
                ItemKind::GatewayMirror | ItemKind::FlatMirror | ItemKind::Federated => {
                    self.cluster_ip(source, &mut slices)
                }
                ItemKind::Own(own) => self.own_service(source, own),
            });
        }
        self.report_orphans(of_hosts);
        let is_known = |source: &&ServiceKey| {
            candidates
                .iter()
                .any(|one| one.source.service() == **source)
        };
        let sources = rules.aliases.sources_of(key).iter();
        let unknown = list_some(sources.filter(|source| !is_known(source)), MAX_LISTED);
        if !unknown.is_empty() {
            self.report([Problem::new(ProblemKind::UnknownAlias, unknown)]);
        }
        // Of endpoints with one name, that of a mirror comes first.
        candidates.sort_by_key(|candidate| candidate.source.item.own().is_some());
        for candidate in &mut candidates {
            self.omit_long_names(candidate);
        }
        candidates
    }

    /// Builds an alias without its sources, for zones of one cluster. It waits for clusters as the alias does.
    fn alone(self, decision: &Decision) -> Option<Box<Service>> {
        let BuildContext { key, rules, .. } = self;
        if rules.zone_clusters.is_empty() || rules.aliases.sources_of(key).is_empty() {
            return None;
        }
        let items = self.items.iter().copied();
        let items = items.filter(|one| one.service() == *key);
        let own = BuildContext {
            items: &items.collect::<Vec<_>>(),
            problems: &RefCell::default(),
            ..self
        };
        let decision = Decision {
            failover: None,
            ttl: own.ttl(), // a source lowers that of the alias
            ..decision.clone()
        };
        Some(Box::new(own.service(decision, None, own.candidates())))
    }

    /// Makes the service of a decision and of its candidates. `alone` is the service without the sources of an alias.
    fn service(
        self,
        decision: Decision,
        alone: Option<Box<Service>>,
        mut candidates: Vec<Candidate<'_>>,
    ) -> Service {
        self.report_missing(&candidates);
        let own = self.own().and_then(|own| own.item.own());
        let is_known = !candidates.is_empty();
        let is_headless = candidates.iter().any(|one| one.rank == Rank::Headless);
        let mut federated = BTreeSet::new();
        let mut mirrors = BTreeSet::new();
        let mut missing = Vec::new();
        let mut hosts = BTreeSet::new();
        for one in &mut candidates {
            missing.append(&mut one.missing);
            hosts.extend(std::mem::take(&mut one.hosts));
            let clusters = one.clusters.iter().cloned();
            if one.source.item.kind == ItemKind::HeadlessMirror {
                mirrors.extend(clusters.map(|cluster| (cluster, one.source.object.clone())));
            } else if one.is_shared() {
                federated.extend(clusters);
            }
        }
        missing.sort_by_cached_key(|one| (one.cluster.clone(), one.hostname.clone()));
        let kind = kind_of(&candidates, !mirrors.is_empty());
        let gateway_down = self.gateway_down();
        let merged = self.merge(candidates, gateway_down);
        let has_mcs_zones = self.rules.has_mcs_zones;
        let mut service = Service {
            key: self.key.clone(),
            kind,
            failover: decision.failover,
            gate: decision.gate,
            ttl: decision.ttl,
            gateway_down,
            alone,
            is_known,
            is_headless,
            has_headless_own: own.as_ref().is_some_and(OwnService::is_headless),
            mirrors: mirrors.into_iter().collect(),
            federated: federated.into_iter().collect(),
            missing: missing.into(),
            hosts: hosts.into_iter().collect(),
            names: name_index(&merged.endpoints, gateway_down, has_mcs_zones),
            endpoints: merged.endpoints.into(),
            not_ready: merged.not_ready.into(),
            ..Service::default()
        };
        service.failure = failure(&service);
        let of_zones = self.rules.zone_clusters.iter();
        let has_names =
            |cluster: &&ClusterName| service.without_alias().has_names_at(&[cluster.as_str()]);
        service.zone_clusters = of_zones.filter(has_names).cloned().collect();
        service.answers = service.hash_of_answers();
        self.report_state(&service);
        service.problems = self.problems.take().into_values().collect();
        service
    }
}

/// Returns why the name of a service fails, if it does (rules K5, K8).
fn failure(service: &Service) -> Option<NameFailure> {
    let mut steps = service.failover.iter().map(|one| one.answering_health());
    if !service.missing_clusters().is_empty() {
        Some(NameFailure::ExpectedClustersMissing)
    } else if steps.any(|health| health == StepHealth::Empty) {
        Some(NameFailure::StepWithoutEndpoint)
    } else {
        let is_missing = service.endpoints.is_empty() && !service.missing.is_empty();
        is_missing.then_some(NameFailure::EndpointMirrorsMissing)
    }
}
