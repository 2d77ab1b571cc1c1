//! `check`: asks a server for its problems, then the API server and name servers for what only they can tell.

mod cluster;
mod way;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::command_log::log_to_stderr;
use super::remote::{Remote, find_server};
use crate::check::finding::{Check, Fact, Finding, State, document, text};
use crate::check::objects::{self, Told, selects_by_other_labels};
use crate::check::problems::{answer_sizes, findings};
use crate::cli::{CheckArgs, Cluster, Form, note};
use crate::log::error_chain;
use crate::model::ProblemKind;
use crate::view::{Document, Filter, View};
use cluster::{ApiServer, objects_of_files};

/// The pause between two diagnoses of `--wait`.
const PAUSE: Duration = Duration::from_secs(2);

/// What was found of a server: what it says, or why there is none, and its cluster.
struct Found {
    source: Fact<Remote>,
    cluster: Fact<Arc<Cluster>>,
}

/// What a server says.
struct Said {
    status: Value,
    problems: Vec<Value>,
    services: Vec<Value>,
    own_endpoints: Vec<Value>,
}

/// Runs the checks and prints the findings. The exit code is 1 if one is failing.
pub(super) async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.view.log)?;
    let document = match args.wait {
        None => diagnose(&args).await,
        Some(limit) => diagnose_until(limit, &args).await,
    };
    let exit = document.exit;
    Form::new(args.output, &args.color).print(document)?;
    Ok(ExitCode::from(exit))
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
    let Found { source, cluster } = find(args).await;
    let mut lines = Vec::new();
    let (said, source) = match source {
        Ok(mut source) => match read(&mut source, args).await {
            Ok(said) => (Some(said), Some(source)),
            Err(error) => {
                let why = error_chain(error.as_ref());
                lines.push(Finding::failing(
                    Check::Server,
                    why,
                    "global-dns table asks the same server",
                ));
                (None, None)
            }
        },
        Err(why) => {
            let hint = "repair what follows; --server names a server, and --direct reads the objects instead";
            lines.push(Finding::failing(Check::Server, why, hint));
            (None, None)
        }
    };
    let api_server = match &cluster {
        Ok(cluster) => {
            Ok(ApiServer::read(cluster, args, said.as_ref().map(|said| &said.status)).await)
        }
        Err(why) => Err(why.clone()),
    };
    if let Some(said) = &said {
        lines.push(said.server());
        let links = api_server
            .iter()
            .flat_map(|one| one.objects.links.iter().flatten());
        lines.extend(findings(&said.problems_with(links)));
        lines.push(answer_sizes(&said.services));
    }
    match &api_server {
        Ok(api_server) => lines.extend(api_server.findings(said.is_none())),
        Err(why) if said.is_none() => lines.push(Finding::failing(
            Check::ApiServer,
            why.as_str(),
            "check the kubeconfig",
        )),
        Err(why) => lines.push(Finding::unknown(
            Check::ApiServer,
            why,
            "run it with a kubeconfig",
        )),
    }
    if let Some(said) = &said {
        let objects = match api_server {
            Ok(api_server) => Some(api_server.objects),
            Err(_) => objects_of_files(&args.view.source.file),
        };
        lines.extend(
            objects
                .iter()
                .flat_map(|objects| objects::check(objects, &said.told())),
        );
        if let Some(mut source) = source {
            lines.extend(way::findings(args, &mut source, &said.status).await);
        }
    }
    one_red_line(&mut lines);
    let replica = said
        .as_ref()
        .map_or("", |said| text(&said.status, "replica"));
    document("check", replica, Vec::new(), &lines)
}

/// Leaves out that the objects cannot be read if a line says which permission is missing.
fn one_red_line(lines: &mut Vec<Finding>) {
    let is_failing = |line: &Finding, check: Check| {
        line.state == State::Failing && line.name == <&str>::from(check)
    };
    let has_cause = lines
        .iter()
        .any(|line| is_failing(line, Check::Permissions) || is_failing(line, Check::ApiServer));
    lines.retain(|line| !(has_cause && is_failing(line, Check::Server)));
}

/// Finds the server as every command does, or builds the table of the objects.
async fn find(args: &CheckArgs) -> Found {
    let view = &args.view;
    let access = || view.source.kubeconfig.access();
    if view.reads_objects() {
        let cluster = match view.source.file.is_empty() {
            true => Cluster::open(access())
                .await
                .map(Arc::new)
                .map_err(|error| error_chain(&error)),
            false => Err("the API server is not used with --file".to_owned()),
        };
        let source = Remote::of_objects(&view.source, &view.settings.loaded).await;
        return Found {
            source: source.map_err(|error| error_chain(error.as_ref())),
            cluster,
        };
    }
    match find_server(&view.server, &view.source.kubeconfig).await {
        Ok(Ok(server)) => Found {
            cluster: server
                .cluster()
                .cloned()
                .ok_or_else(|| "this server is not one of a known cluster".to_owned()),
            source: Ok(Remote::Running(Box::new(server))),
        },
        Ok(Err(none)) => Found {
            source: Err(none.to_string()),
            cluster: Cluster::open(access())
                .await
                .map(Arc::new)
                .map_err(|error| error_chain(&error)),
        },
        Err(error) => {
            let why = format!(
                "cannot reach the API server: {}",
                error_chain(error.as_ref())
            );
            Found {
                source: Err("no server was found".to_owned()),
                cluster: Err(why),
            }
        }
    }
}

/// Reads what a server says, of the selected namespaces.
async fn read(source: &mut Remote, args: &CheckArgs) -> anyhow::Result<Said> {
    let status = source.status().await?;
    let all = Filter::default();
    let own = Filter {
        cluster: vec![text(&status, "cluster").to_owned()],
        ..Filter::default()
    };
    let mut problems = source.items(View::Problems, &all).await?;
    let namespaces = &args.view.source.namespace;
    problems.retain(|problem| match text(problem, "service").split_once('/') {
        Some((own, _)) => namespaces.is_empty() || namespaces.iter().any(|one| one.as_str() == own),
        None => true,
    });
    Ok(Said {
        problems,
        services: source.items(View::Table, &all).await?,
        own_endpoints: source.items(View::Endpoints, &own).await?,
        status,
    })
}

// === impl Said ===

impl Said {
    fn told(&self) -> Told<'_> {
        Told {
            settings: &self.status["settings"],
            services: &self.services,
            own_endpoints: &self.own_endpoints,
            cluster: text(&self.status, "cluster"),
        }
    }

    /// Makes the line about the server that answered.
    fn server(&self) -> Finding {
        let told = ["replica", "cluster", "version"].map(|field| text(&self.status, field));
        let [replica, cluster, version] = told;
        let services = self.services.len();
        let sentence = format!(
            "{replica} of cluster '{cluster}' answers: version {version}, services: {services}"
        );
        Finding::ok(Check::Server, sentence)
    }

    /// Returns the problems. If a Link has a selector of its own, other labels export Services, so that `not-exported` says
    /// nothing.
    fn problems_with<'l>(&self, mut links: impl Iterator<Item = &'l Value>) -> Vec<Value> {
        let not_exported = <&str>::from(ProblemKind::NotExported);
        let is_reliable = !links.any(selects_by_other_labels);
        let problems = self.problems.iter();
        let told = problems.filter(|one| is_reliable || text(one, "kind") != not_exported);
        told.cloned().collect()
    }
}
