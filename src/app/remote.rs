//! The server that a command asks: a running one, or one that the command makes of objects, in its own process.
//!
//! Without flags, it is a ready replica, so that the flags of `serve` need not be repeated. The first line of the output names who
//! answered.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::future::join_all;

use super::source::SelectedSource;
use crate::cli::{
    Cluster, KubeconfigArgs, Output, PrintArgs, ServerArgs, ViewArgs, local_text, note, print,
};
use crate::http::{Api, Unreachable, within};
use crate::log::error_chain;
use crate::model::Namespace;
use crate::view::{Document, Filter, ViewKind};

/// Maximum number of replicas of a cluster that are asked. A DaemonSet may have hundreds.
pub(super) const MAX_REPLICAS: usize = 8;
/// Maximum times until a replica shows that it is alive. If none does, all are asked again.
const PROBE_TIMEOUTS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(8)];

/// What was found for a command.
pub(super) struct Found {
    /// The server, or why there is none.
    pub server: Result<Api>,
    /// The cluster in which it was looked for. `None`: a flag names the server or files.
    pub cluster: Option<Result<Arc<Cluster>, Unreachable>>,
    /// The ready replicas that do not respond, with the reason.
    pub silent: Vec<String>,
}

/// Prints the document of a view below the line that says who answered. Returns its exit code.
pub(super) async fn show(
    server: &Api,
    view: ViewKind,
    filter: &Filter,
    args: &PrintArgs,
) -> Result<ExitCode> {
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

// === impl Found ===

impl Found {
    /// Returns the server. Prints which replicas do not respond.
    pub(super) fn server(self) -> Result<Api> {
        self.silent.iter().for_each(|one| note(one));
        self.server
    }
}

/// Finds the server, or makes one of the objects that flags name.
pub(super) async fn find(args: &ViewArgs) -> Found {
    let source = &args.source;
    if !args.reads_objects() {
        let hint = "; --direct reads the objects of the cluster instead";
        return find_server(&args.server, &source.kubeconfig, hint).await;
    }
    let mut cluster = None;
    let read = async {
        let selected = if args.direct {
            let opened = Cluster::open(&source.kubeconfig, false).await;
            let opened = cluster.insert(opened.map(Arc::new));
            SelectedSource::Cluster(opened.clone()?)
        } else {
            SelectedSource::files(&source.file)?
        };
        selected.into_api(&args.settings.loaded).await
    };
    Found {
        server: read.await,
        cluster,
        silent: Vec::new(),
    }
}

/// Returns the named server, or a ready replica. The error ends with the hint, unless the kubeconfig cannot be used.
pub(super) async fn find_server(
    args: &ServerArgs,
    kubeconfig: &KubeconfigArgs,
    hint: &str,
) -> Found {
    if let Some(url) = &args.server {
        return Found {
            server: Ok(Api::Url(url.clone())),
            cluster: None,
            silent: Vec::new(),
        };
    }
    let cluster = Cluster::open(kubeconfig, false).await.map(Arc::new);
    let mut silent = Vec::new();
    let server = match &cluster {
        Err(error) => Err(anyhow!("{error}; --server names a server, such as a demo")),
        Ok(opened) => match find_replica(opened, args.server_namespace.as_ref()).await {
            Err(error) => Err(anyhow!("{}{hint}", error_chain(error.as_ref()))),
            Ok((server, others)) => {
                silent = others;
                Ok(server)
            }
        },
    };
    Found {
        server,
        cluster: Some(cluster),
        silent,
    }
}

/// Asks the ready replicas at once. Returns the first one that responds, and the others that do not, with the reason.
pub(super) async fn find_replica(
    cluster: &Arc<Cluster>,
    namespace: Option<&Namespace>,
) -> Result<(Api, Vec<String>)> {
    let mut replicas = cluster.replicas(namespace).await?;
    replicas.truncate(MAX_REPLICAS);
    let mut failure = anyhow!("no replica is ready");
    for limit in PROBE_TIMEOUTS {
        let asked = replicas.iter().map(|api| within(limit, api.status()));
        let answers = join_all(asked).await;
        let first = answers.iter().position(Result::is_ok);
        let mut silent = Vec::new();
        for (replica, answer) in replicas.iter().zip(answers) {
            if let Err(error) = answer {
                silent.push(format!("{replica}: {}", error_chain(error.as_ref())));
                failure = error;
            }
        }
        if let Some(first) = first {
            return Ok((replicas.swap_remove(first), silent));
        }
    }
    Err(failure)
}
