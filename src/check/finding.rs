//! The findings of a diagnosis, and the checks that make them.

use std::fmt;

use serde::Serialize;
use strum::IntoStaticStr;

use crate::model::{Line, ProblemKind};

/// A value that a check needs, or the reason why it is missing.
pub type Fact<T> = Result<T, NotChecked>;

/// The reason why something was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotChecked {
    /// The reason, in a few words.
    pub reason: String,
    /// What to do so that it can be checked.
    pub hint: String,
    /// Whether another finding reports the cause, which is then not repeated.
    pub is_consequence: bool,
}

/// The outcome of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nothing to do.
    Green,
    /// Not checked.
    Grey,
    /// Deserves attention.
    Yellow,
    /// Wrong.
    Red,
}

/// A group of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// The API server and permissions.
    ApiServer,
    /// The mirrors that Linkerd creates.
    Mirrors,
    /// The names that are served.
    Names,
    /// The way of queries to the server.
    Dns,
    /// Versions.
    Versions,
    /// Several clusters, compared by `fleet`.
    Fleet,
}

/// The checks, in the order of the report. The manual has a section for each (`docs/src/operate.md#checks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr)]
#[cfg_attr(test, derive(strum::VariantArray))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Check {
    /// The API server answers.
    ApiServer,
    /// The caller has every permission that `serve` needs.
    Permissions,
    /// The caller has no other dangerous permission.
    MorePermissions,
    /// Mirrors exist.
    Mirrors,
    /// Headless mirrors exist.
    HeadlessMirroring,
    /// The cluster of each mirror has a Link.
    OrphanedMirrors,
    /// The mirror controllers work.
    MirrorControllers,
    /// No Link reports that mirroring fails.
    LinkStatus,
    /// The namespaces that Links and flags name exist.
    Namespaces,
    /// Each headless mirror has endpoint mirrors.
    EndpointMirrors,
    /// Every port of an endpoint mirror reaches its pod.
    DeadPorts,
    /// No headless mirror lists gateway addresses.
    ClobberedMirrors,
    /// Each `mirrored-service` label has the value that watches select.
    MirrorLabels,
    /// No mirror needs a name of more than 63 characters.
    LongNames,
    /// Ports of unknown protocol are marked opaque.
    OpaquePorts,
    /// Kubernetes copies the Endpoints of mirrors to EndpointSlices.
    EndpointSlices,
    /// Gateways are up.
    Gateways,
    /// The gateways of this cluster forget the address of a pod that is gone.
    GatewayCache,
    /// Each short name has one owner.
    ShortNames,
    /// There are no other conflicts.
    Conflicts,
    /// No object is skipped.
    SkippedObjects,
    /// Every answer fits into a message.
    AnswerSizes,
    /// The first step of each failover order answers, and every step can.
    FailoverOrders,
    /// No name waits for expected clusters.
    ExpectedClusters,
    /// The server answers.
    Server,
    /// The cluster's DNS forwards the zones to the server.
    Forwarding,
    /// The server answers one name.
    DirectAnswer,
    /// The cluster's DNS answers this name as the server does.
    ClusterAnswer,
    /// Programs that use `/etc/resolv.conf` get this answer.
    Resolver,
    /// The answered addresses accept connections.
    Connections,
    /// Versions of global-dns, Kubernetes and Linkerd.
    Versions,
    /// `fleet`: every cluster can be read.
    FleetClusters,
    /// `fleet`: the replicas of all clusters are current, and have one version, the same zones and equal clocks.
    FleetServers,
    /// `fleet`: each cluster has one name everywhere.
    FleetNames,
    /// `fleet`: each cluster has the others.
    FleetLinks,
    /// `fleet`: each service has the same hosts everywhere.
    FleetServices,
    /// `fleet`: each service has the same settings everywhere.
    FleetSettings,
}

/// What is known about a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckRow {
    /// Its group.
    pub category: Category,
    /// The heading of its section in the manual.
    pub heading: &'static str,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// Its outcome.
    pub health: Health,
    /// One sentence: the condition.
    pub sentence: Line,
    /// One sentence: what to do. `None` if the finding is green.
    pub hint: Option<Line>,
    /// Whether nothing was checked because of the cause that another finding reports.
    pub is_consequence: bool,
    /// The kind of the problems that it prints.
    pub problem: Option<ProblemKind>,
}

/// All findings, in the order of the checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis(pub Vec<Finding>);

// === impl Check ===

impl Check {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns what is known about the check.
    pub fn row(self) -> CheckRow {
        use Category::{ApiServer, Dns, Fleet, Mirrors, Names, Versions};
        let (category, heading) = match self {
            Self::ApiServer => (ApiServer, "API server"),
            Self::Permissions => (ApiServer, "Permissions"),
            Self::MorePermissions => (ApiServer, "More permissions than needed"),
            Self::Mirrors => (Mirrors, "Mirrors"),
            Self::HeadlessMirroring => (Mirrors, "Headless mirroring"),
            Self::OrphanedMirrors => (Mirrors, "Orphaned mirrors"),
            Self::MirrorControllers => (Mirrors, "Mirror controllers"),
            Self::LinkStatus => (Mirrors, "Link status"),
            Self::Namespaces => (Mirrors, "Missing namespaces"),
            Self::EndpointMirrors => (Mirrors, "Missing endpoint mirrors"),
            Self::DeadPorts => (Mirrors, "Dead ports"),
            Self::ClobberedMirrors => (Mirrors, "Overwritten headless mirrors"),
            Self::MirrorLabels => (Mirrors, "Mirror labels"),
            Self::LongNames => (Mirrors, "Long names"),
            Self::OpaquePorts => (Mirrors, "Opaque ports"),
            Self::EndpointSlices => (Mirrors, "EndpointSlices of mirrors"),
            Self::Gateways => (Mirrors, "Gateways"),
            Self::GatewayCache => (Mirrors, "Gateway address cache"),
            Self::ShortNames => (Names, "Short names"),
            Self::Conflicts => (Names, "Other conflicts"),
            Self::SkippedObjects => (Names, "Skipped objects"),
            Self::AnswerSizes => (Names, "Answer sizes"),
            Self::FailoverOrders => (Names, "Failover orders"),
            Self::ExpectedClusters => (Names, "Expected clusters"),
            Self::Server => (Dns, "Server"),
            Self::Forwarding => (Dns, "Forwarding"),
            Self::DirectAnswer => (Dns, "Answer of the server"),
            Self::ClusterAnswer => (Dns, "Answer of the cluster DNS"),
            Self::Resolver => (Dns, "Resolver"),
            Self::Connections => (Dns, "Connections"),
            Self::Versions => (Versions, "Versions"),
            Self::FleetClusters => (Fleet, "Fleet clusters"),
            Self::FleetServers => (Fleet, "Fleet servers"),
            Self::FleetNames => (Fleet, "Fleet cluster names"),
            Self::FleetLinks => (Fleet, "Fleet links"),
            Self::FleetServices => (Fleet, "Fleet hosts of services"),
            Self::FleetSettings => (Fleet, "Fleet settings of services"),
        };
        CheckRow { category, heading }
    }

    pub(super) fn green(self, sentence: impl Into<Line>) -> Finding {
        Finding {
            check: self,
            health: Health::Green,
            sentence: sentence.into(),
            hint: None,
            is_consequence: false,
            problem: None,
        }
    }

    pub(super) fn yellow(self, sentence: impl Into<Line>, hint: impl Into<Line>) -> Finding {
        Finding {
            health: Health::Yellow,
            hint: Some(hint.into()),
            ..self.green(sentence)
        }
    }

    pub(super) fn red(self, sentence: impl Into<Line>, hint: impl Into<Line>) -> Finding {
        Finding {
            health: Health::Red,
            ..self.yellow(sentence, hint)
        }
    }

    /// Makes a red finding about a problem, with the hint of its kind.
    pub(super) fn red_problem(self, kind: ProblemKind, sentence: impl Into<Line>) -> Finding {
        Finding {
            problem: Some(kind),
            ..self.red(sentence, kind.hint())
        }
    }

    /// Lists what is wrong in a yellow finding, or makes a green one if nothing is.
    pub(super) fn yellow_list<T: fmt::Display>(
        self,
        wrong: impl IntoIterator<Item = T>,
        none: &str,
        what: &str,
        hint: &str,
    ) -> Finding {
        match list_some(wrong).as_str() {
            "" => self.green(none),
            wrong => self.yellow(format!("{what}: {wrong}"), hint),
        }
    }

    /// Checks a fact, or reports why it was not checked.
    pub(super) fn check<T>(self, fact: &Fact<T>, check: impl FnOnce(&T) -> Finding) -> Finding {
        match fact {
            Ok(fact) => check(fact),
            Err(reason) => self.not_checked(reason),
        }
    }

    /// Checks two facts, or reports why they were not checked.
    pub(super) fn check_both<T, U>(
        self,
        one: &Fact<T>,
        other: &Fact<U>,
        check: impl FnOnce(&T, &U) -> Finding,
    ) -> Finding {
        self.check(one, |one| self.check(other, |other| check(one, other)))
    }

    /// Makes the finding that nothing was checked.
    pub(super) fn not_checked(self, not_checked: &NotChecked) -> Finding {
        self.part_not_checked(self.row().heading, not_checked)
    }

    /// Makes the finding that a part was not checked.
    pub(super) fn part_not_checked(self, part: &str, not_checked: &NotChecked) -> Finding {
        let sentence = format!("{part}: not checked, {}", not_checked.reason);
        Finding {
            health: Health::Grey,
            is_consequence: not_checked.is_consequence,
            ..self.yellow(sentence, not_checked.hint.clone())
        }
    }
}

// === impl NotChecked ===

impl NotChecked {
    /// Creates a reason with a hint.
    pub fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            hint: hint.into(),
            is_consequence: false,
        }
    }

    /// Creates a reason that another finding reports.
    pub fn consequence(reason: impl Into<String>) -> Self {
        Self {
            is_consequence: true,
            ..Self::new(reason, "fix the cause first, which another line reports")
        }
    }
}

// === impl Category ===

impl Category {
    /// Returns the heading above the category's lines.
    pub fn title(self) -> &'static str {
        match self {
            Self::ApiServer => "API server",
            Self::Mirrors => "Mirrors",
            Self::Names => "Names",
            Self::Dns => "DNS",
            Self::Versions => "Versions",
            Self::Fleet => "Fleet",
        }
    }
}

/// Lists the first few items and the number of the others, so that a report of a thousand problems stays readable.
pub(super) fn list_some<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    crate::model::list_some(all, 5)
}

/// Writes a number with a noun: `1 mirror`, `2 mirrors`.
pub(super) fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}
