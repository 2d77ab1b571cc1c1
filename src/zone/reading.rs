//! The meaning of an owner name.

use std::ops::Range;
use std::{fmt, ptr};

use super::Zone;
use crate::model::Port;
use crate::table::{Endpoint, Members, MissingHost, NameFailure, Property, Service, SharedPort};

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
    /// A name of a service, or one of its ports, that fails.
    Failing(&'t Zone, &'t Service, Failure<'t>),
    /// A service or a part of it.
    View(&'t Zone, View<'t>),
    /// The name does not exist.
    Missing(&'t Zone, MissingReason),
}

/// Why a name of a service fails.
#[derive(Clone, Copy, Debug)]
pub enum Failure<'t> {
    /// A rule for the own name of the service (K5, K8).
    Rule(NameFailure),
    /// The only endpoints at or below the name are hosts without an endpoint mirror, such as this one.
    Missing(&'t MissingHost),
}

/// The part of a service that an owner name stands for.
#[derive(Clone, Debug)]
pub struct View<'t> {
    /// The service.
    pub service: &'t Service,
    /// The scope of the name within the service.
    pub scope: Scope,
    /// The port of a `_P._R.` name.
    pub port: Option<&'t Port>,
    /// The form of SRV targets.
    pub targets: Targets,
    /// The endpoints of the answer. This is decided once for each owner name (rule M4). Their range has all endpoints in that scope.
    members: Members<'t>,
}

/// A port with a bit for each endpoint of its service that has it. No bits: all have it.
type NamedPort<'t> = (&'t Port, &'t [u64]);

/// The form of SRV targets. A target is always a name of the service itself, with its addresses.
#[derive(Clone, Copy, Debug)]
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
    /// The form of zones of one cluster: `H.` and the question's name from label `S` on, which starts at this octet.
    OfCluster(usize),
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

// === impl Reading ===

impl Reading<'_> {
    /// Returns whether the name exists (RFC 8020).
    pub fn exists(&self) -> bool {
        !matches!(self, Self::Outside | Self::Missing(..))
    }
}

// === impl Failure ===

impl<'t> Failure<'t> {
    /// Returns why the own name of a service fails, if it does.
    pub fn of_service(service: &'t Service) -> Option<Self> {
        let failure = service.failure?;
        let is_of_hosts = failure == NameFailure::EndpointMirrorsMissing;
        let missing = is_of_hosts.then(|| service.missing_at(&[])).flatten();
        Some(missing.map_or(Self::Rule(failure), Self::Missing))
    }
}

impl fmt::Display for Failure<'_> {
    /// Writes the reason as part of a sentence, and for clients (RFC 8914, EXTRA-TEXT).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(failure) => failure.fmt(f),
            Self::Missing(host) => f.write_str(&host.reason()),
        }
    }
}

// === impl View ===

impl<'t> View<'t> {
    /// Makes the view of a scope, or of one port in it. Decides about the endpoints with a gateway that is down.
    pub(super) fn new(
        service: &'t Service,
        scope: Scope,
        covered: Range<usize>,
        port: Option<NamedPort<'t>>,
        targets: Targets,
    ) -> Self {
        let members = match (scope, port) {
            (Scope::Service, None) => service.names.own_members(covered),
            (Scope::Host, None) => service.names.members(covered, &[]), // it is one endpoint
            (_, port) => {
                let bits = port.map_or(&[][..], |(_, bits)| bits);
                selectable(service, scope, covered, bits).answered(service.gateway_down)
            }
        };
        Self {
            service,
            scope,
            port: port.map(|(port, _)| port),
            targets,
            members,
        }
    }

    /// Returns the endpoints that the name stands for, whatever their ports, liveness and kind.
    pub fn covered(&self) -> &'t [Endpoint] {
        &self.service.endpoints[self.members.range()]
    }

    /// Returns whether the name stands for an endpoint of the service, whatever its port, liveness and kind.
    pub fn covers(&self, endpoint: &Endpoint) -> bool {
        self.covered()
            .as_ptr_range()
            .contains(&ptr::from_ref(endpoint))
    }

    /// Returns the endpoints of the answer, in the order of the table.
    pub fn endpoints(&self) -> impl Iterator<Item = &'t Endpoint> + Clone + use<'t> {
        let endpoints = &self.service.endpoints;
        self.members.iter().map(|index| &endpoints[index])
    }

    /// Returns the indexes of the endpoints of the answer.
    pub(super) fn members(&self) -> &Members<'t> {
        &self.members
    }

    /// Returns the endpoints of the answer that have a port and are targets of SRV records of their own.
    pub(super) fn targets_of_their_own(&self) -> Members<'t> {
        let members = self.members.requiring(Property::WithPorts);
        match self.targets {
            Targets::Mcs(_) => members.requiring(Property::Host),
            _ => members,
        }
    }

    /// Returns whether the target of an endpoint is the name of the service, which other endpoints share.
    pub fn is_shared_target(&self, endpoint: &Endpoint) -> bool {
        matches!(self.targets, Targets::Mcs(_)) && endpoint.hostname.is_none()
    }

    /// Returns the view of the SRV target of an endpoint. Its addresses are those of that name, which other endpoints may
    /// share: an RRset is complete or absent (RFC 2181 section 9).
    pub(super) fn target_of(&self, index: usize) -> Self {
        let service = self.service;
        let endpoint = &service.endpoints[index];
        let (scope, covered) = match (&endpoint.hostname, &endpoint.cluster) {
            (Some(_), _) => (Scope::Host, index..index + 1),
            (None, Some(cluster)) if !self.is_shared_target(endpoint) => {
                (Scope::Cluster, service.range_at(&[cluster.as_str()]))
            }
            (None, _) => (Scope::Service, 0..service.endpoints.len()),
        };
        Self::new(service, scope, covered, None, self.targets)
    }

    /// Returns the ports of the endpoints whose target is the name of the service.
    pub(super) fn shared_ports(&self) -> &'t [SharedPort] {
        match (self.targets, self.scope) {
            (Targets::Mcs(_), Scope::Service) => &self.service.names.shared_ports,
            _ => &[],
        }
    }
}

/// Returns the endpoints that a name can return (rules K1, K5), alive or not. Without a port, `bits` is empty.
pub(super) fn selectable<'t>(
    service: &'t Service,
    scope: Scope,
    covered: Range<usize>,
    bits: &'t [u64],
) -> Members<'t> {
    let members = service.names.members(covered, bits);
    match scope {
        Scope::Service => members.requiring(Property::Selected),
        Scope::Cluster | Scope::Host => members,
    }
}
