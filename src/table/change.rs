//! Changes of answers, made once from two tables. `/api/v1/events`, the command `events`, the page and the log show this one
//! struct. Ten thousand changes at once become a few sentences.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::model::{ClusterName, Hostname, Line, ServiceKey};

/// The kinds of changes. Their names are values of `kind` in `/api/v1/events`.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ChangeKind {
    /// A cluster has a mirror, a member or an endpoint of a service, and had none.
    ClusterJoined,
    /// A cluster has no endpoint of a service any more, or no Link names it any more (rule L5).
    ClusterLeft,
    /// The state of the Link of a cluster changed (rule L2).
    LinkChanged,
    /// A service appeared.
    ServiceAdded,
    /// A service disappeared.
    ServiceRemoved,
    /// A service has one more endpoint.
    EndpointAdded,
    /// A service has one endpoint less.
    EndpointRemoved,
    /// An endpoint has new addresses.
    EndpointChanged,
    /// Connections to an endpoint fail: its gateway is down, or its cluster IP has no ready endpoint.
    GatewayDown,
    /// Connections to an endpoint succeed again.
    GatewayUp,
    /// Another step of a failover order answers for a service.
    Failover,
    /// A caption of `demo --live`.
    Demo,
}

/// Why an answer changed, as far as the tables tell. The names are values of `cause` in `/api/v1/events`; the manual explains
/// each.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ChangeCause {
    /// The gateway of the cluster is not ready.
    GatewayDown,
    /// The gateway of the cluster is ready again.
    GatewayReady,
    /// The cluster IP has no ready endpoint.
    ServiceNotReady,
    /// The cluster IP has a ready endpoint again, or needs none.
    ServiceReady,
    /// The pod is not ready.
    PodNotReady,
    /// The cluster has no endpoint of the service any more, although it exports it.
    ScaledToZero,
    /// The cluster does not export the service any more.
    Unexported,
    /// No Link names the cluster.
    Unlinked,
    /// The mirror controller of the cluster has stopped.
    Frozen,
    /// The cluster is linked, and its mirror controller works.
    Linked,
    /// The failover order is another one.
    OrderChanged,
    /// No endpoint of the step that answered is alive.
    StepDown,
    /// The step that answered has no endpoint.
    StepEmpty,
    /// An earlier step can answer again.
    StepAlive,
}

/// A change, or several of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The kind.
    pub kind: ChangeKind,
    /// The service, if the change concerns one.
    #[serde(flatten)]
    pub service: Option<ServiceKey>,
    /// The cluster, if the change concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// The endpoint, if the change concerns one that has a hostname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Hostname>,
    /// What was there before: the addresses of an endpoint, `alive` or `down`, a step of a failover order, or the endpoints
    /// of a service in words. Absent if nothing was, and if the change stands for several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Line>,
    /// What is there now, in the form of `before`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Line>,
    /// Why, if the tables tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ChangeCause>,
    /// The Kubernetes object behind the change, if it is one and the tables tell it: `Service/prod/db-0-west`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Line>,
    /// A sentence.
    pub text: Line,
    /// The number of changes that this one stands for.
    pub count: usize,
}

/// Merges changes if there are more than `max`: those of one service and cluster, or else those of one cluster, or else
/// those of one kind. More than `max` remain only if `max` is less than the number of kinds. Merged changes are in the
/// order of their first ones.
pub fn aggregate(changes: Vec<Change>, max: usize) -> Vec<Change> {
    if changes.len() <= max {
        return changes;
    }
    let by_service = merge_groups(&changes, |change| (&change.service, &change.cluster));
    if by_service.len() <= max {
        return by_service;
    }
    let by_cluster = merge_groups(&changes, |change| (&None, &change.cluster));
    if by_cluster.len() <= max {
        return by_cluster;
    }
    merge_groups(&changes, |_| (&None, &None))
}

/// Merges the changes of one kind that also have a subject in common.
fn merge_groups(
    changes: &[Change],
    subject: impl Fn(&Change) -> (&Option<ServiceKey>, &Option<ClusterName>),
) -> Vec<Change> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<Vec<&Change>> = Vec::new();
    for change in changes {
        let key = (change.kind, subject(change));
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(change),
            None => groups.push(vec![change]),
        }
    }
    groups.iter().filter_map(|group| merge(group)).collect()
}

/// Merges changes of one kind. Returns `None` if there are none.
fn merge(group: &[&Change]) -> Option<Change> {
    let (first, others) = group.split_first()?;
    if others.is_empty() {
        return Some((*first).clone());
    }
    let services: BTreeSet<&ServiceKey> = group
        .iter()
        .filter_map(|change| change.service.as_ref())
        .collect();
    let is_one_cluster = others.iter().all(|change| change.cluster == first.cluster);
    let cluster = first.cluster.as_ref().filter(|_| is_one_cluster);
    let is_one_cause = others.iter().all(|change| change.cause == first.cause);
    let is_one_object = others.iter().all(|change| change.object == first.object);
    let count = group.iter().map(|change| change.count).sum();
    Some(Change {
        service: first.service.clone().filter(|_| services.len() == 1),
        cluster: cluster.cloned(),
        cause: first.cause.filter(|_| is_one_cause),
        object: first.object.clone().filter(|_| is_one_object),
        count,
        ..Change::new(first.kind, describe(first.kind, count, &services, cluster))
    })
}

/// Returns the sentence for several changes of one kind.
fn describe(
    kind: ChangeKind,
    count: usize,
    services: &BTreeSet<&ServiceKey>,
    cluster: Option<&ClusterName>,
) -> String {
    let of_cluster = cluster.map_or_else(String::new, |cluster| format!(" of cluster {cluster}"));
    let services = match services.first() {
        Some(one) if services.len() == 1 => one.to_string(),
        _ => format!("{} services", services.len()),
    };
    match kind {
        ChangeKind::ClusterJoined => format!("{count} clusters joined their first services."),
        ChangeKind::ClusterLeft => match cluster {
            Some(cluster) => format!("Cluster {cluster} left {services}: {count} changes."),
            None => format!("Clusters left {services}: {count} changes."),
        },
        ChangeKind::LinkChanged => format!("The states of {count} links changed."),
        ChangeKind::ServiceAdded => format!("{count} services were added."),
        ChangeKind::ServiceRemoved => format!("{count} services were removed."),
        ChangeKind::EndpointAdded => format!("{count} endpoints{of_cluster} joined {services}."),
        ChangeKind::EndpointRemoved => format!("{count} endpoints{of_cluster} left {services}."),
        ChangeKind::EndpointChanged => {
            format!("{count} endpoints{of_cluster} in {services} have new addresses.")
        }
        ChangeKind::GatewayDown => {
            format!("{count} endpoints{of_cluster} in {services} are down.")
        }
        ChangeKind::GatewayUp => {
            format!("{count} endpoints{of_cluster} in {services} are up again.")
        }
        ChangeKind::Failover => format!("Other steps answer for {services}: {count} failovers."),
        ChangeKind::Demo => format!("{count} scenes of the demo began."),
    }
}

/// Makes one change of several endpoints behind a gateway that went down, or is ready again. `first` is the change of one of
/// them.
pub fn of_gateway(first: Change, endpoints: &BTreeSet<(ServiceKey, Option<Hostname>)>) -> Change {
    let services: BTreeSet<&ServiceKey> = endpoints.iter().map(|(service, _)| service).collect();
    let count = endpoints.len();
    let Some(cluster) = first.cluster.as_ref().filter(|_| count > 1) else {
        return first;
    };
    let state = match first.cause {
        Some(ChangeCause::GatewayReady) => "is ready again",
        _ => "is down",
    };
    let behind = match services.first() {
        Some(one) if services.len() == 1 => format!("{count} endpoints of {one}"),
        _ => format!("{} services, {count} endpoints", services.len()),
    };
    let text = format!("The gateway of cluster {cluster} {state}: {behind}.");
    Change {
        service: first.service.filter(|_| services.len() == 1),
        hostname: None,
        object: None,
        text: text.into(),
        count,
        ..first
    }
}

// === impl Change ===

impl Change {
    /// Returns whether it tells that the gateway of a cluster went down, or is ready again.
    pub fn is_of_gateway(&self) -> bool {
        let is_cause = matches!(
            self.cause,
            Some(ChangeCause::GatewayDown | ChangeCause::GatewayReady)
        );
        is_cause && self.service.is_some() && self.cluster.is_some()
    }

    /// Makes a change that concerns no service.
    pub fn new(kind: ChangeKind, text: impl Into<Line>) -> Self {
        Self {
            kind,
            service: None,
            cluster: None,
            hostname: None,
            before: None,
            after: None,
            cause: None,
            object: None,
            text: text.into(),
            count: 1,
        }
    }

    /// Makes a change of a service.
    pub fn of_service(kind: ChangeKind, key: &ServiceKey, text: impl Into<Line>) -> Self {
        Self {
            service: Some(key.clone()),
            ..Self::new(kind, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(kind: ChangeKind, service: &str, cluster: &str, host: usize) -> Change {
        let key = ServiceKey {
            namespace: "prod".parse().unwrap(),
            service: service.parse().unwrap(),
        };
        Change {
            cluster: Some(cluster.parse().unwrap()),
            hostname: Some(format!("db-{host}").parse().unwrap()),
            ..Change::of_service(kind, &key, format!("Endpoint {host}."))
        }
    }

    fn texts(changes: &[Change]) -> Vec<&str> {
        changes.iter().map(|change| &*change.text).collect()
    }

    #[test]
    fn few_changes_are_not_merged() {
        let changes: Vec<Change> = (0..4)
            .map(|host| endpoint(ChangeKind::EndpointAdded, "db", "east", host))
            .collect();
        assert_eq!(aggregate(changes.clone(), 4), changes);
        assert_eq!(aggregate(changes, 3).len(), 1);
    }

    #[test]
    fn many_changes_are_merged_by_service_then_by_cluster_then_by_kind() {
        let added = |service: &'static str, cluster: &'static str, count| {
            (0..count).map(move |host| endpoint(ChangeKind::EndpointAdded, service, cluster, host))
        };
        let changes: Vec<Change> = added("db", "west", 3)
            .chain(added("db", "east", 2))
            .chain(added("web", "east", 2))
            .chain([endpoint(ChangeKind::GatewayDown, "db", "west", 0)])
            .collect();
        let by_service = aggregate(changes.clone(), 4);
        assert_eq!(
            texts(&by_service),
            [
                "3 endpoints of cluster west joined prod/db.",
                "2 endpoints of cluster east joined prod/db.",
                "2 endpoints of cluster east joined prod/web.",
                "Endpoint 0.",
            ]
        );
        assert_eq!(by_service[0].hostname, None);
        assert_eq!(by_service[3], changes[7]);
        assert_eq!(
            texts(&aggregate(changes.clone(), 3)),
            [
                "3 endpoints of cluster west joined prod/db.",
                "4 endpoints of cluster east joined 2 services.",
                "Endpoint 0.",
            ]
        );
        let by_kind = aggregate(changes, 2);
        assert_eq!(
            texts(&by_kind),
            ["7 endpoints joined 2 services.", "Endpoint 0."]
        );
        assert_eq!((&by_kind[0].cluster, by_kind[0].count), (&None, 7));
    }

    #[test]
    fn merged_change_has_only_what_all_have_in_common() {
        let change = |service, cluster| Change {
            cause: Some(ChangeCause::GatewayDown),
            object: Some("Service/prod/db-0-west".into()),
            ..endpoint(ChangeKind::GatewayDown, service, cluster, 0)
        };
        let one = change("db", "west");
        let merged = aggregate(vec![one.clone(); 3], 1);
        assert_eq!(merged[0].service, one.service);
        assert_eq!(merged[0].cluster, one.cluster);
        assert_eq!(merged[0].cause, one.cause);
        assert_eq!(merged[0].object, one.object);
        assert_eq!(merged[0].count, 3);
        let other = Change {
            cause: None,
            object: None,
            ..change("web", "east")
        };
        let merged = aggregate(vec![one, other], 1);
        assert_eq!(merged[0].service, None);
        assert_eq!(merged[0].cluster, None);
        assert_eq!(merged[0].cause, None);
        assert_eq!(merged[0].object, None);
    }

    #[test]
    fn gateway_with_several_endpoints_is_one_change() {
        let first = Change {
            cause: Some(ChangeCause::GatewayDown),
            object: Some("Service/prod/db-0-west".into()),
            ..endpoint(ChangeKind::GatewayDown, "db", "west", 0)
        };
        let behind = |changes: &[Change]| {
            let endpoints = changes.iter();
            endpoints
                .map(|one| (one.service.clone().unwrap(), one.hostname.clone()))
                .collect()
        };
        let single = of_gateway(first.clone(), &behind(std::slice::from_ref(&first)));
        assert_eq!(single, first);

        let second = endpoint(ChangeKind::GatewayDown, "db", "west", 1);
        let of_service = of_gateway(first.clone(), &behind(&[first.clone(), second.clone()]));
        assert_eq!(
            &*of_service.text,
            "The gateway of cluster west is down: 2 endpoints of prod/db."
        );
        assert_eq!(of_service.service, first.service);
        assert_eq!(of_service.cluster, first.cluster);
        assert_eq!((of_service.hostname, of_service.object), (None, None));
        assert_eq!(of_service.count, 2);

        let third = endpoint(ChangeKind::GatewayDown, "web", "west", 0);
        let endpoints = behind(&[first.clone(), second, third]);
        let ready = Change {
            cause: Some(ChangeCause::GatewayReady),
            ..first
        };
        let of_cluster = of_gateway(ready, &endpoints);
        assert_eq!(
            &*of_cluster.text,
            "The gateway of cluster west is ready again: 2 services, 3 endpoints."
        );
        assert_eq!((of_cluster.service, of_cluster.count), (None, 3));
    }

    #[test]
    fn change_of_a_gateway_has_its_cause_a_service_and_a_cluster() {
        let change = Change {
            cause: Some(ChangeCause::GatewayReady),
            ..endpoint(ChangeKind::GatewayUp, "db", "west", 0)
        };
        assert!(change.is_of_gateway());
        let change_without_cause = Change {
            cause: None,
            ..change.clone()
        };
        assert!(!change_without_cause.is_of_gateway());
        let change_without_service = Change {
            service: None,
            ..change.clone()
        };
        assert!(!change_without_service.is_of_gateway());
        let change_without_cluster = Change {
            cluster: None,
            ..change
        };
        assert!(!change_without_cluster.is_of_gateway());
    }

    #[test]
    fn every_kind_has_the_name_of_its_json() {
        for &kind in ChangeKind::VARIANTS {
            let json = serde_json::to_value(kind).unwrap();
            assert_eq!(json, <&str>::from(kind));
            // The sentence for several changes has their number.
            let changes = vec![Change::new(kind, String::new()); 7];
            let merged = aggregate(changes, 1);
            assert_eq!(merged.len(), 1);
            assert!(merged[0].text.contains('7'), "{}", merged[0].text);
        }
    }
}
