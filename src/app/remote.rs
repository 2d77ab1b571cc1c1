//! The server that a command asks: a running one, or one that the command makes of objects, in its own process.
//!
//! Without flags, it is a ready replica, so that the flags of `serve` need not be repeated. If there is no cluster, or no
//! release in it, a server at the default address of the API answers: `demo`, or `kubectl port-forward`. It never answers
//! in place of a replica that fails, nor if a flag names the cluster. The first line of the output names who answered.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;
use tokio::time::timeout;

use super::first_table::{FirstTable, first_table};
use super::variables::local_api;
use crate::cli::{
    Api, Cluster, KubeconfigArgs, Output, Replica, ReplicaError, ServerArgs, SourceArgs, ViewArgs,
};
use crate::log::error_chain;
use crate::model::Namespace;
use crate::settings::Settings;
use crate::view::{Document, Filter, Identity, Server, View};

/// Maximum number of replicas that are tried. All of them rarely fail for different reasons.
const MAX_REPLICAS: usize = 3;
/// Maximum time for the response of the server of this host.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(3);

/// The server that a command asks.
pub(super) enum Remote {
    /// A running server.
    Running(Box<RunningServer>),
    /// A server of objects, in this process.
    InProcess {
        /// The server.
        server: Box<Server>,
        /// Its table, which needs its source.
        _table: FirstTable,
    },
}

/// A running server.
pub(super) struct RunningServer {
    /// Its API.
    pub(super) api: Api,
    choice: Choice,
}

/// Why this server was chosen.
enum Choice {
    /// A flag names it.
    Named,
    /// It is a ready replica. The others of its cluster follow.
    Replica(Arc<Cluster>, Replica, Vec<Replica>),
    /// It answers at the address of [`local_api`], and no replica does, for a reason.
    Local(String, String),
}

/// No server was found.
#[derive(Debug, thiserror::Error)]
#[error("{error}{}", .tried.as_ref().map_or_else(String::new, |tried| format!("; {tried}")))]
pub(super) struct NoServer {
    /// Why there is no replica.
    pub(super) error: ReplicaError,
    /// The other place that was tried.
    tried: Option<String>,
}

// === impl Remote ===

impl Remote {
    /// Finds the server, or makes one of the objects that flags name.
    pub(super) async fn find(args: &ViewArgs) -> anyhow::Result<Self> {
        if args.reads_objects() {
            return Self::of_objects(&args.source, &args.settings.loaded).await;
        }
        let found = find_server(&args.server, &args.source.kubeconfig).await?;
        let server = found.map_err(|error| {
            anyhow!("{error}; --direct reads the objects of the cluster instead")
        })?;
        Ok(Self::Running(Box::new(server)))
    }

    /// Makes a server of the first table of a source.
    pub(super) async fn of_objects(
        source: &SourceArgs,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let table = first_table(source, settings).await?;
        let identity = Identity {
            cluster: Some(settings.cluster_name.clone()),
            ..Identity::default()
        };
        let mut server = Server::of_objects(
            table.reader.clone(),
            table.feeds.clone(),
            settings.zones(&[]),
            identity,
        );
        server.settings = Arc::new(serde_json::to_value(settings)?);
        Ok(Self::InProcess {
            server: Box::new(server),
            _table: table,
        })
    }

    /// Returns the document of a view in a form: all pages, or the first one if the filter has a limit.
    pub(super) async fn document(
        &mut self,
        view: View,
        filter: &Filter,
        output: Output,
    ) -> anyhow::Result<Document> {
        match self {
            Self::Running(server) => server.document(view, filter, output).await,
            Self::InProcess { .. } if filter.at.is_some() => {
                bail!("only a running server knows what was answered earlier")
            }
            Self::InProcess { server, .. } => {
                let filter = &mut filter.clone();
                let mut document = crate::view::document(view, server, filter)?;
                while let Some(next) = document.next.take().filter(|_| filter.limit.is_none()) {
                    filter.next = Some(next);
                    document.append(crate::view::document(view, server, filter)?);
                }
                Ok(document)
            }
        }
    }

    /// Returns the objects of a view, without those of the section `causes`, which groups the others.
    pub(super) async fn items(
        &mut self,
        view: View,
        filter: &Filter,
    ) -> anyhow::Result<Vec<Value>> {
        let mut items = match self {
            Self::Running(server) => server.items(view, filter).await?.objects(),
            Self::InProcess { .. } => {
                let document = self.document(view, filter, Output::Json).await?;
                document.objects()
            }
        };
        items.retain(|one| one["section"] != "causes");
        Ok(items)
    }

    /// Returns the status of the server.
    pub(super) async fn status(&mut self) -> anyhow::Result<Value> {
        let items = self.items(View::Status, &Filter::default()).await?;
        let status = items.into_iter().next();
        status.context("the server returned no status")
    }

    /// Returns a line that says who answered.
    pub(super) fn heading(&self, document: &Document) -> String {
        let at = document
            .at
            .as_ref()
            .map_or_else(String::new, |at| format!(", at {at}"));
        match self {
            Self::Running(server) => format!("answered by {}{at}", server.name(document)),
            Self::InProcess { .. } => "computed from objects, not answered by a server".to_owned(),
        }
    }
}

// === impl RunningServer ===

impl RunningServer {
    /// Returns the server with an API that something else than this module has chosen.
    pub(super) fn with_api(api: Api) -> Self {
        Self {
            api,
            choice: Choice::Named,
        }
    }

    /// Returns all objects of a view.
    pub(super) async fn items(&mut self, view: View, filter: &Filter) -> anyhow::Result<Document> {
        self.api.items(view, filter).await
    }

    fn named(url: &http::Uri) -> Self {
        Self::with_api(Api::at(url))
    }

    /// Returns the cluster of the replica that was found.
    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.choice {
            Choice::Replica(cluster, ..) => Some(cluster),
            Choice::Named | Choice::Local(..) => None,
        }
    }

    /// Returns the document of a view. If the history of this replica does not reach back to a time, others are asked.
    pub(super) async fn document(
        &mut self,
        view: View,
        filter: &Filter,
        output: Output,
    ) -> anyhow::Result<Document> {
        loop {
            let asked = match output {
                Output::Json => self.api.items(view, filter).await,
                Output::Text | Output::Wide | Output::Zone => self.api.document(view, filter).await,
            };
            let error = match asked {
                Ok(document) => return Ok(document),
                Err(error) => error,
            };
            let Choice::Replica(cluster, replica, others) = &mut self.choice else {
                return Err(error);
            };
            let is_early = filter.at.is_some() && Api::is_unknown_time(&error);
            let Some(other) = others.pop().filter(|_| is_early) else {
                return Err(error);
            };
            self.api = Api::of_replica(cluster, &other).await?;
            *replica = other;
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

    /// Returns the server's name for people.
    pub(super) fn name(&self, document: &Document) -> String {
        match &self.choice {
            Choice::Named => document.replica.clone(),
            Choice::Replica(_, replica, _) => replica.to_string(),
            Choice::Local(url, reason) => {
                format!("the server of this host at {url} (no replica answered: {reason})")
            }
        }
    }
}

/// Returns the named server, or a ready replica, or the server of this host.
///
/// # Errors
///
/// If the kubeconfig cannot be used. The inner error: if no server can be reached.
pub(super) async fn find_server(
    args: &ServerArgs,
    kubeconfig: &KubeconfigArgs,
) -> anyhow::Result<Result<RunningServer, NoServer>> {
    if let Some(url) = &args.server {
        return Ok(Ok(RunningServer::named(url)));
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
async fn local_server(reason: &str) -> Result<RunningServer, String> {
    let url = format!("http://{}", local_api());
    let asked = async {
        let mut api = Api::at(&url.parse()?);
        api.items(View::Status, &Filter::default()).await?;
        anyhow::Ok(api)
    };
    match timeout(LOCAL_TIMEOUT, asked).await {
        Ok(Ok(api)) => {
            let choice = Choice::Local(url, reason.to_owned());
            Ok(RunningServer { api, choice })
        }
        Ok(Err(_)) | Err(_) => Err(format!(
            "no server answers at {url} either; global-dns demo starts one with sample data"
        )),
    }
}

/// Connects to the first ready replica that responds.
async fn find_replica(
    cluster: Arc<Cluster>,
    namespace: Option<&Namespace>,
) -> Result<RunningServer, ReplicaError> {
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
    Ok(RunningServer {
        api,
        choice: Choice::Replica(cluster, replica, others),
    })
}
