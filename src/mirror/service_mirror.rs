//! Mirrors of whole Services, with a cluster IP (kinds `gateway` and `flat`).

use std::net::IpAddr;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::fields::{cluster, cluster_addresses, mirrored_service, ports};
use super::object::ServiceSpec;
use super::{
    ClusterName, KubeObject, Overrides, Ports, ServiceKey, Skip, SkipReason, addresses, key,
};

/// A mirror Service with a cluster IP that stands for a Service of another cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceMirror {
    /// Label `mirror.linkerd.io/cluster-name`, before aliases.
    pub cluster: ClusterName,
    /// The exported Service.
    pub service: ServiceKey,
    /// The path of a connection behind the cluster IP.
    pub route: Route,
    /// `spec.clusterIPs`.
    #[serde(with = "addresses")]
    pub addresses: SmallVec<[IpAddr; 1]>,
    /// `spec.ports`: the ports of the cluster IP.
    pub ports: Ports,
    /// Annotations of the exported Service.
    pub overrides: Option<Box<Overrides>>,
    /// `metadata.creationTimestamp`, in Unix seconds.
    pub created: Option<NonZeroU32>,
}

/// The path of a connection to a mirrored Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// Through the gateway of the other cluster.
    Gateway,
    /// Directly to the pods, in a flat network (label `multicluster.linkerd.io/remote-discovery`).
    Flat,
}

impl ServiceMirror {
    /// Returns whether a mirror with neither an endpoint nor members stands for a whole Service.
    pub(super) fn is(spec: &ServiceSpec<'_>) -> bool {
        spec.cluster_ip.as_deref() != Some("None")
    }

    /// Parses a mirror that is neither headless nor federated.
    pub(super) fn parse(service: &KubeObject<'_>, spec: &ServiceSpec<'_>) -> Result<Self, Skip> {
        let cluster = cluster(service)?;
        let key = mirrored_service(service, &cluster)?;
        Ok(Self {
            route: Route::of(service, &cluster, &key)?,
            service: key,
            addresses: cluster_addresses(spec)?,
            ports: ports(spec),
            overrides: Overrides::of_mirror(service).if_any(),
            created: service.created(),
            cluster,
        })
    }
}

impl Route {
    /// Reads the route from the labels. If a mirror is exported again, Linkerd copies the labels of a flat mirror to its
    /// mirror. They then name another cluster or service, and the object is skipped.
    fn of(
        service: &KubeObject<'_>,
        cluster: &ClusterName,
        mirrored: &ServiceKey,
    ) -> Result<Self, Skip> {
        let Some(discovery) = service.label(key::REMOTE_DISCOVERY) else {
            return Ok(Self::Gateway);
        };
        let remote = service.label(key::REMOTE_SERVICE);
        let remote = remote.unwrap_or(mirrored.service.as_str());
        for (label, value, expected) in [
            (key::REMOTE_DISCOVERY, discovery, cluster.as_str()),
            (key::REMOTE_SERVICE, remote, mirrored.service.as_str()),
        ] {
            if value != expected {
                let value: String = value.chars().take(63).collect();
                let detail =
                    format!("label {label} is '{value}', but the mirror is of '{expected}'");
                return Err(Skip::new(SkipReason::BadName, detail));
            }
        }
        Ok(Self::Flat)
    }
}
