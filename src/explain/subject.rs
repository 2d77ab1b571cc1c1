//! The subject of an explanation: a name, which may lack its zone, or an address.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::net::IpAddr;

use super::context::Context;
use super::explanation::{AnsweringName, Explanation, exists, explain};
use crate::model::{ClusterName, Namespace, ServiceKey};
use crate::report::{EndpointReport, EndpointState, NameReply, ProblemReport};
use crate::table::{Endpoint, Grammar, Published, Service, Table};
use crate::zone::{Name, Zone, Zones, read};

/// The subject of an explanation.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A name.
    Name(Box<Name>),
    /// An address.
    Address(IpAddr),
}

// === impl Subject ===

impl Subject {
    /// Parses an address, `NAMESPACE/SERVICE`, or a name. Adds a zone to a name that needs one: a service
    /// (`NAMESPACE/SERVICE`, `S.N`, `S`), or a name that exists only with a zone. A name with a final dot is complete.
    /// Returns `None` if the text is none of these.
    pub fn parse(zones: &Zones, table: Option<&Table>, text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let (text, is_service) = match text.split_once('/') {
            Some((namespace, service)) if !service.contains('/') => {
                (format!("{service}.{namespace}"), true)
            }
            _ => (text.to_owned(), false),
        };
        let name = Name::from_text(&text)?;
        let is_complete = text.ends_with('.') || zones.find(&name).is_some();
        if is_complete && !is_service {
            return Some(Self::Name(Box::new(name)));
        }
        let forward = zones.iter().filter(|zone| zone.grammar == Grammar::Global);
        let with_zone = |zone: &Zone| Name::from_text(&format!("{text}.{}", zone.name));
        let candidates: Vec<Name> = forward.filter_map(with_zone).collect();
        let name_exists =
            |name: &&Name| table.is_some_and(|table| exists(&read(zones, table, name)));
        let existing = candidates.iter().find(name_exists);
        // A name of more labels may belong to any other zone.
        let needs_zone = is_service || name.count() <= 2;
        let chosen = existing.or_else(|| candidates.first().filter(|_| needs_zone));
        Some(Self::Name(Box::new(chosen.cloned().unwrap_or(name))))
    }

    /// Explains the subject. Returns `None` before the first complete table.
    pub fn explain(
        &self,
        zones: &Zones,
        published: &Published,
        context: &Context<'_>,
    ) -> Option<Explanation> {
        match self {
            Self::Name(name) => explain(zones, published, context, name),
            Self::Address(address) => explain_address(zones, published, *address),
        }
    }

    /// Returns the name, if the subject is one.
    pub fn name(&self) -> Option<&Name> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

/// Explains an address by the endpoints that have it and the names that return it. An endpoint is returned if one of these
/// names returns it; the widest of them says why.
fn explain_address(zones: &Zones, published: &Published, address: IpAddr) -> Option<Explanation> {
    let table = published.table.as_ref()?;
    let (mut endpoints, mut names, mut seen) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
    let has = |endpoint: &Endpoint| endpoint.addresses.iter().any(|one| one.ip == address);
    for service in table.sorted_services() {
        let mut all = service.endpoints.iter().chain(&service.not_ready);
        if !all.any(has) {
            continue;
        }
        let own = NameReply::of_own_name(service);
        // Most names are those of several endpoints.
        let mut replies = HashMap::new();
        for (endpoint, state, _) in own.endpoints(service).filter(|(one, ..)| has(one)) {
            let candidates = zones
                .iter()
                .flat_map(|zone| names_above(zone, service, endpoint));
            let mut returning = Vec::new();
            for name in candidates {
                let reply = replies
                    .entry(name.to_string())
                    .or_insert_with(|| NameReply::of_name(zones, published, &name));
                if reply.has(endpoint) {
                    returning.push((name, reply.clone()));
                }
            }
            let widest = returning.iter().min_by_key(|(_, reply)| reply.scope());
            let (reply, is_returned) = match widest {
                Some((_, reply)) => (reply, true),
                None => (&own, false),
            };
            let report = reply.report(service, endpoint, state, is_returned);
            let [host, cluster] = endpoint.labels();
            let is_ready = state != EndpointState::NotReady;
            // Two services of an alias may have it.
            let known = endpoints
                .entry((&service.key, cluster, host, is_ready))
                .or_insert_with(|| report.clone());
            if !known.returned {
                *known = report;
            }
            for (name, _) in returning {
                if seen.insert(name.to_string()) {
                    names.push(AnsweringName::new(&name, &service.key));
                }
            }
        }
    }
    let mut endpoints: Vec<EndpointReport> = endpoints.into_values().collect();
    endpoints.sort_by_key(|endpoint| !endpoint.returned);
    Some(Explanation {
        name: address.to_string(),
        reading: describe_address(names.len(), endpoints.len()),
        exists: !names.is_empty(),
        names,
        endpoints,
        problems: published
            .problem()
            .iter()
            .map(ProblemReport::from)
            .collect(),
        ..Explanation::default()
    })
}

/// Describes an address by the number of names that return it and of endpoints that have it.
fn describe_address(names: usize, endpoints: usize) -> String {
    match (names, endpoints) {
        (0, 0) => "not the address of an endpoint".to_owned(),
        (0, _) => "the address of an endpoint that no name returns".to_owned(),
        (1, _) => "an address that 1 name returns".to_owned(),
        (count, _) => format!("an address that {count} names return"),
    }
}

/// Returns the names of an endpoint, of its cluster and of its service in a zone: the canonical and short ones, or those of
/// the grammar `mcs`. Some of them may not exist.
fn names_above(zone: &Zone, service: &Service, endpoint: &Endpoint) -> Vec<Name> {
    let [host, cluster] = endpoint.labels();
    let (namespace, name, suffix) = (&service.key.namespace, &service.key.service, &zone.name);
    let families = match zone.grammar {
        Grammar::Mcs => vec![format!("{name}.{namespace}.svc.{suffix}")],
        Grammar::Global => {
            vec![
                format!("{name}.{namespace}.{suffix}"),
                format!("{name}.{suffix}"),
            ]
        }
    };
    let names = families.into_iter().flat_map(|family| {
        let of_cluster = (!cluster.is_empty()).then(|| format!("{cluster}.{family}"));
        let of_host = of_cluster
            .as_ref()
            .filter(|_| !host.is_empty())
            .map(|above| format!("{host}.{above}"));
        [of_host, of_cluster, Some(family)].into_iter().flatten()
    });
    names.filter_map(|name| Name::from_text(&name)).collect()
}

// === impl AnsweringName ===

impl AnsweringName {
    fn new(name: &Name, service: &ServiceKey) -> Self {
        Self {
            name: name.to_string(),
            namespace: service.namespace.to_string(),
            service: service.service.to_string(),
        }
    }
}

// === impl Explanation ===

impl Explanation {
    /// Returns the services that it shows.
    pub fn services(&self) -> BTreeSet<ServiceKey> {
        let key = |endpoint: &EndpointReport| {
            Some(ServiceKey {
                namespace: endpoint.namespace.parse().ok()?,
                service: endpoint.service.parse().ok()?,
            })
        };
        self.endpoints.iter().filter_map(key).collect()
    }

    /// Returns the clusters of its endpoints.
    pub fn clusters(&self) -> BTreeSet<ClusterName> {
        let clusters = self.endpoints.iter();
        clusters
            .filter_map(|endpoint| endpoint.cluster.parse().ok())
            .collect()
    }

    /// Keeps what belongs to these namespaces; without namespaces, everything. Returns whether the name is in one of them.
    /// An address is in all.
    pub fn retain_namespaces(&mut self, namespaces: &[Namespace]) -> bool {
        if namespaces.is_empty() || self.endpoints.is_empty() {
            return true;
        }
        let is_kept = |name: &str| namespaces.iter().any(|one| one.as_str() == name);
        let has_kept = |endpoint: &EndpointReport| is_kept(&endpoint.namespace);
        // Records refer to endpoints by their indexes.
        let mut kept = 0..;
        let new_index = |one: &EndpointReport| has_kept(one).then(|| kept.next()).flatten();
        let indexes: Vec<Option<usize>> = self.endpoints.iter().map(new_index).collect();
        self.endpoints.retain(has_kept);
        for answer in &mut self.answers {
            for record in &mut answer.records {
                record.endpoint = record.endpoint.and_then(|old| *indexes.get(old)?);
            }
        }
        // Only the explanation of an address has no answers.
        if !self.answers.is_empty() {
            return !self.endpoints.is_empty();
        }
        self.names.retain(|one| is_kept(&one.namespace));
        self.exists = !self.names.is_empty();
        self.reading = describe_address(self.names.len(), self.endpoints.len());
        true
    }

    /// Writes the names that return an address.
    pub(super) fn write_names(&self, text: &mut String) -> std::fmt::Result {
        if !self.names.is_empty() {
            writeln!(text, "\nnames:")?;
        }
        self.names
            .iter()
            .try_for_each(|one| writeln!(text, "  {}", one.name))
    }
}
