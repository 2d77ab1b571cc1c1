//! The meaning of an owner name.

use super::Zone;
use crate::model::Port;
use crate::table::{Endpoint, Included, NameAddresses, NameFailure, Service, SharedPort};

/// The meaning of a name.
#[derive(Clone, Debug)]
pub enum Reading<'t> {
    /// The name is in no zone of this server.
    Outside,
    /// The apex of a zone, and the zone above it, if that is served, too.
    Apex(&'t Zone, Option<&'t Zone>),
    /// `ns.dns.Z`: this server.
    NsHost(&'t Zone),
    /// `dns-version.Z` (Kubernetes DNS specification section 2.2).
    Version(&'t Zone),
    /// An empty non-terminal. It has no records, but names exist below it.
    Empty(&'t Zone),
    /// The own name of a service, or one of its ports, that fails for a reason (rules K5, K8).
    Failing(&'t Zone, &'t Service, NameFailure),
    /// A service or a part of it.
    View(&'t Zone, View<'t>),
    /// The name does not exist.
    Missing(&'t Zone, MissingReason),
}

/// The part of a service that an owner name stands for.
#[derive(Clone, Debug)]
pub struct View<'t> {
    /// The service.
    pub service: &'t Service,
    /// The scope of the name within the service.
    pub scope: Scope,
    /// The endpoints in that scope, whatever their ports, liveness and kind.
    pub covered: &'t [Endpoint],
    /// The port of a `_P._R.` name.
    pub port: Option<&'t Port>,
    /// The form of SRV targets.
    pub targets: Targets,
    /// The endpoints that are included, by their liveness. This is decided once for each owner name (rule M4).
    pub included: Included,
}

/// The form of SRV targets. A target is always a name of the service itself, with its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// The form of the question, canonical or short: `H.C.` and the question's name from label `S` on. That label
    /// starts at this octet.
    SameFamily(usize),
    /// The canonical form, because some of the short names belong to another service: `H.C.S.N.` and the zone. The zone starts
    /// at this octet of the question's name.
    Canonical(usize),
    /// The form of zones with the grammar `mcs`: the target of a cluster IP is the name of the service (rule K9). Label `S`
    /// starts at this octet of the question's name.
    Mcs(usize),
}

/// The scope of an owner name within a service, the widest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The endpoints of all clusters.
    Service,
    /// The endpoints of one cluster.
    Cluster,
    /// One endpoint.
    Host,
}

/// The reason for which a name does not exist. The reasons are ordered by how much of the name was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissingReason {
    /// The name has an unknown form.
    NoForm,
    /// The service does not exist.
    NoService,
    /// The short name stands for no namespace.
    NoOwner,
    /// The service has no endpoint.
    NoEndpoint,
    /// The service has no endpoint in the cluster.
    NoCluster,
    /// The cluster has no endpoint with the hostname.
    NoHost,
    /// No endpoint has the port.
    NoPort,
}

// === impl View ===

impl<'t> View<'t> {
    /// Makes the view of a scope, or of one port in it. Decides about the endpoints with a gateway that is down.
    pub fn new(
        service: &'t Service,
        scope: Scope,
        covered: &'t [Endpoint],
        port: Option<&'t Port>,
        targets: Targets,
    ) -> Self {
        let mut view = Self {
            service,
            scope,
            covered,
            port,
            targets,
            included: Included::All,
        };
        view.included = match view.name_addresses() {
            Some(own) => own.included,
            None => service.gateway_down.included(view.endpoints()),
        };
        view
    }

    /// Returns whether the name stands for an endpoint of the service, whatever its port, liveness and kind.
    pub fn covers(&self, endpoint: &Endpoint) -> bool {
        let covered = self.covered.as_ptr_range();
        covered.contains(&std::ptr::from_ref(endpoint))
    }

    /// Returns whether an endpoint of the service is one of the answer.
    pub fn contains(&self, endpoint: &'t Endpoint) -> bool {
        let alone = Self {
            covered: std::slice::from_ref(endpoint),
            ..self.clone()
        };
        self.covers(endpoint) && alone.endpoints().next().is_some()
    }

    /// Returns the endpoints of the answer, filtered by port and by rules M4, K1 and K5.
    pub fn endpoints(&self) -> impl Iterator<Item = &'t Endpoint> + Clone + use<'t> {
        let port = self.port;
        let has_port = move |endpoint: &Endpoint| match port {
            None => true,
            Some(port) => endpoint.ports.iter().any(|own| same_port(own, port)),
        };
        self.endpoints_of_any_port().filter(move |e| has_port(e))
    }

    /// Returns the endpoints of the answer, and those that lack the port.
    pub(super) fn endpoints_of_any_port(
        &self,
    ) -> impl Iterator<Item = &'t Endpoint> + Clone + use<'t> {
        let included = self.included;
        let is_service = self.scope == Scope::Service;
        self.covered
            .iter()
            .filter(move |e| included.has(e) && (!is_service || e.is_selected))
    }

    /// Returns whether the target of an endpoint is the name of the service, which other endpoints share.
    pub fn is_shared_target(&self, endpoint: &Endpoint) -> bool {
        match self.targets {
            Targets::SameFamily(_) | Targets::Canonical(_) => false,
            Targets::Mcs { .. } => endpoint.hostname.is_none(),
        }
    }

    /// Returns the view of the SRV target of an endpoint. Its addresses are those of that name, which other endpoints may
    /// share: an RRset is complete or absent (RFC 2181 section 9).
    pub fn target_of(&self, endpoint: &'t Endpoint) -> Self {
        let service = self.service;
        let (scope, covered) = match (&endpoint.hostname, &endpoint.cluster) {
            (Some(_), _) => (Scope::Host, std::slice::from_ref(endpoint)),
            (None, Some(cluster)) if !self.is_shared_target(endpoint) => {
                (Scope::Cluster, service.in_cluster(cluster.as_str()))
            }
            (None, _) => (Scope::Service, &*service.endpoints),
        };
        Self::new(service, scope, covered, None, self.targets)
    }

    /// Returns the precomputed ports of the endpoints whose target is the name of the service.
    pub(super) fn shared_ports(&self) -> &'t [SharedPort] {
        match (self.targets, self.scope) {
            (Targets::Mcs { .. }, Scope::Service) => &self.service.shared_ports,
            _ => &[],
        }
    }

    /// Returns the precomputed A and AAAA rows, if the name is the service's own name.
    pub fn name_addresses(&self) -> Option<&'t NameAddresses> {
        let is_own = self.scope == Scope::Service && self.port.is_none();
        is_own.then_some(&self.service.name_addresses)
    }
}

/// Returns whether two ports have the same name and protocol.
pub(super) fn same_port(one: &Port, other: &Port) -> bool {
    one.name == other.name && one.protocol == other.protocol
}
