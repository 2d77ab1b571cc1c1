//! `check`: gathers facts from the API server or files, and from name servers, and prints the diagnosis.

pub(super) mod api_server;
mod end_to_end;
mod facts;
mod files;
mod name_servers;
mod wait;

use std::process::ExitCode;

use serde::Deserialize;

use super::api::Api;
use super::command_log::log_to_stderr;
use super::output::{print, render};
use crate::check::{Diagnosis, Fact, Facts, NotChecked, ServerProblem, check as run_checks};
use crate::cli::CheckArgs;
use crate::log::error_chain;
use crate::report::KnownItems;
use api_server::query_api_server;
use facts::{SourceFacts, retain_watched};
use files::read_files;
use name_servers::query_name_servers;

/// Runs the checks and prints the diagnosis. The exit code is 1 if a check failed.
pub(super) async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.log)?;
    let diagnosis = match args.wait {
        None => diagnose(&args).await?,
        Some(limit) => wait::diagnose_until(limit, async || diagnose(&args).await).await?,
    };
    let text = render(args.output, args.color.colors(), &diagnosis, |style| {
        diagnosis.to_text(style.colors)
    });
    print(&text?)?;
    Ok(if diagnosis.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Gathers the facts and checks them.
async fn diagnose(args: &CheckArgs) -> anyhow::Result<Diagnosis> {
    let CheckArgs {
        dns: server,
        name,
        connect,
        api: running,
        resolver,
        source,
        settings,
        log: _,    // is set up once
        wait: _,   // repeats this function
        output: _, // formats its result
        color: _,
    } = args;
    let settings = &settings.loaded;
    let SourceFacts {
        api,
        table,
        mut objects,
        namespaces,
    } = if source.file.is_empty() {
        query_api_server(source, settings).await
    } else {
        read_files(source, settings).await?
    };
    if let Ok(links) = &mut objects.links {
        retain_watched(links, settings);
    }
    let server = *server;
    let resolver = name_servers::resolver(*resolver);
    let zones = settings.zones(&[]);
    let request = end_to_end::Request {
        server,
        resolver: &resolver,
        name: name.as_ref(),
        connect: *connect,
        zones: &zones,
        table: table.as_ref().ok(),
    };
    let (server_problems, dns, end_to_end) = tokio::join!(
        problems_of(running.as_ref()),
        query_name_servers(server, &resolver, settings, table.as_ref().ok()),
        request.query(),
    );
    Ok(run_checks(&Facts {
        api,
        rules: settings.rules(),
        table,
        zones,
        objects,
        namespaces,
        server_problems,
        dns,
        end_to_end,
    }))
}

// === A running server ===

/// Requests the problems of a running server. Kinds that this program does not know are left out.
async fn problems_of(running: Option<&http::Uri>) -> Fact<Vec<ServerProblem>> {
    const HINT: &str = "set --api to the API address of a running server, such as http://127.0.0.1:9154 with kubectl \
                        port-forward";
    let Some(running) = running else {
        let why = "only a running server detects them, and --api is not set";
        return Err(NotChecked::new(why, HINT));
    };
    let mut api = Api::at(running);
    let status = api.read::<ServerStatus>("/api/v1/status").await;
    let problems = status.map(|status| status.attention.0);
    problems.map_err(|error| NotChecked::new(error_chain(error.as_ref()), HINT))
}

/// What is used of `/api/v1/status`.
#[derive(Deserialize)]
struct ServerStatus {
    attention: KnownItems<ServerProblem>,
}
