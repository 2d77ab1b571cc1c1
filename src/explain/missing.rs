//! What a name lacks to exist, in sentences for whoever expected it.

use std::collections::BTreeSet;

use super::context::{Context, Observer};
use crate::mirror::{ClusterName, Export, Namespace, ObjectRef, Port, ServiceKey, Watch};
use crate::table::{MissingHost, NoOwner, NonMember, Service, Table};
use crate::zone::Why;

/// Says what is missing for a name to exist.
pub(super) fn missing(
    why: Why,
    labels: &[&str],
    service: Option<&Service>,
    table: &Table,
    context: &Context<'_>,
) -> Vec<String> {
    let own = labels.iter().copied();
    let own: Vec<&str> = own.filter(|label| !label.starts_with('_')).collect();
    match (why, service) {
        (Why::NoForm, _) => vec![
            "names here are S.N, C.S.N, H.C.S.N or, without N, short; before each, _P._R"
                .to_owned(),
        ],
        (Why::NoAddress, _) => {
            vec!["only addresses of endpoints in the table have a name here".to_owned()]
        }
        (Why::NoService | Why::NoOwner, _) | (_, None) => missing_service(&own, table, context),
        (Why::NoEndpoint, Some(service)) => missing_endpoints(service, table),
        (Why::NoCluster, Some(service)) => missing_cluster(service, table),
        (Why::NoHost, Some(service)) => {
            let cluster = own.get(1).copied().unwrap_or_default();
            missing_host(cluster, service, table)
        }
        (Why::NoPort, Some(service)) => vec![named_ports(service)],
    }
}

/// Says why a service has no endpoints.
fn missing_endpoints(service: &Service, table: &Table) -> Vec<String> {
    let mut notes = unready(service, table);
    notes.extend(outsider(&service.key, table));
    notes
}

/// Says why a service has no endpoints in a cluster.
fn missing_cluster(service: &Service, table: &Table) -> Vec<String> {
    let clusters: Vec<&str> = service.clusters().map(ClusterName::as_str).collect();
    let clusters = clusters.join(", ");
    let mut notes = vec![format!("{} has endpoints in: {clusters}", service.key)];
    notes.extend(missing_endpoints(service, table));
    notes
}

/// Says why a service has no such host in a cluster.
fn missing_host(cluster: &str, service: &Service, table: &Table) -> Vec<String> {
    let endpoints = service.in_cluster(cluster).iter();
    let hosts: Vec<&str> = endpoints.map(|e| e.hostname.as_str()).collect();
    let hosts = hosts.join(", ");
    let mut notes = vec![format!(
        "endpoints of {} in '{cluster}': {hosts}",
        service.key
    )];
    notes.extend(unready(service, table));
    notes
}

/// Lists the ports of a service that names can begin with.
fn named_ports(service: &Service) -> String {
    let label = |port: &Port| {
        let name = port.name.as_ref()?;
        Some(format!("_{name}._{}", port.protocol.label()))
    };
    let ports = service.endpoints.iter().flat_map(|e| &e.ports);
    let ports: BTreeSet<String> = ports.filter_map(label).collect();
    let ports: Vec<String> = ports.into_iter().collect();
    format!("named ports of {}: {}", service.key, ports.join(", "))
}

/// Says why there is no such service: a short name without an owner, not watched, mirrored as another kind, of this cluster
/// and no member, or not there at all.
fn missing_service(own: &[&str], table: &Table, context: &Context<'_>) -> Vec<String> {
    let no_owner: Option<String> = own.last().and_then(|name| no_owner(name, table));
    let [.., service, namespace] = own else {
        let nowhere = || "no namespace has a service of that name".to_owned();
        return vec![no_owner.unwrap_or_else(nowhere)];
    };
    let canonical = missing_in(namespace, service, table, context);
    no_owner.into_iter().chain(canonical).collect()
}

/// Says why a short name has no owner, if that is so.
fn no_owner(name: &str, table: &Table) -> Option<String> {
    let short = table.short_name(name)?;
    let claimants: Vec<&str> = short.claimants.iter().map(Namespace::as_str).collect();
    let claimants = claimants.join(", ");
    Some(match short.owner.as_ref().err()? {
        NoOwner::Contested => format!(
            "namespaces {claimants} have a service '{name}', and no flag says whose the short name is: ask for the name \
             with its namespace, or pin it with --short-name {name}=NAMESPACE"
        ),
        NoOwner::Pinned(namespace) => format!(
            "the short name '{name}' is pinned to namespace '{namespace}', which lacks it; it is in: {claimants}"
        ),
        NoOwner::Unpinned => format!(
            "no flag gives the short name '{name}' to a namespace that has it, and --short-names is pinned; it is in: \
             {claimants}"
        ),
        NoOwner::Off => format!("short names are off; '{name}' is in: {claimants}"),
    })
}

/// Says why a namespace has no such service.
fn missing_in(namespace: &str, service: &str, table: &Table, context: &Context<'_>) -> Vec<String> {
    let watched = context.watched;
    if !watched.is_empty() && !watched.iter().any(|known| known.as_str() == namespace) {
        return vec![format!(
            "namespace '{namespace}' is not watched: --namespace names others"
        )];
    }
    let mut notes = skipped_mirrors(namespace, service, table);
    if let Ok(service) = service.parse()
        && let Ok(namespace) = namespace.parse()
    {
        notes.extend(outsider(&ServiceKey { namespace, service }, table));
    }
    if let Observer::Once(Some(plain)) = context.observer {
        notes.push(not_headless(&plain.0));
    }
    if notes.is_empty() {
        notes.push(format!(
            "no mirror of {namespace}/{service} was seen: is it exported over there (label \
             mirror.linkerd.io/exported=true), is its cluster linked, and is headless mirroring on?"
        ));
    }
    notes
}

/// Says which mirrors of a service are not used, and why.
fn skipped_mirrors(namespace: &str, service: &str, table: &Table) -> Vec<String> {
    let is_it =
        |key: &ServiceKey| key.namespace.as_str() == namespace && key.service.as_str() == service;
    let notes = table.skipped().filter_map(|(object, skip)| {
        let (_, cluster) = skip.about.as_ref().filter(|(key, _)| is_it(key))?;
        Some(match skip.other_kind() {
            Some((key, _)) if skip.is_flat() => format!(
                "{object} mirrors it from cluster '{cluster}', but as a flat (remote-discovery) service, which has no \
                 endpoints of its own; if it is headless there, export it there through the gateway: {}",
                export_command(key, " --overwrite")
            ),
            Some(_) => format!(
                "{object} mirrors it from cluster '{cluster}', but not as a headless service: headless mirroring is \
                 off there, or its pods have no hostnames"
            ),
            None => format!(
                "{object} mirrors it from cluster '{cluster}', but cannot be used: {}",
                skip.detail
            ),
        })
    });
    notes.collect()
}

/// Says that a Service of this cluster is not headless, and how it becomes a headless one.
fn not_headless(ServiceKey { namespace, service }: &ServiceKey) -> String {
    format!(
        "Service/{namespace}/{service} of this cluster is not headless, and only headless Services are served; make one \
         of the same pods: kubectl expose service {service} --namespace {namespace} --name NAME --cluster-ip None \
         --labels mirror.linkerd.io/exported=true"
    )
}

/// Says why a headless Service of this cluster is no member, and how it becomes one.
fn outsider(key: &ServiceKey, table: &Table) -> Option<String> {
    let ServiceKey { namespace, service } = key;
    let object = format!("Service/{namespace}/{service} of this cluster");
    Some(match table.non_member(key)? {
        NonMember::Off => format!("{object} does not join: --local-members is off"),
        NonMember::NotExported(Export::No | Export::Gateway) => format!(
            "{object} is headless, but not exported: {}",
            export_command(key, "")
        ),
        NonMember::NotExported(Export::RemoteDiscovery) => format!(
            "{object} is exported as remote-discovery, which Linkerd does not do for headless Services; export it \
             through the gateway: {}",
            export_command(key, " --overwrite")
        ),
        NonMember::NotExported(Export::Other) => format!(
            "{object} is headless, but its label mirror.linkerd.io/exported is not 'true': {}",
            export_command(key, " --overwrite")
        ),
    })
}

/// Returns the command that exports a Service.
fn export_command(key: &ServiceKey, flag: &str) -> String {
    let ServiceKey { namespace, service } = key;
    format!(
        "kubectl label service {service} --namespace {namespace}{flag} mirror.linkerd.io/exported=true"
    )
}

/// Says which members of a service have no endpoint that is answered, and why.
pub(super) fn unready(service: &Service, table: &Table) -> Vec<String> {
    let mut notes = Vec::new();
    for (cluster, object) in &service.mirrors {
        let missing = service.missing.iter().filter(|host| host.mirror == *object);
        let missing: Vec<&MissingHost> = missing.collect();
        if !missing.is_empty() {
            notes.extend(without_mirror(object, &missing, table));
        } else if service.in_cluster(cluster.as_str()).is_empty() {
            notes.push(format!(
                "{object} of cluster '{cluster}' has no endpoint mirrors: no pod with a hostname is ready over there, or \
                 Linkerd's controller lost them, which heals at the next change there or within ten minutes"
            ));
        }
    }
    if !service.not_ready.is_empty() {
        let hosts: Vec<&str> = service
            .not_ready
            .iter()
            .map(|e| e.hostname.as_str())
            .collect();
        notes.push(format!("not ready in this cluster: {}", hosts.join(", ")));
    }
    notes
}

/// Names the hosts that a headless mirror lists and that have no endpoint mirror, and what has its name instead.
fn without_mirror(mirror: &ObjectRef, missing: &[&MissingHost], table: &Table) -> Vec<String> {
    let mut notes = Vec::new();
    let mut gone = Vec::new();
    for host in missing {
        let place = match host.address {
            Some(address) => format!("{} ({address})", host.hostname),
            None => host.hostname.to_string(),
        };
        let expected = &host.expected;
        match instead(host, table) {
            Some(what) => notes.push(format!("{mirror} lists {place}, but {expected} is {what}")),
            None => gone.push(place),
        }
    }
    if !gone.is_empty() {
        notes.push(format!(
            "{mirror} lists hosts that have no endpoint mirror: {}; Linkerd's controller deleted or never made them, and \
             makes them at the next change over there, within ten minutes, or when it is restarted (before edge-26.5.1 it \
             deletes them where two namespaces export a headless Service of one name, before edge-24.5.1 whenever it starts)",
            gone.join(", ")
        ));
    }
    notes
}

/// Says what an object is that has the name of an endpoint mirror.
fn instead(host: &MissingHost, table: &Table) -> Option<String> {
    if let Some(skip) = table.skip_of(Watch::MirrorServices, &host.expected.key) {
        return Some(format!("not one that can be used: {}", skip.detail));
    }
    let is_of = |service: &&Service| {
        let endpoints = service.endpoints.iter();
        let mut objects = endpoints.flat_map(|e| e.object_refs(&service.key.namespace));
        objects.any(|object| object == host.expected)
    };
    let other = table.services().find(is_of)?;
    Some(format!("the endpoint mirror of a host of {}", other.key))
}
