//! The server that a command asks: a running one, or one that the command makes of objects, in its own process.
//!
//! Without flags, it is a ready replica, so that the flags of `serve` need not be repeated. If there is no cluster, or no
//! release in it, a server at the default address of the API answers: `demo`, or `kubectl port-forward`. It never answers
//! in place of a replica that fails, nor if a flag names the cluster. The first line of the output names who answered.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::first_table::first_table;
use super::variables::local_api;
use crate::cli::{
    Api, Cluster, ConnectError, Form, KubeconfigArgs, Location, Output, Replica, ReplicaError,
    ServerArgs, SourceArgs, ViewArgs, is_unknown_time, print,
};
use crate::log::error_chain;
use crate::model::Namespace;
use crate::settings::Settings;
use crate::view::{Document, Filter, View};

/// Maximum number of replicas that are tried. All of them rarely fail for different reasons.
const MAX_REPLICAS: usize = 3;
/// Maximum time until a server shows that it is alive.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The server that a command asks.
pub(super) struct Remote {
    /// Its API.
    pub(super) api: Api,
    choice: Choice,
}

/// Why this server was chosen.
enum Choice {
    /// A flag names it.
    Named,
    /// It is a ready replica. The others of its cluster follow.
    Replica(Arc<Cluster>, Vec<Replica>),
    /// It answers at the address of [`local_api`], and no replica does, for a reason.
    Local(String),
    /// A flag names the objects. Its table needs the tasks of its source.
    Objects(#[expect(dead_code, reason = "its end ends the tasks")] JoinSet<()>),
}

// === impl Remote ===

impl Remote {
    /// Finds the server, or makes one of the objects that flags name.
    pub(super) async fn find(args: &ViewArgs) -> anyhow::Result<Self> {
        if args.reads_objects() {
            return Self::of_objects(&args.source, &args.settings.loaded).await;
        }
        let hint = "; --direct reads the objects of the cluster instead";
        find_server(&args.server, &args.source.kubeconfig, hint).await
    }

    /// Makes a server of the first table of a source.
    pub(super) async fn of_objects(
        source: &SourceArgs,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let (server, tasks) = first_table(source, settings).await?;
        Ok(Self {
            api: Api::new(Location::InProcess(Box::new(server))),
            choice: Choice::Objects(tasks),
        })
    }

    /// Returns the server at a place that a flag names.
    pub(super) fn named(location: Location) -> Self {
        Self {
            api: Api::new(location),
            choice: Choice::Named,
        }
    }

    /// Returns the cluster of the replica that was found.
    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.choice {
            Choice::Replica(cluster, _) => Some(cluster),
            Choice::Named | Choice::Local(_) | Choice::Objects(_) => None,
        }
    }

    /// Prints the document of a view below the line that says who answered. Returns its exit code.
    pub(super) async fn show(
        &mut self,
        view: View,
        filter: &Filter,
        form: Form,
    ) -> anyhow::Result<ExitCode> {
        let document = self.document(view, filter, form.output).await?;
        let heading = self.heading(&document);
        let exit = document.exit;
        match form.output {
            Output::Json => {}
            Output::Zone => print(&format!("; {heading}\n"))?,
            Output::Text | Output::Wide => print(&format!("{heading}\n\n"))?,
        }
        form.print(document)?;
        Ok(ExitCode::from(exit))
    }

    /// Returns the document of a view. If the history of this replica does not reach back to a time, others are asked.
    async fn document(
        &mut self,
        view: View,
        filter: &Filter,
        output: Output,
    ) -> anyhow::Result<Document> {
        loop {
            let error = match self.api.document(view, filter, output).await {
                Ok(document) => return Ok(document),
                Err(error) => error,
            };
            let is_early = filter.at.is_some() && is_unknown_time(&error);
            match &mut self.choice {
                Choice::Replica(cluster, others) if is_early && !others.is_empty() => {
                    let other = others.remove(0);
                    self.api = Api::new(Location::Replica(cluster.clone(), other));
                }
                _ => return Err(error),
            }
        }
    }

    /// Returns a line that says who answered.
    fn heading(&self, document: &Document) -> String {
        let at = document.at.as_ref();
        let at = at.map_or_else(String::new, |at| format!(", at {at}"));
        match (&self.choice, self.api.location()) {
            (Choice::Objects(_), _) => "computed from objects, not answered by a server".to_owned(),
            (_, Location::Replica(_, replica)) => format!("answered by {replica}{at}"),
            (Choice::Local(reason), Location::Url(url)) => {
                let url = url.to_string();
                let url = url.trim_end_matches('/');
                format!(
                    "answered by the server of this host at {url} (no replica answered: {reason}){at}"
                )
            }
            _ => format!("answered by {}{at}", document.replica),
        }
    }

    /// Finds the server again after it has failed: another replica, if it is one. Never another kind of server, which may have
    /// other data.
    pub(super) async fn find_again(&mut self, namespace: Option<&Namespace>) -> anyhow::Result<()> {
        if let Choice::Replica(cluster, _) = &self.choice {
            *self = find_replica(cluster.clone(), namespace).await?;
        }
        Ok(())
    }
}

/// Returns the named server, or a ready replica, or the server of this host. The error ends with the hint, unless the kubeconfig
/// cannot be used.
pub(super) async fn find_server(
    args: &ServerArgs,
    kubeconfig: &KubeconfigArgs,
    hint: &str,
) -> anyhow::Result<Remote> {
    if let Some(url) = &args.server {
        return Ok(Remote::named(Location::Url(url.clone())));
    }
    let namespace = args.server_namespace.as_ref();
    let found = async {
        let cluster = Cluster::open(kubeconfig.access()).await?;
        find_replica(Arc::new(cluster), namespace).await
    };
    let error = match found.await {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    let mut reason = error_chain(error.as_ref());
    // A replica that fails is not replaced: another server has other data.
    let is_unusable = error.is::<ConnectError>();
    let failed = error.downcast_ref::<ReplicaError>();
    let has_no_server = is_unusable || failed.is_some_and(|failed| failed.has_no_server);
    if has_no_server && !kubeconfig.is_given() && namespace.is_none() {
        let url = format!("http://{}", local_api());
        match responding(Location::Url(url.parse()?)).await {
            Ok(api) => {
                let choice = Choice::Local(reason);
                return Ok(Remote { api, choice });
            }
            Err(_) => {
                reason += &format!(
                    "; no server answers at {url} either; global-dns demo starts one with sample data"
                );
            }
        }
    }
    let hint = if is_unusable { "" } else { hint };
    Err(anyhow!("{reason}{hint}"))
}

/// Connects to the first ready replica that responds.
async fn find_replica(
    cluster: Arc<Cluster>,
    namespace: Option<&Namespace>,
) -> anyhow::Result<Remote> {
    let mut replicas = cluster.replicas(namespace).await?;
    let mut index = 0;
    loop {
        let location = Location::Replica(cluster.clone(), replicas[index].clone());
        match responding(location).await {
            Ok(api) => {
                replicas.remove(index);
                let choice = Choice::Replica(cluster, replicas);
                return Ok(Remote { api, choice });
            }
            Err(error) if index + 1 == replicas.len().min(MAX_REPLICAS) => return Err(error),
            Err(_) => index += 1,
        }
    }
}

/// Returns the API of a server that responds.
async fn responding(location: Location) -> anyhow::Result<Api> {
    let mut api = Api::new(location);
    let asked = timeout(PROBE_TIMEOUT, api.status()).await;
    let seconds = PROBE_TIMEOUT.as_secs();
    asked.with_context(|| format!("no response within {seconds} s"))??;
    Ok(api)
}
