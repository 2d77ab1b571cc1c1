//! Finds hosts that a headless mirror lists and that have no endpoint mirror.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::inputs::Inputs;
use super::parts::Parts;
use super::rules::Rules;
use crate::mirror::{
    ClusterName, Hostname, Kind, ListedHost, Object, ObjectKey, ObjectRef, ServiceKey, Text,
};

/// A host that a headless mirror lists and that has no endpoint mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHost {
    /// The cluster of the host, after aliases.
    pub cluster: ClusterName,
    /// Its hostname.
    pub hostname: Hostname,
    /// The address in the list. It may belong to another Service now.
    pub address: Option<IpAddr>,
    /// The headless mirror that lists it.
    pub mirror: ObjectRef,
    /// The endpoint mirror that Linkerd should have made.
    pub expected: ObjectRef,
}

/// A host: the name of its headless mirror, its link and its hostname.
type ListedName<'i> = (Text, &'i ClusterName, &'i Hostname);

/// Returns the hosts that the headless mirrors of a service list and that have no endpoint mirror.
pub(super) fn missing_hosts(
    key: &ServiceKey,
    parts: &Parts<'_>,
    inputs: &Inputs,
    rules: &Rules,
) -> Vec<MissingHost> {
    let mut listed = listed_names(parts, inputs, rules);
    if listed.is_empty() {
        return Vec::new();
    }
    let existing = parts.endpoints.iter();
    let existing = existing.map(|(_, e)| (e.parent.clone(), &e.cluster, &e.hostname));
    let existing: BTreeSet<ListedName<'_>> = existing.collect();
    listed.retain(|name, _| !existing.contains(name));
    let service = |name: &Text| ObjectRef {
        kind: Kind::Service,
        key: ObjectKey::of_service(key).sibling(name),
    };
    let missing = listed.into_iter();
    let missing = missing.map(|((mirror, link, hostname), address)| MissingHost {
        cluster: rules.name_of(link),
        hostname: hostname.clone(),
        address,
        mirror: service(&mirror),
        expected: service(&Text::from(format!("{hostname}-{link}"))),
    });
    missing.collect()
}

/// Returns the hosts that the headless mirrors of a service list, with their addresses. Excluded clusters are omitted.
fn listed_names<'i>(
    parts: &Parts<'i>,
    inputs: &'i Inputs,
    rules: &Rules,
) -> BTreeMap<ListedName<'i>, Option<IpAddr>> {
    let mut listed = BTreeMap::new();
    for (object, mirror) in &parts.headless {
        let cluster = rules.name_of(&mirror.cluster);
        if rules.excluded_clusters.contains(&cluster) {
            continue;
        }
        for host in listed_hosts(inputs, object) {
            let name = (object.name.text(), &mirror.cluster, &host.hostname);
            listed.entry(name).or_insert(host.address);
        }
    }
    listed
}

/// Returns the hosts that the slices of a headless mirror list.
fn listed_hosts<'i>(
    inputs: &'i Inputs,
    mirror: &ObjectKey,
) -> impl Iterator<Item = &'i ListedHost> + use<'i> {
    inputs
        .slices_of(mirror)
        .flat_map(|(_, object)| match object {
            Object::ListedHosts(listed) => &listed.hosts[..],
            Object::HeadlessMirror(_)
            | Object::EndpointMirror(_)
            | Object::ServiceMirror(_)
            | Object::FederatedService(_)
            | Object::LocalService(_)
            | Object::ReadySlice(_)
            | Object::Slice(_)
            | Object::ServiceImport(_)
            | Object::ImportSlice(_)
            | Object::Skipped(_) => &[],
        })
}
