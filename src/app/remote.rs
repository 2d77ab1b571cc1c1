//! The server that a command asks: a running one, or one that the command makes of objects, in its own process.
//!
//! Without flags, it is a ready replica, so that the flags of `serve` need not be repeated. The first line of the output names who
//! answered.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::time::timeout;

use super::source::SelectedSource;
use crate::cli::{
    Cluster, KubeconfigArgs, Output, PrintArgs, ServerArgs, ViewArgs, local_text, print,
};
use crate::http::{Api, Unreachable};
use crate::log::error_chain;
use crate::model::Namespace;
use crate::view::{Document, Filter, View};

/// Maximum number of replicas that are tried. All of them rarely fail for different reasons.
const MAX_REPLICAS: usize = 3;
/// Maximum time until a server shows that it is alive.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// A server, or why there is none, and the cluster in which it was looked for. `None`: a flag names the server or files.
pub(super) type Found = (
    anyhow::Result<Api>,
    Option<Result<Arc<Cluster>, Unreachable>>,
);

/// Prints the document of a view below the line that says who answered. Returns its exit code.
pub(super) async fn show(
    server: &Api,
    view: View,
    filter: &Filter,
    args: &PrintArgs,
) -> anyhow::Result<ExitCode> {
    let document = server
        .document(view, filter, args.output == Output::Json)
        .await?;
    let heading = local_text(&heading(server, &document));
    match args.output {
        Output::Json => {}
        Output::Zone => print(&format!("; {heading}\n"))?,
        Output::Text | Output::Wide => print(&format!("{heading}\n\n"))?,
    }
    args.print(document)
}

/// Returns a line that says who answered.
fn heading(server: &Api, document: &Document) -> String {
    let at = document.at.as_ref();
    let at = at.map_or_else(String::new, |at| format!(", at {at}"));
    match server {
        Api::InProcess(..) => "computed from objects, not answered by a server".to_owned(),
        Api::Replica(replica) => format!("answered by {replica}{at}"),
        Api::Url(_) => format!("answered by {}{at}", document.replica),
    }
}

/// Finds the server, or makes one of the objects that flags name.
pub(super) async fn find(args: &ViewArgs) -> Found {
    let (source, settings) = (&args.source, &args.settings.loaded);
    if !source.file.is_empty() {
        let read = async {
            SelectedSource::files(&source.file)?
                .into_api(settings)
                .await
        };
        return (read.await, None);
    }
    if !args.direct {
        let hint = "; --direct reads the objects of the cluster instead";
        return find_server(&args.server, &source.kubeconfig, hint).await;
    }
    let cluster = Cluster::open(&source.kubeconfig, false).await.map(Arc::new);
    let opened = cluster.clone().map(SelectedSource::Cluster);
    let read = async { opened?.into_api(settings).await };
    (read.await, Some(cluster))
}

/// Returns the named server, or a ready replica. The error ends with the hint, unless the kubeconfig cannot be used.
pub(super) async fn find_server(
    args: &ServerArgs,
    kubeconfig: &KubeconfigArgs,
    hint: &str,
) -> Found {
    if let Some(url) = &args.server {
        return (Ok(Api::Url(url.clone())), None);
    }
    let cluster = Cluster::open(kubeconfig, false).await.map(Arc::new);
    let found = match cluster.clone() {
        Ok(cluster) => {
            let found = find_replica(&cluster, args.server_namespace.as_ref()).await;
            found.map_err(|error| anyhow!("{}{hint}", error_chain(error.as_ref())))
        }
        Err(error) => Err(anyhow!("{error}; --server names a server, such as a demo")),
    };
    (found, Some(cluster))
}

/// Connects to the first ready replica that responds.
pub(super) async fn find_replica(
    cluster: &Arc<Cluster>,
    namespace: Option<&Namespace>,
) -> anyhow::Result<Api> {
    let replicas = cluster.replicas(namespace).await?.into_iter();
    let mut failure = anyhow!("no replica is ready");
    for replica in replicas.take(MAX_REPLICAS) {
        match responding(replica).await {
            Ok(found) => return Ok(found),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Returns a server that responds.
async fn responding(api: Api) -> anyhow::Result<Api> {
    let seconds = PROBE_TIMEOUT.as_secs();
    let asked = timeout(PROBE_TIMEOUT, api.status()).await;
    asked.with_context(|| format!("no response within {seconds} s"))??;
    Ok(api)
}
