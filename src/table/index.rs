//! The index of services by hosts, which each build updates.

use std::collections::BTreeSet;

use super::endpoint::Endpoint;
use super::kind::ServiceKind;
use super::service::Service;
use crate::model::{ServiceKey, Text};

/// A host that a headless mirror lists: its namespace, its hostname, and the service. A Service with the name of the host can stand
/// for it (rule M1b). Without a service, it comes before those with one.
pub(super) type HostOfService = (Text, Text, Option<ServiceKey>);

/// Returns the hosts of a service that depend on a Service of their own, or may do so.
pub(super) fn listed_hosts(service: Option<&Service>) -> BTreeSet<HostOfService> {
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
        .map(|(namespace, hostname)| {
            let key = Some(service.key.clone());
            (namespace.clone(), hostname.text().clone(), key)
        })
        .collect()
}
