//! Mirrors of headless Services, and of their endpoints (kind `headless`, rules M1, M2, M7).

use std::net::IpAddr;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::fields::{
    bad_name, cluster, cluster_addresses, mirrored_service, ports, same_namespace, service_key,
    split, strip_cluster,
};
use super::object::ServiceSpec;
use super::{
    ClusterName, Hostname, KubeObject, Overrides, Ports, ServiceKey, Skip, Text, addresses, intern,
    key,
};

/// A mirror Service with `clusterIP: None`: the parent of [`EndpointMirror`]s (rule M2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadlessMirror {
    /// Label `mirror.linkerd.io/cluster-name`, before aliases.
    pub cluster: ClusterName,
    /// The exported Service.
    pub service: ServiceKey,
    /// Annotations of the exported Service.
    pub overrides: Option<Box<Overrides>>,
    /// `metadata.creationTimestamp`, in Unix seconds.
    pub created: Option<NonZeroU32>,
}

/// A mirror Service that represents one remote endpoint and has its own cluster IP (rule M1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointMirror {
    /// Label `mirror.linkerd.io/cluster-name`, before aliases.
    pub cluster: ClusterName,
    /// The exported Service that the endpoint belongs to.
    pub service: ServiceKey,
    /// The remote endpoint's hostname.
    pub hostname: Hostname,
    /// Label `mirror.linkerd.io/headless-mirror-svc-name`: the name of the [`HeadlessMirror`].
    pub parent: Text,
    /// `spec.clusterIPs`: synthetic endpoint IPs. Only meshed clients can use them.
    #[serde(with = "addresses")]
    pub addresses: SmallVec<[IpAddr; 1]>,
    /// `spec.ports`: the ports of the cluster IP.
    pub ports: Ports,
}

// === impl HeadlessMirror ===

impl HeadlessMirror {
    /// Parses a mirror with `clusterIP: None`.
    pub(super) fn parse(service: &KubeObject<'_>) -> Result<Self, Skip> {
        let cluster = cluster(service)?;
        Ok(Self {
            service: mirrored_service(service, &cluster)?,
            cluster,
            overrides: Overrides::of_mirror(service).if_any(),
            created: service.created(),
        })
    }
}

// === impl EndpointMirror ===

impl EndpointMirror {
    /// Returns whether a mirror represents one endpoint.
    pub(super) fn is(service: &KubeObject<'_>) -> bool {
        service.label(key::HEADLESS_MIRROR).is_some()
    }

    /// Parses an endpoint mirror.
    pub(super) fn parse(service: &KubeObject<'_>, spec: &ServiceSpec<'_>) -> Result<Self, Skip> {
        let cluster = cluster(service)?;
        let parent = service.label(key::HEADLESS_MIRROR).unwrap_or_default();
        let (host, name) = mirrored_endpoint(service, &cluster)?;
        Ok(Self {
            hostname: Hostname::interned(host).map_err(bad_name)?,
            service: service_key(service, name)?,
            cluster,
            parent: intern(parent),
            addresses: cluster_addresses(spec)?,
            ports: ports(spec),
        })
    }

    /// Returns the service of an endpoint mirror.
    pub(super) fn service_of(
        service: &KubeObject<'_>,
        cluster: &ClusterName,
    ) -> Result<ServiceKey, Skip> {
        mirrored_endpoint(service, cluster).and_then(|(_, name)| service_key(service, name))
    }
}

/// Returns the names of the endpoint and the service of an endpoint mirror.
fn mirrored_endpoint<'o>(
    service: &'o KubeObject<'_>,
    cluster: &ClusterName,
) -> Result<(&'o str, &'o str), Skip> {
    let Some(fq_name) = service.annotation(key::REMOTE_FQ_NAME) else {
        let parent = service.label(key::HEADLESS_MIRROR).unwrap_or_default();
        return Ok((
            strip_cluster(service.name(), cluster)?,
            strip_cluster(parent, cluster)?,
        ));
    };
    let (host, rest) = split(fq_name)?;
    let (name, rest) = split(rest)?;
    same_namespace(service, rest)?;
    Ok((host, name))
}
