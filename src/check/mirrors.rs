//! Checks of the mirrors that Linkerd creates, and of their gateways.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::facts::Facts;
use super::finding::{Check, Finding, NotChecked, count, list_some};
use super::gateway;
use super::links;
use super::objects::{
    CheckedObjects, EndpointSlice, Endpoints, KubeService, OPAQUE_BY_DEFAULT,
    addresses_without_hostname, mirror_of_endpoints, mirror_of_slice, unmarked_ports,
    unwatched_object,
};
use crate::model::{ClusterName, Kind, ObjectRef, ProblemKind, Text};
use crate::table::links::{LinkState, UnknownReason};
use crate::table::{Endpoint, ServiceKind, Table};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let (table, rules) = (&facts.table, &facts.rules);
    let CheckedObjects {
        services,
        slices,
        links,
        ..
    } = &facts.objects;
    [
        vec![
            Check::Mirrors.check(table, mirrors),
            Check::HeadlessMirroring.check(table, headless_mirroring),
        ],
        orphaned_mirrors(facts),
        vec![
            // It takes longer than this command to see that a Lease is not renewed.
            Check::MirrorControllers.of_server(
                ProblemKind::Frozen,
                &facts.server_problems,
                "the server has seen no mirror controller stop",
            ),
            Check::LinkStatus.check_both(table, links, |table, links| {
                links::status(table, links, rules)
            }),
            links::namespaces(links, &facts.namespaces),
        ],
        Check::EndpointMirrors.problems(table, "every headless mirror has endpoint mirrors"),
        Check::DeadPorts.problems(table, "every port can be reached from other clusters"),
        vec![
            Check::ClobberedMirrors.check_both(table, slices, |table, slices| {
                overwritten_mirrors(table, slices)
            }),
            Check::MirrorLabels.check_both(services, slices, |services, slices| {
                mirror_labels(services, slices)
            }),
            Check::LongNames.check(table, |table| links::long_names(table, links, rules)),
            Check::OpaquePorts.check_both(table, services, |table, services| {
                opaque_ports(table, services)
            }),
            endpoint_slices(facts),
        ],
        gateways(facts),
        vec![gateway::check(&facts.objects.gateways)],
    ]
    .concat()
}

/// Prints the clusters of mirrors that no Link names. If a Link is deleted, its mirrors stay.
fn orphaned_mirrors(facts: &Facts) -> Vec<Finding> {
    let none = LinkState::Unknown(UnknownReason::NotGiven);
    let has_states = |table: &Table| {
        let mut links = table.links().clusters.values();
        links.any(|link| link.state != none)
    };
    let is_linked =
        |table: &Table| mirror_endpoints(table).any(|endpoint| endpoint.cluster.is_some());
    let reason = match (&facts.table, &facts.objects.links) {
        (Ok(table), Err(reason)) if !has_states(table) => reason.clone(),
        (Ok(table), Ok(_)) if is_linked(table) && !has_states(table) => NotChecked::new(
            "Links are not read",
            "set links.enabled: true, and permit list and watch on links in each namespace of links.namespaces",
        ),
        (table, _) => {
            return Check::OrphanedMirrors.problems(table, "every mirror's cluster has a Link");
        }
    };
    vec![Check::OrphanedMirrors.not_checked(&reason)]
}

/// Prints the gateways that are down, and Services without a ready endpoint.
fn gateways(facts: &Facts) -> Vec<Finding> {
    let has_mirrors = |table: &Table| mirror_endpoints(table).next().is_some();
    let none = if facts.table.as_ref().is_ok_and(has_mirrors) {
        "no gateway is down"
    } else {
        "there are no gateways"
    };
    Check::Gateways.problems(&facts.table, none)
}

/// Returns the endpoints that come from mirrors.
pub(super) fn mirror_endpoints(table: &Table) -> impl Iterator<Item = &Endpoint> {
    let endpoints = table.services().flat_map(|service| &service.endpoints);
    endpoints.filter(|endpoint| endpoint.kind.is_mirrored())
}

/// Returns all headless mirrors that are used, each with its cluster.
fn headless_mirrors(table: &Table) -> impl Iterator<Item = &(ClusterName, ObjectRef)> {
    table.services().flat_map(|service| &service.mirrors)
}

/// Counts the mirrors with a cluster IP, including federated services.
fn other_mirrors(table: &Table) -> usize {
    let is_other = |endpoint: &&Endpoint| endpoint.kind != ServiceKind::Headless;
    mirror_endpoints(table).filter(is_other).count()
}

fn mirrors(table: &Table) -> Finding {
    let headless = headless_mirrors(table).count();
    let others = other_mirrors(table);
    if headless + others == 0 {
        return Check::Mirrors.yellow(
            "there are no mirrors",
            "link a cluster and export a headless Service there: label \
             mirror.linkerd.io/exported=true",
        );
    }
    let clusters: BTreeSet<_> = headless_mirrors(table).map(|(name, _)| name).collect();
    let endpoints = mirror_endpoints(table).count();
    Check::Mirrors.green(match headless {
        0 => format!("{}, none headless", count(others, "mirror")),
        _ => format!(
            "{} of {} ({}) with {}",
            count(headless, "headless mirror"),
            count(clusters.len(), "cluster"),
            list_some(clusters),
            count(endpoints, "endpoint"),
        ),
    })
}

/// Checks headless mirroring. If it is off, Linkerd mirrors headless Services with a cluster IP.
fn headless_mirroring(table: &Table) -> Finding {
    match (headless_mirrors(table).next(), other_mirrors(table)) {
        (None, 0) => Check::HeadlessMirroring.not_checked(&NotChecked::new(
            "there are no mirrors",
            "link a cluster and export a headless Service there",
        )),
        (None, _) if has_local_headless(table) => Check::HeadlessMirroring.yellow(
            "no mirror is headless, but this cluster has a headless member: headless mirroring is off",
            ProblemKind::Kind.hint(),
        ),
        (None, _) => Check::HeadlessMirroring.green("headless mirroring is not used"),
        (Some(_), _) => Check::HeadlessMirroring.green("headless mirroring is on"),
    }
}

/// Returns whether a headless Service of this cluster is a member.
fn has_local_headless(table: &Table) -> bool {
    let mut services = table.services();
    services.any(|service| {
        service.is_headless && service.mirrors.is_empty() && service.missing_clusters().is_empty()
    })
}

/// Returns the namespaces and names of the headless mirrors that are used.
fn headless_names(table: &Table) -> BTreeSet<(&str, Text)> {
    let headless = headless_mirrors(table);
    headless
        .map(|(_, object)| (&*object.key.namespace, object.key.name.text()))
        .collect()
}

/// Returns the namespaces and names of all mirrors that are used.
fn mirror_names(table: &Table) -> BTreeSet<(&str, Text)> {
    let others = table.services().flat_map(|service| {
        let mirrored = service.endpoints.iter().filter(|e| e.kind.is_mirrored());
        let objects = mirrored.flat_map(|endpoint| &endpoint.objects);
        let services = objects.filter(|object| object.kind == Kind::Service);
        services.map(|object| (&*object.key.namespace, object.key.name.text()))
    });
    let mut names = headless_names(table);
    names.extend(others);
    names
}

/// Describes the headless mirrors that are used and have a list of something wrong.
fn of_headless<'o, T: Display>(
    table: &Table,
    found: impl Iterator<Item = ((&'o str, &'o str), Vec<T>)>,
    verb: &str,
) -> BTreeSet<String> {
    let headless = headless_names(table);
    let is_used = |(namespace, name): (&str, &str)| headless.contains(&(namespace, name.into()));
    let wrong = found.filter(|(mirror, wrong)| !wrong.is_empty() && is_used(*mirror));
    wrong
        .map(|((namespace, name), wrong)| {
            format!("Service/{namespace}/{name}{verb} {}", list_some(wrong))
        })
        .collect()
}

/// Checks headless mirrors that Linkerd has overwritten. An address without a hostname is a gateway address.
fn overwritten_mirrors(table: &Table, slices: &[EndpointSlice]) -> Finding {
    let found = slices.iter().filter_map(addresses_without_hostname);
    let wrong = of_headless(table, found, " lists");
    Check::ClobberedMirrors.yellow_list(
        wrong,
        "no headless mirror lists a gateway's address",
        "overwritten with gateway addresses",
        "the answers of global-dns are correct, but the mirror's own name is wrong until pods in the other cluster \
         change, or for ten minutes",
    )
}

/// Checks objects that no watch selects. Mirrors have the value `true`, and this cluster's own objects lack the label.
fn mirror_labels(services: &[KubeService], slices: &[EndpointSlice]) -> Finding {
    let services = services.iter().map(|one| (Kind::Service, &one.metadata));
    let slices = slices
        .iter()
        .map(|one| (Kind::EndpointSlice, &one.metadata));
    let all = services.chain(slices);
    let unwatched: Vec<String> = all
        .filter_map(|(kind, metadata)| unwatched_object(kind, metadata))
        .collect();
    let objects = count(unwatched.len(), "object");
    Check::MirrorLabels.yellow_list(
        unwatched,
        "every mirrored-service label is 'true'",
        &format!("{objects} ignored because of its label mirror.linkerd.io/mirrored-service"),
        "set the value 'true', as Linkerd does, or remove the label if the object is not a mirror",
    )
}

/// Checks ports. If the server speaks first and the port is not opaque, the proxy waits for the client in vain.
fn opaque_ports(table: &Table, services: &[KubeService]) -> Finding {
    let unmarked = of_headless(table, services.iter().filter_map(unmarked_ports), "");
    let hint = format!(
        "if the server speaks first or uses TLS of its own: kubectl annotate namespace NAMESPACE \
         config.linkerd.io/opaque-ports={OPAQUE_BY_DEFAULT},PORTS before the mirrors are made (others get it when their pods \
         restart); the list replaces that of Linkerd; on a client or on the exported Service, it has no effect"
    );
    let none = "no port of an endpoint mirror needs to be marked opaque";
    Check::OpaquePorts.yellow_list(unmarked, none, "not marked opaque", &hint)
}

/// Checks that Kubernetes copies the Endpoints of mirrors to slices. A cluster may turn off the controller that does this
/// (KEP-4974). Linkerd writes the readiness of gateways to Endpoints, and the server reads it from slices only.
fn endpoint_slices(facts: &Facts) -> Finding {
    let CheckedObjects {
        endpoints, slices, ..
    } = &facts.objects;
    Check::EndpointSlices.check(&facts.table, |table| {
        let mirrors = mirror_names(table);
        if mirrors.is_empty() {
            return Check::EndpointSlices.green("there are no mirrors");
        }
        Check::EndpointSlices.check_both(endpoints, slices, |endpoints, slices| {
            missing_slices(&mirrors, endpoints, slices)
        })
    })
}

/// Reports the Endpoints of mirrors without a slice. Endpoints can outlive their mirror, and Kubernetes does not copy such
/// Endpoints, so that only those of `mirrors` count.
fn missing_slices(
    mirrors: &BTreeSet<(&str, Text)>,
    endpoints: &[Endpoints],
    slices: &[EndpointSlice],
) -> Finding {
    let copied: BTreeSet<(&str, &str)> = slices.iter().filter_map(mirror_of_slice).collect();
    let used = endpoints
        .iter()
        .filter_map(mirror_of_endpoints)
        .filter(|(namespace, name)| mirrors.contains(&(*namespace, (*name).into())));
    let (with, without): (Vec<_>, Vec<_>) = used.partition(|mirror| copied.contains(mirror));
    if without.is_empty() {
        return Check::EndpointSlices.green("every mirror with Endpoints has an EndpointSlice");
    }
    let names: BTreeSet<String> = without
        .iter()
        .map(|(namespace, name)| format!("Endpoints/{namespace}/{name}"))
        .collect();
    let sentence = format!(
        "Endpoints of mirrors without an EndpointSlice ({} of {}): {}",
        without.len(),
        with.len() + without.len(),
        list_some(names)
    );
    let hint = "nothing shows whether the gateways of these mirrors are down: turn on the controller \
                endpointslice-mirroring-controller of kube-controller-manager (--controllers), or remove label \
                endpointslice.kubernetes.io/skip-mirror from the exported Services";
    // Without any slice, the controller is off. Otherwise, it works, and leaves out some.
    if with.is_empty() {
        Check::EndpointSlices.red(sentence, hint)
    } else {
        Check::EndpointSlices.yellow(sentence, hint)
    }
}
