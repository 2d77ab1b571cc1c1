//! What Services of this cluster offer, if they are members (rule M5).

use std::sync::Arc;

use super::candidate::{Candidate, cluster_ip, groups};
use super::context::BuildContext;
use super::endpoint::{Rank, Source, distinct};
use super::headless::exported_problem;
use super::rules::{LocalMembers, Rules};
use super::{Endpoint, EndpointLiveness, ServiceKind};
use crate::model::{
    ClusterName, Export, Few, Hostname, Item, Kind, ObjectKey, ObjectRef, OwnForm, OwnService,
    Problem, ProblemKind, ServiceKey, Slice, SliceEndpoint,
};

/// Returns whether a headless Service of this cluster is a member only while a mirror of its name exists, or why it is none; without
/// a reason, `localMembers` is none. It is one by itself if it is exported, has an annotation of this server, or an alias names it.
/// Mirrors of excluded clusters count as well, because the exclusion of a cluster must not remove members of this cluster.
fn membership(
    service: &ServiceKey,
    item: &Item,
    own: OwnService,
    context: BuildContext<'_>,
) -> Result<bool, Option<&'static str>> {
    let aliases = context.rules.aliases.of_source(service);
    let is_named = item.settings.is_some() || !aliases.is_empty();
    match context.rules.local_members {
        LocalMembers::None => Err(None),
        _ if own.export == Export::Gateway => Ok(false),
        LocalMembers::Matching if is_named => Ok(false),
        LocalMembers::Matching if context.has_mirror() => Ok(true),
        LocalMembers::Matching | LocalMembers::Exported => Err(own.export.defect()),
    }
}

/// Returns why the headless Service of this cluster with the name of a service is not a member. Returns `None` if it is
/// a member or does not exist.
pub(super) fn non_member(context: BuildContext<'_>) -> Option<Arc<Problem>> {
    let item = context.own()?;
    let own = item.own().filter(OwnService::is_headless)?;
    if misread_export(own).is_some() {
        return None; // that says it
    }
    let ServiceKey { namespace, service } = context.key;
    let detail = match membership(context.key, item, own, context).err()? {
        None => "it is not a member: localMembers is none".to_owned(),
        Some(why) => format!(
            "it is not a member: {why}: kubectl label service {service} --namespace {namespace} --overwrite mirror.linkerd.io/exported=true"
        ),
    };
    let object = ObjectRef::service(&ObjectKey::of_service(context.key));
    let problem = Problem::new(ProblemKind::LeftOut, detail).of_service(context.key);
    Some(Arc::new(problem.of_object(object)))
}

/// Makes the candidate of a Service of this cluster, if it is a member: its pods, or its address if it is exported.
pub(super) fn candidate<'s>(
    source: Source<'s>,
    own: OwnService,
    context: BuildContext<'s>,
) -> Option<Candidate<'s>> {
    let Source { item, .. } = source;
    let rules = context.rules;
    let service = source.service();
    // A source of an alias has its problems itself.
    let report = |found: Option<Problem>| {
        context.report(found.filter(|_| service == *context.key));
    };
    report(exported_problem(source, context));
    report(misread_export(own));
    let candidate = match own.form {
        OwnForm::Headless { has_selector } => {
            let is_by_mirror = membership(&service, item, own, context).ok()?;
            let candidate = pods(source, context);
            if !candidate.endpoints.is_empty() || !candidate.not_ready.is_empty() {
                report(not_exported(own, is_by_mirror, rules));
            } else if !has_selector && !own.export.is_any() {
                // It exists for its settings, if it has some.
                return None;
            }
            candidate
        }
        OwnForm::ClusterIp
            if own.export.is_any()
                && !item.addresses.is_empty()
                && rules.local_members != LocalMembers::None =>
        {
            let mut slices = context.store.cursor(Kind::EndpointSlice);
            cluster_ip(source, &mut slices, context)?
        }
        OwnForm::ClusterIp => return None,
    };
    if own.export == Export::Gateway {
        let why = mirrorable(&candidate, own, &rules.cluster_name).err();
        report(why.map(|why| Problem::new(ProblemKind::NotMirrorable, why)));
    }
    Some(candidate)
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
    let mut names = Vec::new();
    for endpoint in endpoints {
        let mut addresses = endpoint.addresses.iter();
        let Some(name) = &endpoint.hostname else {
            continue;
        };
        if !addresses.any(|own| *name == Hostname::from_address(own.ip)) {
            names.push(name.as_str());
        }
    }
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

/// Makes the candidate of the pods of a headless Service of this cluster, joined over all its slices.
fn pods<'s>(source: Source<'s>, context: BuildContext<'s>) -> Candidate<'s> {
    let cluster = &context.rules.cluster_name;
    let mut pods = Vec::new();
    for (slice_key, slice) in context.store.slices_of(source.object) {
        let Slice::Endpoints(listed) = slice else {
            continue;
        };
        context.report(listed.problems(slice_key));
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
    let endpoints = join(ready, |problem| context.report([problem]));
    let clusters = [cluster.clone()].into();
    Candidate {
        not_ready: join(not_ready, drop),
        ..Candidate::new(source, Rank::Headless, clusters, endpoints, context)
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
    groups(pods, |(_, one), (_, other)| one.hostname == other.hostname)
        .map(|((pod, first), others)| {
            let (other_pods, others): (Vec<_>, Vec<_>) = others.into_iter().unzip();
            if !other_pods.iter().all(|other| is_one_pod(pod, other)) {
                report(first.conflict(&others.iter().collect::<Vec<_>>()));
            }
            first.merged(&others)
        })
        .collect()
}

/// Reports a member of this cluster that other clusters do not have, and that leaves with the last mirror of its name if it is
/// a member only because of a mirror.
fn not_exported(own: OwnService, is_by_mirror: bool, rules: &Rules) -> Option<Problem> {
    // A Link with a selector of its own may mirror one with another value.
    let why = own.export.defect().filter(|_| own.export == Export::No)?;
    let until = if is_by_mirror {
        ", and only while a mirror of its name exists"
    } else {
        ""
    };
    let cluster = &rules.cluster_name;
    let detail = format!("cluster '{cluster}' is a member here only{until}: {why}");
    Some(Problem::new(ProblemKind::NotExported, detail))
}
