//! `check`: gathers the facts, from the API server or from files and from name servers, and prints what is made of them.

mod api_server;
mod files;
mod name_servers;

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Context as _;

use super::inspect::fetch;
use super::{json, log_to_stderr, print, zones};
use crate::check::dns::Dns;
use crate::check::objects::{HeadlessSlice, Link, MirrorPorts};
use crate::check::permissions::ApiServer;
use crate::check::{Checkup, Colours, Facts, Known, NotChecked, check as judge};
use crate::cli::{CheckArgs, CheckOutput, ModelArgs, SourceArgs};
use crate::log::sentence;
use crate::mirror::Namespace;
use crate::table::publish::Reader;
use crate::table::{Conflict, Table};
use api_server::ask_the_api_server;
use files::read_files;
use name_servers::ask_name_servers;

/// What the API server, or the files, say.
struct SourceFacts {
    api: Known<ApiServer>,
    table: Known<Table>,
    headless_slices: Known<Vec<HeadlessSlice>>,
    links: Known<Vec<Link>>,
    namespaces: Known<Vec<(Namespace, bool)>>,
    mirror_ports: Known<Vec<MirrorPorts>>,
    odd_labels: Known<Vec<String>>,
    makers: Known<Vec<String>>,
}

/// Checks, prints, and says by the exit code whether anything is red.
pub(super) async fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let CheckArgs {
        server,
        api: running,
        resolver,
        source,
        model,
        log,
        output,
    } = args;
    log_to_stderr(&log, "error")?;
    let facts = match source.file.is_empty() {
        true => ask_the_api_server(&source, &model).await,
        false => read_files(&source, &model).await?,
    };
    let server_conflicts = conflicts_of(running.as_ref()).await;
    let dns = ask_name_servers(server, resolver, &model, facts.table.as_ref().ok()).await;
    let checkup = judge(&facts.with_servers(server_conflicts, dns, &model));
    print_checkup(&checkup, output)?;
    Ok(match checkup.is_success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Prints a checkup in the form that is asked for.
fn print_checkup(checkup: &Checkup, output: CheckOutput) -> anyhow::Result<()> {
    print(&match output {
        CheckOutput::Text => checkup.to_text(colours()),
        CheckOutput::Json => json(checkup)?,
    })
}

/// On a terminal, unless the user wants none (no-color.org).
fn colours() -> Colours {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match std::io::stdout().is_terminal() && !unwanted {
        true => Colours::Shown,
        false => Colours::Plain,
    }
}

// === impl SourceFacts ===

impl SourceFacts {
    /// Adds what servers say, and the flags.
    fn with_servers(
        self,
        server_conflicts: Known<Vec<Conflict>>,
        dns: Dns,
        model: &ModelArgs,
    ) -> Facts {
        Facts {
            api: self.api,
            rules: model.rules(),
            table: self.table,
            zones: zones(model, &[]),
            headless_slices: self.headless_slices,
            links: self.links,
            namespaces: self.namespaces,
            mirror_ports: self.mirror_ports,
            odd_labels: self.odd_labels,
            server_conflicts,
            makers: self.makers,
            dns,
        }
    }
}

// === What files and API server have in common ===

/// Returns the namespaces that flags name.
fn named_namespaces(source: &SourceArgs, model: &ModelArgs) -> BTreeSet<Namespace> {
    let pinned = model.short_name.iter().map(|(_, namespace)| namespace);
    let named = source.namespace.iter().chain(&model.default_namespace);
    named.chain(pinned).cloned().collect()
}

/// Leaves out what Links say of namespaces that are not watched.
fn watched(mut links: Vec<Link>, source: &SourceArgs) -> Vec<Link> {
    if !source.namespace.is_empty() {
        let is_watched = |name: &str| source.namespace.iter().any(|one| one.as_str() == name);
        for link in &mut links {
            link.services.retain(|one| is_watched(&one.namespace));
        }
    }
    links
}

/// Returns the table of a source.
fn first(reader: &Reader) -> Known<Table> {
    let none = || NotChecked::new("there is no table", "try again");
    reader.load().table.clone().ok_or_else(none)
}

// === A running server ===

/// Asks a running server which conflicts it has seen.
async fn conflicts_of(running: Option<&http::Uri>) -> Known<Vec<Conflict>> {
    const HINT: &str = "give --api the address of a running server's API: kubectl port-forward makes http://127.0.0.1:9154 \
                        lead to a pod";
    let Some(running) = running else {
        let why = "only a running server can know it, and --api is not given";
        return Err(NotChecked::new(why, HINT));
    };
    let asked = fetch(running, "/api/v1/conflicts").await;
    let read = asked.and_then(|text| {
        serde_json::from_str(&text).with_context(|| format!("reading what {running} says"))
    });
    read.map_err(|error| NotChecked::new(sentence(error.as_ref()), HINT))
}
