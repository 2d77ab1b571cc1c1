//! `check`: asks a server for its problems, then the API server and name servers for what only they can tell.

mod cluster;
mod way;

use std::process::ExitCode;

use super::remote::find;
use super::told;
use crate::check::finding::{Check, Finding, State, document, text};
use crate::check::objects;
use crate::cli::CheckArgs;
use crate::log::error_chain;
use crate::view::Document;

/// Runs the checks and prints the findings. The exit code is 1 if one is failing.
pub(super) async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    args.print.print(diagnose(&args).await)
}

/// Gathers the facts and checks them: what the server says first, then what only the network can tell.
async fn diagnose(args: &CheckArgs) -> Document {
    let namespaces = &args.view.source.namespace;
    let (server, cluster) = find(&args.view).await;
    let told = match server {
        Ok(server) => told::read(&server, namespaces)
            .await
            .map(|told| (server, told)),
        Err(error) => Err(error),
    };
    let settings = match &told {
        Ok((_, told)) => told.status["settings"].clone(),
        Err(_) => serde_json::to_value(&args.view.settings.loaded).unwrap_or_default(),
    };
    let (of_cluster, objects) = match &cluster {
        None => (Vec::new(), None),
        Some(Ok(cluster)) => cluster::read(cluster, args, &settings, told.is_ok()).await,
        Some(Err(error)) => (vec![cluster::unreachable(&error.to_string())], None),
    };
    let (server, told) = match told {
        Ok(read) => read,
        Err(error) => {
            let hint = "repair what follows; --server names a server";
            let why = error_chain(error.as_ref());
            // A missing permission, or an API server that does not answer, is the only line then.
            let is_only = of_cluster.iter().any(is_cause);
            let line = (!is_only).then(|| Finding::failing(Check::Server, why, hint));
            let lines: Vec<Finding> = line.into_iter().chain(of_cluster).collect();
            return document("check", "", Vec::new(), &lines);
        }
    };
    let mut lines = told.findings();
    lines.extend(of_cluster);
    lines.extend(objects.iter().flat_map(|one| objects::check(one, &told)));
    if way::is_asked(args) {
        lines.extend(way::findings(args, &server, &told).await);
    } else if cluster.is_some() {
        let why = "this is no pod, so that its resolver is not the cluster's DNS";
        let hint = "run it in a pod, or set --resolver to the cluster's DNS, and --dns to the address of the Service";
        lines.push(Finding::unknown(Check::ClusterAnswer, why, hint));
    }
    document("check", text(&told.status, "replica"), Vec::new(), &lines)
}

/// Returns whether a line says why no server, or no objects, can be read.
fn is_cause(line: &Finding) -> bool {
    let causes = [Check::Permissions, Check::ApiServer];
    line.state == State::Failing && causes.iter().any(|check| line.name == <&str>::from(check))
}
