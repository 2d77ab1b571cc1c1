//! A [`Problem`]: one fact that a person may have to know. Readers of objects, the build and the server make problems; the
//! log, the metrics and every view print them.
//!
//! One row of [`ROWS`] says what a kind of problem is called, how bad it is, and what a person does about it. No other place
//! repeats it. The manual has a section for each kind.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::{
    ClusterName, Line, MAX_LISTED, ObjectRef, ServiceKey, Text, Timestamp, list_some, sentence_of,
};

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
    /// The objects that it concerns, the first ones if there are many.
    pub objects: Box<[ObjectRef]>,
    /// How many facts it stands for: there is one problem for each kind, service and cluster.
    pub count: u32,
    /// The cluster that it concerns. Of a skipped mirror, before aliases.
    pub cluster: Option<ClusterName>,
    /// The name that it concerns: a short name, a hidden name, a watch or a file.
    pub name: Option<Line>,
    /// What is wrong in this case, without the subject.
    pub detail: Line,
    /// The kind of the problem that explains it, if one does: of the same service, or of the same feed.
    pub cause: Option<ProblemKind>,
    /// A name of a cluster in a setting that nothing here knows. Who prints the problem searches the nearest one.
    pub unknown: Option<Text>,
    /// What a person does in this case, if that is not the hint of the kind.
    pub remedy: Option<Line>,
    /// The time since which it holds, as far as this process knows. A change of the detail does not change it.
    pub since: Option<Timestamp>,
    /// Whether it held in the first table of this process, so that it began at an unknown time before `since`.
    pub is_older: bool,
}

/// Maximum number of characters in [`Problem::detail`]. An annotation of 200 KB must not fill memory, logs and reports.
const MAX_DETAIL: usize = 400;

/// How bad a problem is.
#[derive(Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The kinds of problems. The set is fixed, because kinds are values of a metric label. Their names are those in JSON, in
/// metrics and in the log, and the anchors of their sections in the manual.
#[derive(Serialize, Deserialize, Display, EnumString, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// A field, a name or an address of an object cannot be used, or an endpoint mirror has no headless mirror of the same cluster
    /// and service (M2).
    UnusableObject,
    /// The annotation names another namespace than that of the object (M1).
    NamespaceMismatch,
    /// An object is not used on purpose: `excludeClusters` names its cluster, it belongs to the Multi-Cluster Services API, or it is a
    /// headless Service of this cluster that does not join the service of its name (rule M5).
    LeftOut,
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
    /// Other clusters cannot mirror an exported Service of this cluster, or not with its pods.
    NotMirrorable,
    /// An annotation `global-dns/…` on the Service of this cluster, or an order, does not do what it says, such as an order that
    /// names a cluster that nothing here knows (rules K5, K6, K8).
    SettingWithoutEffect,
    /// An annotation of a mirror counts on the Service of this cluster only, or cannot be read (rule K6); or the default order does
    /// not apply to one address for several clusters (rule K5).
    IgnoredSetting,
    /// A cluster offers one address where others offer pods (rule K1).
    NoHostnames,
    /// Not the first step of a failover order answers.
    StandbyAnswers,
    /// The step of a failover order that answers has no endpoint, so that the name fails (rule K5).
    StepWithoutEndpoint,
    /// An alias names a service that no mirror or member of this cluster makes.
    UnknownAlias,
    /// A zone is of a cluster that nothing here knows.
    ZoneClusterUnknown,
    /// A failover order moves a service with pods by itself (rule K5a).
    AutoWithPods,
    /// The name waits for expected clusters (rule K8).
    ExpectedClustersMissing,
    /// Expected clusters are missing, and the name does not wait for them (rule K8).
    ClusterMissing,
    /// The gateway of endpoints is down (rule M3).
    GatewayDown,
    /// A Service with a cluster IP has no ready endpoint.
    ServiceNotReady,
    /// The first step of an order that is held is down (rule K5a).
    HeldStepDown,
    /// Pods of this cluster are not ready.
    PodNotReady,
    /// A headless mirror has no endpoint mirror, or lists hosts that have none.
    MissingHost,
    /// The pods behind endpoint mirrors listen on another port than that of the exported Service.
    DeadPort,
    /// A service has more distinct ports than answers can have.
    TooManyPorts,
    /// The build of a service panicked.
    BuildPanicked,
    /// No Link names a cluster of Linkerd's mirrors (rule L3).
    Unlinked,
    /// The mirror controller of a cluster has stopped (rule L4).
    Frozen,
    /// A service changes more than five times a minute.
    Flapping,
    /// Links or Leases cannot be read, or there are none (rule L2).
    LinksUnknown,
    /// Many services went within a minute: all of a namespace, or a tenth of all.
    ServicesGone,
    /// There is no complete table yet.
    NoTable,
    /// The process has received a signal to terminate.
    ShuttingDown,
    /// A watch, a list or a file fails, or a watch has not been listed yet.
    SourceUnavailable,
    /// The source or the update loop panicked and was restarted.
    SourcePanicked,
    /// Log lines were lost.
    LogLinesLost,
    /// A client that `limits.allow` excludes sent queries.
    RefusedClient,
    /// The certificate of the encrypted listeners is not valid: not yet, or no longer.
    CertificateInvalid,
    /// The certificate of the encrypted listeners expires soon, or a changed file of them is unusable. What was loaded before stays
    /// in use.
    CertificateRenewal,
}

/// What is known about a kind of problem.
#[derive(Clone, Copy, Debug)]
pub struct ProblemRow {
    /// The kind.
    pub kind: ProblemKind,
    /// What it is about.
    pub family: Family,
    /// How bad it is.
    pub level: Level,
    /// What is wrong, without the subject and without a full stop.
    pub sentence: &'static str,
    /// What a person does, the harmless first. [`Problem::hint`] fills in `{service}`, `{namespace}` and `{cluster}`.
    pub hint: &'static str,
    /// The kinds of changes that tell it, so that the log needs no line of it.
    pub told_by: &'static [&'static str],
    /// The kinds of problems that it explains: of the same service and cluster, or of the same feed.
    pub explains: &'static [ProblemKind],
}

const fn row(
    kind: ProblemKind,
    family: Family,
    level: Level,
    sentence: &'static str,
    hint: &'static str,
) -> ProblemRow {
    ProblemRow {
        kind,
        family,
        level,
        sentence,
        hint,
        told_by: &[],
        explains: &[],
    }
}

impl ProblemRow {
    const fn told_by(mut self, changes: &'static [&'static str]) -> Self {
        self.told_by = changes;
        self
    }

    const fn explains(mut self, effects: &'static [ProblemKind]) -> Self {
        self.explains = effects;
        self
    }
}

/// The rows, in the order of the kinds: a line for the facts, and the hint below it.
#[rustfmt::skip]
pub static ROWS: [ProblemRow; ProblemKind::VARIANTS.len()] = {
    use Family::{Conflict, Server, Skipped, State};
    use Level::{Error, Note, Warning};
    use ProblemKind::*;
    [
        row(UnusableObject, Skipped, Warning, "Object cannot be used",
            "correct the field, name or address that the detail names; an object without its parent: wait for ten minutes, then \
            delete it: its controller creates it again if it is needed")
            .explains(&[MissingHost]),
        row(NamespaceMismatch, Skipped, Warning, "Mirror of a service in another namespace",
            "find out who wrote the annotation: Linkerd mirrors a service into the namespace of the same name"),
        row(LeftOut, Skipped, Note, "Object is not used on purpose",
            "nothing; if that is not intended, change the setting or the label that the detail names"),
        row(ShortName, Conflict, Error, "Short name is ambiguous",
            "assign it with the same settings in every cluster: shortNames.pinned, shortNames.defaultNamespace, or \
            shortNames.which: pinned"),
        row(Shadowed, Conflict, Warning, "Name hides another name",
            "query the hidden service by its name with a namespace; rename one of the two, or remove one of two zones"),
        row(ClusterName, Conflict, Warning, "Cluster name is not unique",
            "give each cluster a name of its own with clusterName and clusterAliases: databases store the names of their peers; nothing, if \
            two Links mirror one cluster")
            .explains(&[Endpoint]),
        row(Endpoint, Conflict, Error, "Endpoint has several sources",
            "look whether two Links mirror one cluster (kubectl get links -A), and who made each object; rename one of the two pods, or \
            delete the object that no Link made"),
        row(Kind, Conflict, Note, "Name has endpoints of several kinds",
            "nothing, or export the service in the same way in every cluster; for a headless one, turn on \
            enableHeadlessServices for the link (it is off by default) and give the pods hostnames"),
        row(NotExported, Conflict, Warning, "Member is not exported",
            "kubectl label service {service} -n {namespace} mirror.linkerd.io/exported=true --overwrite; or set \
            localMembers: exported"),
        row(NotMirrorable, Conflict, Warning, "Exported service cannot be mirrored",
            "change the Service as the detail says, or do not export it: kubectl label service {service} -n {namespace} \
            mirror.linkerd.io/exported-"),
        row(SettingWithoutEffect, State, Error, "Setting of a service is wrong",
            "correct it: kubectl edit service {service} -n {namespace}")
            .explains(&[StepWithoutEndpoint]),
        row(IgnoredSetting, State, Note, "Setting has no effect here",
            "nothing; or annotate the Service of this cluster, which alone decides; or correct the annotation of the exported Service; or \
            export it so that each cluster has an address; for an annotation of Linkerd, find out who wrote it"),
        row(NoHostnames, State, Warning, "Cluster has one address where others have pods",
            "turn on enableHeadlessServices for the link of cluster {cluster}, and export the service as a headless one there"),
        row(StandbyAnswers, State, Warning, "Standby step of the failover order answers",
            "repair the earlier steps; global-dns explain {service}.{namespace} shows the state of each")
            .told_by(&["step"]),
        row(StepWithoutEndpoint, State, Error, "Failover step has no endpoint",
            "export the service in a cluster of this step")
            .told_by(&["failing"]),
        row(UnknownAlias, State, Warning, "Alias names an unknown service",
            "export the service in a cluster that is linked, or correct aliases"),
        row(ZoneClusterUnknown, State, Warning, "Zone is of an unknown cluster",
            "link cluster {cluster}, or correct zones"),
        row(AutoWithPods, State, Warning, "Failover order moves a service with pods by itself",
            "remove auto: from the order of a database, so that a person moves its clients"),
        row(ExpectedClustersMissing, State, Warning, "Name waits for expected clusters",
            "link these clusters and export the service there; if one of them is retired, remove it: kubectl edit service \
            {service} -n {namespace}")
            .told_by(&["failing"]),
        row(ClusterMissing, State, Warning, "Expected cluster is missing",
            "correct a mistyped name, or remove a retired cluster: kubectl edit service {service} -n {namespace}; otherwise link the \
            cluster and export the service there"),
        row(GatewayDown, State, Warning, "Gateway is down",
            "check the gateway in cluster {cluster} and the network to it (linkerd multicluster gateways); gatewayDown decides \
            the answers meanwhile")
            .told_by(&["down"]),
        row(ServiceNotReady, State, Warning, "Service has no ready endpoint",
            "check the pods of the exported Service in cluster {cluster}: it may be scaled to zero; gatewayDown decides the \
            answers meanwhile")
            .told_by(&["down"]),
        row(HeldStepDown, State, Warning, "Step of a held failover order is down",
            "repair the cluster of the step"),
        row(PodNotReady, State, Note, "Pods are not ready",
            "kubectl describe pod -n {namespace} shows the readiness probe that fails")
            .told_by(&["left", "shrank"]),
        row(MissingHost, State, Warning, "Headless mirror without endpoint mirrors",
            "look whether a pod with a hostname is ready in cluster {cluster}: the service may be scaled to zero there; if one is, wait: \
            Linkerd's mirror controller creates them at the next change there, within ten minutes, or when it restarts; global-dns explain {service}.{namespace} shows whether another object \
            has the name; update Linkerd: before edge-26.5.1 it deletes endpoint mirrors if two namespaces export headless \
            Services of one name")
            .told_by(&["left", "shrank"]),
        row(DeadPort, State, Error, "Port cannot be reached from other clusters",
            "in the exported Service, set targetPort = port, and restart the pods: an endpoint mirror keeps its first ports"),
        row(TooManyPorts, State, Error, "Service has too many ports",
            "remove ports from the exported Services, or give some of them a Service of their own"),
        row(BuildPanicked, State, Error, "Service cannot be built",
            "report the panic in the log: it is a defect of this program"),
        row(Unlinked, State, Warning, "Cluster has no Link",
            "link the cluster again; if it is retired, delete its mirrors: kubectl delete service -A -l \
            mirror.linkerd.io/cluster-name={cluster}"),
        row(Frozen, State, Warning, "Mirror controller has stopped",
            "check the Deployment of the mirror controller of cluster {cluster}; until it works again, mirrors and their \
            liveness stay as they were"),
        row(Flapping, State, Warning, "Service changes too often",
            "global-dns events shows the changes: look for a pod or a gateway that starts again and again, or for two controllers that \
            write the same object"),
        row(LinksUnknown, Server, Warning, "State of links is unknown",
            "set links.namespaces to the namespace of the Links, and permit list and watch on links and list on leases there; \
            or set links.enabled: false"),
        row(ServicesGone, Server, Warning, "Many services are gone",
            "global-dns events shows what left and when: look whether a namespace was deleted, or the API server was restored without \
            its objects; this ends when they are back, or after an hour"),
        row(NoTable, Server, Error, "No complete table yet",
            "wait for the first list of every watch; the other problems say which of them fails"),
        row(ShuttingDown, Server, Warning, "Server is shutting down",
            "nothing: the other replicas answer"),
        row(SourceUnavailable, Server, Warning, "Source of objects is not available",
            "restore what the detail names: the connection to the API server, the permission to list and watch (the chart grants it), or \
            the file; the last table is served meanwhile")
            .explains(&[LinksUnknown]),
        row(SourcePanicked, Server, Warning, "Source panicked and was restarted",
            "report the panic in the log: it is a defect of this program"),
        row(LogLinesLost, Server, Warning, "Log lines were lost",
            "check what reads standard error: it was blocked or failed"),
        row(RefusedClient, Server, Error, "Client is refused",
            "add its prefix to limits.allow if it is a resolver of this cluster; otherwise close its way to the server"),
        row(CertificateInvalid, Server, Error, "Certificate is not valid",
            "correct the clock, or renew the certificate of the encrypted listeners: clients refuse it"),
        row(CertificateRenewal, Server, Warning, "Certificate must be renewed",
            "renew the certificate of the encrypted listeners; correct a changed file: they keep what they loaded before"),
    ]
};

// === impl Problem ===

impl Problem {
    /// Makes a problem without a subject. A long detail is truncated.
    pub fn new(kind: ProblemKind, detail: impl Into<Line>) -> Self {
        Self {
            kind,
            service: None,
            objects: Box::default(),
            count: 1,
            cluster: None,
            name: None,
            unknown: None,
            remedy: None,
            detail: detail.into().truncated(MAX_DETAIL),
            cause: None,
            since: None,
            is_older: false,
        }
    }

    /// Sets the service.
    pub fn of_service(mut self, service: &ServiceKey) -> Self {
        self.service = Some(service.clone());
        self
    }

    /// Sets the object.
    pub fn of_object(mut self, object: ObjectRef) -> Self {
        self.objects = [object].into();
        self
    }

    /// Sets the objects, of which the first ones are kept.
    pub fn of_objects(mut self, objects: impl ExactSizeIterator<Item = ObjectRef>) -> Self {
        self.count = u32::try_from(objects.len()).unwrap_or(u32::MAX);
        self.objects = objects.take(MAX_LISTED).collect();
        self
    }

    /// Sets the name of a cluster that nothing here knows.
    pub fn of_unknown(mut self, name: &str) -> Self {
        self.unknown = Some(name.into());
        self
    }

    /// Adds another problem of the same kind, service and cluster: its objects and its detail, the first ones of many.
    pub fn merge(&mut self, other: Self) {
        let is_known = self.detail.contains(&*other.detail);
        if is_known && other.objects.iter().all(|one| self.objects.contains(one)) {
            return;
        }
        if self.remedy != other.remedy {
            let (own, other) = (self.hint(), other.hint());
            let both = format!("{own}; {other}");
            self.remedy = Some(if own.contains(&other) { own } else { both }.into());
        }
        self.count += other.count;
        if self.objects.len() < MAX_LISTED {
            self.objects = self
                .objects
                .iter()
                .chain(&*other.objects)
                .take(MAX_LISTED)
                .cloned()
                .collect();
        }
        if !is_known && self.detail.chars().count() < MAX_DETAIL {
            let detail = format!("{}; {}", self.detail, other.detail);
            self.detail = Line::from(detail).truncated(MAX_DETAIL);
        }
        self.unknown = self.unknown.take().or(other.unknown);
    }

    /// Returns why it is so, without the value: what the detail says before a colon.
    pub fn reason(&self) -> &str {
        self.detail.split(": ").next().unwrap_or_default()
    }

    /// Adds another object that was skipped for the same reason. The detail stays that of the first one.
    pub fn unite(&mut self, other: &Self) {
        if self.service != other.service {
            self.service = None;
        }
        if self.cluster != other.cluster {
            self.cluster = None;
        }
        self.merge(Self {
            detail: self.detail.clone(),
            ..other.clone()
        });
    }

    /// Returns a detail with its objects, if there are several: the first ones, and the number of the others.
    pub fn with_objects(&self, detail: Line) -> Line {
        if self.objects.len() < 2 {
            return detail;
        }
        let rest = (self.count as usize).saturating_sub(self.objects.len());
        let all = self
            .objects
            .iter()
            .map(ToString::to_string)
            .chain(std::iter::repeat_n(String::new(), rest));
        format!("{detail}: {}", list_some(all, self.objects.len())).into()
    }

    /// Sets the cluster.
    pub fn of_cluster(mut self, cluster: &ClusterName) -> Self {
        self.cluster = Some(cluster.clone());
        self
    }

    /// Sets the name.
    pub fn of_name(mut self, name: impl Into<Line>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the time since which it holds.
    pub fn holds_since(mut self, since: impl Into<Option<Timestamp>>) -> Self {
        self.since = since.into();
        self
    }

    /// Returns what it says without its detail: the kind, service, cluster and name, or the object of one without a service. If it
    /// stays, the problem is not a new one.
    pub fn fact(&self) -> impl Ord + '_ {
        let object = self.objects.first().filter(|_| self.service.is_none());
        (self.kind, &self.service, object, &self.cluster, &self.name)
    }

    /// Returns what it says.
    fn content(&self) -> impl Ord + '_ {
        let content = (&self.detail, &self.remedy, self.cause);
        (self.fact(), self.count, self.objects.first(), content)
    }

    /// Dates new problems: each has the time of the same fact in the last table, or else its own, or `now`. Without a last table, this
    /// is the first one. The last list is sorted.
    pub fn date(last: Option<&[Self]>, new: &mut [Self], now: Timestamp) {
        let known = last.unwrap_or_default();
        for problem in new {
            let same = known.binary_search_by(|one| one.fact().cmp(&problem.fact()));
            (problem.since, problem.is_older) = match same {
                Ok(index) => (known[index].since, known[index].is_older),
                Err(_) => (problem.since.or(Some(now)), last.is_none()),
            };
        }
    }

    /// Notes which of the problems of a service are effects of others: of the same cluster, or of one that concerns no cluster, and
    /// not older than their cause.
    pub fn assign_causes(problems: &mut [Self]) {
        let explains = |cause: &Self, effect: &Self| {
            cause.kind.row().explains.contains(&effect.kind)
                && (cause.cluster.is_none() || cause.cluster == effect.cluster)
                && cause.since <= effect.since
        };
        let causes: Vec<Self> = problems
            .iter()
            .filter(|one| !one.kind.row().explains.is_empty())
            .cloned()
            .collect();
        for effect in problems {
            let cause = causes.iter().find(|cause| explains(cause, effect));
            effect.cause = cause.map(|cause| cause.kind).or(effect.cause);
        }
    }

    /// Returns what it concerns: the object, the name, the service as `namespace/name`, or the cluster. Empty if it concerns
    /// the server.
    pub fn subject(&self) -> Line {
        let object = match &*self.objects {
            [object] => Some(object.to_string().into()),
            _ => None,
        };
        object
            .or_else(|| self.name.clone())
            .or_else(|| Some(self.service.as_ref()?.to_string().into()))
            .or_else(|| Some(self.cluster.as_ref()?.as_str().into()))
            .unwrap_or_default()
    }

    /// Returns the namespace that it concerns, if it concerns one: that of its service, or of its first object.
    pub fn namespace(&self) -> Option<&Text> {
        self.service
            .as_ref()
            .map(|one| one.namespace.text())
            .or_else(|| self.objects.first().map(|one| &one.key.namespace))
    }

    /// Returns what a person does, with the names of what it concerns. The commands can be copied. Empty: its cause says that.
    pub fn hint(&self) -> String {
        if self.cause.is_some() {
            return String::new();
        }
        if let Some(remedy) = &self.remedy {
            return remedy.to_string();
        }
        let [service, namespace] = match &self.service {
            Some(service) => service.labels(),
            None => ["SERVICE", "NAMESPACE"],
        };
        let cluster = self.cluster.as_ref().map_or("CLUSTER", ClusterName::as_str);
        self.kind
            .row()
            .hint
            .replace("{service}", service)
            .replace("{namespace}", namespace)
            .replace("{cluster}", cluster)
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
        self.content().cmp(&other.content())
    }
}

/// The problem as one sentence: `Object without its parent: Service/prod/db-0-east: …`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.with_objects(self.detail.clone());
        let parts = [self.kind.row().sentence, &self.subject(), &detail];
        f.write_str(&sentence_of(&parts))
    }
}

// === impl ProblemKind ===

impl ProblemKind {
    /// Returns the row of the kind.
    pub fn row(self) -> &'static ProblemRow {
        &ROWS[self as usize]
    }

    /// Returns the kind's name in logs, metrics and reports.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the page and the anchor of the kind's section in the manual.
    pub fn anchor(self) -> String {
        format!("problems.html#{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_row_with_its_name_in_json() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, index, "{}", row.kind);
            let json = serde_json::to_string(&row.kind).unwrap();
            assert_eq!(json, format!("\"{}\"", row.kind));
        }
    }

    #[test]
    fn each_kind_has_a_section_of_the_manual() {
        let manual = include_str!("../../charts/global-dns/docs/src/problems.md");
        let sections: Vec<&str> = manual
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .collect();
        assert_eq!(sections, ROWS.map(|row| row.kind.name()));
    }

    #[test]
    fn problem_keeps_its_time_until_it_is_gone() {
        let at = |second| Timestamp::from_seconds(second);
        let problem = |name: &str, detail: &str| {
            let kind = ProblemKind::ShortName;
            Problem::new(kind, detail).of_name(name)
        };
        let old = ["db: in a, b", "web: in a"];
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
        ];
        Problem::date(Some(&list), &mut next, at(2));
        let times: Vec<_> = next.iter().map(|one| one.since.unwrap()).collect();
        assert_eq!(times, [at(2), at(1), at(1)]);
        assert_eq!(next[0], problem("api", "in a, b"));
        // What held in the first table began before it, as long as it holds.
        let mut first = list.clone();
        Problem::date(None, &mut first, at(3));
        Problem::date(Some(&first), &mut next, at(4));
        let is_older: Vec<bool> = next.iter().map(|one| one.is_older).collect();
        assert_eq!(is_older, [false, true, true]);
    }

    #[test]
    fn sentence_names_subject_and_detail() {
        let bare = Problem::new(ProblemKind::NoTable, "");
        assert_eq!(bare.to_string(), "No complete table yet");
        let short = Problem::new(ProblemKind::ShortName, "in a and b").of_name("db");
        assert_eq!(short.to_string(), "Short name is ambiguous: db: in a and b");
    }
    /// Each pair of a cause and its effect, and what keeps them apart.
    #[test]
    fn cause_explains_its_effects_of_the_same_cluster_that_are_not_older() {
        use ProblemKind as K;
        let cluster = |name: &str| name.parse::<ClusterName>().unwrap();
        let at = |kind, name: &str, second| {
            let problem = Problem::new(kind, "").holds_since(Timestamp::from_seconds(second));
            problem.of_cluster(&cluster(name))
        };
        let cause_of = |cause: Problem, effect: Problem| {
            let mut both = [cause, effect];
            Problem::assign_causes(&mut both);
            assert_eq!(both[0].cause, None);
            both[1].cause
        };
        for (cause, effect) in [
            (K::UnusableObject, K::MissingHost),
            (K::ClusterName, K::Endpoint),
            (K::SettingWithoutEffect, K::StepWithoutEndpoint),
            (K::SourceUnavailable, K::LinksUnknown),
        ] {
            assert_eq!(cause.row().explains, [effect]);
            let found = |name, second| cause_of(at(cause, "east", 7), at(effect, name, second));
            assert_eq!(found("east", 7), Some(cause), "{cause}");
            assert_eq!(found("east", 8), Some(cause), "{cause}");
            assert_eq!(found("east", 6), None, "{cause}: it is younger");
            assert_eq!(found("west", 8), None, "{cause}: another cluster");
            // A setting concerns no single cluster.
            let of_service = Problem::new(cause, "");
            assert_eq!(cause_of(of_service, at(effect, "west", 8)), Some(cause));
            assert_eq!(
                cause_of(at(K::Kind, "east", 1), at(effect, "east", 8)),
                None
            );
        }
    }
}
