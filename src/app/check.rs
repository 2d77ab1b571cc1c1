//! `check`: asks a server for its problems, then the API server and name servers for what only they can tell.

use std::process::ExitCode;

use super::remote::{Found, find};
use crate::check::facts::{self, ServerFacts};
use crate::check::finding::{Check, Finding, FindingState, document, text};
use crate::check::probe::{Question, name_in};
use crate::check::{cluster, objects, path};
use crate::cli::{CheckArgs, Output, extension_checks, is_extension, is_pod, print};
use crate::http::Api;
use crate::log::error_chain;
use crate::model::Namespace;
use crate::view::{Filter, ViewKind};

/// The findings of all checks.
struct Diagnosis {
    /// The replica that answered, or nothing.
    replica: String,
    findings: Vec<Finding>,
}

/// Runs the checks and prints the findings. The exit code is 1 if one is failing.
pub(super) async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let Diagnosis { replica, findings } = diagnose(&args).await;
    let document = document("check", &replica, Vec::new(), &findings);
    if is_extension() && args.print.output == Output::Json {
        print(&extension_checks(&findings))?;
        return Ok(ExitCode::from(document.exit));
    }
    args.print.print(document)
}

/// Gathers the facts and checks them: what the server says first, then what only the network can tell.
async fn diagnose(args: &CheckArgs) -> Diagnosis {
    let view = &args.view;
    let namespaces = &view.source.namespace;
    let Found {
        server,
        cluster,
        silent,
    } = find(view).await;
    let read = async {
        let server = server?;
        let facts = read_facts(&server, namespaces).await?;
        anyhow::Ok((server, facts))
    };
    let read = read.await;
    let settings = match &read {
        Ok((_, facts)) => facts.status["settings"].clone(),
        Err(_) => serde_json::to_value(&view.settings.loaded).unwrap_or_default(),
    };
    let mut of_cluster = Vec::new();
    match &cluster {
        None => {}
        Some(Err(error)) => of_cluster.push(cluster::unreachable(&error.to_string())),
        Some(Ok(cluster)) => {
            let mut pods = None;
            if !view.reads_objects() {
                let listed = cluster.pods(view.server.server_namespace.as_ref()).await;
                let listed = listed.map(|(_, pods)| pods);
                pods = Some(listed.map_err(|error| error.to_string()));
            }
            let (client, origin) = (&cluster.client, &cluster.origin);
            of_cluster = cluster::check(client, origin, pods, &settings, read.is_ok()).await;
        }
    }
    let (server, facts) = match read {
        Ok(read) => read,
        Err(error) => {
            let hint = "repair what follows; --server names a server";
            let why = error_chain(error.as_ref());
            let mut findings = of_cluster;
            // A missing permission, or an API server that does not answer, is the only line then.
            if !findings.iter().any(is_cause) {
                findings.insert(0, Check::Server.failing(why, hint));
            }
            return Diagnosis {
                replica: String::new(),
                findings,
            };
        }
    };
    // In the pod of `helm test`, the account is that of the server.
    let is_server = view.direct && is_pod() && !view.source.kubeconfig.is_given();
    let mut findings = facts.findings(is_server || is_extension());
    for one in silent {
        let hint = "kubectl describe pod and kubectl logs show more; the other replicas answer";
        findings.push(Check::Server.attention(one, hint));
    }
    findings.extend(of_cluster);
    if let (Some(Ok(cluster)), false) = (&cluster, is_server) {
        let objects = cluster::read_objects(&cluster.client, &settings).await;
        findings.extend(objects::check(&objects, &facts));
    }
    if args.can_ask() {
        let again = async || {
            let facts = read_facts(&server, namespaces).await?;
            questions(args, &server, &facts).await
        };
        let first = questions(args, &server, &facts).await;
        findings.extend(path::findings(args.dns, args.resolver, args.connect, first, again).await);
    } else if cluster.is_some() {
        let why = "this is no pod, so that its resolver is not the cluster's DNS";
        let hint = "run it in a pod, or set --resolver to the cluster's DNS, and --dns to the address of the Service";
        findings.push(Check::ClusterAnswer.unknown(why, hint));
    }
    if is_server {
        let rest = "this account may not read the status of Links, gateways and pods: run global-dns check from your machine for the \
                    rest";
        findings.push(Check::Permissions.ok(rest));
    }
    Diagnosis {
        replica: text(&facts.status, "replica").to_owned(),
        findings,
    }
}

/// Reads what a server says, with the problems of the selected namespaces.
async fn read_facts(server: &Api, namespaces: &[Namespace]) -> anyhow::Result<ServerFacts> {
    let all = Filter::default();
    let filter = Filter {
        namespace: namespaces.to_vec(),
        ..Filter::default()
    };
    let (status, services, problems) = tokio::try_join!(
        server.status(),
        server.items(ViewKind::Table, &filter),
        server.document(ViewKind::Problems, &all, true)
    )?;
    let selected = problems.objects().into_iter().filter(|one| {
        let own = one["namespace"].as_str();
        own.is_none_or(|own| filter.has_namespace(own))
    });
    let (causes, problems) = selected.partition(|one| one["section"] == "causes");
    Ok(ServerFacts {
        status,
        services,
        problems,
        causes,
        namespaces: filter.namespace,
    })
}

/// Returns the question for the name of `--name`, or else one for each zone.
async fn questions(
    args: &CheckArgs,
    server: &Api,
    facts: &ServerFacts,
) -> anyhow::Result<Vec<Question>> {
    if let Some(name) = &args.name {
        return Ok(vec![question(server, facts, &name.to_string()).await?]);
    }
    let mut questions = Vec::new();
    for zone in facts::zones(&facts.status) {
        let mut asked = Question::of_apex(zone.name);
        if let Some(name) = name_in(zone, facts) {
            let of_name = question(server, facts, &name).await?;
            if of_name.exists {
                asked = of_name;
            }
        }
        questions.push(asked);
    }
    Ok(questions)
}

/// Returns the question for a name, as the server explains it.
async fn question(server: &Api, facts: &ServerFacts, name: &str) -> anyhow::Result<Question> {
    let filter = Filter {
        // Without its zone, as `explain` takes it.
        name: Some(name.trim_end_matches('.').to_owned()),
        ..Filter::default()
    };
    let explained = server.items(ViewKind::Explain, &filter).await?;
    let mut question = Question::of_name(&explained);
    let zones = facts::zones(&facts.status).map(|zone| zone.name);
    let own = zones.filter(|zone| question.name.ends_with(zone));
    question.zone = own
        .max_by_key(|zone| zone.len())
        .unwrap_or_default()
        .to_owned();
    Ok(question)
}

/// Returns whether a line says why no server, or no objects, can be read.
fn is_cause(line: &Finding) -> bool {
    let mut causes = [Check::Permissions, Check::ApiServer].iter();
    line.state == FindingState::Failing && causes.any(|one| line.name == one.to_string())
}
