//! A [`Problem`]: one fact that a person may have to know. Readers of objects, the build and the server make problems; the
//! log, the metrics and every view print them.
//!
//! One row of [`ROWS`] says what a kind of problem is called, how bad it is, and what a person does about it. No other place
//! repeats it. The manual has a section for each kind.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::{ClusterName, Line, ObjectRef, ServiceKey, Timestamp};

/// One fact that a person may have to know.
///
/// Its time is no part of what it is: problems that differ in it alone are equal. Otherwise, a table that was built later
/// would differ from one with the same answers, and replicas would differ from each other.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The kind, with its row in [`ROWS`].
    pub kind: ProblemKind,
    /// The service that it concerns, if it is known.
    pub service: Option<ServiceKey>,
    /// The object that it concerns.
    pub object: Option<ObjectRef>,
    /// The cluster that it concerns. Of a skipped mirror, before aliases.
    pub cluster: Option<ClusterName>,
    /// The name that it concerns: a short name, a hidden name, a zone or a watch.
    pub name: Option<Line>,
    /// What is wrong in this case, without the subject.
    pub detail: Line,
    /// The time since which it holds, in milliseconds since the Unix epoch. This form keeps results with a problem small.
    since: Option<NonZeroU64>,
}

/// What a problem says, without its detail: the kind, service, object, cluster and name. If it stays, the problem is not a
/// new one.
pub type ProblemFact<'p> = (
    ProblemKind,
    &'p Option<ServiceKey>,
    &'p Option<ObjectRef>,
    &'p Option<ClusterName>,
    &'p Option<Line>,
);

/// Maximum number of characters in [`Problem::detail`]. An annotation of 200 KB must not fill memory, logs and reports.
const MAX_DETAIL: usize = 400;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Intended, or normal for a while. `check` stays green.
    Note,
    /// Deserves attention. `check` is yellow.
    Warning,
    /// Answers are wrong or missing until somebody acts. `check` fails.
    Error,
}

/// What problems of a kind are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// An object, or a part of it, that is not used (rule M9).
    Skipped,
    /// A contradiction between objects, or between names.
    Conflict,
    /// The state of a service.
    State,
    /// The server and its source.
    Server,
}

/// The kinds of problems. The set is fixed, because kinds are values of a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// The object does not match the schema of its kind.
    Undecodable,
    /// An endpoint mirror has no headless mirror of the same cluster and service (M2).
    NoParent,
    /// The annotation names another namespace than that of the object (M1).
    NamespaceMismatch,
    /// A name is not a DNS label or exceeds the limits of DNS.
    BadName,
    /// Clients cannot use the address, or there is none.
    BadAddress,
    /// `excludeClusters` names the cluster of the object.
    ExcludedCluster,
    /// An implementation of the Multi-Cluster Services API made the object, for its own use or as a part of a service of
    /// that API.
    Internal,
    /// Several namespaces have a service of the same name, and no setting assigns the short name. It is ambiguous.
    ShortName,
    /// A canonical name hides a short one.
    Shadowed,
    /// Two sources have one cluster name (rule M6).
    ClusterName,
    /// Two objects have the name of one endpoint.
    Endpoint,
    /// A name returns endpoints of several kinds (rule K1).
    Kind,
    /// A Service of this cluster is a member here but is not exported, so that other clusters do not have it.
    NotExported,
    /// An annotation of a mirror cannot be read, or a TTL is outside its limits.
    Annotation,
    /// An annotation of this server on the Service of this cluster cannot be read (rules K5, K6, K8).
    UnreadableSetting,
    /// An annotation of a mirror counts on the Service of this cluster only (rule K6).
    IgnoredAnnotation,
    /// An order does not apply to one address for several clusters (rule K5).
    UnusedOrder,
    /// Steps come after a step in a flat network, which is always alive (rule K5a).
    FlatStep,
    /// Not the first step of a failover order answers.
    StandbyAnswers,
    /// The step of a failover order that answers has no endpoint, so that the name fails (rule K5).
    StepWithoutEndpoint,
    /// An alias names a service that no mirror or member of this cluster makes.
    UnknownAlias,
    /// A failover order names a cluster that nothing here knows (rule K5a).
    UnknownCluster,
    /// A failover order moves a service with pods by itself (rule K5a).
    AutoWithPods,
    /// The name waits for expected clusters (rule K8).
    ExpectedClustersMissing,
    /// Expected clusters are missing, and the name does not wait for them (rule K8).
    ClusterMissing,
    /// A headless Service of this cluster is a member only while a mirror of its name exists (rule M5).
    MemberByMirror,
    /// The gateway of endpoints is down (rule M3).
    GatewayDown,
    /// A Service with a cluster IP has no ready endpoint.
    ServiceNotReady,
    /// Pods of this cluster are not ready.
    PodNotReady,
    /// A headless mirror has no endpoint mirror.
    NoEndpointMirror,
    /// A headless mirror lists hosts that have no endpoint mirror.
    MissingHost,
    /// The pods behind endpoint mirrors listen on another port than that of the exported Service.
    DeadPort,
    /// A headless Service of this cluster does not join the service of its name (rule M5).
    NotAMember,
    /// No Link names a cluster of Linkerd's mirrors (rule L3).
    Unlinked,
    /// The mirror controller of a cluster has stopped (rule L4).
    Frozen,
    /// Links or Leases cannot be read, or there are none (rule L2).
    LinksUnknown,
    /// There is no complete table yet.
    NoTable,
    /// The process has received a signal to terminate.
    ShuttingDown,
    /// Endpoints of this cluster have the default cluster name (rule M6).
    DefaultClusterName,
    /// A watch has not been listed yet.
    NotListed,
    /// A watch, a list or a file fails.
    SourceFailed,
    /// The source or the update loop panicked and was restarted.
    SourcePanicked,
    /// Log lines were lost.
    LogLinesLost,
    /// A client that `limits.allow` excludes sent queries.
    RefusedClient,
    /// The certificate of the encrypted listeners is not valid yet.
    CertificateNotYetValid,
    /// The certificate of the encrypted listeners expires soon.
    CertificateExpires,
    /// The certificate of the encrypted listeners has expired.
    CertificateExpired,
}

/// What is known about a kind of problem.
#[derive(Clone, Copy, Debug)]
pub struct ProblemRow {
    /// The kind.
    pub kind: ProblemKind,
    /// Its name in JSON, metrics and the log, and the anchor of its section in the manual.
    pub name: &'static str,
    /// What it is about.
    pub family: Family,
    /// How bad it is.
    pub level: Level,
    /// What is wrong, without the subject and without a full stop.
    pub sentence: &'static str,
    /// What a person does.
    pub hint: &'static str,
}

/// The rows, in the order of the kinds: a line for the facts, and the hint below it.
#[rustfmt::skip]
pub static ROWS: [ProblemRow; 47] = {
    use Family::{Conflict, Server, Skipped, State};
    use Level::{Error, Note, Warning};
    use ProblemKind as K;
    const fn row(
        kind: ProblemKind,
        name: &'static str,
        family: Family,
        level: Level,
        sentence: &'static str,
        hint: &'static str,
    ) -> ProblemRow {
        ProblemRow {
            kind,
            name,
            family,
            level,
            sentence,
            hint,
        }
    }
    [
        row(K::Undecodable, "undecodable", Skipped, Warning, "Object cannot be read",
            "correct the field that the detail names"),
        row(K::NoParent, "no-parent", Skipped, Warning, "Object without its parent",
            "if it stays for ten minutes, delete the object; its controller creates it again if it is needed"),
        row(K::NamespaceMismatch, "namespace-mismatch", Skipped, Warning, "Mirror of a service in another namespace",
            "find out who wrote the annotation: Linkerd mirrors a service into the namespace of the same name"),
        row(K::BadName, "bad-name", Skipped, Warning, "Name is not valid in DNS",
            "rename the Service, the pod or the cluster that the detail names, or correct the label"),
        row(K::BadAddress, "bad-address", Skipped, Warning, "Address cannot be used",
            "correct the address, or delete the object"),
        row(K::ExcludedCluster, "excluded-cluster", Skipped, Note, "Cluster is excluded",
            "nothing, or remove the cluster from excludeClusters"),
        row(K::Internal, "internal", Skipped, Note, "Object is internal to the Multi-Cluster Services API",
            "nothing: the implementation of that API keeps the object for its own use"),
        row(K::ShortName, "short-name", Conflict, Error, "Short name is ambiguous",
            "assign it with the same settings in every cluster: shortNames.pinned, shortNames.defaultNamespace, or \
            shortNames.which: pinned"),
        row(K::Shadowed, "shadowed", Conflict, Warning, "Name hides another name",
            "query the hidden service by its name with a namespace, or rename one of the two"),
        row(K::ClusterName, "cluster-name", Conflict, Warning, "Cluster name has several sources",
            "give each cluster a name of its own with clusterName and clusterAliases"),
        row(K::Endpoint, "endpoint", Conflict, Warning, "Endpoint has several sources",
            "delete the object that does not belong to the endpoint, or rename one of the two pods"),
        row(K::Kind, "kind", Conflict, Note, "Name has endpoints of several kinds",
            "nothing, or export the service in the same way in every cluster; for a headless one, turn on \
            enableHeadlessServices for the link (it is off by default) and give the pods hostnames"),
        row(K::NotExported, "not-exported", Conflict, Warning, "Member is not exported",
            "export the Service with label mirror.linkerd.io/exported=true, or set localMembers: exported"),
        row(K::Annotation, "annotation", Conflict, Warning, "Annotation is not valid",
            "correct the annotation; Linkerd copies that of an exported Service to its mirrors"),
        row(K::UnreadableSetting, "unreadable-setting", State, Error, "Setting of a service cannot be read",
            "correct the annotation of the Service of this cluster"),
        row(K::IgnoredAnnotation, "ignored-annotation", State, Note, "Annotation of a mirror is ignored",
            "set the annotation on the Service of this cluster, which alone decides"),
        row(K::UnusedOrder, "unused-order", State, Error, "Failover order does not apply",
            "remove the order, or export the service so that each cluster has an address of its own"),
        row(K::FlatStep, "flat-step", State, Error, "Later steps of the failover order are not reached",
            "make the step in a flat network the last one, or export the service through a gateway"),
        row(K::StandbyAnswers, "standby-answers", State, Warning, "Standby step of the failover order answers",
            "global-dns explain NAME shows the state of each step; repair the earlier steps"),
        row(K::StepWithoutEndpoint, "step-without-endpoint", State, Error, "Failover step has no endpoint",
            "export the service in a cluster of this step; if its cluster is lost, let another step answer: change annotation \
            global-dns/failover of the Service of this cluster, or in the settings"),
        row(K::UnknownAlias, "unknown-alias", State, Warning, "Alias names an unknown service",
            "export the service in a cluster that is linked, or correct aliases"),
        row(K::UnknownCluster, "unknown-cluster", State, Error, "Failover order names an unknown cluster",
            "correct the name in annotation global-dns/failover of the Service of this cluster, or in the settings; or link the \
            cluster"),
        row(K::AutoWithPods, "auto-with-pods", State, Warning, "Failover order moves a service with pods by itself",
            "remove auto: from the order of a database, so that a person moves its clients"),
        row(K::ExpectedClustersMissing, "expected-clusters-missing", State, Error, "Name waits for expected clusters",
            "link these clusters and export the service there; if one of them is retired, remove it from annotation \
            global-dns/expected-clusters of the Service of this cluster"),
        row(K::ClusterMissing, "cluster-missing", State, Warning, "Expected cluster is missing",
            "link the cluster and export the service there; if it is retired, remove it from annotation \
            global-dns/expected-clusters of the Service of this cluster"),
        row(K::MemberByMirror, "member-by-mirror", State, Note, "Pods of this cluster leave with the last mirror",
            "export the Service: kubectl label service NAME mirror.linkerd.io/exported=true"),
        row(K::GatewayDown, "gateway-down", State, Warning, "Gateway is down",
            "check the gateway in the other cluster and the network to it (linkerd multicluster gateways); gatewayDown \
            decides the answers meanwhile"),
        row(K::ServiceNotReady, "service-not-ready", State, Warning, "Service has no ready endpoint",
            "check the pods of the exported Service in its cluster: it may be scaled to zero; gatewayDown decides the \
            answers meanwhile"),
        row(K::PodNotReady, "pod-not-ready", State, Note, "Pods are not ready",
            "kubectl describe pod shows the readiness probe that fails"),
        row(K::NoEndpointMirror, "no-endpoint-mirror", State, Warning, "Headless mirror without endpoint mirrors",
            "no pod with a hostname is ready in the other cluster, or Linkerd's mirror controller lost the endpoint mirrors; \
            it restores them at the next change there or within ten minutes"),
        row(K::MissingHost, "missing-host", State, Warning, "Hosts without endpoint mirror",
            "global-dns explain NAME shows whether another object has the name of the endpoint mirror; if not, Linkerd's \
            mirror controller creates it at the next change in that cluster, within ten minutes, or when it restarts; update \
            Linkerd: before edge-26.5.1 it deletes endpoint mirrors if two namespaces export headless Services of one name"),
        row(K::DeadPort, "dead-port", State, Error, "Port cannot be reached from other clusters",
            "in the exported Service, set targetPort = port, and restart the pods: an endpoint mirror keeps its first ports"),
        row(K::NotAMember, "not-a-member", State, Note, "Service of this cluster is not a member",
            "nothing, or export it: kubectl label service NAME mirror.linkerd.io/exported=true"),
        row(K::Unlinked, "unlinked", State, Warning, "Cluster has no Link",
            "if the cluster is retired, delete its mirrors: kubectl delete service -A -l mirror.linkerd.io/cluster-name=CLUSTER; \
            otherwise, link it again"),
        row(K::Frozen, "frozen", State, Warning, "Mirror controller has stopped",
            "check the Deployment of the mirror controller of the Link in its namespace; until it works again, mirrors and their \
            liveness stay as they were"),
        row(K::LinksUnknown, "links-unknown", Server, Warning, "State of links is unknown",
            "set links.namespaces to the namespace of the Links, and permit list and watch on links and list on leases there; \
            or set links.enabled: false"),
        row(K::NoTable, "no-table", Server, Error, "No complete table yet",
            "wait for the first list of every watch; the other problems say which of them fails"),
        row(K::ShuttingDown, "shutting-down", Server, Warning, "Server is shutting down",
            "nothing: the other replicas answer"),
        row(K::DefaultClusterName, "default-cluster-name", Server, Warning, "Endpoints have the default cluster name",
            "set clusterName, and a different one in each cluster: databases store the names of their peers"),
        row(K::NotListed, "not-listed", Server, Warning, "Watch is not listed yet",
            "wait; if it stays, the detail names the reason"),
        row(K::SourceFailed, "source-failed", Server, Warning, "Source of objects fails",
            "restore the connection to the API server, or correct the file; the last table is served meanwhile"),
        row(K::SourcePanicked, "source-panicked", Server, Warning, "Source panicked and was restarted",
            "report the panic in the log: it is a defect of this program"),
        row(K::LogLinesLost, "log-lines-lost", Server, Warning, "Log lines were lost",
            "check what reads standard error: it was blocked or failed"),
        row(K::RefusedClient, "refused-client", Server, Error, "Client is refused",
            "add its prefix to limits.allow if it is a resolver of this cluster; otherwise close its way to the server"),
        row(K::CertificateNotYetValid, "certificate-not-yet-valid", Server, Error, "Certificate is not valid yet",
            "correct the clock, or use a certificate that is valid: clients refuse it until then"),
        row(K::CertificateExpires, "certificate-expires", Server, Warning, "Certificate expires soon",
            "renew the certificate of the encrypted listeners"),
        row(K::CertificateExpired, "certificate-expired", Server, Error, "Certificate has expired",
            "renew the certificate of the encrypted listeners: clients refuse it"),
    ]
};

// === impl Problem ===

impl Problem {
    /// Makes a problem without a subject. A long detail is truncated.
    pub fn new(kind: ProblemKind, detail: impl Into<Line>) -> Self {
        Self {
            kind,
            service: None,
            object: None,
            cluster: None,
            name: None,
            detail: detail.into().truncated(MAX_DETAIL),
            since: None,
        }
    }

    /// Sets the service.
    pub fn of_service(self, service: &ServiceKey) -> Self {
        Self {
            service: Some(service.clone()),
            ..self
        }
    }

    /// Sets the object.
    pub fn of_object(self, object: ObjectRef) -> Self {
        Self {
            object: Some(object),
            ..self
        }
    }

    /// Sets the cluster.
    pub fn of_cluster(self, cluster: &ClusterName) -> Self {
        Self {
            cluster: Some(cluster.clone()),
            ..self
        }
    }

    /// Sets the name.
    pub fn of_name(self, name: impl Into<Line>) -> Self {
        Self {
            name: Some(name.into()),
            ..self
        }
    }

    /// Sets the time since which it holds.
    pub fn holds_since(mut self, since: impl Into<Option<Timestamp>>) -> Self {
        self.set_since(since.into());
        self
    }

    /// Sets the time since which it holds.
    pub fn set_since(&mut self, since: Option<Timestamp>) {
        self.since = since.and_then(|since| NonZeroU64::new(since.0));
    }

    /// Returns the time since which it holds, as far as this process knows. A change of the detail does not change it.
    pub fn since(&self) -> Option<Timestamp> {
        self.since.map(|since| Timestamp(since.get()))
    }

    /// Returns what it says, without its detail.
    pub fn fact(&self) -> ProblemFact<'_> {
        let Self {
            kind,
            service,
            object,
            cluster,
            name,
            ..
        } = self;
        (*kind, service, object, cluster, name)
    }

    /// Gives `new` problems the times since which they hold: that of the same problem in `old`, or of one that is gone and
    /// differs in its detail only, or else `now`. Both lists are sorted.
    pub fn carry_times(old: &[Self], new: &mut [Self], now: Timestamp) {
        let gone = old.iter().filter(|one| new.binary_search(one).is_err());
        let gone: BTreeMap<_, _> = gone.map(|one| (one.fact(), one.since())).collect();
        for problem in new {
            let since = match old.binary_search(problem) {
                Ok(index) => old[index].since(),
                Err(_) => gone.get(&problem.fact()).copied().unwrap_or(Some(now)),
            };
            problem.set_since(since);
        }
    }

    /// Returns what it concerns: the object, the name, the service as `namespace/name`, or the cluster. Empty if it concerns
    /// the server.
    pub fn subject(&self) -> Line {
        let object = self.object.as_ref().map(|object| object.to_string().into());
        let service = || Some(self.service.as_ref()?.to_string().into());
        let cluster = || Some(self.cluster.as_ref()?.as_str().into());
        object
            .or_else(|| self.name.clone())
            .or_else(service)
            .or_else(cluster)
            .unwrap_or_default()
    }

    /// Returns it as one sentence with the time since which it holds.
    pub fn with_time(&self) -> String {
        match self.since() {
            Some(since) => format!("{self} (since {})", since.to_text()),
            None => self.to_string(),
        }
    }

    /// Returns whether it is about an object that is not used.
    pub fn is_skip(&self) -> bool {
        self.kind.row().family == Family::Skipped
    }

    /// Returns whether it is a contradiction between objects or names.
    pub fn is_conflict(&self) -> bool {
        self.kind.row().family == Family::Conflict
    }

    /// Returns whether somebody should look at it. Otherwise it is intended, or normal for a while.
    pub fn is_serious(&self) -> bool {
        self.kind.row().level > Level::Note
    }
}

impl PartialEq for Problem {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Problem {}

impl PartialOrd for Problem {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Problem {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.fact(), &self.detail).cmp(&(other.fact(), &other.detail))
    }
}

/// The problem as one sentence: `Object without its parent: Service/prod/db-0-east: …`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.kind.row().sentence, &self.subject(), &self.detail];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        f.write_str(&parts.join(": "))
    }
}

// === impl Level ===

impl Level {
    /// Returns the level's name in reports and in the manual.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

// === impl ProblemKind ===

impl ProblemKind {
    /// Returns the row of the kind.
    pub fn row(self) -> &'static ProblemRow {
        &ROWS[self as usize]
    }

    /// Returns the kinds of a family. Metrics have a value for each, even if it is zero.
    pub fn of_family(family: Family) -> impl Iterator<Item = Self> {
        let rows = ROWS.iter().filter(move |row| row.family == family);
        rows.map(|row| row.kind)
    }

    /// Returns the kind's name in logs, metrics and reports.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the page and the anchor of the kind's section in the manual.
    pub fn anchor(self) -> String {
        format!("problems.html#{}", self.name())
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_row_with_its_name_in_json() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, index, "{}", row.name);
            let json = serde_json::to_string(&row.kind).unwrap();
            assert_eq!(json, format!("\"{}\"", row.name));
        }
    }

    #[test]
    fn each_kind_has_a_section_of_the_manual() {
        let manual = include_str!("../../charts/global-dns/docs/src/problems.md");
        let sections: Vec<&str> = manual
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .collect();
        assert_eq!(sections, ROWS.map(|row| row.name));
    }

    #[test]
    fn problem_keeps_its_time_until_it_is_gone() {
        let at = |second| Timestamp::from_seconds(second);
        let problem = |name: &str, detail: &str| {
            let kind = ProblemKind::ShortName;
            Problem::new(kind, detail).of_name(name)
        };
        let old = ["db: in a, b", "web: in a", "web: in b"];
        let mut list: Vec<Problem> = old
            .iter()
            .map(|text| text.split_once(": ").unwrap())
            .map(|(name, detail)| problem(name, detail).holds_since(at(1)))
            .collect();
        list.sort();
        let mut next = vec![
            problem("api", "in a, b"),
            // Its detail changed.
            problem("db", "in a, b, c"),
            problem("web", "in a"),
            problem("web", "in b"),
            // The others with this name are not gone.
            problem("web", "in c"),
        ];
        Problem::carry_times(&list, &mut next, at(2));
        let times: Vec<_> = next.iter().map(|one| one.since().unwrap()).collect();
        assert_eq!(times, [at(2), at(1), at(1), at(1), at(2)]);
        assert_eq!(next[0], problem("api", "in a, b"));
        assert!(
            next[0]
                .with_time()
                .ends_with(" (since 1970-01-01T00:00:02Z)")
        );
    }

    #[test]
    fn sentence_names_subject_and_detail() {
        let bare = Problem::new(ProblemKind::NoTable, "");
        assert_eq!(bare.to_string(), "No complete table yet");
        let short = Problem::new(ProblemKind::ShortName, "in a and b").of_name("db");
        assert_eq!(short.to_string(), "Short name is ambiguous: db: in a and b");
    }

    #[test]
    fn family_and_level_of_a_problem_are_those_of_its_kind() {
        for (kind, is_skip, is_conflict, is_serious) in [
            (ProblemKind::BadName, true, false, true),
            (ProblemKind::ExcludedCluster, true, false, false),
            (ProblemKind::ShortName, false, true, true),
            (ProblemKind::NoTable, false, false, true),
        ] {
            let one = Problem::new(kind, "");
            let own = (one.is_skip(), one.is_conflict(), one.is_serious());
            assert_eq!(own, (is_skip, is_conflict, is_serious), "{kind}");
        }
        let anchor = ProblemKind::BadName.anchor();
        assert_eq!(anchor, "problems.html#bad-name");
    }
}
