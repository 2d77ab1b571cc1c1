//! `table` and `explain`: they use the API of a running server, or the first table of a source.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::Uri;

use super::api::Api;
use super::first_table::ONE_SHOT_TIMING;
use super::flags::{log_to_stderr, zones};
use super::origin::{ChosenServer, NO_HISTORY, Origin, ServerDocument, at_parameter, note};
use super::output::{json, print, yaml};
use super::screen::{Screen, harmless};
use super::source::access;
use crate::cli::{ExplainArgs, ExplainOutput, SourceArgs, TableArgs, TableOutput, ViewArgs};
use crate::explain::{Context, Explanation, Observer, PlainService, Subject, service_of};
use crate::model::{Namespace, ServiceKey, Timestamp};
use crate::report::{Report, Selection, TextForm};
use crate::source::{file, kube};
use crate::table::publish::Reader;

/// The interval at which `table --watch` looks for a change.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The exit code of `explain` for a name that does not exist.
const NO_SUCH_NAME: u8 = 3;

/// What `table` prints.
enum TableContent {
    /// A zone file.
    Zone(String),
    /// The selected services.
    Report(Report),
}

/// Prints the table of a running server, or of a source.
pub(super) async fn print_table(args: TableArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.view.log)?;
    let mut origin = Origin::find(&args.view).await?;
    if args.watch {
        return watch_table(&args, origin).await;
    }
    let table = table_of(&args, &mut origin).await?;
    let chosen = origin.chosen_and_compared().await;
    print(&table.text(args.output, chosen.as_ref())?)?;
    Ok(ExitCode::SUCCESS)
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
        match text.and_then(|table| table.text(args.output, chosen.as_ref())) {
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
                if let Ok(found) = Origin::find_again(&args.view).await {
                    origin = found;
                    chosen = origin.chosen_and_compared().await;
                }
            }
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// Reads the table for the requested format.
async fn table_of(args: &TableArgs, origin: &mut Origin) -> anyhow::Result<TableContent> {
    if args.output == TableOutput::Zone {
        return Ok(TableContent::Zone(
            origin.zone_file(&args.view, args.at).await?,
        ));
    }
    let mut report = origin.report(&args.view, args.at).await?;
    report.retain(&Selection {
        namespaces: &args.view.source.namespace,
        filters: &args.filter,
    });
    Ok(TableContent::Report(report))
}

impl TableContent {
    /// Returns the table in the requested format, with its origin.
    fn text(&self, output: TableOutput, chosen: Option<&ChosenServer>) -> anyhow::Result<String> {
        let report = match self {
            Self::Zone(text) => return Ok(with_heading(chosen, "; ", text)),
            Self::Report(report) => report,
        };
        match output {
            TableOutput::Text | TableOutput::Zone => {
                Ok(with_heading(chosen, "", &report.to_text()))
            }
            TableOutput::Wide => {
                let text = report.to_text_of(TextForm::Wide);
                Ok(with_heading(chosen, "", &text))
            }
            TableOutput::Json => json(&document(report, chosen)),
            TableOutput::Yaml => yaml(&document(report, chosen)),
        }
    }
}

/// Returns a text below the lines about its origin.
fn with_heading(chosen: Option<&ChosenServer>, start: &str, text: &str) -> String {
    let heading = chosen.map(|chosen| chosen.heading(start));
    harmless(&(heading.unwrap_or_default() + text))
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
        at,
        all_replicas: _, // asks the replicas, see `replicas.rs`
    } = args;
    log_to_stderr(&view.log)?;
    let namespaces = &view.source.namespace;
    let question = question(name, namespaces);
    let mut origin = Origin::find(&view).await?;
    let mut explanation = match &mut origin {
        Origin::Server(server) => served_explanation(&mut server.api, &question, at).await?,
        Origin::Objects(..) if at.is_some() => bail!(NO_HISTORY),
        Origin::Objects(reader, _) => read_explanation(&view, reader, &question).await?,
    };
    if !explanation.retain_namespaces(namespaces) {
        let name = &explanation.name;
        bail!("{name} belongs to a namespace that --namespace excludes");
    }
    let chosen = origin.chosen_and_compared().await;
    let chosen = chosen.as_ref();
    print(&match output {
        ExplainOutput::Text => with_heading(chosen, "", &explanation.to_text()),
        ExplainOutput::Wide => with_heading(chosen, "", &explanation.to_text_of(TextForm::Wide)),
        ExplainOutput::Json => json(&document(&explanation, chosen))?,
        ExplainOutput::Yaml => yaml(&document(&explanation, chosen))?,
    })?;
    Ok(if explanation.exists {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NO_SUCH_NAME)
    })
}

/// Returns what to explain: a name, or as in kubectl, the name of a service and its namespace.
pub(super) fn question(name: String, namespaces: &[Namespace]) -> String {
    match namespaces {
        [namespace] if !name.contains(['.', '/', ':']) => format!("{namespace}/{name}"),
        _ => name,
    }
}

/// Requests the explanation of a name or an address from a running server.
pub(super) async fn served_explanation(
    api: &mut Api,
    question: &str,
    at: Option<Timestamp>,
) -> anyhow::Result<Explanation> {
    let query = query_value(question);
    let at = at_parameter(at);
    let text = api
        .get(&format!("/api/v1/explain?name={query}{at}"))
        .await?;
    serde_json::from_str(&text).context("cannot parse the explanation of the server")
}

/// Explains a name or an address by the first table of a source. If the name does not exist, also searches for a Service
/// that no watch selects.
async fn read_explanation(
    view: &ViewArgs,
    reader: &Reader,
    question: &str,
) -> anyhow::Result<Explanation> {
    let zones = zones(&view.model, &[]);
    let now = reader.load();
    let subject = Subject::parse(&zones, now.table.as_ref(), question);
    let subject = subject.with_context(|| format!("'{question}' is not a domain name"))?;
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
        let access = access(
            source.kubeconfig.as_ref(),
            source.context.as_ref(),
            kube::KubeAccess::Auto,
        );
        let cluster = kube::Cluster::open(access, ONE_SHOT_TIMING).await.ok()?;
        let service = cluster.service(name).await.ok()??;
        return PlainService::read(&service, name);
    }
    let objects = file::read_objects(&source.file).ok()?;
    let services = objects.iter().filter(|(kind, _)| kind == "Service");
    services
        .filter_map(|(_, json)| PlainService::read(json, name))
        .next()
}

/// Requests a path from the API of a running server.
pub(super) async fn fetch(server: &Uri, path: &str) -> anyhow::Result<String> {
    Api::at(server).get(path).await
}

/// Percent-encodes a value for the query of a URL (RFC 3986 section 2.1).
fn query_value(text: &str) -> String {
    let escape = |octet: u8| match octet {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(octet).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}
