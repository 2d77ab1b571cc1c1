//! Finds hosts that a headless mirror lists and that have no endpoint mirror.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::items::{Items, Mirror};
use super::rules::Rules;
use super::store::Store;
use crate::model::{
    ClusterName, Hostname, ListedHosts, ObjectKey, ObjectRef, ServiceKey, SliceContent, Text,
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

// === impl MissingHost ===

impl MissingHost {
    /// Returns its cluster and its hostname.
    pub(super) fn labels(&self) -> (&str, &str) {
        (self.cluster.as_str(), self.hostname.as_str())
    }

    /// Returns the reason for which its name fails, as part of a sentence, and for clients (RFC 8914, EXTRA-TEXT).
    pub fn reason(&self) -> String {
        format!("endpoint mirror {} is missing", self.expected.key.name)
    }
}

/// A host: the name of its headless mirror, its link and its hostname.
type ListedName<'i> = (Text, &'i ClusterName, &'i Hostname);

/// Returns the hosts that the headless mirrors of a service list and that have no endpoint mirror, sorted by cluster and
/// hostname.
pub(super) fn missing_hosts(
    key: &ServiceKey,
    items: &Items<'_>,
    store: &Store,
    rules: &Rules,
) -> Vec<MissingHost> {
    let mut listed = listed_names(items, store, rules);
    if listed.is_empty() {
        return Vec::new();
    }
    let existing: BTreeSet<ListedName<'_>> = items
        .endpoint_mirrors()
        .map(|(mirror, host)| (host.parent.clone(), mirror.link, &host.hostname))
        .collect();
    listed.retain(|name, _| !existing.contains(name));
    let service = |name: &Text| ObjectRef::service(&ObjectKey::of_service(key).sibling(name));
    let mut missing: Vec<MissingHost> = listed
        .into_iter()
        .map(|((mirror, link, hostname), address)| MissingHost {
            cluster: rules.name_of(link),
            hostname: hostname.clone(),
            address,
            mirror: service(&mirror),
            expected: service(&Text::from(format!("{hostname}-{link}"))),
        })
        .collect();
    missing.sort_by(|one, other| one.labels().cmp(&other.labels()));
    missing
}

/// Returns the hosts that the headless mirrors of a service list, with their addresses. Excluded clusters are omitted.
fn listed_names<'i>(
    items: &Items<'i>,
    store: &'i Store,
    rules: &Rules,
) -> BTreeMap<ListedName<'i>, Option<IpAddr>> {
    let mut listed = BTreeMap::new();
    for Mirror { object, link, .. } in items.headless_mirrors() {
        if rules.excluded_clusters.contains(&rules.name_of(link)) {
            continue;
        }
        for host in listed_hosts(store, object).flat_map(|slice| &slice.hosts) {
            let name = (object.name.text(), link, &host.hostname);
            listed.entry(name).or_insert(host.address);
        }
    }
    listed
}

/// Returns the slices of a headless mirror that list hosts.
pub(super) fn listed_hosts<'i>(
    store: &'i Store,
    mirror: &ObjectKey,
) -> impl Iterator<Item = &'i ListedHosts> + use<'i> {
    let slices = store.slices_of(mirror).into_iter();
    slices.filter_map(|(_, slice)| match &slice.content {
        SliceContent::Hosts(listed) => Some(&**listed),
        _ => None,
    })
}
