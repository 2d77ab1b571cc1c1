//! A [`Change`]: what happened to one service, or to several in the same way. The log, `/api/v1/events`, `global-dns events` and the
//! status page show this one struct.

use std::collections::BTreeSet;
use std::iter;

use serde::Serialize;
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::model::{ClusterName, Line, Namespace, ServiceKey, list_some};

/// The kinds of changes. Their names are values of `kind` in `/api/v1/events`.
#[derive(Serialize, EnumString, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ChangeKind {
    /// A cluster has its first endpoint of a service.
    #[default]
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
    /// A service owns its short name or not any more, or another name hides a part of it.
    ShortName,
}

/// A change of one service, or the same change of several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The kind.
    pub kind: ChangeKind,
    /// The services, each once, at most [`MAX_KEYS`]; in JSON `namespace/name`. With the cluster, they are the keys of the change.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
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
pub(super) const MAX_ENDPOINTS: usize = 5;

/// Maximum number of characters of each text of an event. A setting may be longer.
pub const MAX_TEXT: usize = 400;

/// Maximum length of the causes of a change, in octets.
const MAX_CAUSES: usize = 200;

/// The kinds of changes that undo each other.
const OPPOSITES: [[ChangeKind; 2]; 4] = [
    [ChangeKind::Joined, ChangeKind::Left],
    [ChangeKind::Grew, ChangeKind::Shrank],
    [ChangeKind::Down, ChangeKind::Up],
    [ChangeKind::Linked, ChangeKind::Unlinked],
];

// === impl Change ===

impl Change {
    /// Makes a change with a sentence of its own.
    pub fn new(kind: ChangeKind, text: impl Into<Line>) -> Self {
        Self {
            kind,
            text: text.into(),
            count: 1,
            ..Self::default()
        }
    }

    /// Makes a change between two states, with what was seen that explains it. It has no sentence yet.
    pub(super) fn between(
        kind: ChangeKind,
        before: Option<String>,
        after: Option<String>,
        cause: Option<String>,
    ) -> Self {
        Self {
            before: before.map(Line::from),
            after: after.map(Line::from),
            cause: cause.map(Line::from),
            ..Self::new(kind, "")
        }
    }

    /// Sets its service, and writes its sentence.
    pub(super) fn of_service(mut self, service: &ServiceKey) -> Self {
        self.services = [service.clone()].into();
        self.described()
    }

    /// Returns whether clients may notice it: `warn` in the log.
    pub fn is_trouble(&self) -> bool {
        match self.kind {
            ChangeKind::Down | ChangeKind::Unlinked | ChangeKind::Frozen => true,
            ChangeKind::Failing => self.after.is_some(),
            _ => false,
        }
    }

    /// Returns the namespace of its services. A change of a Link has none.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.services.first().map(|service| &service.namespace)
    }

    /// Returns whether one change can stand for it and for another one of the same namespace and cluster.
    pub fn is_like(&self, other: &Self) -> bool {
        self.kind == other.kind && self.is_trouble() == other.is_trouble()
    }

    /// Returns whether another change of the same namespace and cluster undoes it for one of its services.
    pub fn is_undone_by(&self, later: &Self) -> bool {
        let kinds = [self.kind, later.kind];
        let is_back_to_before = self.before != self.after && self.before == later.after;
        let is_back = OPPOSITES
            .iter()
            .any(|&[one, other]| kinds == [one, other] || kinds == [other, one])
            || self.kind == later.kind
                && (later.is_trouble() != self.is_trouble() || is_back_to_before);
        is_back
            && (!self.services.is_disjoint(&later.services)
                || self.services.is_empty() && later.services.is_empty())
    }

    /// Adds a later change that is like it.
    pub fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.cause = match (self.cause.take(), &later.cause) {
            (Some(first), Some(later)) if !first.contains(&**later) && first.len() < MAX_CAUSES => {
                Some(format!("{first}; {later}").into())
            }
            (first, later) => first.or_else(|| later.clone()),
        };
        let is_same = self.services == later.services;
        if is_same && self.endpoints == later.endpoints {
            self.after.clone_from(&later.after);
        } else {
            // Addresses of one endpoint do not describe another one. A name that fails has a reason.
            self.before = None;
            self.after = match self.kind {
                ChangeKind::Failing if self.after == later.after => self.after.take(),
                ChangeKind::Failing => Some("for several reasons".into()),
                _ => None,
            };
            self.endpoints.extend(later.endpoints.iter().cloned());
            let mut seen = BTreeSet::new();
            self.endpoints
                .retain(|one| is_same && seen.insert(one.clone()));
            self.endpoints.truncate(MAX_ENDPOINTS);
        }
        self.services.extend(later.services.iter().cloned());
        while self.services.len() > MAX_KEYS {
            self.services.pop_last();
        }
        *self = std::mem::take(self).described();
    }

    /// Cuts its texts to [`MAX_TEXT`].
    pub fn truncated(mut self) -> Self {
        let cut = |text: Option<Line>| text.map(|text| text.truncated(MAX_TEXT - 1)); // and a mark
        self.before = cut(self.before);
        self.after = cut(self.after);
        self.cause = cut(self.cause);
        self.text = self.text.truncated(MAX_TEXT - 1);
        self
    }

    /// Writes its sentence.
    pub(super) fn described(mut self) -> Self {
        use ChangeKind::*;
        let of = self.subject();
        let (cluster, place) = match &self.cluster {
            Some(cluster) => (format!("Cluster {cluster}"), format!("cluster {cluster}")),
            None => (
                "The address of all clusters".to_owned(),
                "all clusters".to_owned(),
            ),
        };
        let setting = |what| self.changed(&format!("{what} of {of}"));
        let endpoints = |verb| format!("{cluster} {verb} {of}{}", self.listed());
        let text = match self.kind {
            Joined => endpoints("joined"),
            Left => endpoints("left"),
            Grew => endpoints("has more endpoints of"),
            Shrank => endpoints("has fewer endpoints of"),
            Down => endpoints("is down for"),
            Up => endpoints("is up again for"),
            Address => {
                // Several changes together have no text of one.
                let what = self
                    .before
                    .as_ref()
                    .map_or("address or port", |_| "address");
                self.changed(&format!("The {what} of {place} in {of}{}", self.listed()))
            }
            Kind => self.changed(&format!("The kind of {place} in {of}")),
            Linked => format!("{cluster} is linked again{}", self.affected()),
            Unlinked => format!("{cluster} has no Link{}", self.affected()),
            Frozen => format!("The mirror controller of {place} has stopped"),
            Order => setting("The failover order"),
            Gate => setting("The list of expected clusters"),
            Ttl => setting("The TTL"),
            GatewayDown => setting("The rule for gateways that are down"),
            Step => self.changed(&format!("The step that answers for {of}")),
            // The cause names hosts; the name itself may answer.
            Failing if self.cause.is_some() && self.after.is_some() => {
                format!("Hosts of {of} fail")
            }
            Failing if self.cause.is_some() => format!("Names of {of} do not fail any more"),
            Failing if self.after.is_some() => format!("The name of {of} fails"),
            Failing => format!("The name of {of} answers again"),
            ShortName => setting("The short name"),
        };
        let reason = self.after.as_ref().filter(|_| self.kind == Failing);
        let cause = self.cause.as_ref().or(reason);
        let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
        self.text = format!("{text}{cause}.").into();
        self
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
        let known = self.endpoints.len();
        let more = match known {
            0 => 0,
            _ => self.count.saturating_sub(known),
        };
        let hosts = self.endpoints.iter().map(Line::as_str);
        let hosts = list_some(hosts.chain(iter::repeat_n("", more)), known);
        let addresses = self.after.as_deref().or(self.before.as_deref());
        let addresses = addresses.filter(|_| self.kind != ChangeKind::Address);
        match (hosts.as_str(), addresses) {
            ("", None) => String::new(),
            ("", Some(one)) | (one, None) => format!(" ({one})"),
            (hosts, Some(addresses)) => format!(" ({hosts}: {addresses})"),
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
