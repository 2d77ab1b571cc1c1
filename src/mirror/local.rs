//! Services of this cluster (rule M5, kind `local`).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::fields::{cluster_addresses, ports, service_key, undecodable};
use super::{KubeObject, Overrides, Policy, Ports, ServiceKey, Skip, addresses, key};

/// A Service of this cluster: a headless one, an exported one with a cluster IP, or one that only has a [`Policy`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalService {
    /// Its own namespace and name.
    pub service: ServiceKey,
    /// Label `mirror.linkerd.io/exported`.
    pub export: Export,
    /// `spec.clusterIPs`. Empty if the Service is headless.
    #[serde(with = "addresses")]
    pub addresses: SmallVec<[IpAddr; 1]>,
    /// `spec.ports`: the ports of the cluster IP. Empty if the Service is headless, because its slices have the ports.
    pub ports: Ports,
    /// Annotations of the Service.
    pub overrides: Option<Box<Overrides>>,
    /// Annotations that count on Services of this cluster only.
    pub policy: Policy,
}

/// The value of label `mirror.linkerd.io/exported` on a Service of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    /// The label is absent.
    No,
    /// `true`: exported through a gateway, the only way for a headless Service.
    Gateway,
    /// `remote-discovery`: for flat networks, without gateways.
    RemoteDiscovery,
    /// Another value. By default, no Link selects it. A Link with a custom selector may.
    Other,
}

impl LocalService {
    /// Parses a Service of this cluster.
    pub(super) fn parse(service: &KubeObject<'_>) -> Result<Self, Skip> {
        let spec = service.service_spec().map_err(undecodable)?;
        let (addresses, ports) = match service.is_headless() {
            true => (SmallVec::new(), Ports::interned([])),
            false => (cluster_addresses(&spec)?, ports(&spec)),
        };
        Ok(Self {
            service: service_key(service, service.name())?,
            export: Export::of(service),
            addresses,
            ports,
            overrides: Overrides::of(service).if_any(),
            policy: Policy::of(service),
        })
    }

    /// Returns whether the Service is headless.
    pub fn is_headless(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns whether Links select the Service by default and mirror it through a gateway, which rule M5 requires.
    pub fn is_exported(&self) -> bool {
        self.export == Export::Gateway
    }

    /// Returns whether Links select the Service by default, as a Service with a cluster IP.
    pub fn is_exported_in_any_way(&self) -> bool {
        match self.export {
            Export::Gateway | Export::RemoteDiscovery => true,
            Export::No | Export::Other => false,
        }
    }
}

impl Export {
    fn of(service: &KubeObject<'_>) -> Self {
        match service.label(key::EXPORTED) {
            None => Self::No,
            Some("true") => Self::Gateway,
            Some("remote-discovery") => Self::RemoteDiscovery,
            Some(_) => Self::Other,
        }
    }
}
