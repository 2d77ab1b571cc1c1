//! What a name lacks to exist, in sentences for whoever expected it.

use std::collections::BTreeSet;

use crate::mirror::{ClusterName, Namespace, Port, ServiceKey};
use crate::table::{NoOwner, Service, Table};
use crate::zone::Why;

/// Says what is missing for a name to exist.
pub(super) fn missing(
    why: Why,
    labels: &[&str],
    service: Option<&Service>,
    table: &Table,
    watched: &[Namespace],
) -> Vec<String> {
    let own: Vec<&str> = labels
        .iter()
        .copied()
        .filter(|label| !label.starts_with('_'))
        .collect();
    match (why, service) {
        (Why::NoForm, _) => vec![
            "names here are S.N, C.S.N, H.C.S.N or, without N, short; before each, _P._R"
                .to_owned(),
        ],
        (Why::NoAddress, _) => {
            vec!["only addresses of endpoints in the table have a name here".to_owned()]
        }
        (Why::NoService | Why::NoOwner, _) | (_, None) => missing_service(&own, table, watched),
        (Why::NoEndpoint, Some(service)) => unready(service),
        (Why::NoCluster, Some(service)) => {
            let clusters: Vec<&str> = service.clusters().map(ClusterName::as_str).collect();
            let mut notes = vec![format!(
                "{} has endpoints in: {}",
                service.key,
                clusters.join(", ")
            )];
            notes.extend(unready(service));
            notes
        }
        (Why::NoHost, Some(service)) => {
            let cluster = own.get(1).copied().unwrap_or_default();
            let hosts = service
                .in_cluster(cluster)
                .iter()
                .map(|endpoint| endpoint.hostname.as_str());
            let hosts: Vec<&str> = hosts.collect();
            let mut notes = vec![format!(
                "endpoints of {} in '{cluster}': {}",
                service.key,
                hosts.join(", ")
            )];
            notes.extend(unready(service));
            notes
        }
        (Why::NoPort, Some(service)) => {
            let named = |port: &Port| {
                Some(format!(
                    "_{}._{}",
                    port.name.as_ref()?,
                    port.protocol.label()
                ))
            };
            let ports = service
                .endpoints
                .iter()
                .flat_map(|endpoint| &endpoint.ports)
                .filter_map(named);
            let ports: BTreeSet<String> = ports.collect();
            let ports: Vec<String> = ports.into_iter().collect();
            vec![format!(
                "named ports of {}: {}",
                service.key,
                ports.join(", ")
            )]
        }
    }
}

/// Says why there is no such service: a short name without an owner, not watched, mirrored as another kind, or not at all.
fn missing_service(own: &[&str], table: &Table, watched: &[Namespace]) -> Vec<String> {
    let no_owner: Option<String> = own.last().and_then(|name| no_owner(name, table));
    let [.., service, namespace] = own else {
        let nowhere = || "no namespace has a service of that name".to_owned();
        return vec![no_owner.unwrap_or_else(nowhere)];
    };
    let canonical = missing_in(namespace, service, table, watched);
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
fn missing_in(namespace: &str, service: &str, table: &Table, watched: &[Namespace]) -> Vec<String> {
    if !watched.is_empty() && !watched.iter().any(|known| known.as_str() == namespace) {
        return vec![format!(
            "namespace '{namespace}' is not watched: --namespace names others"
        )];
    }
    let is_it =
        |key: &ServiceKey| key.namespace.as_str() == namespace && key.service.as_str() == service;
    let mut notes = Vec::new();
    for (object, skip) in table.skipped() {
        let Some((_, cluster)) = skip.about.as_ref().filter(|(key, _)| is_it(key)) else {
            continue;
        };
        notes.push(match skip.other_kind() {
            Some(_) => format!(
                "{object} mirrors it from cluster '{cluster}', but not as a headless service: headless mirroring is \
                 off there, or its pods have no hostnames"
            ),
            None => format!(
                "{object} mirrors it from cluster '{cluster}', but cannot be used: {}",
                skip.detail
            ),
        });
    }
    if notes.is_empty() {
        notes.push(format!(
            "no mirror of {namespace}/{service} was seen: is it exported over there (label \
             mirror.linkerd.io/exported=true), is its cluster linked, and is headless mirroring on?"
        ));
    }
    notes
}

/// Says which members of a service have no endpoint that is answered, and why.
pub(super) fn unready(service: &Service) -> Vec<String> {
    let mut notes = Vec::new();
    for (cluster, object) in &service.mirrors {
        if service.in_cluster(cluster.as_str()).is_empty() {
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
