//! The hosts of each service. Every cluster must have the same hosts under the same names, and see them in the same state.

use std::collections::{BTreeMap, BTreeSet};

use super::causes::{
    DifferenceCause, DifferenceCauses, Key, concerns, describe, group, join, verb,
};
use super::clusters::{ComparedCluster, is_unready_pod};
use super::links::Directions;
use crate::check::finding::{count, list_some};
use crate::check::{Check, Finding};
use crate::model::{Family, Level, ProblemKind};
use crate::report::{EndpointReport, EndpointState, ProblemReport};

/// Maximum number of hosts in a sentence.
const MAX_HOSTS: usize = 5;

/// The differences of hosts.
#[derive(Debug)]
pub(super) struct ServiceDifferences<'m> {
    pub(super) findings: Vec<Finding>,
    /// The services with a difference. Their settings may differ because of it.
    pub(super) services: BTreeSet<Key<'m>>,
}

/// The hosts of one cluster for one service, as another cluster, or itself, has them.
#[derive(Debug, Default)]
struct SeenHosts<'m> {
    /// The endpoints by hostname. The hostname of a cluster IP is empty.
    endpoints: BTreeMap<&'m str, &'m EndpointReport>,
    /// The pods of the cluster itself that are not ready. No other cluster has a mirror of them.
    unready: BTreeSet<&'m str>,
}

/// The hosts by service and cluster, as each cluster has them.
type AllHosts<'m> = BTreeMap<(Key<'m>, String), BTreeMap<usize, SeenHosts<'m>>>;

/// Compares services.
struct Comparison<'c, 'm> {
    clusters: &'c [ComparedCluster<'m>],
    links: &'c mut Directions<'m>,
    causes: DifferenceCauses<'m>,
    /// The problems that explain a difference, by address.
    explaining: BTreeSet<*const ProblemReport>,
}

pub(super) fn compare<'m>(
    clusters: &[ComparedCluster<'m>],
    links: &mut Directions<'m>,
) -> ServiceDifferences<'m> {
    let hosts = hosts_of(clusters);
    let mut comparison = Comparison {
        clusters,
        links,
        causes: DifferenceCauses::new(Check::FleetServices),
        explaining: BTreeSet::new(),
    };
    for ((key, cluster), seen) in &hosts {
        comparison.compare_hosts(*key, cluster, seen);
    }
    comparison.compare_federations();
    comparison.compare_replies(&hosts);
    comparison.finish(&hosts)
}

/// Collects the hosts of all services. Addresses of no single cluster are left out.
fn hosts_of<'m>(clusters: &[ComparedCluster<'m>]) -> AllHosts<'m> {
    let mut hosts = AllHosts::new();
    for (index, cluster) in clusters.iter().enumerate() {
        for (key, service) in &cluster.services {
            for endpoint in service
                .endpoints
                .iter()
                .filter(|one| !one.cluster.is_empty())
            {
                let name = cluster.name_of(&endpoint.cluster).to_owned();
                let of_cluster = hosts.entry((*key, name)).or_default();
                let seen = of_cluster.entry(index).or_default();
                if is_unready_pod(endpoint) {
                    seen.unready.insert(&endpoint.hostname);
                } else {
                    seen.endpoints.insert(&endpoint.hostname, endpoint);
                }
            }
        }
    }
    for seen in hosts.values_mut().flat_map(BTreeMap::values_mut) {
        // A cluster IP beside pods is not answered.
        if seen.endpoints.keys().any(|host| !host.is_empty()) {
            seen.endpoints.remove("");
        }
    }
    hosts
}

// === impl SeenHosts ===

impl<'m> SeenHosts<'m> {
    /// Returns how the service is reached: the kind, or `pods`, or `None` if that is not known.
    fn form(&self, is_own: bool) -> Option<&'m str> {
        let (host, endpoint) = self.endpoints.first_key_value()?;
        match (host.is_empty(), is_own) {
            (false, _) => Some("pods"),
            (true, true) => Some("a cluster IP"),
            (true, false) => Some(&endpoint.kind),
        }
    }

    fn names(&self) -> BTreeSet<&'m str> {
        self.endpoints.keys().copied().collect()
    }
}

// === impl Comparison ===

impl<'m> Comparison<'_, 'm> {
    /// Returns the names of clusters for a sentence.
    fn names(&self, indexes: impl IntoIterator<Item = usize>) -> String {
        let names = indexes.into_iter();
        join(names.map(|index| self.clusters[index].name.as_str()))
    }

    /// Returns the clusters whose tables are compared.
    fn current(&self) -> impl Iterator<Item = usize> + use<'_, 'm> {
        let clusters = self.clusters.iter().enumerate();
        clusters
            .filter(|(_, one)| one.is_current())
            .map(|(index, _)| index)
    }

    /// Compares the hosts of one cluster for one service.
    fn compare_hosts(
        &mut self,
        key: Key<'m>,
        cluster: &str,
        seen: &BTreeMap<usize, SeenHosts<'m>>,
    ) {
        let owner = self
            .current()
            .find(|index| self.clusters[*index].name == cluster);
        if self.compare_kinds(key, cluster, owner, seen) {
            return;
        }
        let none = SeenHosts::default();
        let own = owner.map(|owner| seen.get(&owner).unwrap_or(&none));
        let expected: BTreeSet<&str> = match own {
            Some(own) => own.names(),
            None => seen.values().flat_map(SeenHosts::names).collect(),
        };
        let others: Vec<usize> = self
            .current()
            .filter(|index| Some(*index) != owner)
            .collect();
        // The cause begins with the hosts that clusters have or lack.
        let mut differing: BTreeMap<([&str; 2], DifferenceCause), Vec<usize>> = BTreeMap::new();
        let is_mirrored = others.iter().any(|index| seen.contains_key(index));
        for index in others {
            let hosts = seen.get(&index).unwrap_or(&none).names();
            let missing: BTreeSet<&str> = expected.difference(&hosts).copied().collect();
            let unready = own.map(|own| &own.unready);
            let surplus = hosts.difference(&expected).copied();
            let is_gone = |host: &&str| unready.is_some_and(|unready| !unready.contains(host));
            let surplus: BTreeSet<&str> = surplus.filter(is_gone).collect();
            let is_equal = missing.is_empty() && surplus.is_empty();
            if is_equal || self.links.is_cause(index, cluster, key) {
                continue;
            }
            let difference = if !surplus.is_empty() {
                let cause = surplus_of(cluster, &surplus, &missing, expected.is_empty());
                (["has", "have"], cause)
            } else {
                let hosts = if missing.len() == expected.len() {
                    "the hosts".to_owned()
                } else {
                    list(&missing)
                };
                let cause = self.lack_of(&hosts, index, key, cluster, is_mirrored);
                (["lacks", "lack"], cause)
            };
            differing.entry(difference).or_default().push(index);
        }
        for (([one, several], mut cause), indexes) in differing {
            let verb = verb(indexes.len(), one, several);
            cause.predicate = format!("{} {verb} {}", self.names(indexes), cause.predicate);
            self.causes.add(key, cause);
        }
        self.compare_states(key, cluster, seen);
    }

    /// Returns that a cluster lacks hosts of another one, and why.
    fn lack_of(
        &mut self,
        hosts: &str,
        index: usize,
        key: Key<'m>,
        cluster: &str,
        is_mirrored: bool,
    ) -> DifferenceCause {
        let explains = |kind: ProblemKind| {
            let is_skip = kind.row().family == Family::Skipped;
            is_skip || kind == ProblemKind::MissingHost
        };
        let one = &self.clusters[index];
        let problem = one.problems().iter().find(|problem| {
            explains(problem.kind) && concerns(problem, key) && one.is_about(problem, cluster)
        });
        let lack = |reason: &str| format!("{hosts} of {cluster}: {reason}");
        if let Some(problem) = problem {
            self.explaining.insert(problem);
            let reason = format!("{}: {}", problem.kind.row().sentence, &*problem.detail);
            return DifferenceCause::of_kind(lack(&reason), problem.kind);
        }
        let (namespace, service) = key;
        if is_mirrored {
            let hint = format!(
                "check that namespace {namespace} exists there, and the selector of the Link; see global-dns check there"
            );
            DifferenceCause::new(lack("not mirrored there"), hint)
        } else {
            let hint = format!(
                "export the Service in {cluster}: kubectl label service -n {namespace} {service} mirror.linkerd.io/exported=true"
            );
            DifferenceCause::new(lack("no other cluster has them"), hint)
        }
    }

    /// Compares how the service of one cluster is reached. Returns whether that differs.
    fn compare_kinds(
        &mut self,
        key: Key<'m>,
        cluster: &str,
        owner: Option<usize>,
        seen: &BTreeMap<usize, SeenHosts<'m>>,
    ) -> bool {
        let clusters = self.clusters;
        let mut forms = group(seen.iter().filter_map(|(index, hosts)| {
            let form = hosts.form(Some(*index) == owner)?;
            Some((form, clusters[*index].name.as_str()))
        }));
        // Any kind with an address stands for the cluster IP of the owner.
        if forms.len() > 1 && !forms.contains_key("pods") {
            forms.remove("a cluster IP");
        }
        if forms.len() < 2 {
            return false;
        }
        let is_cause = seen
            .keys()
            .any(|index| Some(*index) != owner && self.links.is_cause(*index, cluster, key));
        if !is_cause {
            let forms = describe(&forms);
            let predicate = format!("{cluster} is reached in different ways: {forms}");
            let cause = DifferenceCause::of_kind(predicate, ProblemKind::Kind);
            self.causes.add(key, cause);
        }
        true
    }

    /// Compares the ports and the liveness of the hosts that several clusters have.
    fn compare_states(
        &mut self,
        key: Key<'m>,
        cluster: &str,
        seen: &BTreeMap<usize, SeenHosts<'m>>,
    ) {
        let hosts: BTreeSet<&str> = seen.values().flat_map(SeenHosts::names).collect();
        let mut down: BTreeSet<(Vec<usize>, Vec<usize>, bool)> = BTreeSet::new();
        for host in hosts {
            let views: Vec<(usize, &EndpointReport)> = seen
                .iter()
                .filter_map(|(index, hosts)| Some((*index, *hosts.endpoints.get(host)?)))
                .collect();
            let ports = group(views.iter().map(|(index, endpoint)| {
                let cluster = self.clusters[*index].name.as_str();
                (ports_of(endpoint), cluster)
            }));
            if ports.len() > 1 {
                let predicate = format!("ports of {cluster} differ: {}", describe(&ports));
                let hint = "give the ports of the Service the same names and protocols as those of its pods; a mirror copies the \
                            ports of the exported Service";
                self.causes.add(key, DifferenceCause::new(predicate, hint));
            }
            let (alive, not): (Vec<_>, Vec<_>) = views
                .into_iter()
                .partition(|(_, endpoint)| endpoint.state.is_alive());
            if !alive.is_empty() && !not.is_empty() {
                let is_down = not.iter().any(|(_, one)| one.state == EndpointState::Down);
                let indexes = |of: Vec<(usize, &EndpointReport)>| {
                    of.into_iter().map(|(index, _)| index).collect()
                };
                down.insert((indexes(not), indexes(alive), is_down));
            }
        }
        for (not, alive, is_down) in down {
            let mut causes = not
                .iter()
                .filter(|index| self.clusters[**index].name != cluster);
            if causes.any(|index| self.links.is_cause(*index, cluster, key)) {
                continue;
            }
            let (state, kind) = if is_down {
                ("down", ProblemKind::GatewayDown)
            } else {
                ("not ready", ProblemKind::ServiceNotReady)
            };
            let (not, alive) = (self.names(not), self.names(alive));
            let predicate = format!(
                "hosts of {cluster} are {state} in {not}, and alive in {alive}: {}",
                kind.row().sentence
            );
            let cause = DifferenceCause::of_kind(predicate, kind);
            self.causes.add(key, cause);
        }
    }

    /// Compares which clusters answer a service by one address for all clusters.
    fn compare_federations(&mut self) {
        let mut federated: BTreeMap<Key<'m>, [Vec<&str>; 2]> = BTreeMap::new();
        for cluster in self.clusters {
            for (key, service) in &cluster.services {
                let is_federated = service.endpoints.iter().any(|one| one.cluster.is_empty());
                let groups = federated.entry(*key).or_default();
                groups[usize::from(is_federated)].push(&cluster.name);
            }
        }
        for (key, [without, with]) in federated {
            if !without.is_empty() && !with.is_empty() {
                let predicate = format!(
                    "one address for all clusters in {}, and none in {}",
                    join(with),
                    join(without)
                );
                let cause = DifferenceCause::of_kind(predicate, ProblemKind::Kind);
                self.causes.add(key, cause);
            }
        }
    }

    /// Compares whether replies contain the hosts, for services without another difference.
    fn compare_replies(&mut self, hosts: &AllHosts<'m>) {
        let mut differing = self.causes.services();
        for ((key, cluster), seen) in hosts {
            let mut services = self.clusters.iter().filter_map(|one| one.services.get(key));
            if differing.contains(key)
                || services.any(|one| one.failover.is_some() || one.failure.is_some())
                || self.current().any(|index| self.links.has(index, key))
            {
                continue;
            }
            let mut replies: [BTreeSet<&str>; 2] = Default::default();
            let mut why = None;
            let endpoints = seen
                .iter()
                .flat_map(|(index, hosts)| hosts.endpoints.values().map(|one| (*index, *one)));
            for (index, endpoint) in endpoints {
                replies[usize::from(endpoint.returned)].insert(&self.clusters[index].name);
                why = why.or(endpoint.why.as_deref().filter(|_| !endpoint.returned));
            }
            let [without, with] = &replies;
            if let Some(why) = why
                && without.is_disjoint(with)
                && !with.is_empty()
            {
                let predicate = format!(
                    "replies contain {cluster} in {}, and not in {}: {why}",
                    join(with),
                    join(without)
                );
                let hint = "compare gatewayDown, annotation global-dns/gateway-down and the kinds: global-dns explain NAME shows why";
                self.causes.add(*key, DifferenceCause::new(predicate, hint));
                differing.insert(*key);
            }
        }
    }

    /// Adds skipped objects that explain no difference, and returns the findings.
    fn finish(self, hosts: &AllHosts<'m>) -> ServiceDifferences<'m> {
        let check = Check::FleetServices;
        let Self {
            clusters,
            causes,
            explaining,
            links,
        } = self;
        let mut differing = causes.services();
        let mut findings: Vec<Finding> = causes.findings().collect();
        for cluster in clusters.iter().filter(|one| one.is_current()) {
            let skipped = cluster.problems().iter().filter(|problem| {
                let row = problem.kind.row();
                let is_skip = row.family == Family::Skipped && row.level > Level::Note;
                // Every cluster answers alike, with ports that none of them reaches.
                let is_shown = is_skip || problem.kind == ProblemKind::DeadPort;
                is_shown && !explaining.contains(&std::ptr::from_ref(*problem))
            });
            for (kind, problems) in group(skipped.map(|problem| (problem.kind, problem))) {
                let subjects = problems
                    .iter()
                    .map(|one| format!("{}: {}", &*one.subject, &*one.detail));
                let (name, what) = (&cluster.name, kind.row().sentence);
                let sentence = format!("{name}: {what}: {}", list_some(subjects));
                findings.push(check.red_problem(kind, sentence));
            }
        }
        let differing_by_links: BTreeSet<Key<'_>> = links.differing().collect();
        let services = hosts.keys().map(|(key, _)| *key);
        let same: BTreeSet<Key<'_>> = services
            .filter(|key| !differing_by_links.contains(key))
            .collect();
        let is_compared = clusters.iter().filter(|one| one.is_current()).count() > 1;
        if findings.is_empty() && is_compared {
            let number = count(same.len(), "service");
            findings.push(check.green(format!("the same hosts in every cluster: {number}")));
        }
        differing.extend(differing_by_links);
        ServiceDifferences {
            findings,
            services: differing,
        }
    }
}

/// Returns that a cluster has hosts of another one that it should not have.
fn surplus_of(
    cluster: &str,
    surplus: &BTreeSet<&str>,
    missing: &BTreeSet<&str>,
    is_no_member: bool,
) -> DifferenceCause {
    let hosts = list(surplus);
    if is_no_member {
        let hint = format!(
            "if the Service exists in {cluster}, export it there: label mirror.linkerd.io/exported=true, and \
             localMembers; otherwise, delete its mirrors"
        );
        let text = format!("{hosts} of {cluster}, where the service is no member");
        return DifferenceCause::new(text, hint);
    }
    let instead = if missing.is_empty() {
        format!("which {cluster} does not have")
    } else {
        format!("and {cluster} has {}", list(missing))
    };
    DifferenceCause::new(
        format!("{hosts} of {cluster}, {instead}"),
        "a mirror was left, or its hostname was changed: delete the mirror, and restart its mirror controller",
    )
}

/// Lists hostnames.
fn list(hosts: &BTreeSet<&str>) -> String {
    let names = hosts.iter().map(|host| {
        if host.is_empty() {
            "the cluster IP"
        } else {
            host
        }
    });
    crate::model::list_some(names, MAX_HOSTS)
}

/// Returns the names and protocols of the ports of an endpoint. Their numbers differ by nature: those of pods and of their
/// Service.
fn ports_of(endpoint: &EndpointReport) -> String {
    let ports = endpoint.ports.iter().map(|port| {
        let name = port.name.as_deref().unwrap_or("(no name)");
        format!("{name}/{}", port.protocol.label())
    });
    let ports: BTreeSet<String> = ports.collect();
    join(ports)
}
