//! Indexes of services, which each build updates.

use std::collections::BTreeSet;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::endpoint::Endpoint;
use super::kind::ServiceKind;
use super::service::Service;
use crate::model::{ServiceKey, Text};

/// Services by a property of theirs.
pub(super) type Index<K> = RedBlackTreeMapSync<K, Arc<BTreeSet<ServiceKey>>>;

/// A host that a headless mirror lists: its namespace and hostname. A Service of that name can stand for it (rule M1b).
pub(super) type HostKey = (Text, Text);

/// Updates an index after the keys of a service changed.
pub(super) fn update<K: Ord + Clone>(
    index: &mut Index<K>,
    service: &ServiceKey,
    old: &BTreeSet<K>,
    new: &BTreeSet<K>,
) {
    for removed in old.difference(new) {
        remove(index, removed, service);
    }
    for added in new.difference(old) {
        add(index, added, service);
    }
}

/// Removes a service from a key. The set is changed in place: thousands of services may share one key, and a copy of the
/// set for each of them would take too long.
fn remove<K: Ord + Clone>(index: &mut Index<K>, key: &K, service: &ServiceKey) {
    let Some(services) = index.get_mut(key) else {
        return;
    };
    let services = Arc::make_mut(services);
    services.remove(service);
    if services.is_empty() {
        index.remove_mut(key);
    }
}

/// Adds a service to a key. The set is changed in place.
fn add<K: Ord + Clone>(index: &mut Index<K>, key: &K, service: &ServiceKey) {
    match index.get_mut(key) {
        Some(services) => {
            Arc::make_mut(services).insert(service.clone());
        }
        None => {
            let services = BTreeSet::from([service.clone()]);
            index.insert_mut(key.clone(), Arc::new(services));
        }
    }
}

/// Returns the hosts of a service that depend on a Service of their own, or may do so.
pub(super) fn listed_hosts(service: Option<&Service>) -> BTreeSet<HostKey> {
    let Some(service) = service else {
        return BTreeSet::new();
    };
    let missing = service.missing.iter();
    let missing = missing.map(|host| (&host.mirror.key.namespace, &host.hostname));
    // An endpoint of several objects has the kind of the first one.
    let is_adopted = |endpoint: &&Endpoint| {
        let is_mirror = matches!(endpoint.kind, ServiceKind::Gateway | ServiceKind::Flat);
        is_mirror || endpoint.objects.len() > 1
    };
    let adopted = service.endpoints.iter().filter(is_adopted);
    let adopted = adopted.flat_map(|endpoint| {
        let namespaces = endpoint.objects.iter().map(|object| &object.key.namespace);
        namespaces.filter_map(|namespace| Some((namespace, endpoint.hostname.as_ref()?)))
    });
    let names = missing.chain(adopted);
    names
        .map(|(namespace, hostname)| (namespace.clone(), hostname.text().clone()))
        .collect()
}
