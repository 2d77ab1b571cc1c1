//! The server that a command asks: a running one, or one that the command makes of objects, in its own process.
//!
//! Without flags, it is a ready replica, so that the flags of `serve` need not be repeated. If there is no cluster, or no
//! release in it, a server at the default address of the API answers: `demo`, or `kubectl port-forward`. It never answers
//! in place of a replica that fails, nor if a flag names the cluster. The first line of the output names who answered.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::vec;

use anyhow::{Context as _, anyhow};
use tokio::time::timeout;

use super::first_table::first_table;
use super::variables::local_api;
use crate::check::told::ServerTable;
use crate::cli::{
    Api, Cluster, ClusterError, KubeconfigArgs, Location, Output, Part, PrintArgs, Replica,
    ServerArgs, ViewArgs, is_unknown_time, print,
};
use crate::log::error_chain;
use crate::model::Namespace;
use crate::view::{Document, Filter, View};

/// Maximum number of replicas that are tried. All of them rarely fail for different reasons.
const MAX_REPLICAS: usize = 3;
/// Maximum time until a server shows that it is alive.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The server that a command asks.
pub(super) struct Remote {
    /// Its API.
    pub(super) api: Api,
    /// The ready replicas of its cluster that were not asked yet.
    others: vec::IntoIter<Replica>,
    /// Why the server of this host is asked, and no replica.
    why_local: Option<String>,
}

// === impl Remote ===

impl Remote {
    fn new(location: Location) -> Self {
        Self {
            api: Api::new(location),
            others: Vec::new().into_iter(),
            why_local: None,
        }
    }

    /// Finds the server, or makes one of the objects that flags name.
    pub(super) async fn find(args: &ViewArgs) -> anyhow::Result<Self> {
        if args.reads_objects() {
            let location = first_table(&args.source, &args.settings.loaded).await?;
            return Ok(Self::new(location));
        }
        let hint = "; --direct reads the objects of the cluster instead";
        find_server(&args.server, &args.source.kubeconfig, hint).await
    }

    /// Returns the cluster of the replica that was found.
    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.api.location {
            Location::Replica(cluster, _) => Some(cluster),
            Location::Url(_) | Location::InProcess(..) => None,
        }
    }

    /// Prints the document of a view below the line that says who answered. Returns its exit code.
    pub(super) async fn show(
        &mut self,
        view: View,
        filter: &Filter,
        args: &PrintArgs,
    ) -> anyhow::Result<ExitCode> {
        let document = self.document(view, filter, args.output).await?;
        let heading = self.heading(&document);
        match args.output {
            Output::Json => {}
            Output::Zone => print(&format!("; {heading}\n"))?,
            Output::Text | Output::Wide => print(&format!("{heading}\n\n"))?,
        }
        args.print(document)
    }

    /// Returns the document of a view. If the history of this replica does not reach back to a time, others are asked.
    async fn document(
        &mut self,
        view: View,
        filter: &Filter,
        output: Output,
    ) -> anyhow::Result<Document> {
        loop {
            let asked = self.api.document(view, filter, output).await;
            let is_early = filter.at.is_some() && asked.as_ref().is_err_and(is_unknown_time);
            let other = is_early.then(|| self.others.next()).flatten();
            let Some((cluster, other)) = self.cluster().cloned().zip(other) else {
                return asked;
            };
            self.api = Api::new(Location::Replica(cluster, other));
        }
    }

    /// Returns a line that says who answered.
    fn heading(&self, document: &Document) -> String {
        let at = document.at.as_ref();
        let at = at.map_or_else(String::new, |at| format!(", at {at}"));
        match (&self.api.location, &self.why_local) {
            (Location::InProcess(..), _) => {
                "computed from objects, not answered by a server".to_owned()
            }
            (Location::Replica(_, replica), _) => format!("answered by {replica}{at}"),
            (Location::Url(url), Some(reason)) => format!(
                "answered by the server of this host at {} (no replica answered: {reason}){at}",
                url.to_string().trim_end_matches('/')
            ),
            (Location::Url(_), None) => format!("answered by {}{at}", document.replica),
        }
    }

    /// Finds the server again after it has failed: another replica, if it is one. Never another kind of server, which may have
    /// other data.
    pub(super) async fn find_again(&mut self, namespace: Option<&Namespace>) -> anyhow::Result<()> {
        if let Some(cluster) = self.cluster() {
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
        return Ok(Remote::new(Location::Url(url.clone())));
    }
    let namespace = args.server_namespace.as_ref();
    let found = async {
        let cluster = Cluster::open(kubeconfig, false).await?;
        find_replica(Arc::new(cluster), namespace).await
    };
    let error = match found.await {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    let mut reason = error_chain(error.as_ref());
    // A replica that fails is not replaced: another server has other data.
    let failed = error.downcast_ref::<ClusterError>().map(|one| one.part);
    let has_no_server = matches!(failed, Some(Part::Configuration | Part::Server));
    if has_no_server && !kubeconfig.is_given() && namespace.is_none() {
        let url = format!("http://{}", local_api());
        if let Ok(mut remote) = responding(Location::Url(url.parse()?)).await {
            remote.why_local = Some(reason);
            return Ok(remote);
        }
        reason += &format!(
            "; no server answers at {url} either; global-dns demo starts one with sample data"
        );
    }
    let is_unusable = failed == Some(Part::Configuration);
    Err(anyhow!("{reason}{}", if is_unusable { "" } else { hint }))
}

/// Connects to the first ready replica that responds.
async fn find_replica(
    cluster: Arc<Cluster>,
    namespace: Option<&Namespace>,
) -> anyhow::Result<Remote> {
    let mut others = cluster.replicas(namespace).await?.into_iter();
    let mut failure = anyhow!("no replica is ready");
    for _ in 0..MAX_REPLICAS {
        let Some(replica) = others.next() else { break };
        match responding(Location::Replica(cluster.clone(), replica)).await {
            Ok(remote) => return Ok(Remote { others, ..remote }),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Reads the table of a server.
pub(super) async fn table(server: &mut Api) -> anyhow::Result<ServerTable> {
    let all = Filter::default();
    Ok(ServerTable {
        services: server.items(View::Table, &all).await?,
        endpoints: server.items(View::Endpoints, &all).await?,
        problems: server.items(View::Problems, &all).await?,
    })
}

/// Returns a server that responds.
async fn responding(location: Location) -> anyhow::Result<Remote> {
    let mut remote = Remote::new(location);
    let asked = timeout(PROBE_TIMEOUT, remote.api.status()).await;
    let seconds = PROBE_TIMEOUT.as_secs();
    asked.with_context(|| format!("no response within {seconds} s"))??;
    Ok(remote)
}
