//! Endpoints that Linkerd lists in a headless mirror, and has no endpoint mirror of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::inputs::Inputs;
use super::parts::Parts;
use super::rules::Rules;
use crate::mirror::{
    ClusterName, Hostname, Kind, ListedHost, Object, ObjectKey, ObjectRef, ServiceKey, Text,
};

/// A host that a headless mirror lists, without an endpoint mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHost {
    /// The cluster that the host is in, after aliases.
    pub cluster: ClusterName,
    /// Its hostname.
    pub hostname: Hostname,
    /// The address that is listed. It may belong to another Service by now.
    pub address: Option<IpAddr>,
    /// The headless mirror that lists it.
    pub mirror: ObjectRef,
    /// What Linkerd calls its endpoint mirror.
    pub expected: ObjectRef,
}

/// A host by the name of its headless mirror, its link and its hostname.
type Place<'i> = (Text, &'i ClusterName, &'i Hostname);

/// Compares what the headless mirrors of a service list with its endpoint mirrors.
pub(super) fn missing_hosts(
    key: &ServiceKey,
    parts: &Parts<'_>,
    inputs: &Inputs,
    rules: &Rules,
) -> Box<[MissingHost]> {
    let mut listed = listed_places(parts, inputs, rules);
    if listed.is_empty() {
        return Box::default();
    }
    let made = parts.endpoints.iter();
    let made = made.map(|(_, made)| (made.parent.clone(), &made.cluster, &made.hostname));
    let made: BTreeSet<Place<'_>> = made.collect();
    listed.retain(|place, _| !made.contains(place));
    let service = |name: &Text| ObjectRef {
        kind: Kind::Service,
        key: ObjectKey::of_service(key).beside(name),
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

/// Returns the hosts that the headless mirrors of a service list, with their addresses, but for excluded clusters.
fn listed_places<'i>(
    parts: &Parts<'i>,
    inputs: &'i Inputs,
    rules: &Rules,
) -> BTreeMap<Place<'i>, Option<IpAddr>> {
    let mut listed = BTreeMap::new();
    for (object, mirror) in &parts.headless {
        let cluster = rules.name_of(&mirror.cluster);
        if rules.excluded_clusters.contains(&cluster) {
            continue;
        }
        for host in listed_hosts(inputs, object) {
            let place = (object.name.text(), &mirror.cluster, &host.hostname);
            listed.entry(place).or_insert(host.address);
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
            | Object::LocalService(_)
            | Object::GatewaySlice(_)
            | Object::Slice(_)
            | Object::Skipped(_) => &[],
        })
}
