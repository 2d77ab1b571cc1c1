//! Changes of answers in words, and their aggregation: ten thousand changes at once become a few sentences.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{ClusterName, Hostname, Line, Namespace, ServiceKey, ServiceName};

/// The kinds of changes. Their names are values of `kind` in `/api/v1/events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// A cluster has a mirror, a member or an endpoint of a service, and had none.
    ClusterJoined,
    /// The last mirror, member or endpoint of a cluster is gone, for whatever reason.
    ClusterLeft,
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
    /// A list that would remove most services is held (`--shrink-guard`).
    ListHeld,
    /// A list that follows a held one is applied.
    ListAccepted,
    /// The table became older than `--max-stale`, or its source is active again.
    TableStale,
    /// A snapshot of an earlier process is served, or is replaced.
    Snapshot,
    /// A caption of `demo --live`.
    Demo,
}

/// A change, or several of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind.
    pub kind: ChangeKind,
    /// The namespace, if the change concerns one service.
    pub namespace: Option<Namespace>,
    /// The service, if the change concerns one.
    pub service: Option<ServiceName>,
    /// The cluster, if the change concerns one.
    pub cluster: Option<ClusterName>,
    /// The endpoint, if the change concerns one that has a hostname.
    pub hostname: Option<Hostname>,
    /// The number of changes that this one stands for.
    pub count: usize,
    /// The number of services that these changes concern.
    pub services: usize,
    /// A sentence.
    pub text: Line,
}

/// The common part of changes that are merged, besides their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Common {
    /// The service and the cluster.
    ServiceAndCluster,
    /// The cluster.
    Cluster,
    /// Nothing.
    Kind,
}

type GroupKey = (
    ChangeKind,
    Option<Namespace>,
    Option<ServiceName>,
    Option<ClusterName>,
);

/// Merges changes until at most `max` remain: first those of one service and cluster, then those of one cluster, then
/// those of one kind. If there are not more than `max` changes, they stay as they are. There may be more than `max`
/// only if `max` is less than the number of kinds.
pub fn aggregate(mut changes: Vec<Change>, max: usize) -> Vec<Change> {
    for common in [Common::ServiceAndCluster, Common::Cluster, Common::Kind] {
        if changes.len() <= max {
            break;
        }
        changes = merge_groups(changes, common);
    }
    changes
}

/// Merges the changes of each group. The groups are in the order of their first changes.
fn merge_groups(changes: Vec<Change>, common: Common) -> Vec<Change> {
    let mut places: BTreeMap<GroupKey, usize> = BTreeMap::new();
    let mut groups: Vec<Vec<Change>> = Vec::new();
    for change in changes {
        let place = *places.entry(common.key_of(&change)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(change),
            None => groups.push(vec![change]),
        }
    }
    groups.into_iter().filter_map(merge).collect()
}

/// Merges changes of one kind. Returns `None` if there are none.
fn merge(group: Vec<Change>) -> Option<Change> {
    let mut changes = group.into_iter();
    let mut merged = changes.next()?;
    let mut is_merged = false;
    for change in changes {
        is_merged = true;
        let is_one_service =
            merged.service_key().is_some() && merged.service_key() == change.service_key();
        if !is_one_service {
            (merged.namespace, merged.service) = (None, None);
            merged.services += change.services;
        }
        if merged.cluster != change.cluster {
            merged.cluster = None;
        }
        merged.hostname = None;
        merged.count += change.count;
    }
    if is_merged {
        merged.text = merged.describe().into();
    }
    Some(merged)
}

// === impl ChangeKind ===

impl ChangeKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::ClusterJoined,
        Self::ClusterLeft,
        Self::ServiceAdded,
        Self::ServiceRemoved,
        Self::EndpointAdded,
        Self::EndpointRemoved,
        Self::EndpointChanged,
        Self::GatewayDown,
        Self::GatewayUp,
        Self::Failover,
        Self::ListHeld,
        Self::ListAccepted,
        Self::TableStale,
        Self::Snapshot,
        Self::Demo,
    ];

    /// Returns the kind's name in logs and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterJoined => "cluster-joined",
            Self::ClusterLeft => "cluster-left",
            Self::ServiceAdded => "service-added",
            Self::ServiceRemoved => "service-removed",
            Self::EndpointAdded => "endpoint-added",
            Self::EndpointRemoved => "endpoint-removed",
            Self::EndpointChanged => "endpoint-changed",
            Self::GatewayDown => "gateway-down",
            Self::GatewayUp => "gateway-up",
            Self::Failover => "failover",
            Self::ListHeld => "list-held",
            Self::ListAccepted => "list-accepted",
            Self::TableStale => "table-stale",
            Self::Snapshot => "snapshot",
            Self::Demo => "demo",
        }
    }
}

// === impl Common ===

impl Common {
    fn key_of(self, change: &Change) -> GroupKey {
        let (kind, cluster) = (change.kind, change.cluster.clone());
        match self {
            Self::ServiceAndCluster => {
                let (namespace, service) = (change.namespace.clone(), change.service.clone());
                (kind, namespace, service, cluster)
            }
            Self::Cluster => (kind, None, None, cluster),
            Self::Kind => (kind, None, None, None),
        }
    }
}

// === impl Change ===

impl Change {
    /// Makes a change that concerns no service.
    pub fn new(kind: ChangeKind, text: impl Into<Line>) -> Self {
        Self {
            kind,
            namespace: None,
            service: None,
            cluster: None,
            hostname: None,
            count: 1,
            services: 0,
            text: text.into(),
        }
    }

    /// Makes a change of a service.
    pub fn of_service(kind: ChangeKind, key: &ServiceKey, text: impl Into<Line>) -> Self {
        Self {
            namespace: Some(key.namespace.clone()),
            service: Some(key.service.clone()),
            services: 1,
            ..Self::new(kind, text)
        }
    }

    /// Returns the namespace and the name of the service, if the change concerns one.
    fn service_key(&self) -> Option<(&Namespace, &ServiceName)> {
        self.namespace.as_ref().zip(self.service.as_ref())
    }

    /// Returns the sentence for several changes.
    fn describe(&self) -> String {
        let count = self.count;
        let of_cluster = match &self.cluster {
            Some(cluster) => format!(" of cluster {cluster}"),
            None => String::new(),
        };
        let services = match self.service_key() {
            Some((namespace, service)) => format!("{namespace}/{service}"),
            None => format!("{} services", self.services),
        };
        match self.kind {
            ChangeKind::ClusterJoined => format!("{count} clusters joined their first services."),
            ChangeKind::ClusterLeft => format!("{count} clusters left their last services."),
            ChangeKind::ServiceAdded => format!("{count} services were added."),
            ChangeKind::ServiceRemoved => format!("{count} services were removed."),
            ChangeKind::EndpointAdded => {
                format!("{count} endpoints{of_cluster} joined {services}.")
            }
            ChangeKind::EndpointRemoved => {
                format!("{count} endpoints{of_cluster} left {services}.")
            }
            ChangeKind::EndpointChanged => {
                format!("{count} endpoints{of_cluster} in {services} have new addresses.")
            }
            ChangeKind::GatewayDown => {
                format!("{count} endpoints{of_cluster} in {services} are down.")
            }
            ChangeKind::GatewayUp => {
                format!("{count} endpoints{of_cluster} in {services} are up again.")
            }
            ChangeKind::Failover => {
                format!("Other steps answer for {services}: {count} failovers.")
            }
            ChangeKind::ListHeld => format!("{count} lists are held."),
            ChangeKind::ListAccepted => format!("{count} lists were applied."),
            ChangeKind::TableStale => format!("The table expired or recovered {count} times."),
            ChangeKind::Snapshot => format!("A snapshot was served or replaced {count} times."),
            ChangeKind::Demo => format!("{count} scenes of the demo began."),
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
            ["7 endpoints joined 3 services.", "Endpoint 0."]
        );
        assert_eq!((&by_kind[0].cluster, by_kind[0].count), (&None, 7));
    }

    #[test]
    fn every_kind_has_the_name_of_its_json() {
        for kind in ChangeKind::ALL {
            let json = serde_json::to_value(kind).unwrap();
            assert_eq!(json, kind.name());
            // The sentence for several changes has their number.
            let changes = vec![Change::new(kind, String::new()); 7];
            let merged = aggregate(changes, 1);
            assert_eq!(merged.len(), 1);
            assert!(merged[0].text.contains('7'), "{}", merged[0].text);
        }
    }
}
