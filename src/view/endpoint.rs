//! Endpoints in documents: their states, and whether the replies for a name contain them. Views and metrics take both from here.

use std::net::IpAddr;
use std::ptr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::age::Age;
use super::document::Column;
use crate::model::{GatewayDown, Port, Protocol};
use crate::table::{Endpoint, EndpointLiveness, Published, Service};
use crate::zone::answer::answer_question;
use crate::zone::{Answer, Name, RecordType, Scope, View, Zones, read_own_name};

/// The report on one endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EndpointReport {
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
    pub ports: Vec<PortReport>,
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

/// The report on one port.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PortReport {
    /// Name, label `P`, if the port has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Protocol, label `R`.
    pub protocol: Protocol,
    /// Port number.
    pub port: u16,
}

/// The state of an endpoint: first whether connections to it can succeed, and if they can, its place in the name of its
/// service, `S.N.Z`. Whether replies contain it is another question.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum EndpointState {
    /// It is alive, and one of the name of its service.
    Alive,
    /// Its gateway is down, or no Link names its cluster (rules M3, L3).
    Down,
    /// Its local pod is not ready, or no pod behind its cluster IP is.
    NotReady,
    /// It is alive, and another step of the failover order answers (rule K5).
    Standby,
    /// It is alive, and a better kind answers for its cluster (rule K1).
    Omitted,
}

/// What the replies for a name contain of a service.
#[derive(Clone, Debug)]
pub enum NameReply<'t> {
    /// The endpoints of a part of the service.
    Endpoints(View<'t>),
    /// Nothing, because the name fails. It has the reason.
    Failing(String),
    /// Nothing. It has the reason.
    Nothing(&'static str),
}

/// Returns whether an endpoint can be returned only because nothing better is left, and no setting includes it.
pub(super) fn is_last_resort(service: &Service, endpoint: &Endpoint) -> bool {
    let is_included = service.gateway_down == GatewayDown::Include
        && endpoint.liveness != EndpointLiveness::Unlinked;
    !endpoint.is_alive() && !is_included
}

// === impl EndpointState ===

impl EndpointState {
    /// Returns all endpoints of a service with their states, and whether the replies for the name of the service contain
    /// them.
    pub fn of_service(service: &Service) -> impl Iterator<Item = (&Endpoint, Self, bool)> {
        NameReply::of_own_name(service).endpoints(service)
    }

    /// Returns the state of an endpoint of the table. Its pod is ready if it is one of this cluster.
    fn of(endpoint: &Endpoint) -> Self {
        match endpoint.liveness {
            EndpointLiveness::GatewayDown | EndpointLiveness::Unlinked => Self::Down,
            EndpointLiveness::NotReady => Self::NotReady,
            EndpointLiveness::Alive if endpoint.is_standby => Self::Standby,
            EndpointLiveness::Alive if endpoint.is_selected => Self::Alive,
            EndpointLiveness::Alive => Self::Omitted,
        }
    }

    /// Returns whether connections can succeed.
    pub fn is_alive(self) -> bool {
        match self {
            Self::Alive | Self::Standby | Self::Omitted => true,
            Self::Down | Self::NotReady => false,
        }
    }

    /// Returns the state's name in reports and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

// === impl NameReply ===

impl<'t> NameReply<'t> {
    /// Returns what the replies for the own name of a service contain of it. Another zone may hide that name.
    pub fn of_own_name(service: &'t Service) -> Self {
        match read_own_name(service) {
            Ok(view) => Self::Endpoints(view),
            Err(Some(failure)) => Self::Failing(failure.to_string()),
            Err(None) => Self::Nothing("the name does not exist"),
        }
    }

    /// Returns what the replies for a name contain. The reply for type ANY has records of a service if one for any type has
    /// some.
    pub fn of_name(zones: &'t Zones, now: &'t Published, name: &Name) -> Self {
        let answer = answer_question(zones, now, name, RecordType::ANY);
        match (answer.failure(), answer) {
            (Some(failure), _) => Self::Failing(failure),
            (None, Answer::Data(view, _)) => Self::Endpoints(view),
            (None, Answer::NxDomain(_) | Answer::Refused) => {
                Self::Nothing("the name does not exist")
            }
            (None, _) => Self::Nothing("the name has no records of endpoints"),
        }
    }

    /// Returns all endpoints of a service with their states, and whether the replies contain them.
    pub fn endpoints(
        &self,
        service: &'t Service,
    ) -> impl Iterator<Item = (&'t Endpoint, EndpointState, bool)> + use<'t> {
        let view = match self {
            Self::Endpoints(view) => Some(view),
            Self::Failing(_) | Self::Nothing(_) => None,
        };
        // All are in the order of the table.
        let mut returned = view.map(View::endpoints).into_iter().flatten().peekable();
        let of_table = service.endpoints.iter().map(move |endpoint| {
            let is_returned = returned.next_if(|one| ptr::eq(*one, endpoint)).is_some();
            (endpoint, EndpointState::of(endpoint), is_returned)
        });
        let not_ready = service.not_ready.iter();
        of_table.chain(not_ready.map(|endpoint| (endpoint, EndpointState::NotReady, false)))
    }

    /// Returns whether the replies contain an endpoint.
    pub fn has(&self, endpoint: &'t Endpoint) -> bool {
        match self {
            Self::Endpoints(view) => view.contains(endpoint),
            Self::Failing(_) | Self::Nothing(_) => false,
        }
    }

    /// Returns the scope of the name, if the replies contain endpoints.
    pub fn scope(&self) -> Option<Scope> {
        match self {
            Self::Endpoints(view) => Some(view.scope),
            Self::Failing(_) | Self::Nothing(_) => None,
        }
    }

    /// Reports all endpoints of a service.
    pub fn reports(
        &self,
        service: &'t Service,
    ) -> impl Iterator<Item = EndpointReport> + use<'t, '_> {
        self.endpoints(service)
            .map(|(endpoint, state, returned)| self.report(service, endpoint, state, returned))
    }

    /// Reports one of the endpoints of [`NameReply::endpoints`].
    pub fn report(
        &self,
        service: &Service,
        endpoint: &Endpoint,
        state: EndpointState,
        returned: bool,
    ) -> EndpointReport {
        EndpointReport {
            returned,
            why: self.why(service, endpoint, state, returned),
            age: service
                .problem_of(endpoint)
                .map(Age::from)
                .unwrap_or_default(),
            ..EndpointReport::new(service, endpoint, state)
        }
    }

    /// Returns why an endpoint has its state, and why it is returned or not. Returns `None` if it is alive and returned.
    fn why(
        &self,
        service: &Service,
        endpoint: &Endpoint,
        state: EndpointState,
        is_returned: bool,
    ) -> Option<String> {
        let cause = match (state, endpoint.liveness) {
            (EndpointState::Down, EndpointLiveness::Unlinked) => "no Link names its cluster",
            (EndpointState::Down, _) => "its gateway is down",
            (EndpointState::NotReady, EndpointLiveness::NotReady) => {
                "no pod behind its address is ready"
            }
            (EndpointState::NotReady, _) => return Some("its pod is not ready".to_owned()),
            (EndpointState::Alive | EndpointState::Standby | EndpointState::Omitted, _) => "",
        };
        let is_elsewhere = matches!(self, Self::Endpoints(view) if !view.covers(endpoint));
        let place = match endpoint {
            _ if is_elsewhere || is_returned && !state.is_alive() => "",
            one if one.is_standby => "another step of the failover order answers",
            one if !one.is_selected => "a better kind answers for its cluster",
            _ => "",
        };
        let is_explained = !(cause.is_empty() && place.is_empty());
        let reply = match (self, state) {
            (_, EndpointState::Alive) if is_returned => String::new(),
            (_, EndpointState::Standby | EndpointState::Omitted) if is_returned => {
                "returned for names of its cluster".to_owned()
            }
            _ if is_returned && is_last_resort(service, endpoint) => {
                "returned because nothing better is left".to_owned()
            }
            _ if is_returned => "returned because gateway-down is include".to_owned(),
            (Self::Endpoints(view), _) if is_elsewhere => match view.scope {
                Scope::Host => "the name is that of another endpoint".to_owned(),
                Scope::Cluster | Scope::Service => {
                    let cluster = view.covered().first().map_or("", |one| one.labels()[1]);
                    format!("the name is that of cluster '{cluster}'")
                }
            },
            (Self::Failing(reason), _) => format!("the name fails: {reason}"),
            _ if is_explained => String::new(),
            (Self::Endpoints(_), _) => "it lacks the port".to_owned(),
            (Self::Nothing(reason), _) => (*reason).to_owned(),
        };
        let reasons: Vec<&str> = [cause, place, &reply]
            .into_iter()
            .filter(|one| !one.is_empty())
            .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

// === impl EndpointReport ===

impl EndpointReport {
    /// Returns the columns of [`Self::cells`].
    pub(super) fn columns() -> [Column; 10] {
        [
            Column::text("RETURNED"),
            Column::text("CLUSTER"),
            Column::text("HOST"),
            Column::text("ADDRESSES"),
            Column::text("PORTS"),
            Column::text("STATE"),
            Column::time("SINCE"),
            Column::wide("KIND"),
            Column::text("OBJECT"),
            Column::text("WHY"),
        ]
    }

    /// Returns the endpoint as cells.
    pub(super) fn cells(&self) -> [String; 10] {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let ports: Vec<String> = self.ports.iter().map(PortReport::to_text).collect();
        let returned = if self.returned { "yes" } else { "no" };
        [
            returned.to_owned(),
            self.cluster.clone(),
            self.hostname.clone(),
            addresses.join(" "),
            ports.join(" "),
            self.state.name().to_owned(),
            self.age.cell(),
            self.kind.clone(),
            self.object.clone(),
            self.why.clone().unwrap_or_default(),
        ]
    }

    /// Makes the report on an endpoint of a service that is not returned.
    fn new(service: &Service, endpoint: &Endpoint, state: EndpointState) -> Self {
        let objects: Vec<String> = endpoint.objects.iter().map(ToString::to_string).collect();
        let [hostname, cluster] = endpoint.labels().map(str::to_owned);
        let addresses = endpoint.addresses.iter();
        Self {
            namespace: service.key.namespace.to_string(),
            service: service.key.service.to_string(),
            cluster,
            hostname,
            kind: endpoint.kind.to_string(),
            addresses: addresses.map(|address| address.ip).collect(),
            ports: endpoint.ports.iter().map(PortReport::new).collect(),
            state,
            returned: false,
            why: None,
            age: Age::default(),
            object: objects.join(" "),
        }
    }
}

// === impl PortReport ===

impl PortReport {
    fn new(port: &Port) -> Self {
        let name = port.name.as_ref().map(ToString::to_string);
        Self {
            name,
            protocol: port.protocol,
            port: port.number,
        }
    }

    fn to_text(&self) -> String {
        let protocol = match self.protocol {
            Protocol::Tcp => "",
            Protocol::Udp => "/udp",
            Protocol::Sctp => "/sctp",
        };
        let name = self
            .name
            .as_ref()
            .map(|name| format!("{name}:"))
            .unwrap_or_default();
        format!("{name}{}{protocol}", self.port)
    }
}
