//! Endpoints in documents: their states, and whether the replies for a name contain them. Views and metrics
//! take both from here.

use std::net::IpAddr;
use std::ptr;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::{Age, Cells, OwnName, Report};
use crate::model::{GatewayDown, Port, join_texts};
use crate::source::SteadyClock;
use crate::table::{Endpoint, EndpointLiveness, Published, Role, Service};
use crate::zone::answer::answer_question;
use crate::zone::{Answer, Name, RecordType, Scope, View, Zones};

/// The report on one endpoint.
#[derive(Serialize)]
pub(super) struct EndpointReport {
    /// Namespace, label `N`.
    pub namespace: String,
    /// Name of its service, label `S`.
    pub service: String,
    /// Cluster, label `C`. Empty for a federated service.
    pub cluster: String,
    /// Hostname, label `H`. Empty for a cluster IP.
    pub hostname: String,
    /// The kind of its source object.
    pub kind: String,
    /// IPv4 and IPv6 addresses.
    pub addresses: Vec<IpAddr>,
    /// Ports.
    pub ports: Vec<Port>,
    /// Whether connections can succeed, and if they can, its place in the name of its service.
    pub state: EndpointState,
    /// Whether the replies for the name contain it.
    pub returned: bool,
    /// Why it has this state, and why it is returned or not. `None` if it is alive and returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Since when it is down or not ready.
    #[serde(flatten)]
    pub age: Age,
    /// Source object. A merged endpoint has several.
    pub object: String,
}

/// The state of an endpoint, the worst first: whether connections to it can succeed, and if they can, its place in the name of
/// its service, `S.N.Z`. Whether replies contain it is another question.
#[derive(Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointState {
    /// Its gateway is down, or no Link names its cluster (rules M3, L3).
    Down,
    /// There is none: the name waits for one of the cluster (rule K8).
    Expected,
    /// Its local pod is not ready, or no pod behind its cluster IP is.
    NotReady,
    /// It is alive, and a better kind answers for its cluster (rule K1).
    Omitted,
    /// It is alive, and another step of the failover order answers (rule K5).
    Standby,
    /// It is alive, and one of the name of its service.
    #[default]
    Alive,
}

/// An endpoint of a service, and whether the replies for a name contain it.
#[derive(Clone, Copy)]
pub struct ListedEndpoint<'t> {
    /// The service.
    pub service: &'t Service,
    /// The endpoint.
    pub endpoint: &'t Endpoint,
    /// Its state.
    pub state: EndpointState,
    /// Whether the replies contain it.
    pub is_returned: bool,
}

/// What the replies for a name contain of a service: the endpoints of a part of it, or nothing, for a reason.
pub(super) struct NameReply<'t>(Result<View<'t>, String>);

// === impl EndpointState ===

impl EndpointState {
    /// Returns the state of an endpoint of the table.
    fn of(endpoint: &Endpoint) -> Self {
        match endpoint.liveness {
            EndpointLiveness::GatewayDown | EndpointLiveness::Unlinked => Self::Down,
            EndpointLiveness::NotReady | EndpointLiveness::PodNotReady => Self::NotReady,
            EndpointLiveness::Alive if endpoint.role == Role::Standby => Self::Standby,
            EndpointLiveness::Alive if endpoint.is_selected() => Self::Alive,
            EndpointLiveness::Alive => Self::Omitted,
        }
    }

    /// Returns whether connections can succeed.
    pub fn is_alive(self) -> bool {
        self >= Self::Omitted
    }

    /// Returns the state's name in reports and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

// === impl ListedEndpoint ===

impl<'t> ListedEndpoint<'t> {
    /// Returns all endpoints of a service. They are returned if the replies for the own name of the service contain them.
    pub(super) fn of_service(
        zones: &'t Zones,
        now: &'t Published,
        service: &'t Service,
    ) -> impl Iterator<Item = Self> {
        NameReply::of_own_name(zones, now, service).endpoints(service)
    }

    /// Returns the cluster, label `C`.
    pub fn cluster(&self) -> &'t str {
        self.endpoint.labels()[1]
    }
}

// === impl NameReply ===

impl<'t> NameReply<'t> {
    /// Returns what the replies for the own name of a service contain of it.
    pub(super) fn of_own_name(zones: &'t Zones, now: &'t Published, service: &Service) -> Self {
        match OwnName::of(zones, service) {
            Some(own) => Self::of_name(zones, now, &own.name),
            None => Self(Err("no zone has its name".to_owned())),
        }
    }

    /// Returns what the replies for a name contain. The reply for type ANY has records of a service if one for any type has
    /// some.
    pub(super) fn of_name(zones: &'t Zones, now: &'t Published, name: &Name) -> Self {
        let answer = answer_question(zones, now, name, RecordType::ANY);
        let reason = match (answer.failure(), answer) {
            (Some(failure), _) => format!("the name fails: {failure}"),
            (None, Answer::Data(view, _)) => return Self(Ok(view)),
            (None, Answer::NxDomain(_) | Answer::Refused) => "the name does not exist".to_owned(),
            (None, _) => "the name has no records of endpoints".to_owned(),
        };
        Self(Err(reason))
    }

    /// Returns all endpoints of a service.
    pub(super) fn endpoints(
        &self,
        service: &'t Service,
    ) -> impl Iterator<Item = ListedEndpoint<'t>> + use<'t> {
        // A zone of one cluster has a service without its aliases.
        let service = match &self.0 {
            Ok(view) if view.service.key == service.key => view.service,
            _ => service,
        };
        // All are in the order of the table.
        let mut returned = self
            .0
            .as_ref()
            .ok()
            .map(View::endpoints)
            .into_iter()
            .flatten()
            .peekable();
        service
            .endpoints
            .iter()
            .chain(&service.not_ready)
            .map(move |endpoint| ListedEndpoint {
                service,
                endpoint,
                state: EndpointState::of(endpoint),
                is_returned: returned.next_if(|one| ptr::eq(*one, endpoint)).is_some(),
            })
    }

    /// Reports one of the endpoints of [`NameReply::endpoints`]. `clock` is that of the process.
    pub(super) fn report(&self, listed: &ListedEndpoint<'_>, clock: SteadyClock) -> EndpointReport {
        let (service, endpoint) = (listed.service, listed.endpoint);
        let [hostname, cluster] = endpoint.labels().map(str::to_owned);
        let addresses = endpoint.addresses.iter();
        let problem = service.problem_of(endpoint);
        EndpointReport {
            namespace: service.key.namespace.to_string(),
            service: service.key.service.to_string(),
            cluster,
            hostname,
            kind: endpoint.kind.to_string(),
            addresses: addresses.map(|address| address.ip).collect(),
            ports: endpoint.ports.to_vec(),
            state: listed.state,
            returned: listed.is_returned,
            why: self.why(listed),
            age: problem.map(Age::from).unwrap_or_default().printed(clock),
            object: join_texts(endpoint.objects.iter(), " "),
        }
    }

    /// Returns why an endpoint has its state, and why it is returned or not. Returns `None` if it is alive and returned.
    fn why(&self, listed: &ListedEndpoint<'_>) -> Option<String> {
        let (endpoint, is_returned) = (listed.endpoint, listed.is_returned);
        if listed.state == EndpointState::Alive && is_returned {
            return None;
        }
        let cause = match (listed.state, endpoint.liveness) {
            (EndpointState::Down, EndpointLiveness::Unlinked) => Some("no Link names its cluster"),
            (EndpointState::Down, _) => Some("its gateway is down"),
            (EndpointState::NotReady, EndpointLiveness::NotReady) => {
                Some("no pod behind its address is ready")
            }
            (EndpointState::NotReady, _) => return Some("its pod is not ready".to_owned()),
            _ => None,
        };
        let is_elsewhere = matches!(&self.0, Ok(view) if !view.covers(endpoint));
        let place = match endpoint {
            one if is_elsewhere || is_returned && !one.is_alive() => None,
            one if one.role == Role::Standby => Some("another step of the failover order answers"),
            one if !one.is_selected() => Some("a better kind answers for its cluster"),
            _ => None,
        };
        let reply = match &self.0 {
            _ if is_returned => Some(why_returned(listed).to_owned()),
            Ok(view) if is_elsewhere => Some(match view.covered().first() {
                Some(one) if view.scope != Scope::Host => {
                    format!("the name is that of cluster '{}'", one.labels()[1])
                }
                _ => "the name is that of another endpoint".to_owned(),
            }),
            Ok(_) if cause.or(place).is_some() => None,
            Ok(_) => Some("it lacks the port".to_owned()),
            Err(reason) => Some(reason.clone()),
        };
        let seen = cause.into_iter().chain(place).map(str::to_owned);
        Some(join_texts(seen.chain(reply), "; "))
    }
}

/// Returns why the replies contain an endpoint that is not alive, or not one of the name of its service.
fn why_returned(listed: &ListedEndpoint<'_>) -> &'static str {
    let is_included = listed.service.gateway_down == GatewayDown::Include
        && listed.endpoint.liveness != EndpointLiveness::Unlinked;
    match listed.endpoint {
        one if one.is_alive() => "returned for names of its cluster",
        _ if is_included => "returned because gateway-down is include",
        _ => "returned because nothing better is left",
    }
}

// === impl EndpointReport ===

impl Report for EndpointReport {
    fn cells(columns: Cells<Self>) -> Cells<Self> {
        columns
            .wide("SERVICE", |one| {
                format!("{}.{}", one.service, one.namespace)
            })
            .text("RETURNED", |one| {
                if one.returned { "yes" } else { "no" }.to_owned()
            })
            .text("CLUSTER", |one| one.cluster.clone())
            .text("HOST", |one| one.hostname.clone())
            .text("ADDRESSES", |one| join_texts(&one.addresses, " "))
            .text("PORTS", |one| join_texts(&one.ports, " "))
            .text("STATE", |one| one.state.name().to_owned())
            .time("SINCE", |one| one.age.cell())
            .wide("KIND", |one| one.kind.clone())
            .text("OBJECT", |one| one.object.clone())
            .text("WHY", |one| one.why.clone().unwrap_or_default())
    }
}
