//! `check`: asks a server for its problems, then the API server and name servers for what only they can tell.

mod cluster;
mod way;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::remote::{Remote, find_server, table};
use crate::check::finding::{Check, Fact, Finding, State, document, text};
use crate::check::objects;
use crate::check::told::Told;
use crate::cli::{Api, CheckArgs, Cluster, note};
use crate::log::error_chain;
use crate::view::Document;

/// The pause between two diagnoses of `--wait`.
const PAUSE: Duration = Duration::from_secs(2);

/// Runs the checks and prints the findings. The exit code is 1 if one is failing.
pub(super) async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let document = match args.wait {
        None => diagnose(&args).await,
        Some(limit) => diagnose_until(limit, &args).await,
    };
    args.print.print(document)
}

/// Repeats the diagnosis until nothing fails, or until the time is over. Returns the last complete one.
async fn diagnose_until(limit: Duration, args: &CheckArgs) -> Document {
    let end = Instant::now() + limit;
    let mut last = diagnose(args).await;
    while last.exit != 0 && Instant::now() + PAUSE < end {
        if std::io::stderr().is_terminal() {
            let left = end.saturating_duration_since(Instant::now()).as_secs();
            note(&format!("something fails; checking again ({left} s left)"));
        }
        sleep(PAUSE).await;
        match timeout_at(end, diagnose(args)).await {
            Ok(document) => last = document,
            Err(_) => break,
        }
    }
    last
}

/// Gathers the facts and checks them: what the server says first, then what only the network can tell.
async fn diagnose(args: &CheckArgs) -> Document {
    let (server, cluster) = find(args).await;
    let told = match server {
        Ok(mut server) => match read(&mut server.api, args).await {
            Ok(told) => Ok((server, told)),
            Err(error) => Err(error_chain(error.as_ref())),
        },
        Err(why) => Err(why),
    };
    let settings = match &told {
        Ok((_, told)) => told.status["settings"].clone(),
        Err(_) => serde_json::to_value(&args.view.settings.loaded).unwrap_or_default(),
    };
    let has_cluster = cluster.is_some();
    let (mut lines, objects) = match cluster {
        None => (
            Vec::new(),
            cluster::objects_of_files(&args.view.source.file),
        ),
        Some(Ok(cluster)) => cluster::read(&cluster, args, &settings, told.is_ok()).await,
        Some(Err(why)) => (vec![cluster::unreachable(&why)], None),
    };
    let mut replica = String::new();
    match told {
        Ok((mut server, told)) => {
            lines.splice(0..0, told.findings());
            let objects = objects.iter();
            lines.extend(objects.flat_map(|objects| objects::check(objects, &told)));
            if way::is_asked(args) {
                lines.extend(way::findings(args, &mut server.api, &told).await);
            } else if has_cluster {
                let why = "this is no pod, so that its resolver is not the cluster's DNS";
                let hint = "run it in a pod, or set --resolver to the cluster's DNS, and --dns to the address of the Service";
                lines.push(Finding::unknown(Check::ClusterAnswer, why, hint));
            }
            replica = text(&told.status, "replica").to_owned();
        }
        // A missing permission, or an API server that does not answer, is the only line then.
        Err(_) if lines.iter().any(is_cause) => {}
        Err(why) => {
            let hint = "repair what follows; --server names a server, and --direct reads the objects instead";
            lines.insert(0, Finding::failing(Check::Server, why, hint));
        }
    }
    document("check", &replica, Vec::new(), &lines)
}

/// Returns whether a line says why no server, or no objects, can be read.
fn is_cause(line: &Finding) -> bool {
    let causes = [Check::Permissions, Check::ApiServer];
    line.state == State::Failing && causes.iter().any(|check| line.name == <&str>::from(check))
}

/// Finds the server as every command does, or builds the table of the objects. Returns it with its cluster. `None`: a flag names
/// the server or files, or it is one of this host, so that no API server is used.
async fn find(args: &CheckArgs) -> (Fact<Remote>, Option<Fact<Arc<Cluster>>>) {
    let view = &args.view;
    let chain = |error: anyhow::Error| error_chain(error.as_ref());
    let server = if view.reads_objects() {
        Remote::find(view).await.map_err(chain)
    } else {
        match find_server(&view.server, &view.source.kubeconfig, "").await {
            Ok(server) => {
                let cluster = server.cluster().cloned().map(Ok);
                return (Ok(server), cluster);
            }
            Err(error) => Err(chain(error)),
        }
    };
    if !view.source.file.is_empty() {
        return (server, None);
    }
    let cluster = Cluster::open(&view.source.kubeconfig, false).await;
    let cluster = cluster.map(Arc::new).map_err(|error| error_chain(&error));
    (server, Some(cluster))
}

/// Reads what a server says, with the problems of the selected namespaces.
async fn read(server: &mut Api, args: &CheckArgs) -> anyhow::Result<Told> {
    let status = server.status().await?;
    let mut table = table(server).await?;
    let namespaces = &args.view.source.namespace;
    // The problems of the server matter to every namespace.
    table.problems.retain(|one| {
        let service = text(one, "service").split_once('/');
        let is_selected = |name: &str| namespaces.iter().any(|one| one.as_str() == name);
        service.is_none_or(|(name, _)| namespaces.is_empty() || is_selected(name))
    });
    Ok(Told { status, table })
}
