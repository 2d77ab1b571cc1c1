//! Federated services (kind `federated`): one cluster IP that Linkerd balances over the members of several clusters.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::fields::{cluster_addresses, ports, service_key, shorten};
use super::object::ServiceSpec;
use super::{
    ClusterName, KubeObject, Overrides, Ports, ServiceKey, ServiceName, Skip, SkipReason,
    addresses, key,
};

/// A Service that Linkerd makes for the members of a federation. It belongs to no single cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FederatedService {
    /// The members' name: `metadata.name` without the suffix `-federated`.
    pub service: ServiceKey,
    /// Annotation `multicluster.linkerd.io/remote-discovery`: the members in other clusters, sorted.
    pub members: Box<[FederatedMember]>,
    /// Annotation `multicluster.linkerd.io/local-discovery` exists: this cluster has a member.
    pub has_local_member: bool,
    /// `spec.clusterIPs`.
    #[serde(with = "addresses")]
    pub addresses: SmallVec<[IpAddr; 1]>,
    /// `spec.ports`: the ports of the cluster IP.
    pub ports: Ports,
    /// Annotations of the members.
    pub overrides: Option<Box<Overrides>>,
}

/// A member of a federation in another cluster: `web@east`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FederatedMember {
    /// Its cluster, before aliases.
    pub cluster: ClusterName,
    /// The name of its Service, in the same namespace.
    pub service: ServiceName,
}

/// The suffix of the names of federated services.
const SUFFIX: &str = "-federated";

impl FederatedService {
    /// Returns whether a mirror without a cluster name is a federated service.
    pub(super) fn is(service: &KubeObject<'_>) -> bool {
        let keys = [key::REMOTE_DISCOVERY, key::LOCAL_DISCOVERY];
        keys.iter().any(|key| service.annotation(key).is_some())
    }

    /// Parses a federated service.
    pub(super) fn parse(service: &KubeObject<'_>, spec: &ServiceSpec<'_>) -> Result<Self, Skip> {
        let name = service.name();
        let Some(base) = name.strip_suffix(SUFFIX) else {
            let detail = format!("a federated service, but '{name}' does not end in '{SUFFIX}'");
            return Err(Skip::new(SkipReason::BadName, detail));
        };
        let mut overrides = Overrides::of_mirror(service);
        let listed = service.annotation(key::REMOTE_DISCOVERY);
        let local = service.annotation(key::LOCAL_DISCOVERY);
        Ok(Self {
            service: service_key(service, base)?,
            members: members(listed.unwrap_or_default(), &mut overrides),
            has_local_member: local.is_some_and(|name| is_local_member(name, &mut overrides)),
            addresses: cluster_addresses(spec)?,
            ports: ports(spec),
            overrides: overrides.if_any(),
        })
    }
}

/// Reads a list such as `web@east,web@north`. Its order is arbitrary. Notes the first item that is invalid.
fn members(list: &str, overrides: &mut Overrides) -> Box<[FederatedMember]> {
    let mut members = Vec::new();
    let mut invalid = None;
    for item in list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        match member(item) {
            Some(member) => members.push(member),
            None => invalid = invalid.or(Some(item)),
        }
    }
    if let Some(item) = invalid {
        let item = shorten(item);
        overrides
            .invalid
            .push(format!("{}={item}", key::REMOTE_DISCOVERY).into());
    }
    members.sort();
    overrides
        .invalid
        .extend(repeated_cluster(&members).map(Into::into));
    members.dedup();
    members.into()
}

/// Returns whether the name of a member in this cluster is valid, and notes an invalid one.
fn is_local_member(name: &str, overrides: &mut Overrides) -> bool {
    let is_valid = ServiceName::interned(name).is_ok();
    if !is_valid {
        let name = shorten(name);
        overrides
            .invalid
            .push(format!("{}={name}", key::LOCAL_DISCOVERY).into());
    }
    is_valid
}

/// Describes the first cluster that a list of sorted members names twice.
fn repeated_cluster(members: &[FederatedMember]) -> Option<String> {
    let mut pairs = members.windows(2);
    let pair = pairs.find(|pair| pair[0].cluster == pair[1].cluster)?;
    let cluster = &pair[0].cluster;
    Some(format!(
        "{} with cluster '{cluster}' twice",
        key::REMOTE_DISCOVERY
    ))
}

/// Reads `SERVICE@CLUSTER`. A service of another namespace (`web.bank@east`) is not a DNS label, so it is invalid.
fn member(item: &str) -> Option<FederatedMember> {
    let (service, cluster) = item.split_once('@')?;
    Some(FederatedMember {
        cluster: ClusterName::interned(cluster).ok()?,
        service: ServiceName::interned(service).ok()?,
    })
}
