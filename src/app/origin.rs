//! The origin of the data of `explain`, `table` and `events`: a running server, or objects.
//!
//! Without flags, it is a ready replica, so that the flags of `serve` need not be repeated. If there is no cluster, or no
//! release in it, a server at the default address of the API answers: `demo`, or `kubectl port-forward`. It never answers
//! in place of a replica that fails, nor if a flag names the cluster. Last, the objects are read directly. No flag says
//! where the data is from then, so the output does ([`ChosenServer`]).

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use futures::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::api::{Api, with_query};
use super::first_table::{FirstTable, first_table};
use super::screen::harmless;
use super::variables::local_api;
use crate::admin::choose_zone;
use crate::cli::{Cluster, KubeconfigArgs, Replica, ReplicaError, ServerArgs, ViewArgs};
use crate::log::error_chain;
use crate::model::{Namespace, Timestamp};
use crate::table::Published;
use crate::zone::Zones;
use crate::zone::print::zone_file;

/// Maximum number of replicas that are tried. All of them rarely fail for different reasons.
const MAX_REPLICAS: usize = 3;

/// Maximum number of other replicas that are compared with the one that answered. A DaemonSet may have hundreds.
const MAX_COMPARED: usize = 8;
/// Maximum time for the status of another replica, or of the server of this host. Replicas are asked at the same time.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);
/// The time after which replicas that differ are compared again. They see a change at different times.
const SETTLING_TIME: Duration = Duration::from_secs(1);
/// Fields of the status that are equal if two replicas answer equally, with their meanings.
const COMPARED: [(&str, &str); 5] = [
    ("version", "version"),
    ("cluster", "cluster name"),
    ("zones", "zones"),
    ("state", "state of the table"),
    ("tableHash", "answers"),
];

/// The origin of a command's data.
pub(super) enum Origin {
    /// A running server.
    Server(Box<RemoteServer>),
    /// The objects of a source. If the command chose them: why no server answers.
    Objects(FirstTable, Option<String>),
}

/// A running server.
pub(super) struct RemoteServer {
    /// Its API.
    pub(super) api: Api,
    choice: Choice,
}

/// Why this server was chosen.
enum Choice {
    /// A flag names it.
    Named,
    /// It is a ready replica.
    Replica(Found),
    /// It answers at the address of [`local_api`], and no replica does, for a reason.
    Local(LocalServer, String),
}

/// No server was found.
#[derive(Debug, thiserror::Error)]
#[error("{error}{}", .tried.as_ref().map_or_else(String::new, |tried| format!("; {tried}")))]
pub(super) struct NoServer {
    /// Why there is no replica.
    error: ReplicaError,
    /// The other place that was tried.
    tried: Option<String>,
}

/// A replica that was found.
struct Found {
    cluster: Arc<Cluster>,
    replica: Replica,
    /// The other ready replicas.
    others: Vec<Replica>,
}

/// The origin of an output that no flag names.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChosenServer {
    /// The namespace and name of the pod that answered. `None`: another server, or the output was computed from objects.
    pod: Option<String>,
    /// The URL of the server of this host that answered, and the name of its cluster.
    #[serde(flatten)]
    local: Option<LocalServer>,
    /// Why the output may differ from the answers of the servers.
    notes: Vec<String>,
}

/// A server of this host.
#[derive(Clone, Debug, Serialize)]
struct LocalServer {
    /// The URL of its API.
    server: String,
    /// Its `--cluster-name`.
    cluster: String,
}

/// A document with its origin.
#[derive(Serialize)]
pub(super) struct ServerDocument<'a, T> {
    #[serde(flatten)]
    pub(super) content: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<&'a ChosenServer>,
}

/// Why a command that reads objects cannot show what was answered earlier.
pub(super) const NO_HISTORY: &str =
    "no server was found, and only a running server knows what was answered earlier";

/// Returns the parameter of the API for a time.
pub(super) fn at_parameter(at: Option<Timestamp>) -> (&'static str, Option<String>) {
    ("at", at.map(Timestamp::to_exact_text))
}

// === impl Origin ===

impl Origin {
    /// Finds the server, or reads the first table of the objects.
    pub(super) async fn find(view: &ViewArgs) -> anyhow::Result<Self> {
        let mut reason = None;
        if !view.reads_objects() {
            match find_server(&view.server, &view.source.kubeconfig).await? {
                Ok(server) => return Ok(Self::Server(Box::new(server))),
                Err(NoServer { error, .. }) if error.is_undecided() => bail!(error),
                // Reading the objects fails for the same reason, and reports it.
                Err(NoServer {
                    error: ReplicaError::NoApiServer { .. },
                    tried,
                }) => {
                    let table = first_table(&view.source, &view.settings.loaded)
                        .await
                        .map_err(|error| match tried {
                            Some(tried) => anyhow!("{error:#}; {tried}"),
                            None => error,
                        })?;
                    return Ok(Self::Objects(table, None));
                }
                Err(NoServer { error, .. }) => {
                    let sentence = format!(
                        "computed from the objects with default settings, not answered by a server: {error} (--direct takes \
                         the flags of serve)"
                    );
                    note(&sentence);
                    reason = Some(sentence);
                }
            }
        }
        let table = first_table(&view.source, &view.settings.loaded).await?;
        Ok(Self::Objects(table, reason))
    }

    /// Finds another replica after the last one has failed. A command that has started with a server stays with servers.
    pub(super) async fn find_again(&mut self, view: &ViewArgs) -> anyhow::Result<()> {
        if let Self::Server(server) = self {
            **server = server
                .find_again(&view.server, &view.source.kubeconfig)
                .await?;
        }
        Ok(())
    }

    /// Takes the replica whose history reaches furthest, if the time is before that of the replica that was found.
    pub(super) async fn reach_back(&mut self, at: Option<Timestamp>) {
        if let (Self::Server(server), Some(at)) = (self, at) {
            server.reach_back(at).await;
        }
    }

    /// Returns the origin, if no flag names it. Compares the server with the other replicas.
    pub(super) async fn chosen_and_compared(&mut self) -> Option<ChosenServer> {
        match self {
            Self::Server(server) => server.chosen_and_compared().await,
            Self::Objects(_, reason) => reason.as_ref().map(|reason| ChosenServer {
                pod: None,
                local: None,
                notes: vec![reason.clone()],
            }),
        }
    }

    /// Returns a document of the server about the current table, or about that of a time. If the origin has objects, `read`
    /// makes the document of their table.
    pub(super) async fn document<T: DeserializeOwned>(
        &mut self,
        path: &str,
        view: &ViewArgs,
        at: Option<Timestamp>,
        read: impl FnOnce(&Zones, &Published) -> T,
    ) -> anyhow::Result<T> {
        match self {
            Self::Server(server) => server.api.read(&with_query(path, [at_parameter(at)])).await,
            Self::Objects(..) if at.is_some() => bail!(NO_HISTORY),
            Self::Objects(table, _) => {
                Ok(read(&view.settings.loaded.zones(&[]), &table.reader.load()))
            }
        }
    }

    /// Returns the current table, or that of a time, as a zone file.
    pub(super) async fn zone_file(
        &mut self,
        view: &ViewArgs,
        at: Option<Timestamp>,
    ) -> anyhow::Result<String> {
        match self {
            Self::Server(server) => {
                let zone = match view.settings.zone.as_slice() {
                    [zone] => Some(zone.name.to_string()),
                    _ => None,
                };
                let output = ("output", Some("zone".to_owned()));
                let query = [output, ("zone", zone), at_parameter(at)];
                server.api.get(&with_query("/api/v1/table", query)).await
            }
            Self::Objects(..) if at.is_some() => bail!(NO_HISTORY),
            Self::Objects(table, _) => {
                let zones = view.settings.loaded.zones(&[]);
                let zone = choose_zone(&zones, None).map_err(|problem| anyhow!(problem))?;
                Ok(zone_file(&zones, zone, &table.reader.load()))
            }
        }
    }
}

// === impl RemoteServer ===

impl RemoteServer {
    /// Returns the replica that was found, with its differences from the other replicas.
    pub(super) async fn chosen_and_compared(&mut self) -> Option<ChosenServer> {
        match &self.choice {
            Choice::Named => None,
            Choice::Replica(Found { replica, .. }) => Some(ChosenServer {
                pod: Some(format!("{}/{}", replica.namespace, replica.pod)),
                local: None,
                notes: self.differences().await,
            }),
            Choice::Local(server, reason) => Some(ChosenServer {
                pod: None,
                local: Some(server.clone()),
                notes: vec![format!("no replica of a cluster answered: {reason}")],
            }),
        }
    }

    /// Finds the server again after it has failed: another replica, if it is one. Never another kind of server, which may have
    /// other data.
    pub(super) async fn find_again(
        &self,
        args: &ServerArgs,
        kubeconfig: &KubeconfigArgs,
    ) -> anyhow::Result<Self> {
        if let Choice::Local(_, reason) = &self.choice {
            return local_server(reason).await.map_err(|tried| anyhow!(tried));
        }
        match &args.server {
            Some(url) => Ok(Self::named(url)),
            None => {
                let cluster = Cluster::open(kubeconfig.access()).await?;
                let cluster = Arc::new(cluster);
                Ok(find_replica(cluster, args.server_namespace.as_ref()).await?)
            }
        }
    }

    fn named(url: &http::Uri) -> Self {
        Self {
            api: Api::at(url),
            choice: Choice::Named,
        }
    }

    /// Takes the replica whose history reaches furthest, if that of this one begins after the time.
    async fn reach_back(&mut self, at: Timestamp) {
        let Choice::Replica(found) = &mut self.choice else {
            return;
        };
        let Some(own) = history_start(&mut self.api).await else {
            return;
        };
        if own <= at {
            return;
        }
        let asked = found.others.iter().take(MAX_COMPARED).enumerate();
        let asked = asked.map(|(index, other)| {
            let cluster = &found.cluster;
            async move {
                let mut api = Api::of_replica(cluster, other).await.ok()?;
                Some((history_start(&mut api).await?, index, api))
            }
        });
        let others = join_all(asked.map(|asked| timeout(STATUS_TIMEOUT, asked))).await;
        let others = others.into_iter().filter_map(|other| other.ok().flatten());
        let furthest = others.min_by_key(|(start, ..)| *start);
        if let Some((start, index, api)) = furthest
            && start < own
        {
            self.api = api;
            std::mem::swap(&mut found.replica, &mut found.others[index]);
        }
    }

    /// Returns a sentence for each other replica that answers differently, or that cannot be compared.
    async fn differences(&mut self) -> Vec<String> {
        let Choice::Replica(found) = &self.choice else {
            return Vec::new();
        };
        let others = found.others.iter().take(MAX_COMPARED);
        let mut differing: Vec<(&Replica, String)> =
            others.map(|other| (other, String::new())).collect();
        for pause in [Duration::ZERO, SETTLING_TIME] {
            if differing.is_empty() {
                break;
            }
            sleep(pause).await;
            let Ok(Ok(own)) = timeout(STATUS_TIMEOUT, status(&mut self.api)).await else {
                let sentence =
                    "other replicas are not compared: this one did not return its status";
                return vec![sentence.to_owned()];
            };
            let compared = differing
                .iter()
                .map(|(other, _)| found.compare(other, &own));
            differing = join_all(compared).await.into_iter().flatten().collect();
        }
        differing
            .into_iter()
            .map(|(_, sentence)| sentence)
            .collect()
    }
}

// === impl Found ===

impl Found {
    /// Compares the status of another replica. Returns it with a sentence if it differs.
    async fn compare<'r>(&self, other: &'r Replica, own: &Value) -> Option<(&'r Replica, String)> {
        let asked = async {
            let mut api = Api::of_replica(&self.cluster, other).await?;
            status(&mut api).await
        };
        let sentence = match timeout(STATUS_TIMEOUT, asked).await {
            Ok(Ok(status)) => {
                let is_different = |(field, _): &&(&str, &str)| status[*field] != own[*field];
                let differing = COMPARED.iter().filter(is_different);
                let differing: Vec<&str> = differing.map(|(_, meaning)| *meaning).collect();
                if differing.is_empty() {
                    return None;
                }
                let differing = differing.join(", ");
                format!("{other} answers differently; it differs in: {differing}")
            }
            Ok(Err(error)) => format!("not compared with {other}: {error:#}"),
            Err(_) => format!("not compared with {other}: no response"),
        };
        Some((other, sentence))
    }
}

// === impl ChosenServer ===

impl ChosenServer {
    /// Returns the first lines of a text. Each starts with `start`, for example that of a comment.
    pub(super) fn heading(&self, start: &str) -> String {
        let pod = self.pod.iter().map(|pod| format!("answered by pod {pod}"));
        let server = self.local.iter().map(|LocalServer { server, cluster }| {
            format!("answered by the server of this host at {server}, cluster '{cluster}'")
        });
        let notes = self.notes.iter().map(|note| format!("note: {note}"));
        // A reason may come from an API server or a node, and may have several lines.
        let lines = pod
            .chain(server)
            .chain(notes)
            .map(|line| harmless(&line.replace(['\n', '\r'], " ")));
        lines.map(|line| format!("{start}{line}\n")).collect()
    }
}

/// Returns the time at which the history of a server begins.
async fn history_start(api: &mut Api) -> Option<Timestamp> {
    Timestamp::from_text(status(api).await.ok()?["historyStart"].as_str()?)
}

async fn status(api: &mut Api) -> anyhow::Result<Value> {
    api.read("/api/v1/status").await
}

/// Returns the named server, or a ready replica, or the server of this host.
///
/// # Errors
///
/// If the kubeconfig cannot be used. The inner error: if no server can be reached.
pub(super) async fn find_server(
    args: &ServerArgs,
    kubeconfig: &KubeconfigArgs,
) -> anyhow::Result<Result<RemoteServer, NoServer>> {
    if let Some(url) = &args.server {
        return Ok(Ok(RemoteServer::named(url)));
    }
    let is_cluster_named = kubeconfig.is_given() || args.server_namespace.is_some();
    let found = match Cluster::open(kubeconfig.access()).await {
        Ok(cluster) => Ok(find_replica(Arc::new(cluster), args.server_namespace.as_ref()).await),
        Err(error) => Err(error),
    };
    let reason = match &found {
        Ok(Ok(_)) => None,
        // A replica that fails is not replaced: another server has other data.
        Ok(Err(error)) => error.has_no_server().then(|| error.to_string()),
        Err(error) => Some(error_chain(error)),
    };
    let tried = match reason.filter(|_| !is_cluster_named) {
        None => None,
        Some(reason) => match local_server(&reason).await {
            Ok(server) => return Ok(Ok(server)),
            Err(tried) => Some(tried),
        },
    };
    match (found, tried) {
        (Ok(found), tried) => Ok(found.map_err(|error| NoServer { error, tried })),
        (Err(error), None) => Err(error.into()),
        (Err(error), Some(tried)) => bail!("{}; {tried}", error_chain(&error)),
    }
}

/// Returns the server of this host, if one answers. `reason` says why no replica does. The error is a clause.
async fn local_server(reason: &str) -> Result<RemoteServer, String> {
    let server = format!("http://{}", local_api());
    let asked = async {
        let mut api = Api::at(&server.parse()?);
        let status = status(&mut api).await?;
        anyhow::Ok((api, status))
    };
    match timeout(STATUS_TIMEOUT, asked).await {
        Ok(Ok((api, status))) => {
            let cluster = status["cluster"].as_str().unwrap_or_default().to_owned();
            let choice = Choice::Local(LocalServer { server, cluster }, reason.to_owned());
            Ok(RemoteServer { api, choice })
        }
        Ok(Err(_)) | Err(_) => Err(format!(
            "no server answers at {server} either; global-dns demo starts one with sample data"
        )),
    }
}

/// Connects to the first ready replica that responds.
async fn find_replica(
    cluster: Arc<Cluster>,
    namespace: Option<&Namespace>,
) -> Result<RemoteServer, ReplicaError> {
    let mut others = cluster.replicas(namespace).await?;
    let mut index = 0;
    let api = loop {
        match Api::of_replica(&cluster, &others[index]).await {
            Ok(api) => break api,
            Err(error @ ReplicaError::Forbidden { .. }) => return Err(error),
            Err(error) if index + 1 == others.len().min(MAX_REPLICAS) => return Err(error),
            Err(_) => index += 1,
        }
    };
    let replica = others.remove(index);
    let found = Found {
        cluster,
        replica,
        others,
    };
    Ok(RemoteServer {
        api,
        choice: Choice::Replica(found),
    })
}

/// Prints a sentence to standard error. Ignores a stream that cannot be written.
pub(super) fn note(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "note: {}", harmless(sentence));
}
