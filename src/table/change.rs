//! A [`Change`]: what happened to one service, or to several in the same way. The log, `/api/v1/events`, `global-dns events` and the
//! status page show this one struct.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::Endpoint;
use crate::model::{ClusterName, Line, ServiceKey, list_some};

/// The kinds of changes. Their names are values of `kind` in `/api/v1/events`.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ChangeKind {
    /// A cluster has its first endpoint of a service.
    Joined,
    /// A cluster has no endpoint of a service any more (rule L5).
    Left,
    /// A cluster has more endpoints of a service.
    Grew,
    /// A cluster has fewer endpoints of a service.
    Shrank,
    /// Connections to endpoints fail: their gateway is down, or nothing behind them is ready.
    Down,
    /// Connections to endpoints succeed again.
    Up,
    /// Endpoints have other addresses or ports.
    Address,
    /// Endpoints of another kind answer for a cluster.
    Kind,
    /// A Link names a cluster again, or its mirror controller works again.
    Linked,
    /// No Link names a cluster.
    Unlinked,
    /// The mirror controller of a cluster has stopped.
    Frozen,
    /// The failover order of a service is another one.
    Order,
    /// The expected clusters of a service are others.
    Gate,
    /// Another step of the failover order answers for a service.
    Step,
    /// The TTL of a service is another one.
    Ttl,
    /// The rule for endpoints that are down is another one.
    GatewayDown,
    /// The name of a service begins or ends to fail.
    Failing,
    /// A caption of `demo --live`.
    Demo,
}

/// A change of one service, or the same change of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The kind.
    pub kind: ChangeKind,
    /// The services, each once, at most [`MAX_KEYS`]; in JSON `namespace/name`. With the cluster, they are the keys of the change.
    #[serde(
        serialize_with = "serialize_keys",
        skip_serializing_if = "BTreeSet::is_empty"
    )]
    pub services: BTreeSet<ServiceKey>,
    /// The cluster, if the change concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// The hostnames of the first endpoints, if the change concerns endpoints of one service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<Line>,
    /// What was there before: addresses, a kind, the text of a setting, a step, or the reason of a failure. Absent if nothing was,
    /// and if the change concerns several services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Line>,
    /// What is there now, in the form of `before`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Line>,
    /// What was seen that explains it, if something was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Line>,
    /// A sentence.
    pub text: Line,
    /// The number of endpoints, or of services for a setting.
    pub count: usize,
}

/// Maximum number of services that a change names.
pub const MAX_KEYS: usize = 100;

/// Maximum number of endpoints that a change names.
const MAX_ENDPOINTS: usize = 5;

/// Maximum length of the causes of a change, in octets.
const MAX_CAUSES: usize = 200;

/// Returns the causes of two changes.
fn merged_cause(first: Option<Line>, later: Option<&Line>) -> Option<Line> {
    match (first, later) {
        (Some(first), Some(later)) if !first.contains(&**later) && first.len() < MAX_CAUSES => {
            Some(format!("{first}; {later}").into())
        }
        (first, later) => first.or_else(|| later.cloned()),
    }
}

fn serialize_keys<S: Serializer>(
    keys: &BTreeSet<ServiceKey>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(keys.iter().map(ToString::to_string))
}

// === impl ChangeKind ===

impl ChangeKind {
    /// Returns the kind of a change in the other direction.
    fn opposite(self) -> Option<Self> {
        Some(match self {
            Self::Joined => Self::Left,
            Self::Left => Self::Joined,
            Self::Grew => Self::Shrank,
            Self::Shrank => Self::Grew,
            Self::Down => Self::Up,
            Self::Up => Self::Down,
            Self::Linked => Self::Unlinked,
            Self::Unlinked => Self::Linked,
            _ => return None,
        })
    }
}

// === impl Change ===

impl Change {
    /// Makes a change with a sentence of its own.
    pub fn new(kind: ChangeKind, text: impl Into<Line>) -> Self {
        Self {
            kind,
            services: BTreeSet::new(),
            cluster: None,
            endpoints: Vec::new(),
            before: None,
            after: None,
            cause: None,
            text: text.into(),
            count: 1,
        }
    }

    /// Makes a change of a setting or a state of a service.
    pub(super) fn of_service(
        kind: ChangeKind,
        service: &ServiceKey,
        [before, after]: [Option<String>; 2],
        cause: Option<String>,
    ) -> Self {
        Self {
            services: [service.clone()].into(),
            before: before.map(Line::from),
            after: after.map(Line::from),
            cause: cause.map(Line::from),
            ..Self::new(kind, "")
        }
        .described()
    }

    /// Adds the cluster and the endpoints.
    pub(super) fn of_endpoints(
        self,
        cluster: Option<&ClusterName>,
        endpoints: &[&Endpoint],
    ) -> Self {
        let hostnames = endpoints.iter().filter_map(|one| one.hostname.as_ref());
        Self {
            cluster: cluster.cloned(),
            endpoints: hostnames
                .take(MAX_ENDPOINTS)
                .map(|host| host.as_str().into())
                .collect(),
            count: endpoints.len().max(1),
            ..self
        }
        .described()
    }

    /// Makes a change of the Link of a cluster.
    pub(super) fn of_link(kind: ChangeKind, cluster: &ClusterName, cause: Option<String>) -> Self {
        Self {
            cluster: Some(cluster.clone()),
            cause: cause.map(Line::from),
            ..Self::new(kind, "")
        }
        .described()
    }

    /// Returns whether clients may notice it: `warn` in the log.
    pub fn is_trouble(&self) -> bool {
        match self.kind {
            ChangeKind::Down | ChangeKind::Unlinked | ChangeKind::Frozen => true,
            ChangeKind::Failing => self.after.is_some(),
            _ => false,
        }
    }

    /// Returns whether another change is of the same cluster and kind, so that one change can stand for both.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.kind, &self.cluster) == (other.kind, &other.cluster)
            && self.is_trouble() == other.is_trouble()
    }

    /// Returns whether another change undoes it for one of its services.
    pub fn is_undone_by(&self, later: &Self) -> bool {
        let is_back = match self.kind.opposite() {
            Some(opposite) => later.kind == opposite,
            None => later.kind == self.kind && later.is_trouble() != self.is_trouble(),
        };
        is_back
            && self.cluster == later.cluster
            && (!self.services.is_disjoint(&later.services)
                || self.services.is_empty() && later.services.is_empty())
    }

    /// Adds a later change of the same cluster and kind.
    pub fn merge(&mut self, later: &Self) {
        // The change of a Link itself counts no endpoint, and its cause is that of all services.
        let are_links = [&*self, later].map(|one| one.services.is_empty());
        self.count = match are_links {
            [true, false] => later.count,
            [_, true] => self.count,
            [false, false] => self.count + later.count,
        };
        let is_of_link = are_links[0] && self.cause.is_some();
        if !is_of_link {
            self.cause = merged_cause(self.cause.take(), later.cause.as_ref());
        }
        let is_same = self.services == later.services;
        let known = self.services.iter().chain(&later.services).cloned();
        self.services = known.take(2 * MAX_KEYS).collect::<BTreeSet<_>>();
        while self.services.len() > MAX_KEYS {
            self.services.pop_last();
        }
        if is_same && self.endpoints == later.endpoints {
            self.after.clone_from(&later.after);
        } else {
            // Addresses of one endpoint do not describe another one.
            (self.before, self.after) = (None, None);
        }
        if is_same {
            let known = self.endpoints.clone();
            let new = later.endpoints.iter().filter(|one| !known.contains(one));
            self.endpoints.extend(new.cloned());
            self.endpoints.truncate(MAX_ENDPOINTS);
        } else {
            self.endpoints.clear();
        }
        self.text = self.sentence().into();
    }

    fn described(mut self) -> Self {
        self.text = self.sentence().into();
        self
    }

    /// Returns what it says.
    fn sentence(&self) -> String {
        use ChangeKind::*;
        let of = self.subject();
        let (cluster, place) = match &self.cluster {
            Some(cluster) => (format!("Cluster {cluster}"), format!("cluster {cluster}")),
            None => (
                "The address of all clusters".to_owned(),
                "all clusters".to_owned(),
            ),
        };
        let text = match self.kind {
            Joined => format!("{cluster} joined {of}{}", self.listed()),
            Left => format!("{cluster} left {of}{}", self.listed()),
            Grew => format!("{cluster} has more endpoints of {of}{}", self.listed()),
            Shrank => format!("{cluster} has fewer endpoints of {of}{}", self.listed()),
            Down => format!("{cluster} is down for {of}{}", self.listed()),
            Up => format!("{cluster} is up again for {of}{}", self.listed()),
            Address => self.changed(&format!("The address of {place} in {of}{}", self.listed())),
            Kind => self.changed(&format!("The kind of {place} in {of}")),
            Linked => format!("{cluster} is linked again{}", self.affected()),
            Unlinked => format!("{cluster} has no Link{}", self.affected()),
            Frozen => format!("The mirror controller of {place} has stopped"),
            Order => self.changed(&format!("The failover order of {of}")),
            Gate => self.changed(&format!("The expected clusters of {of}")),
            Ttl => self.changed(&format!("The TTL of {of}")),
            GatewayDown => self.changed(&format!("The rule for gateways that are down of {of}")),
            Step => self.changed(&format!("The step that answers for {of}")),
            Failing if self.after.is_some() => format!("The name of {of} fails"),
            Failing => format!("The name of {of} answers again"),
            Demo => return self.text.to_string(),
        };
        match (&self.cause, self.kind, &self.after) {
            (Some(cause), ..) => format!("{text}: {cause}."),
            (None, Failing, Some(reason)) => format!("{text}: {reason}."),
            (None, ..) => format!("{text}."),
        }
    }

    /// Returns the services in words.
    fn subject(&self) -> String {
        match self.services.first() {
            Some(one) if self.services.len() == 1 => one.to_string(),
            _ if self.services.len() == MAX_KEYS => format!("{MAX_KEYS} services or more"),
            _ => format!("{} services", self.services.len()),
        }
    }

    /// Returns the number of endpoints in words.
    fn number(&self) -> String {
        match self.count {
            1 => "1 endpoint".to_owned(),
            count => format!("{count} endpoints"),
        }
    }

    /// Returns the endpoints in words, with their addresses if there is one state of them.
    fn listed(&self) -> String {
        if self.services.len() > 1 {
            return format!(", {}", self.number());
        }
        let addresses = match (self.kind, &self.before, &self.after) {
            (ChangeKind::Address, ..) => None,
            (_, before, after) => after.as_ref().or(before.as_ref()),
        };
        let more = self.count.saturating_sub(self.endpoints.len());
        let hosts = match (self.endpoints.is_empty(), more) {
            (true, _) => String::new(),
            (false, 0) => list_some(&self.endpoints, MAX_ENDPOINTS),
            (false, more) => format!(
                "{} and {more} more",
                list_some(&self.endpoints, MAX_ENDPOINTS)
            ),
        };
        match (hosts.is_empty(), addresses) {
            (true, None) => String::new(),
            (true, Some(addresses)) => format!(" ({addresses})"),
            (false, None) => format!(" ({hosts})"),
            (false, Some(addresses)) => format!(" ({hosts}: {addresses})"),
        }
    }

    /// Returns the endpoints that a change of a Link concerns.
    fn affected(&self) -> String {
        if self.services.is_empty() {
            return String::new();
        }
        format!("; {} of {}", self.number(), self.subject())
    }

    /// Returns a sentence with what was there before and what is there now.
    fn changed(&self, subject: &str) -> String {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => format!("{subject} changed from {before} to {after}"),
            (None, Some(after)) => format!("{subject} is now {after}"),
            (Some(before), None) => format!("{subject} ended; it was {before}"),
            (None, None) => format!("{subject} changed"),
        }
    }
}
