//! The failover order of a service: the setting that it comes from (rules K5 and K6), and the step that answers (rules K5a and
//! K7), which is the third step of a build.

use std::collections::BTreeSet;
use std::time::Duration;

use super::candidate::Candidate;
use super::context::{BuildContext, KeptOrder};
use super::endpoint::{Endpoint, Role, Source};
use super::failover::{Answering, Debounce, Failover, OrderOrigin, Step, StepHealth, StepMemory};
use crate::model::ProblemKind::SettingWithoutEffect;
use crate::model::{
    ClusterName, ClusterTerm, FailoverOrder, GatewayDown, MAX_LISTED, ObjectRef, Problem,
    ProblemKind, ServiceKey, ServiceSettings, list_some, shorten,
};

/// An order with the setting that it comes from.
pub(super) type Order = (FailoverOrder, OrderOrigin);

/// How long the order of a Service that is gone applies. A Service whose type changes is deleted and created again, and must
/// not join the steps meanwhile.
const KEPT: Duration = Duration::from_secs(10);

// === Settings ===

impl<'s> BuildContext<'s> {
    /// Returns the order of the Service of this cluster, or the order that it had until a moment ago. An annotation that is removed
    /// from a Service that stays ends at once.
    pub(super) fn kept_order(self) -> Option<KeptOrder> {
        if self.has_own() {
            let order = self.settings()?.failover.clone()??;
            return Some(KeptOrder { order, end: None });
        }
        let now = self.timers.now;
        let KeptOrder { order, end } = self.last()?.order.clone()?;
        let end = Some(end.unwrap_or(now.after(KEPT)));
        (Some(now) < end).then_some(KeptOrder { order, end })
    }

    /// Returns the order of a service: the first setting that exists (rule K6), and reports what is wrong with it. `kept` is that of the
    /// annotation. The default order is for services that are known and have no pods.
    pub(super) fn order_of(
        self,
        kept: Option<&KeptOrder>,
        candidates: &[Candidate<'_>],
    ) -> Option<Order> {
        let has_pods = self.has_pods();
        let mut offering = candidates.iter().filter(|one| !one.endpoints.is_empty());
        let is_offered = offering.clone().next().is_some();
        let (order, origin) = if let Some(kept) = kept {
            (kept.order.clone(), OrderOrigin::Annotation)
        } else if self.settings().is_some_and(|own| own.failover.is_some()) {
            return None; // an empty annotation is no order, whatever the settings say
        } else if let Some(order) = self.rules.order_of(self.key) {
            (order?.clone(), OrderOrigin::ServiceSetting)
        } else {
            // It makes no name that has no member.
            let order = self.rules.failover.as_ref();
            let order = order.filter(|_| is_offered && !has_pods)?;
            (order.clone(), OrderOrigin::DefaultSetting)
        };
        if is_offered && offering.all(Candidate::covers_several) {
            // Nothing but addresses that belong to no single cluster (rule K1).
            let what = format!(
                "ignored, because the service has one address for all its clusters: {order}"
            );
            let mut problem = self.order_problem(origin, &what);
            if origin == OrderOrigin::DefaultSetting {
                (problem.kind, problem.remedy) = (ProblemKind::IgnoredSetting, None);
            }
            self.report([problem]);
            return None;
        }
        // With one step, nothing moves.
        if has_pods && order.is_auto && order.count() > 1 {
            let detail = format!("{}: {order}", origin.setting(self.key));
            self.report([Problem::new(ProblemKind::AutoWithPods, detail)]);
        }
        self.report_terms(&order, origin);
        Some((order, origin))
    }

    /// Makes the problem of an order that does not do what it says, with the place to correct it.
    fn order_problem(self, origin: OrderOrigin, what: &str) -> Problem {
        let setting = origin.setting(self.key);
        let remedy = match origin {
            OrderOrigin::Annotation if self.has_own() => None,
            OrderOrigin::Annotation => Some("nothing: its Service is gone".into()),
            _ => Some(format!("correct {setting} in the settings").into()),
        };
        Problem {
            remedy,
            ..Problem::new(SettingWithoutEffect, format!("{setting}: {what}"))
        }
    }

    /// Reports clusters of an order that nothing here knows or whose name cannot be read, and this cluster if it occurs twice (rules K5,
    /// K5a).
    fn report_terms(self, order: &FailoverOrder, origin: OrderOrigin) {
        let own = &self.rules.cluster_name;
        let text = shorten(&order.to_string());
        let mut unknown = Vec::new();
        let mut unreadable = Vec::new();
        for term in order.terms() {
            match term {
                ClusterTerm::Named(name) if !self.store.knows(name, self.rules) => {
                    unknown.push(name.as_str())
                }
                ClusterTerm::Unreadable(text) => unreadable.push(text.as_str()),
                _ => {}
            }
        }
        for (names, reason) in [
            (unknown, "until a mirror or a Link names it"),
            (unreadable, "because it is not the name of a cluster"),
        ] {
            let Some(first) = names.first() else { continue };
            let listed = list_some(names.iter().map(|name| format!("'{name}'")), MAX_LISTED);
            let what =
                format!("counts as a cluster without endpoints {reason}: {listed} in {text}");
            let problem = self.order_problem(origin, &what);
            self.report([problem.of_unknown(first)]);
        }
        if order.terms().filter(|term| term.is(own, own)).count() > 1 {
            let what = format!("corrected, its first place counts: 'local' and '{own}' in {text}");
            self.report([self.order_problem(origin, &what)]);
        }
    }

    // === The third step of a build ===

    /// Decides which step of an order answers, and makes the candidates of the other steps standby. Returns what is remembered of
    /// an order that moves by itself.
    pub(super) fn order(
        self,
        (order, origin): Order,
        candidates: &mut [Candidate<'_>],
    ) -> (Failover, Option<Debounce>) {
        let own = &self.rules.cluster_name;
        let step_of = |one: &Candidate<'_>| order.step_of(one.clusters.first()?, own);
        let mut health = vec![StepHealth::Empty; order.count()];
        let mut always_alive = order.count();
        for one in candidates.iter().filter(|one| one.is_answering()) {
            let Some(step) = step_of(one) else { continue };
            let offered = if one.endpoints.iter().any(Endpoint::is_alive) {
                StepHealth::Alive
            } else {
                StepHealth::Down
            };
            health[step] = health[step].min(offered);
            if one.endpoints.iter().any(Endpoint::is_always_alive) {
                always_alive = step.min(always_alive);
            }
        }
        let debounce = self.debounced(&order, &health);
        let answering = debounce
            .as_ref()
            .and_then(|one| one.answering)
            .map_or(0, |one| one.step);
        let mut standby = BTreeSet::new();
        for one in candidates {
            if one.role == Role::Answers && step_of(one) != Some(answering) {
                one.role = Role::Standby;
                if one.endpoints.iter().any(Endpoint::is_alive) {
                    standby.extend(one.clusters.iter().cloned());
                }
            }
        }
        // Behind it, no step answers.
        if order.is_auto && always_alive + 1 < order.count() {
            let step = order.step_text(always_alive);
            let what = format!(
                "no step behind {step} answers, which is flat or federated and alive while its mirror exists: {order}"
            );
            self.report([self.order_problem(origin, &what)]);
        }
        let steps = health.iter().enumerate().map(|(index, health)| Step {
            health: *health,
            since: debounce.as_ref().and_then(|last| last.steps[index].since()),
        });
        let failover = Failover {
            steps: steps.collect(),
            order,
            origin,
            answering,
        };
        self.report(self.problem_of_step(&failover, &standby));
        (failover, debounce)
    }

    /// Returns what is wrong with the step that answers, if something is. `standby` are the clusters that are alive and do not answer. Of
    /// an order that is held, the detail has the command that makes one of them answer, unless it is too long.
    fn problem_of_step(
        self,
        failover: &Failover,
        standby: &BTreeSet<ClusterName>,
    ) -> Option<Problem> {
        let order = &failover.order;
        let own = &self.rules.cluster_name;
        let [whole, step] =
            [order.to_string(), failover.answering_text()].map(|text| shorten(&text));
        let step = format!("step {} of {whole}, {step}", failover.answering + 1);
        let (kind, what) = match failover.answering_health() {
            StepHealth::Empty => (ProblemKind::StepWithoutEndpoint, ""),
            StepHealth::Down if !order.is_auto => {
                (ProblemKind::HeldStepDown, ": no other takes over")
            }
            _ if failover.answering > 0 => (ProblemKind::StandbyAnswers, ""),
            _ => return None,
        };
        let detail = step + what;
        if order.is_auto {
            return Some(Problem::new(kind, detail));
        }
        let place = |one: &&ClusterName| order.step_of(one, own).unwrap_or(usize::MAX);
        let Some(first) = standby.iter().min_by_key(place) else {
            return Some(Problem::new(kind, detail + "; no other cluster is alive"));
        };
        let alive = format!("{detail}; alive: {}", list_some(standby, MAX_LISTED));
        let Some(command) = self.takeover(first, failover.origin) else {
            return Some(Problem::new(kind, alive));
        };
        let problem = Problem::new(kind, format!("{alive}{command}"));
        // A command that was cut would do something else.
        if !problem.detail.ends_with(&command) {
            return Some(Problem::new(kind, alive));
        }
        let hint = kind.row().hint;
        let remedy = format!("{hint}; or let {first} answer with the command in the detail");
        Some(Problem {
            remedy: Some(remedy.into()),
            ..problem
        })
    }

    /// Says what makes a cluster answer in place of the first step of an order that is held. An annotation wins over the settings (rule
    /// K6). Returns `None` if its name has another meaning in an order, or if the Service of the order is gone.
    fn takeover(self, cluster: &ClusterName, origin: OrderOrigin) -> Option<String> {
        let order: FailoverOrder = cluster.as_str().parse().ok()?;
        order.step_of(cluster, &self.rules.cluster_name)?;
        let ServiceKey { namespace, service } = self.key;
        let command = match origin {
            _ if self.has_own() => format!(
                "kubectl annotate service {service} -n {namespace} --overwrite global-dns/failover={cluster}"
            ),
            OrderOrigin::Annotation => return None,
            _ => {
                format!("set services.{namespace}/{service}.failover to {cluster} in the settings")
            }
        };
        Some(format!("; to let {cluster} answer: {command}"))
    }

    /// Returns what is remembered of the steps of an order that moves by itself, with the one that answers (rule K7). Returns `None` if
    /// the first step answers: the order is held, or the service has had no object for `failover.back`.
    fn debounced(self, order: &FailoverOrder, health: &[StepHealth]) -> Option<Debounce> {
        let rules = self.rules;
        let now = self.timers.now;
        let last = self.last().and_then(|last| last.failover.as_ref());
        let last = last.filter(|last| last.order == *order);
        let end = match self.items {
            [] => Some(last?.end.unwrap_or(now.after(rules.failback_delay))),
            _ => None,
        };
        if !order.is_auto || end.is_some_and(|end| end <= now) {
            return None;
        }
        let is_arriving = self.is_arriving(order);
        let mut steps: Box<[StepMemory]> = match last {
            Some(last) => last.steps.clone(),
            None => health
                .iter()
                .map(|health| StepMemory::new(*health, is_arriving, now))
                .collect(),
        };
        for (step, health) in steps.iter_mut().zip(health) {
            step.note(*health == StepHealth::Alive, now, rules);
        }
        let answering = last.and_then(|last| last.answering);
        Some(Debounce {
            answering: Answering::choose(answering, &steps, health, now),
            order: order.clone(),
            steps,
            end,
        })
    }

    /// Returns what is remembered of the default order of a service that has no endpoint for a moment. It makes no name of that
    /// service.
    pub(super) fn remembered_default(self, candidates: &[Candidate<'_>]) -> Option<Debounce> {
        if candidates.iter().any(|one| !one.endpoints.is_empty()) {
            return None;
        }
        let order = self.rules.failover.as_ref()?;
        let gone = BuildContext { items: &[], ..self };
        gone.debounced(order, &vec![StepHealth::Empty; order.count()])
    }

    /// Returns the settings of the service, the first ones first: those of the Service of this cluster, and `services` of the settings.
    fn all_settings(self) -> impl Iterator<Item = &'s ServiceSettings> + Clone {
        let own = self.settings().into_iter();
        own.chain(self.rules.services.get(self.key))
    }

    /// Returns the rule of the service for gateways that are down.
    pub(super) fn gateway_down(self) -> GatewayDown {
        let set = self.all_settings().find_map(|one| one.gateway_down);
        set.unwrap_or(self.rules.gateway_down)
    }

    /// Returns the TTL of the service. The annotations of mirrors may only lower it. Reports annotations without effect.
    pub(super) fn ttl(self) -> u32 {
        let set = self.all_settings().find_map(|one| one.ttl);
        let mut ttl = set.unwrap_or(self.rules.ttl);
        let unused = self
            .settings()
            .into_iter()
            .flat_map(|own| own.unused.iter().cloned());
        self.report(unused.map(|one| Problem::new(SettingWithoutEffect, one)));
        for Source { object, item } in self.items {
            let is_copy = item.own().is_none() && !self.is_excluded(item);
            let Some(copy) = item.settings.as_ref().filter(|_| is_copy) else {
                continue;
            };
            ttl = copy.ttl.map_or(ttl, |lower| ttl.min(lower));
            let unused = copy.unused.iter().cloned();
            let unused = unused.map(|one| Problem::new(ProblemKind::IgnoredSetting, one));
            self.report(unused.map(|one| one.of_object(ObjectRef::service(object))));
        }
        ttl
    }
}
