//! Endpoints in documents: their states, and whether the replies for a name contain them. Views and metrics
//! take both from here.

use std::net::IpAddr;
use std::ptr;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::{Age, Cells, OwnName, Report, best_answer};
use crate::model::{GatewayDown, Port, join_texts};
use crate::source::SteadyClock;
use crate::table::{Endpoint, EndpointLiveness, Published, Role, Service};
use crate::zone::{Answer, Name, Scope, View, Zones};

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

/// The answer for a name, which says what of a service it contains. `None`: no zone has its name.
pub(super) struct NameReply<'t>(Option<Answer<'t>>);

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
    /// Returns the cluster, label `C`.
    pub fn cluster(&self) -> &'t str {
        self.endpoint.labels()[1]
    }
}

// === impl NameReply ===

impl<'t> NameReply<'t> {
    /// Reads the answer for the own name of a service.
    pub(super) fn of_own_name(zones: &'t Zones, now: &'t Published, service: &Service) -> Self {
        let own = OwnName::of(zones, service);
        Self(own.and_then(|own| best_answer(zones, now, &own.name)))
    }

    /// Reads the answer for a name.
    pub(super) fn of_name(zones: &'t Zones, now: &'t Published, name: &Name) -> Self {
        Self(best_answer(zones, now, name))
    }

    /// Returns the part of a service that the name stands for, if it has records of one.
    fn view(&self) -> Option<&View<'t>> {
        match &self.0 {
            Some(Answer::Data(view, _)) => Some(view),
            _ => None,
        }
    }

    /// Returns all endpoints of a service. They are returned if the answer contains them.
    pub(super) fn endpoints(
        &self,
        service: &'t Service,
    ) -> impl Iterator<Item = ListedEndpoint<'t>> + use<'t> {
        // A zone of one cluster has a service without its aliases.
        let view = self.view();
        let own = view.filter(|view| view.service.key == service.key);
        let service = own.map_or(service, |view| view.service);
        // All are in the order of the table.
        let mut returned = view.map(View::endpoints).into_iter().flatten().peekable();
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
        let cause = match endpoint.liveness {
            EndpointLiveness::Alive => "",
            EndpointLiveness::Unlinked => "no Link names its cluster",
            EndpointLiveness::GatewayDown => "its gateway is down",
            EndpointLiveness::NotReady => "no pod behind its address is ready",
            EndpointLiveness::PodNotReady => return Some("its pod is not ready".to_owned()),
        };
        let is_elsewhere = self.view().is_some_and(|view| !view.covers(endpoint));
        let place = match endpoint {
            one if is_elsewhere || is_returned && !one.is_alive() => "",
            one if one.role == Role::Standby => "another step of the failover order answers",
            one if !one.is_selected() => "a better kind answers for its cluster",
            _ => "",
        };
        let reply = match &self.0 {
            _ if is_returned => why_returned(listed).to_owned(),
            Some(Answer::Data(view, _)) if is_elsewhere => match view.covered().first() {
                Some(one) if view.scope != Scope::Host => {
                    format!("the name is that of cluster '{}'", one.labels()[1])
                }
                _ => "the name is that of another endpoint".to_owned(),
            },
            Some(Answer::Data(..)) if cause.len() + place.len() > 0 => String::new(),
            Some(Answer::Data(..)) => "it lacks the port".to_owned(),
            Some(Answer::Failed(failure)) => format!("the name fails: {failure}"),
            Some(Answer::NxDomain(_) | Answer::Refused) => "the name does not exist".to_owned(),
            Some(_) => "the name has no records of endpoints".to_owned(),
            None => "no zone has its name".to_owned(),
        };
        let parts = [cause, place, &reply].into_iter();
        Some(join_texts(parts.filter(|part| !part.is_empty()), "; "))
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
