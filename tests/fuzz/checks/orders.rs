//! Settings, failover orders and expected clusters (rules K5 to K8), from the original objects. Written from the rules,
//! without the code and the types of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use global_dns::model::{GatewayDown, ServiceKey, ServiceSettings, key};
use global_dns::table::Rules;
use serde_json::Value;

use super::unions::{
    Candidate, MirrorKind, Scene, annotation, answer, is_headless, is_mixed, label,
};

/// The time at which each world starts, in milliseconds: 2026-09-21T14:13:20Z.
pub const START: u64 = 1_790_000_000_000;
/// How long the order of a Service of this cluster applies after it is gone (rule K6).
const KEPT: u64 = 10_000;
/// How long a name waits for expected clusters after the creation of that Service (rule K8).
const HOUR: u64 = 3_600_000;

/// Flags with orders, as texts. That for one service is for `prod/db`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    order: Option<&'static str>,
    service_order: Option<&'static str>,
}

/// The orders of Services of this cluster, as long as they apply.
#[derive(Clone, Debug, Default)]
pub struct Memory(BTreeMap<(String, String), Kept>);

/// The order of a Service of this cluster as it was last.
#[derive(Clone, Debug)]
struct Kept {
    order: String,
    gone_since: Option<u64>,
}

/// What the name of a service returns. `None`: it fails.
pub type Returned = Option<BTreeSet<IpAddr>>;

/// What the rules say about the name of a service.
#[derive(Clone, Debug)]
pub struct Expected {
    /// What each step of the order returns. Without an order, there is one step.
    pub steps: Vec<Returned>,
    /// The step that answers when no delay runs.
    pub step: usize,
    /// Whether the order moves by itself, so that another step may answer while a delay runs.
    pub is_auto: bool,
    /// Whether expected clusters are missing.
    pub is_closed: bool,
    /// The expected clusters that are missing, by their names, while the name waits for them. Their names fail, too.
    pub missing: Vec<String>,
    /// Whether an order applies.
    pub has_order: bool,
    /// Whether the order is that of a Service that is gone.
    pub is_kept: bool,
    /// Whether a mirror or a member of this cluster exists.
    pub is_known: bool,
    /// Whether the name returns endpoints of several kinds.
    pub is_mixed: bool,
    /// Whether endpoints exist for a cluster that others answer.
    pub has_other: bool,
    pub ttl: u32,
}

/// A step of an order.
enum Step {
    /// The names of clusters.
    Clusters(Vec<String>),
    Others,
}

// === impl Flags ===

impl Flags {
    /// Chooses flags from an octet, and sets them in the rules. A small octet chooses none.
    pub fn choose(rules: &mut Rules, octet: u8) -> Self {
        let (order, service_order) = match octet / 32 {
            0 | 6 => (None, None),
            1 => (Some("auto:east:west"), None),
            2 => (Some("auto:local:*"), Some("west:east")),
            3 => (Some("*:east"), Some("auto:hub:*")),
            4 => (None, Some("auto:north:east+west:*")),
            5 => (Some("west:hub:east"), Some("auto:west:hub:east")),
            _ => (Some("auto:east:*"), Some("east:*")),
        };
        let flags = Self {
            order,
            service_order,
        };
        flags.set(rules);
        flags
    }

    /// Returns flags of `prod/db`.
    pub fn of_db(order: Option<&'static str>) -> Self {
        Self {
            service_order: order,
            ..Self::default()
        }
    }

    /// Returns whether an order applies by default.
    pub fn has_order(self) -> bool {
        self.order.is_some() || self.service_order.is_some()
    }

    fn set(self, rules: &mut Rules) {
        let key = || ServiceKey {
            namespace: "prod".parse().unwrap(),
            service: "db".parse().unwrap(),
        };
        rules.failover = self.order.map(|order| order.parse().unwrap());
        let settings = |order: &str| ServiceSettings {
            failover: Some(Some(order.parse().unwrap())),
            ..ServiceSettings::default()
        };
        let order = self.service_order.map(|order| (key(), settings(order)));
        rules.services = order.into_iter().collect();
    }

    fn of_service(scene: &Scene<'_>, flag: Option<&'static str>) -> Option<&'static str> {
        flag.filter(|_| (scene.namespace, scene.service) == ("prod", "db"))
    }
}

// === impl Memory ===

impl Memory {
    /// Records the Service of this cluster at a time.
    pub fn note(&mut self, scene: &Scene<'_>, now: u64) {
        let name = (scene.namespace.to_owned(), scene.service.to_owned());
        if let Some(own) = scene.own() {
            let order = annotation(own, key::FAILOVER).filter(|text| !text.trim().is_empty());
            match order {
                Some(order) => {
                    let (order, gone_since) = (order.to_owned(), None);
                    self.0.insert(name, Kept { order, gone_since });
                }
                None => drop(self.0.remove(&name)),
            }
        } else if let Some(kept) = self.0.get_mut(&name) {
            kept.gone_since = kept.gone_since.or(Some(now));
        }
    }

    fn of(&self, scene: &Scene<'_>, now: u64) -> Option<&Kept> {
        let name = (scene.namespace.to_owned(), scene.service.to_owned());
        let kept = self.0.get(&name)?;
        let is_kept = |since: u64| now < since + KEPT;
        kept.gone_since.is_some_and(is_kept).then_some(kept)
    }
}

/// Returns whether the Service of this cluster is headless, with a selector or an endpoint (rule K5a).
fn has_own_pods(scene: &Scene<'_>, own: &Value) -> bool {
    let selector = own["spec"]["selector"].as_object();
    let has_selector = selector.is_some_and(|selector| !selector.is_empty());
    is_headless(own) && (has_selector || !scene.own_entries().is_empty())
}

// === Texts ===

/// Splits a setting: spaces are ignored, and upper case is lower case. Empty parts at the end are ignored, except the first.
fn split(text: &str, separators: [char; 2]) -> Vec<String> {
    let text: String = text.to_lowercase().split_whitespace().collect();
    let parts = text.trim_end_matches(separators).split(separators);
    parts.map(str::to_owned).collect()
}

/// Returns whether an order moves by itself (rule K5a), and its steps.
fn steps_of(order: &str) -> (bool, Vec<Step>) {
    let mut parts = split(order, [':', ',']);
    let is_auto = parts[0] == "auto";
    if is_auto {
        parts.remove(0);
    }
    if parts.is_empty() {
        parts.push(String::new()); // a cluster that does not exist
    }
    let steps = parts.into_iter().map(|step| match &*step {
        "*" => Step::Others,
        step => Step::Clusters(step.split('+').map(str::to_owned).collect()),
    });
    (is_auto, steps.collect())
}

/// Returns whether a name in a setting is a cluster. A name that cannot be read is none, because no cluster has it.
fn is_named(name: &str, cluster: &str, own: &str) -> bool {
    name == cluster || (name == "local" && cluster == own)
}

/// Reads a time such as `2026-09-21T14:13:20Z`, with or without the seconds, in milliseconds since 1970.
fn time_of(text: &str) -> Option<u64> {
    let numbers = text.strip_suffix('Z')?.split(['-', 'T', ':']);
    let mut numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
    if numbers.len() == 5 {
        numbers.push(0);
    }
    let [year, month, day, hour, minute, second] = numbers[..] else {
        return None;
    };
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let february = 28 + u64::from(is_leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let years: u64 = (1970..year)
        .map(|year| 365 + u64::from(is_leap(year)))
        .sum();
    let before: u64 = months[..usize::try_from(month).ok()? - 1].iter().sum();
    let days = years + before + day - 1;
    Some(((days * 24 + hour) * 3600 + minute * 60 + second) * 1000)
}

// === What is expected ===

/// Returns what the rules say about the name of a service at a time, in milliseconds.
pub fn expected(scene: &Scene<'_>, flags: Flags, memory: &Memory, now: u64) -> Expected {
    let kept = memory.of(scene, now);
    let own = scene.own();
    let setting = |key: &str| own.and_then(|own| annotation(own, key));
    let own_name = scene.rules.cluster_name.as_str();
    let candidates = scene.candidates();
    let is_known = is_known(scene, &candidates);

    let has_own_pods = own.is_some_and(|own| has_own_pods(scene, own));
    let has_pods = has_own_pods || has_headless_mirror(scene);
    // It makes no name that has no member.
    let default = flags.order.filter(|_| !candidates.is_empty() && !has_pods);
    let of_service = |flag| Flags::of_service(scene, flag);
    let annotated = setting(key::FAILOVER).or(kept.map(|kept| kept.order.as_str()));
    let order = match annotated {
        // An empty annotation is no order, and overrides the flags.
        Some(annotation) => Some(annotation).filter(|text| !text.trim().is_empty()),
        None => of_service(flags.service_order).or(default),
    };
    // A federated service of one cluster is that cluster's (rule K1).
    let covers_several = |one: &Candidate| one.clusters.len() > 1;
    let is_only_shared = !candidates.is_empty() && candidates.iter().all(covers_several);
    let order = order.filter(|_| !is_only_shared);
    let is_auto = order.is_some_and(|order| steps_of(order).0);
    let gateway_down = gateway_down(scene);
    let chosen = match order {
        // Nobody can void an order by joining a federation.
        Some(_) => {
            let own = candidates.iter().filter(|one| !covers_several(one));
            scene.choose(&own.cloned().collect::<Vec<_>>())
        }
        None => scene.choose(&candidates),
    };
    let covers = |one: &Candidate| {
        let mut chosen = chosen.iter();
        let is_same = |other: &Candidate| {
            other.host == one.host && other.rank == one.rank && other.addresses == one.addresses
        };
        chosen.any(is_same)
    };
    let has_other = candidates.iter().any(|one| !covers(one));
    let (steps, step, answering) = match order {
        // Without an endpoint, the name fails if a host is known whose endpoint mirror is missing.
        None if chosen.is_empty() && scene.has_missing_host() => (vec![None], 0, chosen),
        None => (vec![Some(answer(&chosen, gateway_down))], 0, chosen),
        Some(order) => answers_of_steps(order, &chosen, gateway_down, own_name),
    };
    let mut missing = Vec::new();
    if let Some((expected, until)) = setting(key::EXPECTED_CLUSTERS).map(split_time)
        && is_waiting(own, until, now)
    {
        let is_present = |name: &String| {
            let mut clusters = candidates.iter().flat_map(|one| &one.clusters);
            clusters.any(|cluster| is_named(name, cluster, own_name))
        };
        missing = split(expected, ['+', ',']);
        missing.retain(|name| !is_present(name));
    }
    Expected {
        step,
        is_auto,
        is_closed: !missing.is_empty(),
        missing,
        has_order: order.is_some(),
        is_kept: own.is_none() && kept.is_some(),
        is_known,
        is_mixed: is_mixed(&answering),
        has_other,
        ttl: ttl(scene, own),
        steps,
    }
}

/// Returns the rule for endpoints with a gateway that is down (rule M4).
pub fn gateway_down<'w>(scene: &Scene<'w>) -> &'w str {
    let setting = scene
        .own()
        .and_then(|own| annotation(own, key::GATEWAY_DOWN));
    let is_rule = |text: &&str| ["last-resort", "include"].contains(text);
    setting
        .filter(is_rule)
        .unwrap_or(match scene.rules.gateway_down {
            GatewayDown::LastResort => "last-resort",
            GatewayDown::Include => "include",
        })
}

/// Returns what each step of an order returns, the step that answers when no delay runs, and its candidates.
fn answers_of_steps(
    order: &str,
    chosen: &[Candidate],
    gateway_down: &str,
    own_name: &str,
) -> (Vec<Returned>, usize, Vec<Candidate>) {
    let (is_auto, order) = steps_of(order);
    let step_of = |cluster: &str| {
        let names = |step: &Step| match step {
            Step::Clusters(names) => names.iter().any(|name| is_named(name, cluster, own_name)),
            Step::Others => false,
        };
        let named = order.iter().position(names);
        named.or_else(|| order.iter().position(|step| matches!(step, Step::Others)))
    };
    let mut members = vec![Vec::new(); order.len()];
    for candidate in chosen {
        // Each has one cluster, because those of several are left out.
        let cluster = candidate.clusters.iter().next();
        if let Some(step) = cluster.and_then(|cluster| step_of(cluster)) {
            members[step].push(candidate.clone());
        }
    }
    let step = if is_auto {
        let is_alive = |step: &Vec<Candidate>| step.iter().any(|one| one.is_alive);
        let first_alive = members.iter().position(is_alive);
        let first = || members.iter().position(|step| !step.is_empty());
        first_alive.or_else(first).unwrap_or_default()
    } else {
        0
    };
    let answers = members
        .iter()
        .map(|step| (!step.is_empty()).then(|| answer(step, gateway_down)));
    (answers.collect(), step, members[step].clone())
}

/// Returns whether a cluster has a headless mirror, with or without endpoints (rule K5a).
fn has_headless_mirror(scene: &Scene<'_>) -> bool {
    let mut mirrors = scene.mirrors().into_iter();
    mirrors.any(|(.., kind, _)| kind == MirrorKind::Headless)
}

/// Returns whether names of the service exist without a setting.
fn is_known(scene: &Scene<'_>, candidates: &[Candidate]) -> bool {
    // One that exists for its settings adds nothing (rule M5).
    let is_exported =
        |own: &Value| matches!(label(own, key::EXPORTED), Some("true" | "remote-discovery"));
    let is_more = |own: &Value| has_own_pods(scene, own) || is_exported(own);
    let is_member = |own: &Value| is_headless(own) && scene.is_headless_member(own) && is_more(own);
    let mirrors = scene.mirrors().into_iter();
    let mut headless = mirrors.filter(|(.., kind, _)| *kind == MirrorKind::Headless);
    !candidates.is_empty() || headless.next().is_some() || scene.own().is_some_and(is_member)
}

/// Splits expected clusters and the time after `until`, if it can be read.
fn split_time(expected: &str) -> (&str, Option<u64>) {
    match expected.split_once(" until ") {
        Some((clusters, time)) => (clusters, time_of(time)),
        None => (expected, None),
    }
}

/// Returns whether the name waits for expected clusters at a time (rule K8): until the time of the annotation, else for an
/// hour after the creation of the Service.
fn is_waiting(own: Option<&Value>, until: Option<u64>, now: u64) -> bool {
    let created = || time_of(own?["metadata"]["creationTimestamp"].as_str()?);
    // A creation in the future counts as now.
    let hour = || Some(created()?.min(now) + HOUR);
    until.or_else(hour).is_some_and(|end| now < end)
}

/// Returns the TTL: mirrors may only lower it (rule K6).
fn ttl(scene: &Scene<'_>, own: Option<&Value>) -> u32 {
    let read = |object: &Value| {
        let ttl: Option<u32> = annotation(object, key::TTL)?.trim().parse().ok();
        ttl.map(|ttl| ttl.clamp(1, 30))
    };
    let own = own.and_then(read).unwrap_or(scene.rules.ttl);
    let mirrors = scene.mirrors().into_iter().map(|(_, object, ..)| object);
    let copies = mirrors.filter_map(read);
    copies.chain([own]).min().unwrap_or(own)
}

// === impl Expected ===

impl Expected {
    /// Returns what the name returns when no delay runs.
    pub fn settled(&self) -> Returned {
        if self.is_closed {
            None
        } else {
            self.steps[self.step].clone()
        }
    }

    /// Returns whether the name may return this while a delay of a failover runs. Steps never answer together, and the name
    /// fails only if no step has an answer.
    pub fn allows(&self, returned: &Returned) -> bool {
        if self.is_closed || !self.is_auto {
            return *returned == self.settled();
        }
        let can_fail = self.steps.iter().all(Option::is_none);
        self.steps.contains(returned) && (returned.is_some() || can_fail)
    }
}
