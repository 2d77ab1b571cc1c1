//! `table` and `explain`: they use the API of a running server, or the first table of a source.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::api::{Api, with_query};
use super::command_log::log_to_stderr;
use super::first_table::FirstTable;
use super::origin::{ChosenServer, NO_HISTORY, Origin, ServerDocument, at_parameter, note};
use super::output::{print, print_to_stderr, render};
use super::screen::{Screen, harmless};
use crate::cli::{Cluster, ExplainArgs, Output, SourceArgs, TableArgs, ViewArgs};
use crate::explain::{Context, Explanation, Observer, PlainService, Subject, service_of};
use crate::model::{Namespace, ServiceKey, Timestamp};
use crate::report::{EndpointSelection, Report, Selection, Summary};
use crate::source::file;

/// The interval at which `table --watch` looks for a change.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The exit code of `explain` and `table` for a name that does not exist.
const NO_SUCH_NAME: u8 = 3;

/// What `table` prints.
enum TableContent {
    /// A zone file.
    Zone(String),
    /// The selected services.
    Report(Report),
    /// The selected services, with one row for each.
    Summary(Summary),
}

/// The content of a table, and what of the selection matches nothing.
struct SelectedTable {
    content: TableContent,
    unmatched: Option<String>,
}

/// Prints the table of a running server, or of a source.
pub(super) async fn print_table(args: TableArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.view.log)?;
    let mut origin = Origin::find(&args.view).await?;
    origin.reach_back(args.at).await;
    if args.watch {
        return watch_table(&args, origin).await;
    }
    let table = table_of(&args, &mut origin).await?;
    let chosen = origin.chosen_and_compared().await;
    let is_document = args.output == Output::Json;
    if table.unmatched.is_none() || is_document {
        print(&table.content.text(&args, chosen.as_ref())?)?;
    }
    Ok(match table.unmatched {
        None => ExitCode::SUCCESS,
        Some(sentence) => {
            let heading = chosen
                .filter(|_| !is_document)
                .map(|chosen| chosen.heading(""));
            let heading = heading.unwrap_or_default();
            print_to_stderr(&format!("{heading}error: {}\n", harmless(&sentence)));
            ExitCode::from(NO_SUCH_NAME)
        }
    })
}

/// Prints the table whenever it changes, until nobody reads the output.
///
/// The replicas are compared once for each server that is found. A comparison at each change would always find
/// differences, because the replicas see a change at different times.
async fn watch_table(args: &TableArgs, mut origin: Origin) -> anyhow::Result<ExitCode> {
    let mut chosen = origin.chosen_and_compared().await;
    let mut screen = Screen::default();
    let mut has_failed = false;
    loop {
        let text = table_of(args, &mut origin).await;
        let text = text.and_then(|table| {
            let text = table.content.text(args, chosen.as_ref())?;
            // A program reads documents one after the other, and sees that they are empty.
            let unmatched = table
                .unmatched
                .filter(|_| args.output != Output::Json)
                .map(|sentence| format!("\n{sentence}\n"));
            Ok(text + &harmless(&unmatched.unwrap_or_default()))
        });
        match text {
            Ok(text) => {
                has_failed = false;
                if screen.show(text)?.is_break() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            Err(error) => {
                if !has_failed {
                    note(&format!("{error:#}; retrying"));
                }
                has_failed = true;
                // The replica may be gone.
                if origin.find_again(&args.view).await.is_ok() {
                    chosen = origin.chosen_and_compared().await;
                }
            }
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Reads the table for the requested format.
async fn table_of(args: &TableArgs, origin: &mut Origin) -> anyhow::Result<SelectedTable> {
    if args.output == Output::Zone {
        return Ok(SelectedTable {
            content: TableContent::Zone(origin.zone_file(&args.view, args.at).await?),
            unmatched: None,
        });
    }
    let selection = Selection {
        namespaces: &args.view.source.namespace,
        filters: &args.filter,
    };
    let endpoints = EndpointSelection {
        clusters: &args.cluster,
        states: &args.state,
    };
    if args.summary {
        let mut summary = origin
            .document("/api/v1/summary", &args.view, args.at, Summary::new)
            .await?;
        let services = summary.services.iter();
        let names = services.map(|one| (one.namespace.as_str(), one.service.as_str()));
        let unmatched = selection.unmatched(names);
        let unmatched = unmatched.or_else(|| endpoints.unmatched(&summary.clusters()));
        summary.retain(&selection);
        summary.retain_cells(&endpoints);
        summary.sort();
        let content = TableContent::Summary(summary);
        return Ok(SelectedTable { content, unmatched });
    }
    let mut report = origin
        .document("/api/v1/table", &args.view, args.at, Report::new)
        .await?;
    let services = report.services.iter();
    let names = services.map(|one| (one.namespace.as_str(), one.service.as_str()));
    let unmatched = selection.unmatched(names);
    let unknown_cluster = endpoints.unmatched(&report.clusters());
    report.retain(&selection);
    // The name may be that of an object that is skipped.
    let unmatched = unmatched.filter(|_| report.problems.is_empty());
    report.retain_endpoints(&endpoints);
    Ok(SelectedTable {
        content: TableContent::Report(report),
        unmatched: unmatched.or(unknown_cluster),
    })
}

impl TableContent {
    /// Returns the table in the requested format, with its origin.
    fn text(&self, args: &TableArgs, chosen: Option<&ChosenServer>) -> anyhow::Result<String> {
        let (output, colors) = (args.output, args.color.colors());
        match self {
            Self::Zone(text) => Ok(harmless(&with_heading(chosen, "; ", text))),
            Self::Report(report) => render(output, colors, &document(report, chosen), |style| {
                with_heading(chosen, "", &report.to_text(style))
            }),
            Self::Summary(summary) => render(output, colors, &document(summary, chosen), |style| {
                with_heading(chosen, "", &summary.to_text(style))
            }),
        }
    }
}

/// Returns a text below the lines about its origin.
fn with_heading(chosen: Option<&ChosenServer>, start: &str, text: &str) -> String {
    let heading = chosen.map(|chosen| chosen.heading(start));
    heading.unwrap_or_default() + text
}

fn document<'a, T>(content: &'a T, origin: Option<&'a ChosenServer>) -> ServerDocument<'a, T> {
    ServerDocument { content, origin }
}

/// Prints the explanation of a name or an address, by a running server or by the table of a source.
pub(super) async fn explain_name(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let ExplainArgs {
        name,
        view,
        output,
        color,
        at,
    } = args;
    log_to_stderr(&view.log)?;
    let namespaces = &view.source.namespace;
    let question = question(name, namespaces);
    let mut origin = Origin::find(&view).await?;
    origin.reach_back(at).await;
    let mut explanation = match &mut origin {
        Origin::Server(server) => served_explanation(&mut server.api, &question, at).await?,
        Origin::Objects(..) if at.is_some() => bail!(NO_HISTORY),
        Origin::Objects(table, _) => read_explanation(&view, table, &question).await?,
    };
    if !explanation.retain_namespaces(namespaces) {
        let name = &explanation.name;
        bail!("{name} belongs to a namespace that --namespace excludes");
    }
    let chosen = origin.chosen_and_compared().await;
    let chosen = chosen.as_ref();
    let document = document(&explanation, chosen);
    print(&render(output, color.colors(), &document, |style| {
        with_heading(chosen, "", &explanation.to_text(style))
    })?)?;
    Ok(if explanation.exists {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NO_SUCH_NAME)
    })
}

/// Returns what to explain: a name, or as in kubectl, the name of a service and its namespace.
fn question(name: String, namespaces: &[Namespace]) -> String {
    match namespaces {
        [namespace] if !name.contains(['.', '/', ':']) => format!("{namespace}/{name}"),
        _ => name,
    }
}

/// Requests the explanation of a name or an address from a running server.
async fn served_explanation(
    api: &mut Api,
    question: &str,
    at: Option<Timestamp>,
) -> anyhow::Result<Explanation> {
    let query = [("name", Some(question.to_owned())), at_parameter(at)];
    api.read(&with_query("/api/v1/explain", query)).await
}

/// Explains a name or an address by the first table of a source. If the name does not exist, also searches for a Service
/// that no watch selects.
async fn read_explanation(
    view: &ViewArgs,
    table: &FirstTable,
    question: &str,
) -> anyhow::Result<Explanation> {
    let zones = view.settings.loaded.zones(&[]);
    let now = Arc::clone(&table.reader.load());
    let subject = Subject::parse(&zones, now.table.as_ref(), question)
        .with_context(|| format!("'{question}' is not a domain name"))?;
    let explain_with = |plain: Option<&PlainService>| {
        let context = Context {
            watched: &view.source.namespace,
            observer: Observer::Command(plain),
        };
        let explanation = subject.explain(&zones, &now, &context);
        explanation.context("there is no complete table")
    };
    let explanation = explain_with(None)?;
    let unknown = subject.name().filter(|_| !explanation.exists);
    let plain = match unknown.and_then(|name| service_of(&zones, name)) {
        Some(service) => plain_service(&view.source, &service).await,
        None => None,
    };
    match plain {
        Some(plain) => explain_with(Some(&plain)),
        None => Ok(explanation),
    }
}

/// Returns a Service of this cluster that no watch selects. Returns `None` if it cannot be read: the explanation is
/// valid without it.
async fn plain_service(source: &SourceArgs, name: &ServiceKey) -> Option<PlainService> {
    if !source.namespace.is_empty() && !source.namespace.contains(&name.namespace) {
        return None;
    }
    if source.file.is_empty() {
        let opened = Cluster::open(source.kubeconfig.access()).await;
        let cluster = opened.ok()?;
        let service = cluster.service(name).await.ok()??;
        return PlainService::read(&service, name);
    }
    let objects = file::read_objects(&source.file).ok()?;
    let services = objects.iter().filter(|(kind, _)| kind == "Service");
    services
        .filter_map(|(_, json)| PlainService::read(json, name))
        .next()
}
