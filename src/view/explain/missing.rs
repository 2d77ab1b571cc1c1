//! Notes about a name that does not exist: what is missing, and what to do.

use std::collections::{BTreeMap, BTreeSet};

use super::names::ReadName;
use super::notes::list;
use crate::model::{Kind, Namespace, ObjectKey, ObjectRef, Port, ServiceKey};
use crate::table::{Claim, Endpoint, MissingHost, NoOwner, Service, ServiceKind, Table};
use crate::zone::MissingReason;

/// Returns the notes about what is missing.
pub(super) fn missing_notes(
    name: &ReadName<'_>,
    reason: MissingReason,
    watched: &[Namespace],
    is_explained: bool,
) -> Vec<String> {
    let service = name.services.first().copied();
    if name.is_in_mcs_zone() {
        match (reason, name.labels.as_slice(), service) {
            (MissingReason::NoForm, ..) => {
                return vec![
                    "valid names here look like db.prod.svc, db-0.west.db.prod.svc and _sql._tcp.db.prod.svc; the specification \
                     (KEP-1645) has no name for one cluster, and no short names"
                        .to_owned(),
                ];
            }
            (_, [.., service, namespace], None) => {
                let note = missing_in_namespace(namespace, service, watched, is_explained);
                return note.into_iter().collect();
            }
            _ => {}
        }
    }
    let (own, table) = (name.labels_without_port(), name.table);
    match (reason, service) {
        (MissingReason::NoForm, _) => vec![
            "valid names look like db.prod, west.db.prod and db-0.west.db.prod, also without the namespace, and with \
             _sql._tcp before them"
                .to_owned(),
        ],
        (MissingReason::NoService | MissingReason::NoOwner, _) | (_, None) => {
            missing_service(&own, table, watched, is_explained)
        }
        (MissingReason::NoEndpoint, Some(service)) => occupant_notes(service, table),
        (MissingReason::NoCluster, Some(service)) => {
            let label = own.first().copied().unwrap_or_default();
            let clusters = list(service.clusters());
            let mut notes = vec![format!("{} has endpoints in: {clusters}", service.key)];
            notes.extend(host_note(label, service));
            notes.extend(occupant_notes(service, table));
            notes
        }
        (MissingReason::NoHost, Some(service)) => {
            let cluster = own.get(1).copied().unwrap_or_default();
            let endpoints = service.endpoints_at(&[cluster]).iter();
            let hosts: Vec<&str> = endpoints.map(|one| one.labels()[0]).collect();
            let hosts = hosts.join(", ");
            let mut notes = vec![format!(
                "endpoints of {} in '{cluster}': {hosts}",
                service.key
            )];
            notes.extend(occupant_notes(service, table));
            notes
        }
        (MissingReason::NoPort, Some(service)) => vec![named_ports(service)],
    }
}

/// Explains a name with a host where names have a cluster, as Kubernetes' own names have it: `db-0.db.prod`.
fn host_note(label: &str, service: &Service) -> Option<String> {
    let of_host = service
        .endpoints
        .iter()
        .filter(|one| one.labels()[0] == label);
    let names = of_host.map(|one| format!("{label}.{}.{}", one.labels()[1], service_name(service)));
    let names: Vec<String> = names.collect();
    let names = names.join(" or ");
    (!names.is_empty()).then(|| format!("a host has its cluster in its name: ask for {names}"))
}

/// Explains a name with the name of Linkerd's mirror, `db-east.prod`.
fn mirror_note(namespace: &str, name: &str, table: &Table) -> Option<String> {
    let object = ObjectRef::service(&ObjectKey::new(namespace, name));
    let is_mirror = |service: &Service| {
        let of_endpoint = |one: &Endpoint| {
            one.objects
                .contains(&object)
                .then(|| one.cluster.clone())
                .flatten()
        };
        let mut headless = service
            .mirrors
            .iter()
            .filter(|(_, mirror)| *mirror == object);
        let headless = headless.next().map(|(cluster, _)| cluster.clone());
        headless.or_else(|| service.endpoints.iter().find_map(of_endpoint))
    };
    let mut found = table
        .services_in(namespace)
        .filter_map(|one| Some((one, is_mirror(one)?)));
    let (service, cluster) = found.next()?;
    let own = service_name(service);
    Some(format!(
        "'{name}' is Linkerd's mirror of '{}' in cluster '{cluster}': ask for {own} or {cluster}.{own}",
        service.key.service
    ))
}

fn service_name(service: &Service) -> String {
    let ServiceKey { namespace, service } = &service.key;
    format!("{service}.{namespace}")
}

/// Lists the named ports of a service.
fn named_ports(service: &Service) -> String {
    let label = |port: &Port| {
        let name = port.name.as_ref()?;
        Some(format!("_{name}._{}", port.protocol.label()))
    };
    let ports = service.endpoints.iter().flat_map(|e| &e.ports);
    let labels: BTreeSet<String> = ports.filter_map(label).collect();
    let labels = Vec::from_iter(labels).join(", ");
    format!("named ports of {}: {labels}", service.key)
}

/// Explains why a service does not exist: an ambiguous short name, a namespace that is not watched, a mirror of
/// another kind, a Service of this cluster that is not a member, or no object at all.
fn missing_service(
    own: &[&str],
    table: &Table,
    watched: &[Namespace],
    is_explained: bool,
) -> Vec<String> {
    let short: Option<String> = own.last().and_then(|name| short_name_note(name, table));
    let [.., service, namespace] = own else {
        let unknown = "no namespace has a service of that name";
        let unknown = (!is_explained).then(|| unknown.to_owned());
        return short.or(unknown).into_iter().collect();
    };
    if let Some(note) = mirror_note(namespace, service, table) {
        return vec![note];
    }
    let canonical = missing_in_namespace(namespace, service, watched, is_explained);
    short.into_iter().chain(canonical).collect()
}

/// Explains why a short name has no owner. Returns `None` if it has one.
fn short_name_note(name: &str, table: &Table) -> Option<String> {
    let short = table.short_name(name)?;
    let names = |namespaces: BTreeSet<&Namespace>| -> String {
        let names: Vec<&str> = namespaces.into_iter().map(Namespace::as_str).collect();
        names.join(", ")
    };
    let headless = names(short.namespaces(Claim::Headless).collect());
    let having = names(short.namespaces(Claim::Other).collect());
    Some(match short.owner.as_ref().err()? {
        NoOwner::Ambiguous => return None, // a problem says so
        NoOwner::Pinned(namespace) => format!(
            "the short name '{name}' is pinned to namespace '{namespace}', which has no such service; namespaces that have it: \
             {having}"
        ),
        NoOwner::Unpinned if headless.is_empty() => format!(
            "only a headless service has a short name without a setting: query the name with its namespace, or pin it with \
             shortNames.pinned: {{{name}: NAMESPACE}}; namespaces that have it: {having}"
        ),
        NoOwner::Unpinned => format!(
            "shortNames.which is pinned, and no setting assigns the short name '{name}' to a namespace with such a service; \
             namespaces that have it: {having}"
        ),
        NoOwner::Off => format!("short names are off; namespaces that have '{name}': {having}"),
    })
}

/// Explains why a namespace does not have a service, unless problems explain it.
fn missing_in_namespace(
    namespace: &str,
    service: &str,
    watched: &[Namespace],
    is_explained: bool,
) -> Option<String> {
    if !watched.is_empty() && !watched.iter().any(|one| one.as_str() == namespace) {
        return Some(format!(
            "namespace '{namespace}' is not watched; --namespace selects others"
        ));
    }
    (!is_explained).then(|| {
        format!(
            "there is no mirror of {namespace}/{service}: check that it is exported in its cluster (label \
             mirror.linkerd.io/exported=true), that the cluster is linked, and that headless mirroring is on; while it is \
             on, Linkerd does not mirror a headless Service that is exported as remote-discovery"
        )
    })
}

/// Describes the objects that have the names of missing endpoint mirrors of a service.
pub(super) fn occupant_notes(service: &Service, table: &Table) -> Vec<String> {
    if service.missing.is_empty() {
        return Vec::new();
    }
    let occupants = describe_occupants(&service.key.namespace, &service.missing, table);
    let notes = service.missing.iter().filter_map(|host| {
        let occupant = occupants.get(&host.expected)?;
        let (mirror, hostname, expected) = (&host.mirror, &host.hostname, &host.expected);
        Some(format!(
            "{mirror} lists {hostname}, but {expected} is {occupant}"
        ))
    });
    notes.collect()
}

/// Returns descriptions of the objects that have the names of missing endpoint mirrors. The services of the namespace are
/// searched once for all of them: a mirror may list thousands of hosts.
fn describe_occupants(
    namespace: &Namespace,
    missing: &[MissingHost],
    table: &Table,
) -> BTreeMap<ObjectRef, String> {
    let mut occupants = BTreeMap::new();
    let expected: BTreeSet<&ObjectRef> = missing.iter().map(|host| &host.expected).collect();
    for service in table.services_in(namespace.as_str()) {
        for endpoint in &service.endpoints {
            let objects = endpoint.objects.iter();
            for object in objects.filter(|object| expected.contains(object)) {
                occupants.insert(object.clone(), describe_occupant(service, endpoint));
            }
        }
    }
    for object in expected {
        if let Some(skip) = table.skip_of(Kind::Service, &object.key) {
            occupants.insert(object.clone(), format!("unusable: {}", skip.detail));
        }
    }
    occupants
}

/// Describes an object by the endpoint that it is.
fn describe_occupant(service: &Service, endpoint: &Endpoint) -> String {
    match endpoint.kind {
        ServiceKind::Headless => format!("the endpoint mirror of a host of {}", service.key),
        _ => format!("the mirror of {} at another address", service.key),
    }
}
