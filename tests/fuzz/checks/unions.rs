//! What each kind offers for a service, and what answers its name (rules M1 to M5, K1), from the original objects. Written
//! from the rules, without the code and the types of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use global_dns::model::{Kind, ObjectKey, key};
use global_dns::table::{LocalMembers, Rules};
use serde_json::Value;

use super::cluster::WatchedObjects;
use super::raw::{Role, role_of};

/// The objects of one service, with the settings of the server that concern its members.
#[derive(Clone, Copy)]
pub struct Scene<'w> {
    pub objects: &'w WatchedObjects,
    pub rules: &'w Rules,
    pub namespace: &'w str,
    pub service: &'w str,
    /// The clusters without a Link, before aliases (rule L3).
    pub unlinked: &'w BTreeSet<String>,
}

/// What a kind offers, in the order of rule K1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    Pods,
    Federated,
    ClusterIp,
}

/// An address, or several of one endpoint, that a kind offers for some clusters.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub rank: Rank,
    /// The clusters that it stands for, after aliases. None if it names no cluster.
    pub clusters: BTreeSet<String>,
    /// Whether it is one address of no one cluster: of a federated service.
    pub is_shared: bool,
    pub host: Option<String>,
    pub addresses: BTreeSet<IpAddr>,
    pub is_alive: bool,
    /// Whether no Link names its cluster (rule L3).
    pub is_unlinked: bool,
    /// Whether the mesh finds the pods itself.
    pub is_flat: bool,
}

/// What a Service that Linkerd mirrored stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorKind {
    Headless,
    Gateway,
    Flat,
    Federated,
}

// === Objects ===

pub fn label<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["labels"][key].as_str()
}

pub fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["annotations"][key].as_str()
}

pub fn is_headless(object: &Value) -> bool {
    object["spec"]["clusterIP"] == "None"
}

fn addresses(list: &Value) -> BTreeSet<IpAddr> {
    let ips = list.as_array().into_iter().flatten();
    ips.filter_map(|ip| ip.as_str()?.parse().ok()).collect()
}

/// Returns the ports of a list: name and protocol, with the number. Returns `None` if one cannot be used.
fn ports(list: &Value) -> Option<Vec<((String, String), u64)>> {
    let port = |port: &Value| {
        let (name, protocol) = (port["name"].as_str(), port["protocol"].as_str());
        let (name, protocol) = (name.unwrap_or_default(), protocol.unwrap_or("TCP"));
        let is_usable = (name.is_empty() || is_label(name)) && protocol != "X";
        let number = port["port"]
            .as_u64()
            .filter(|one| (1..65536).contains(one))?;
        is_usable.then(|| ((name.to_owned(), protocol.to_owned()), number))
    };
    list.as_array().into_iter().flatten().map(port).collect()
}

fn endpoints(slice: &Value) -> impl Iterator<Item = &Value> {
    slice["endpoints"].as_array().into_iter().flatten()
}

fn first_address(endpoint: &Value) -> Option<IpAddr> {
    endpoint["addresses"][0].as_str()?.parse().ok()
}

fn is_ready(endpoint: &Value) -> bool {
    endpoint["conditions"]["ready"] != false
}

fn is_label(text: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = [text.chars().next(), text.chars().last()];
    (1..=63).contains(&text.len()) && text.chars().all(is_inner) && !ends.contains(&Some('-'))
}

/// Returns whether a slice lists the pods of a headless mirror. Its addresses are no gateways.
fn is_host_list(slice: &Value) -> bool {
    label(slice, key::HEADLESS_MIRROR).is_none()
        && endpoints(slice).any(|endpoint| endpoint["hostname"].is_string())
}

// === impl Scene ===

impl<'w> Scene<'w> {
    fn own_name(&self) -> &'w str {
        self.rules.cluster_name.as_str()
    }

    /// Returns the name of a cluster after aliases (rule M6).
    pub fn after_alias(&self, name: &str) -> String {
        let aliases = self.rules.cluster_aliases.iter();
        let mut aliases = aliases.filter(|(link, _)| link.as_str() == name);
        aliases
            .next()
            .map_or(name.to_owned(), |(_, alias)| alias.to_string())
    }

    /// Returns the objects with a role in the namespace.
    fn of_role(self, role: Role) -> impl Iterator<Item = (String, &'w Value)> {
        let in_namespace = self.objects.iter().filter(move |((kind, key), object)| {
            *key.namespace == *self.namespace && role_of(*kind, object) == Some(role)
        });
        in_namespace.map(|((_, key), object)| (key.name.text().to_string(), object))
    }

    fn service_at(&self, name: &str) -> Option<&'w Value> {
        let key = ObjectKey::new(self.namespace, name);
        self.objects.get(&(Kind::Service, key))
    }

    /// Returns the slices of an object with a role.
    fn slices(self, role: Role, owner: &str) -> Vec<&'w Value> {
        let slices = self.of_role(role).map(|(_, slice)| slice);
        slices
            .filter(|slice| label(slice, key::SERVICE_NAME) == Some(owner))
            .collect()
    }

    /// Returns the Service of this cluster (rule K6): any that is neither a mirror nor derived by an implementation of MCS.
    pub fn own(&self) -> Option<&'w Value> {
        let own = self.service_at(self.service)?;
        let is_derived =
            label(own, key::MIRRORED_SERVICE).is_some() || label(own, key::MCS_SERVICE).is_some();
        (!is_derived).then_some(own)
    }

    /// Returns the entries in the slices of the Service of this cluster.
    pub fn own_entries(&self) -> Vec<&'w Value> {
        let slices = self.slices(Role::PodSlice, self.service);
        let entries = slices.into_iter().flat_map(endpoints);
        entries
            .filter(|entry| first_address(entry).is_some())
            .collect()
    }

    /// Returns the service, the kind and the link of a mirror of a whole Service. A federated service has no link.
    fn read_mirror(&self, name: &str, object: &'w Value) -> Option<(String, MirrorKind, &'w str)> {
        let is_mirror = label(object, key::MIRRORED_SERVICE) == Some("true")
            && label(object, key::MCS_SERVICE).is_none()
            && label(object, key::HEADLESS_MIRROR).is_none();
        if !is_mirror {
            return None;
        }
        let Some(link) = label(object, key::CLUSTER_NAME) else {
            let keys = [key::REMOTE_DISCOVERY, key::LOCAL_DISCOVERY];
            let has_members = keys.iter().any(|key| annotation(object, key).is_some());
            let service = name.strip_suffix("-federated").filter(|_| has_members)?;
            return Some((service.to_owned(), MirrorKind::Federated, ""));
        };
        let fq_name = annotation(object, key::REMOTE_FQ_NAME)?;
        let (service, rest) = fq_name.split_once('.')?;
        if rest.split('.').next() != Some(self.namespace) {
            return None;
        }
        let kind = match label(object, key::REMOTE_DISCOVERY) {
            _ if is_headless(object) => MirrorKind::Headless,
            None => MirrorKind::Gateway,
            // Labels that disagree with the annotation are those of another mirror (rule K3).
            Some(cluster) if cluster != link => return None,
            Some(_) if label(object, key::REMOTE_SERVICE).is_some_and(|name| name != service) => {
                return None;
            }
            Some(_) => MirrorKind::Flat,
        };
        Some((service.to_owned(), kind, link))
    }

    /// Returns the mirrors of the service, except those of its pods: names, objects, kinds and links.
    pub fn mirrors(&self) -> Vec<(String, &'w Value, MirrorKind, &'w str)> {
        let services = self.of_role(Role::Service);
        let mirrors = services.filter_map(|(name, object)| {
            let (service, kind, link) = self.read_mirror(&name, object)?;
            (service == self.service).then_some((name, object, kind, link))
        });
        mirrors.collect()
    }

    /// Returns the mirrors of pods (rules M1, M2): names, objects, hostnames, parents and links.
    fn pods(&self) -> Vec<(String, &'w Value, String, &'w str, &'w str)> {
        let headless = self.mirrors().into_iter();
        let headless = headless.filter(|(.., kind, _)| *kind == MirrorKind::Headless);
        let parents: Vec<(String, &str)> =
            headless.map(|(name, _, _, link)| (name, link)).collect();
        let suffix = format!("{}.{}", self.service, self.namespace);
        let services = self.of_role(Role::Service);
        let pods = services.filter_map(|(name, object)| {
            let parent = label(object, key::HEADLESS_MIRROR)?;
            let link = label(object, key::CLUSTER_NAME)?;
            let fq_name = annotation(object, key::REMOTE_FQ_NAME)?;
            let (host, rest) = fq_name.split_once('.')?;
            let is_of_service = rest == suffix || rest.starts_with(&format!("{suffix}."));
            let has_parent = parents.contains(&(parent.to_owned(), link));
            (is_of_service && has_parent).then_some((name, object, host.to_owned(), parent, link))
        });
        pods.collect()
    }

    /// Returns whether the mirror of a whole Service is alive.
    fn is_alive(&self, name: &str, kind: MirrorKind) -> bool {
        let slices = self.slices(Role::MirrorSlice, name).into_iter();
        let mut gateways = slices.filter(|slice| !is_host_list(slice));
        kind != MirrorKind::Gateway || gateways.any(|slice| endpoints(slice).any(is_ready))
    }

    /// Returns the clusters of a federated service, from its annotations.
    fn members(&self, federated: &Value) -> BTreeSet<String> {
        let list = annotation(federated, key::REMOTE_DISCOVERY).unwrap_or_default();
        let members = list.split(',').filter_map(|member| {
            let (service, cluster) = member.split_once('@')?;
            (is_label(service) && is_label(cluster)).then(|| self.after_alias(cluster))
        });
        let own = annotation(federated, key::LOCAL_DISCOVERY).map(|_| self.own_name().to_owned());
        members.chain(own).collect()
    }

    /// Returns whether no Link names a cluster of a federation.
    fn is_federation_unlinked(&self, federated: &Value) -> bool {
        let list = annotation(federated, key::REMOTE_DISCOVERY).unwrap_or_default();
        let mut clusters = list.split(',').filter_map(|member| member.split_once('@'));
        let has_other = clusters.any(|(_, cluster)| !self.unlinked.contains(cluster));
        !has_other && !list.is_empty() && annotation(federated, key::LOCAL_DISCOVERY).is_none()
    }

    /// Returns whether the headless Service of this cluster is a member (rule M5).
    pub fn is_headless_member(&self, own: &Value) -> bool {
        let is_exported = label(own, key::EXPORTED) == Some("true");
        let annotations = own["metadata"]["annotations"].as_object().into_iter();
        let mut annotations = annotations.flatten();
        match self.rules.local_members {
            LocalMembers::None => false,
            _ if is_exported => true,
            LocalMembers::Exported => false,
            LocalMembers::Matching => {
                annotations.any(|(key, _)| key.starts_with("global-dns/"))
                    || !self.mirrors().is_empty()
            }
        }
    }

    // === Candidates ===

    fn one_cluster(&self, cluster: &str, rank: Rank) -> Candidate {
        Candidate {
            rank,
            clusters: [self.after_alias(cluster)].into(),
            is_shared: false,
            host: None,
            addresses: BTreeSet::new(),
            is_alive: true,
            is_unlinked: false,
            is_flat: false,
        }
    }

    /// Makes what a mirror of one link offers.
    fn of_link(&self, link: &str, rank: Rank) -> Candidate {
        Candidate {
            is_unlinked: self.unlinked.contains(link),
            ..self.one_cluster(link, rank)
        }
    }

    fn own_candidate(&self, rank: Rank) -> Candidate {
        Candidate {
            clusters: [self.own_name().to_owned()].into(),
            ..self.one_cluster("", rank)
        }
    }

    /// Returns everything that a kind offers for the service.
    pub fn candidates(&self) -> Vec<Candidate> {
        let mut candidates = self.pod_candidates();
        for (name, object, kind, link) in self.mirrors() {
            let addresses = addresses(&object["spec"]["clusterIPs"]);
            candidates.extend(match kind {
                MirrorKind::Headless => None,
                MirrorKind::Federated => Some(Candidate {
                    clusters: self.members(object),
                    is_unlinked: self.is_federation_unlinked(object),
                    is_shared: true,
                    addresses,
                    ..self.one_cluster("", Rank::Federated)
                })
                // Without a member that can be read, it offers nothing (rule K3).
                .filter(|federated| !federated.clusters.is_empty()),
                MirrorKind::Gateway | MirrorKind::Flat => Some(Candidate {
                    addresses,
                    is_alive: self.is_alive(&name, kind),
                    is_flat: kind == MirrorKind::Flat,
                    ..self.of_link(link, Rank::ClusterIp)
                }),
            });
        }
        candidates.extend(self.own_candidates());
        for candidate in &mut candidates {
            candidate.is_alive &= !candidate.is_unlinked;
        }
        candidates
    }

    /// Returns the pods of other clusters: by their endpoint mirrors (rules M1 to M3), and those with an exported Service of
    /// their own (rule M1b).
    fn pod_candidates(&self) -> Vec<Candidate> {
        let pods = self.pods();
        let own_mirrors = pods.iter().map(|(name, object, host, _, link)| {
            let slices = self.slices(Role::MirrorSlice, name).into_iter();
            let slices = slices.filter(|slice| !is_host_list(slice));
            let gateways: Vec<&Value> = slices.flat_map(endpoints).collect();
            Candidate {
                host: Some(host.clone()),
                addresses: addresses(&object["spec"]["clusterIPs"]),
                is_alive: gateways.is_empty() || gateways.into_iter().any(is_ready),
                ..self.of_link(link, Rank::Pods)
            }
        });
        let adopted = self.listed_hosts();
        let adopted = adopted.iter().filter_map(|(host, link, listed)| {
            let mirror = self.mirror_of_pod(host, link);
            let address = first_address(listed)?;
            mirror.filter(|mirror| mirror.addresses.contains(&address))
        });
        own_mirrors.chain(adopted).collect()
    }

    /// Returns the hosts that a headless mirror lists and that have no endpoint mirror: hostnames, links and entries.
    fn listed_hosts(&self) -> Vec<(&'w str, &'w str, &'w Value)> {
        let pods = self.pods();
        let mut hosts = Vec::new();
        for (parent, _, kind, link) in self.mirrors() {
            let lists = self.slices(Role::MirrorSlice, &parent).into_iter();
            let lists = lists.filter(|slice| kind == MirrorKind::Headless && is_host_list(slice));
            for listed in lists.flat_map(endpoints) {
                let is_mirrored = |host: &str| {
                    pods.iter().any(|(_, _, name, of, from)| {
                        name == host && *of == parent && *from == link
                    })
                };
                let host = listed["hostname"].as_str();
                let missing = host.filter(|host| !is_mirrored(host));
                hosts.extend(missing.map(|host| (host, link, listed)));
            }
        }
        hosts
    }

    /// Returns whether a headless mirror of a linked cluster lists a host without an endpoint mirror.
    pub fn has_missing_host(&self) -> bool {
        let mut hosts = self.listed_hosts().into_iter();
        hosts.any(|(_, link, _)| !self.unlinked.contains(link))
    }

    /// Returns the numbers of the ports of a pod with this mirror (rule M1c). Returns `None` if a port cannot be read.
    pub fn ports_of_pod(&self, mirror: &str, host: &str) -> Option<BTreeSet<u64>> {
        let object = self.service_at(mirror)?;
        let own = ports(&object["spec"]["ports"])?;
        let link = label(object, key::CLUSTER_NAME)?;
        let parent = label(object, key::HEADLESS_MIRROR);
        let mut listed = BTreeSet::new();
        for (name, _, kind, from) in self.mirrors() {
            let is_parent = parent.is_none_or(|parent| parent == name);
            if kind != MirrorKind::Headless || from != link || !is_parent {
                continue;
            }
            let slices = self.slices(Role::MirrorSlice, &name).into_iter();
            let lists_host = |slice: &&Value| {
                is_host_list(slice) && endpoints(slice).any(|one| one["hostname"] == host)
            };
            for slice in slices.filter(lists_host) {
                listed.extend(ports(&slice["ports"])?.into_iter().map(|(port, _)| port));
            }
        }
        let common = own.iter().filter(|(port, _)| listed.contains(port));
        let common: BTreeSet<u64> = common.map(|(_, number)| *number).collect();
        let all = own.iter().map(|(_, number)| *number);
        Some(if common.is_empty() {
            all.collect()
        } else {
            common
        })
    }

    /// Returns the mirror of the exported Service of a pod.
    fn mirror_of_pod(&self, host: &str, link: &str) -> Option<Candidate> {
        let name = format!("{host}-{link}");
        let object = self.service_at(&name)?;
        let (_, kind, from) = self.read_mirror(&name, object)?;
        let is_service = matches!(kind, MirrorKind::Gateway | MirrorKind::Flat);
        let is_of_cluster = self.after_alias(from) == self.after_alias(link);
        (is_service && is_of_cluster).then(|| Candidate {
            host: Some(host.to_owned()),
            addresses: addresses(&object["spec"]["clusterIPs"]),
            is_alive: self.is_alive(&name, kind),
            is_flat: kind == MirrorKind::Flat,
            is_unlinked: self.unlinked.contains(from),
            ..self.one_cluster(link, Rank::Pods)
        })
    }

    /// Returns what the Service of this cluster offers (rule M5, kind `local`).
    fn own_candidates(&self) -> Vec<Candidate> {
        let Some(own) = self.own() else {
            return Vec::new();
        };
        let export = label(own, key::EXPORTED);
        if is_headless(own) {
            let is_member = self.is_headless_member(own);
            let entries = self.own_entries().into_iter();
            let ready = entries.filter(|entry| is_member && is_ready(entry));
            let pods = ready.filter_map(|entry| {
                let address = first_address(entry)?;
                let dashed = || address.to_string().replace(['.', ':'], "-");
                let host = entry["hostname"].as_str();
                Some(Candidate {
                    host: Some(host.map_or_else(dashed, str::to_owned)),
                    addresses: [address].into(),
                    ..self.own_candidate(Rank::Pods)
                })
            });
            return pods.collect();
        }
        let addresses = addresses(&own["spec"]["clusterIPs"]);
        let is_member = matches!(export, Some("true" | "remote-discovery"))
            && self.rules.local_members != LocalMembers::None
            && !addresses.is_empty();
        let mut exported = self.slices(Role::ReadySlice, self.service).into_iter();
        let is_alive = exported.any(|slice| endpoints(slice).any(is_ready))
            || self.own_entries().into_iter().any(is_ready);
        let own = Candidate {
            addresses,
            is_alive,
            ..self.own_candidate(Rank::ClusterIp)
        };
        [own].into_iter().filter(|_| is_member).collect()
    }

    // === The choice ===

    /// Returns the candidates that answer the name of the service without an order (rule K1): for each cluster the best. One
    /// that names no cluster counts as a cluster of its own.
    pub fn choose(&self, candidates: &[Candidate]) -> Vec<Candidate> {
        // Mirrors of an unlinked cluster come after everything else (rule L3).
        let place = |one: &Candidate| (one.is_unlinked, one.rank);
        let mut best: BTreeMap<&str, (bool, Rank)> = BTreeMap::new();
        for candidate in candidates {
            for cluster in &candidate.clusters {
                let best = best.entry(cluster).or_insert(place(candidate));
                *best = (*best).min(place(candidate));
            }
        }
        let is_chosen = |candidate: &&Candidate| {
            let mut clusters = candidate.clusters.iter();
            clusters.any(|cluster| best[&**cluster] == place(candidate))
        };
        candidates.iter().filter(is_chosen).cloned().collect()
    }
}

// === Endpoints ===

/// Returns the addresses of candidates with the treatment of those that are down (rules M4, L3). Those of one cluster and one hostname
/// are one endpoint, which is alive if one of them is (rule M6): what is down of it goes, unless the name includes it.
pub fn answer(candidates: &[Candidate], gateway_down: &str) -> BTreeSet<IpAddr> {
    let name = |candidate: &Candidate| {
        let cluster = candidate.clusters.iter().filter(|_| !candidate.is_shared);
        let cluster: Vec<String> = cluster.cloned().collect();
        (cluster, candidate.host.clone())
    };
    let counts = |one: &Candidate| match gateway_down {
        "include" => !one.is_unlinked,
        _ => one.is_alive,
    };
    let mut endpoints: BTreeMap<_, Vec<&Candidate>> = BTreeMap::new();
    for candidate in candidates {
        endpoints
            .entry(name(candidate))
            .or_default()
            .push(candidate);
    }
    let is_any_alive = candidates.iter().any(|one| one.is_alive);
    let mut answered = BTreeSet::new();
    for sources in endpoints.values() {
        let is_alive = sources.iter().any(|one| one.is_alive);
        let used: Vec<&&Candidate> = sources
            .iter()
            .filter(|one| !is_alive || counts(one))
            .collect();
        if !is_any_alive || used.iter().any(|one| counts(one)) {
            answered.extend(used.iter().flat_map(|one| one.addresses.clone()));
        }
    }
    answered
}

/// Returns whether candidates are of several kinds, so that their SRV targets or their liveness differ (rule K1).
pub fn is_mixed(candidates: &[Candidate]) -> bool {
    let kinds = candidates.iter().map(|one| match one.rank {
        Rank::ClusterIp => (one.rank, one.is_flat),
        rank => (rank, false),
    });
    kinds.collect::<BTreeSet<_>>().len() > 1
}
