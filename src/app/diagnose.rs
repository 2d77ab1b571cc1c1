//! `check`: gathers facts from the API server or files, and from name servers, and prints the diagnosis.

mod api_server;
mod end_to_end;
mod files;
mod name_servers;
mod wait;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;

use super::inspect::fetch;
use super::{json, log_to_stderr, print, zones};
use crate::check::objects::{Link, MirrorPorts, MirrorSlice};
use crate::check::permissions::ApiServer;
use crate::check::{Colors, Diagnosis, Fact, Facts, NotChecked, check as run_checks};
use crate::cli::{CheckArgs, CheckOutput, ModelArgs, SourceArgs};
use crate::log::error_chain;
use crate::model::Namespace;
use crate::report::ConflictList;
use crate::table::publish::Reader;
use crate::table::{Conflict, Table};
use api_server::query_api_server;
use files::read_files;
use name_servers::query_name_servers;

/// The facts from the API server or the files.
struct SourceFacts {
    api: Fact<ApiServer>,
    table: Fact<Table>,
    mirror_slices: Fact<Vec<MirrorSlice>>,
    links: Fact<Vec<Link>>,
    namespaces: Fact<Vec<(Namespace, bool)>>,
    mirror_ports: Fact<Vec<MirrorPorts>>,
    unwatched_objects: Fact<Vec<String>>,
    linkerd_versions: Fact<Vec<String>>,
}

/// Runs the checks and prints the diagnosis. The exit code is 1 if a check is red.
pub(super) async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    if let Some(check) = args.explain {
        print(&check.documentation())?;
        return Ok(ExitCode::SUCCESS);
    }
    log_to_stderr(&args.log, "error")?;
    if args.server.is_some() {
        print_to_stderr(
            "warning: check --server is deprecated, use --dns; the next release removes it\n",
        );
    }
    let diagnosis = match args.wait {
        None => diagnose(&args).await?,
        Some(limit) => wait::diagnose_until(&args, limit).await?,
    };
    print_diagnosis(&diagnosis, args.output)?;
    Ok(if diagnosis.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Gathers the facts and checks them.
async fn diagnose(args: &CheckArgs) -> anyhow::Result<Diagnosis> {
    let CheckArgs {
        explain: _, // prints only a document
        dns,
        server,
        name,
        connect,
        api: running,
        resolver,
        source,
        model,
        log: _,    // is set up once
        wait: _,   // repeats this function
        output: _, // formats its result
    } = args;
    let facts = if source.file.is_empty() {
        query_api_server(source, model).await
    } else {
        read_files(source, model).await?
    };
    let server = dns.or(*server);
    let resolver = name_servers::resolver(*resolver);
    let zones = zones(model, &[]);
    let request = end_to_end::Request {
        server,
        resolver: &resolver,
        name: name.as_ref(),
        connect: *connect,
        zones: &zones,
        table: facts.table.as_ref().map_err(NotChecked::clone),
    };
    let (server_conflicts, dns, end_to_end) = tokio::join!(
        conflicts_of(running.as_ref()),
        query_name_servers(server, &resolver, model, facts.table.as_ref().ok()),
        request.query(),
    );
    let facts = Facts {
        api: facts.api,
        rules: model.rules(),
        mcs: model.mcs(),
        table: facts.table,
        zones,
        mirror_slices: facts.mirror_slices,
        links: facts.links,
        namespaces: facts.namespaces,
        mirror_ports: facts.mirror_ports,
        unwatched_objects: facts.unwatched_objects,
        server_conflicts,
        linkerd_versions: facts.linkerd_versions,
        dns,
        end_to_end,
    };
    Ok(run_checks(&facts))
}

/// Writes to standard error. Ignores a stream that cannot be written.
fn print_to_stderr(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

/// Prints a diagnosis in the requested format.
fn print_diagnosis(diagnosis: &Diagnosis, output: CheckOutput) -> anyhow::Result<()> {
    print(&match output {
        CheckOutput::Text => diagnosis.to_text(colors()),
        CheckOutput::Short => diagnosis.to_short_text(colors()),
        CheckOutput::Json => json(diagnosis)?,
    })
}

/// Returns whether to use colors: on a terminal, unless `NO_COLOR` is set (no-color.org).
fn colors() -> Colors {
    let is_disabled = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stdout().is_terminal() && !is_disabled {
        Colors::Shown
    } else {
        Colors::Plain
    }
}

// === Common to files and API server ===

/// Returns the namespaces that flags name.
fn named_namespaces(source: &SourceArgs, model: &ModelArgs) -> BTreeSet<Namespace> {
    let pinned = model.short_name.iter().map(|(_, namespace)| namespace);
    let named = source.namespace.iter().chain(&model.default_namespace);
    named.chain(pinned).cloned().collect()
}

/// Removes the services of Links in namespaces that are not watched.
fn retain_watched(mut links: Vec<Link>, source: &SourceArgs) -> Vec<Link> {
    if !source.namespace.is_empty() {
        let is_watched = |name: &str| source.namespace.iter().any(|one| one.as_str() == name);
        for link in &mut links {
            link.services.retain(|one| is_watched(&one.namespace));
        }
    }
    links
}

/// Returns the table of a source.
fn table_of(reader: &Reader) -> Fact<Table> {
    let none = || NotChecked::new("there is no table", "try again");
    reader.load().table.clone().ok_or_else(none)
}

// === A running server ===

/// Requests the conflicts of a running server.
async fn conflicts_of(running: Option<&http::Uri>) -> Fact<Vec<Conflict>> {
    const HINT: &str = "set --api to the API address of a running server, such as http://127.0.0.1:9154 with kubectl \
                        port-forward";
    let Some(running) = running else {
        let why = "only a running server detects them, and --api is not set";
        return Err(NotChecked::new(why, HINT));
    };
    let response = fetch(running, "/api/v1/conflicts").await;
    let conflicts = response.and_then(|text| {
        let list: ConflictList = serde_json::from_str(&text)
            .with_context(|| format!("cannot parse the response of {running}"))?;
        Ok(list.conflicts)
    });
    conflicts.map_err(|error| NotChecked::new(error_chain(error.as_ref()), HINT))
}
