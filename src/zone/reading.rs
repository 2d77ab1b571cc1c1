//! What an owner name can be read as.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Zone;
use crate::mirror::{Port, ServiceKey};
use crate::table::{Endpoint, OwnName, Service, Table};

/// What a name is read as.
#[derive(Clone, Debug)]
pub enum Reading<'t> {
    /// In none of our zones.
    Outside,
    /// A zone's apex.
    Apex(&'t Zone),
    /// `ns.dns.Z`: this server.
    NsHost(&'t Zone),
    /// `dns-version.Z` (Kubernetes DNS specification section 2.2).
    Version(&'t Zone),
    /// An empty non-terminal: no records, but names below.
    Empty(&'t Zone),
    /// A service, or a part of it.
    View(&'t Zone, View<'t>),
    /// An address, in a reverse zone.
    Pointers(&'t Zone, Pointers<'t>),
    /// No such name, and why.
    Missing(&'t Zone, Why),
}

/// A service as an owner name shows it.
#[derive(Clone, Debug)]
pub struct View<'t> {
    /// The service.
    pub service: &'t Service,
    /// Which of its endpoints the name stands for.
    pub scope: Scope,
    /// Those endpoints, before ports and liveness are looked at.
    pub covered: &'t [Endpoint],
    /// The port of a `_P._R.` name.
    pub port: Option<&'t Port>,
    /// What follows `H.C.` in an SRV target.
    pub targets: Targets,
    /// Endpoints whose gateway is down are answered too: decided once per owner name (rule M4).
    pub shows_dead: bool,
}

/// The names that SRV targets are: always names of the service itself, with its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// Those of the family that was asked for: the question's name from label `S` on, which starts at this octet.
    Asked(usize),
    /// The canonical ones, because some of the short family are another service's: `S.N.`, and the zone, which starts
    /// at this octet of the question's name.
    Canonical(usize),
}

/// Which endpoints of a service an owner name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every cluster's.
    Service,
    /// One cluster's.
    Cluster,
    /// One endpoint.
    Host,
}

/// Why a name does not exist: how far it could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// No name of ours has this form.
    NoForm,
    /// No endpoint has such an address.
    NoAddress,
    /// There is no such service.
    NoService,
    /// A short name that belongs to no namespace.
    NoOwner,
    /// The service has no endpoint at all.
    NoEndpoint,
    /// The service has no endpoint in such a cluster.
    NoCluster,
    /// The cluster has no endpoint of such a name.
    NoHost,
    /// No endpoint has such a port.
    NoPort,
}

/// The endpoints that have an address.
#[derive(Clone, Copy, Debug)]
pub struct Pointers<'t> {
    /// The table that they are in.
    pub table: &'t Table,
    /// The services that have such endpoints.
    pub services: &'t BTreeSet<ServiceKey>,
    /// The address.
    pub address: IpAddr,
}

// === impl View ===

impl<'t> View<'t> {
    /// Returns the endpoints that the name answers with, dead or alive as rule M4 decided.
    pub fn endpoints(&self) -> impl Iterator<Item = &'t Endpoint> + Clone + use<'t> {
        let (shows_dead, port) = (self.shows_dead, self.port);
        let has_port = move |endpoint: &Endpoint| match port {
            None => true,
            Some(port) => endpoint.ports.iter().any(|own| same_port(own, port)),
        };
        self.covered
            .iter()
            .filter(move |e| (shows_dead || e.alive) && has_port(e))
    }

    /// Returns what the service's own name shows, if this is it: the rows of A and AAAA, ready to be written.
    pub fn own_name(&self) -> Option<&'t OwnName> {
        let is_own = self.scope == Scope::Service && self.port.is_none();
        is_own.then_some(&self.service.own_name)
    }
}

// === impl Pointers ===

impl<'t> Pointers<'t> {
    /// Returns every endpoint with the address, dead or alive: a name of one endpoint is never filtered (rule M4).
    pub fn endpoints(&self) -> impl Iterator<Item = (&'t Service, &'t Endpoint)> + Clone + use<'t> {
        let Self {
            table,
            services,
            address,
        } = *self;
        let service =
            move |key: &ServiceKey| table.service(key.namespace.as_str(), key.service.as_str());
        services
            .iter()
            .filter_map(service)
            .flat_map(move |service| {
                let has = move |e: &&Endpoint| e.addresses.iter().any(|own| own.ip == address);
                service
                    .endpoints
                    .iter()
                    .filter(has)
                    .map(move |endpoint| (service, endpoint))
            })
    }

    /// Returns the TTL of the records, which is one for all of them (RFC 2181 section 5.2): the smallest of the services'.
    pub fn ttl(&self) -> u32 {
        let ttls = self.endpoints().map(|(service, _)| service.ttl);
        ttls.min().unwrap_or_default()
    }
}

/// Tells whether two ports have one `_P._R.` form.
pub(super) fn same_port(one: &Port, other: &Port) -> bool {
    one.name == other.name && one.protocol == other.protocol
}
