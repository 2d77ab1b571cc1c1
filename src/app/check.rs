//! `check`: asks a server for its problems, then the API server and name servers for what only they can tell.

mod cluster;
mod way;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::remote::{Remote, find_server};
use crate::check::finding::{Check, Fact, Finding, State, document, text};
use crate::check::objects::{self, Objects, Told, selects_by_other_labels};
use crate::check::problems::{answer_sizes, findings};
use crate::cli::{Api, CheckArgs, Cluster, note};
use crate::log::error_chain;
use crate::model::ProblemKind;
use crate::view::{Document, Filter, View};
use cluster::{ApiServer, objects_of_files};

/// The pause between two diagnoses of `--wait`.
const PAUSE: Duration = Duration::from_secs(2);

/// What a server says.
struct Said {
    status: Value,
    problems: Vec<Value>,
    services: Vec<Value>,
    own_endpoints: Vec<Value>,
}

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

/// Gathers the facts and checks them.
async fn diagnose(args: &CheckArgs) -> Document {
    let (server, cluster) = find(args).await;
    let said = match server {
        Ok(mut server) => match Said::read(&mut server.api, args).await {
            Ok(said) => Ok((server, said)),
            Err(error) => Err(error_chain(error.as_ref())),
        },
        Err(why) => Err(why),
    };
    let status = said.as_ref().ok().map(|(_, said)| &said.status);
    let api_server = match cluster {
        Ok(cluster) => Ok(ApiServer::read(&cluster, args, status).await),
        Err(why) => Err(why),
    };
    let mut lines = match &api_server {
        Ok(api_server) => api_server.findings(said.is_err()),
        Err(why) if said.is_err() => {
            let hint = "check the kubeconfig: --kubeconfig, --context";
            vec![Finding::failing(Check::ApiServer, why.as_str(), hint)]
        }
        Err(why) => vec![Finding::unknown(
            Check::ApiServer,
            why,
            "run it with a kubeconfig",
        )],
    };
    let mut replica = String::new();
    match said {
        Ok((mut server, said)) => {
            let objects = match api_server {
                Ok(api_server) => Some(api_server.objects),
                Err(_) => objects_of_files(&args.view.source.file),
            };
            lines.splice(0..0, said.findings(objects.as_ref()));
            let told = said.told();
            lines.extend(
                objects
                    .iter()
                    .flat_map(|objects| objects::check(objects, &told)),
            );
            lines.extend(way::findings(args, &mut server.api, &said.status).await);
            replica = text(&said.status, "replica").to_owned();
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

/// Finds the server as every command does, or builds the table of the objects. Returns it with its cluster.
async fn find(args: &CheckArgs) -> (Fact<Remote>, Fact<Arc<Cluster>>) {
    let view = &args.view;
    let open = async || match Cluster::open(&view.source.kubeconfig, false).await {
        Ok(cluster) => Ok(Arc::new(cluster)),
        Err(error) => Err(format!(
            "cannot reach the API server: {}",
            error_chain(&error)
        )),
    };
    if view.reads_objects() {
        let server = Remote::find(view).await;
        let server = server.map_err(|error| error_chain(error.as_ref()));
        return match view.source.file.is_empty() {
            true => (server, open().await),
            false => (
                server,
                Err("the API server is not used with --file".to_owned()),
            ),
        };
    }
    match find_server(&view.server, &view.source.kubeconfig, "").await {
        Ok(server) => {
            let cluster = server.cluster().cloned();
            let unknown = || "this server is not one of a known cluster".to_owned();
            (Ok(server), cluster.ok_or_else(unknown))
        }
        Err(error) => (Err(error_chain(error.as_ref())), open().await),
    }
}

// === impl Said ===

impl Said {
    /// Reads what a server says, of the selected namespaces.
    async fn read(server: &mut Api, args: &CheckArgs) -> anyhow::Result<Self> {
        let status = server.status().await?;
        let own = Filter {
            cluster: vec![text(&status, "cluster").to_owned()],
            ..Filter::default()
        };
        let all = Filter::default();
        let mut problems = server.items(View::Problems, &all).await?;
        let selected = Filter {
            namespace: args.view.source.namespace.clone(),
            ..Filter::default()
        };
        // The problems of the server matter to every namespace.
        problems.retain(|one| {
            let service = text(one, "service").split_once('/');
            service.is_none_or(|(namespace, _)| selected.has_namespace(namespace))
        });
        Ok(Self {
            problems,
            services: server.items(View::Table, &all).await?,
            own_endpoints: server.items(View::Endpoints, &own).await?,
            status,
        })
    }

    fn told(&self) -> Told<'_> {
        Told {
            settings: &self.status["settings"],
            services: &self.services,
            own_endpoints: &self.own_endpoints,
            cluster: text(&self.status, "cluster"),
        }
    }

    /// Returns the lines about the server and its problems. If a Link has a selector of its own, other labels export Services,
    /// so that `not-exported` says nothing.
    fn findings(&self, objects: Option<&Objects>) -> Vec<Finding> {
        let [replica, cluster, version] =
            ["replica", "cluster", "version"].map(|field| text(&self.status, field));
        let services = self.services.len();
        let replica = if replica.is_empty() {
            "the table of the objects"
        } else {
            replica
        };
        let sentence = format!(
            "{replica} of cluster '{cluster}' answers: version {version}, services: {services}"
        );
        let mut links = objects.iter().flat_map(|one| one.links.iter().flatten());
        let mut lines = findings(&self.problems);
        if links.any(selects_by_other_labels) {
            let not_exported = ProblemKind::NotExported.name();
            lines.retain(|line| line.name != not_exported);
        }
        lines.insert(0, Finding::ok(Check::Server, sentence));
        lines.push(answer_sizes(&self.services));
        lines
    }
}
