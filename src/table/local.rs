//! What Services of this cluster offer, if they are members (rule M5).

use std::sync::Arc;

use super::candidate::Candidate;
use super::context::BuildContext;
use super::endpoint::{Endpoint, EndpointLiveness, Rank, ServiceKind, Source, distinct};
use super::rules::LocalMembers;
use crate::model::{
    ClusterName, Export, Few, Hostname, Kind, ObjectRef, OwnForm, OwnService, Problem, ProblemKind,
    ServiceKey, Slice, SliceEndpoint,
};

impl<'s> BuildContext<'s> {
    /// Returns why a headless Service of this cluster is not a member, if it is not. Mirrors of excluded clusters count as well, because
    /// the exclusion of a cluster must not remove members of this cluster.
    fn refusal(self, source: Source<'_>, own: OwnService) -> Option<&'static str> {
        let is_matching = || self.is_named(source) || self.has_mirror();
        match self.rules.local_members {
            LocalMembers::None => Some("localMembers is none"),
            LocalMembers::Matching if is_matching() => None,
            LocalMembers::Matching | LocalMembers::Exported => own.export.defect(),
        }
    }

    /// Returns whether a Service of this cluster has an annotation of this server, or an alias names it.
    fn is_named(self, source: Source<'_>) -> bool {
        let aliases = self.rules.aliases.of_source(&source.service());
        source.item.settings.is_some() || !aliases.is_empty()
    }

    /// Returns why the headless Service of this cluster with the name of a service is not a member. Returns `None` if it is
    /// a member or does not exist.
    pub(super) fn non_member(self) -> Option<Arc<Problem>> {
        let source = self.own()?;
        let own = source.item.own().filter(OwnService::is_headless)?;
        if misread_export(own).is_some() {
            return None; // that says it
        }
        let why = self.refusal(source, own)?;
        let ServiceKey { namespace, service } = self.key;
        let remedy = match self.rules.local_members {
            LocalMembers::None => String::new(),
            _ => format!(
                ": kubectl label service {service} --namespace {namespace} --overwrite mirror.linkerd.io/exported=true"
            ),
        };
        let detail = format!("it is not a member: {why}{remedy}");
        let problem = Problem::new(ProblemKind::LeftOut, detail).of_service(self.key);
        Some(Arc::new(
            problem.of_object(ObjectRef::service(source.object)),
        ))
    }

    /// Makes the candidate of a Service of this cluster, if it is a member: its pods, or its address if it is exported.
    pub(super) fn own_service(self, source: Source<'s>, own: OwnService) -> Option<Candidate<'s>> {
        let rules = self.rules;
        let service = source.service();
        // A source of an alias has its problems itself.
        let report = |found: Option<Problem>| {
            self.report(found.filter(|_| service == *self.key));
        };
        report(self.exported_problem(source));
        report(misread_export(own));
        let candidate = match own.form {
            OwnForm::Headless { has_selector } => {
                if self.refusal(source, own).is_some() {
                    return None;
                }
                let candidate = self.pods(source);
                if !candidate.endpoints.is_empty() || !candidate.not_ready.is_empty() {
                    report(self.not_exported(source, own));
                } else if !has_selector && !own.export.is_any() {
                    // It exists for its settings, if it has some.
                    return None;
                }
                candidate
            }
            OwnForm::ClusterIp
                if own.export.is_any()
                    && !source.item.addresses.is_empty()
                    && rules.local_members != LocalMembers::None =>
            {
                let mut slices = self.store.cursor(Kind::EndpointSlice);
                self.cluster_ip(source, &mut slices)?
            }
            OwnForm::ClusterIp => return None,
        };
        if own.export == Export::Gateway {
            let why = mirrorable(&candidate, own, &rules.cluster_name).err();
            report(why.map(|why| Problem::new(ProblemKind::NotMirrorable, why)));
        }
        Some(candidate)
    }

    /// Makes the candidate of the pods of a headless Service of this cluster, joined over all its slices.
    fn pods(self, source: Source<'s>) -> Candidate<'s> {
        let cluster = &self.rules.cluster_name;
        let mut pods = Vec::new();
        for (slice_key, slice) in self.store.slices_of(source.object) {
            let Slice::Endpoints(listed) = slice else {
                continue;
            };
            self.report(listed.problems(slice_key));
            for pod in &listed.entries {
                let endpoint = Endpoint {
                    cluster: Some(cluster.clone()),
                    hostname: Some(pod.hostname.clone()),
                    addresses: distinct([pod.address]),
                    liveness: if pod.ready {
                        EndpointLiveness::Alive
                    } else {
                        EndpointLiveness::PodNotReady
                    },
                    ports: listed.ports.clone(),
                    objects: Few::One(ObjectRef::slice(slice_key)),
                    ..Endpoint::of_item(source, ServiceKind::Local)
                };
                pods.push((pod, endpoint));
            }
        }
        let (ready, not_ready) = pods.into_iter().partition(|(pod, _)| pod.ready);
        let endpoints = join(ready, |problem| self.report([problem]));
        let clusters = [cluster.clone()].into();
        Candidate {
            not_ready: join(not_ready, drop),
            ..self.candidate(source, Rank::Headless, clusters, endpoints)
        }
    }

    /// Returns the problem of a member of this cluster that other clusters do not have, and that leaves with the last mirror of its name
    /// if it is a member only because of a mirror.
    fn not_exported(self, source: Source<'_>, own: OwnService) -> Option<Problem> {
        // A Link with a selector of its own may mirror one with another value.
        let why = own.export.defect().filter(|_| own.export == Export::No)?;
        let until = if self.is_named(source) {
            ""
        } else {
            ", and only while a mirror of its name exists"
        };
        let cluster = &self.rules.cluster_name;
        let detail = format!("cluster '{cluster}' is a member here only{until}: {why}");
        Some(Problem::new(ProblemKind::NotExported, detail))
    }
}

/// Reports a Service that somebody meant to export with a label that Linkerd does not read for it.
fn misread_export(own: OwnService) -> Option<Problem> {
    let is_misread = match own.export {
        Export::RemoteDiscovery => own.is_headless(),
        Export::Federated | Export::Misspelt => true,
        Export::No | Export::Gateway | Export::Other => false,
    };
    let why = own.export.defect().filter(|_| is_misread)?;
    Some(Problem::new(ProblemKind::NotMirrorable, why))
}

/// Returns whether other clusters can mirror an exported Service of this one with its pods. Linkerd says nothing about what it does
/// not mirror.
///
/// # Errors
///
/// Why they cannot, and what to do.
fn mirrorable(
    candidate: &Candidate<'_>,
    own: OwnService,
    cluster: &ClusterName,
) -> Result<(), String> {
    const MAX_NAME: usize = 63; // octets of a Service (RFC 1035 label)
    let endpoints = candidate.endpoints.iter().chain(&candidate.not_ready);
    if endpoints.clone().next().is_none() {
        return Ok(());
    }
    if candidate.source.item.ports.is_empty() {
        return Err(
            "it has no ports, so that Linkerd skips it: add ports to the Service".to_owned(),
        );
    }
    let hostnames = endpoints.filter_map(|pod| {
        let name = pod.hostname.as_ref()?;
        let mut addresses = pod.addresses.iter();
        let is_address = addresses.any(|own| *name == Hostname::from_address(own.ip));
        (!is_address).then_some(name.as_str())
    });
    let mut names: Vec<&str> = hostnames.collect();
    if own.is_headless() && names.is_empty() {
        let why = "no pod has a hostname, so that Linkerd makes no mirrors of them: give its pods hostnames, by a StatefulSet whose serviceName is this Service";
        return Err(why.to_owned());
    }
    names.push(candidate.source.item.service.as_str());
    let is_long = |name: &&str| name.len() + 1 + cluster.as_str().len() > MAX_NAME;
    match names.into_iter().find(is_long) {
        Some(name) => Err(format!(
            "the name of its mirror {name}-{cluster} is longer than {MAX_NAME} characters: shorten the name of the Service, of its \
             pods, or of the cluster"
        )),
        None => Ok(()),
    }
}

/// Joins the entries of one hostname. Reports those that are not one pod. A dual-stack pod is in a slice of each address family.
fn join(mut pods: Vec<(&SliceEndpoint, Endpoint)>, report: impl Fn(Problem)) -> Vec<Endpoint> {
    let is_one_pod = |one: &SliceEndpoint, other: &SliceEndpoint| match (&one.target, &other.target)
    {
        _ if one.address == other.address => true,
        (Some(one), Some(other)) => one == other,
        // Slices that are written by hand do not name the pod.
        _ => one.address.is_ipv4() != other.address.is_ipv4(),
    };
    pods.sort_by(|(_, one), (_, other)| one.hostname.cmp(&other.hostname));
    let groups = pods.chunk_by(|(_, one), (_, other)| one.hostname == other.hostname);
    let join = |group: &[(&SliceEndpoint, Endpoint)]| {
        let (first, _) = &group[0];
        let endpoints: Vec<&Endpoint> = group.iter().map(|(_, endpoint)| endpoint).collect();
        if !group.iter().all(|(pod, _)| is_one_pod(first, pod)) {
            report(Endpoint::conflict(&endpoints));
        }
        Endpoint::merged(&endpoints)
    };
    groups.map(join).collect()
}
