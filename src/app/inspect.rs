//! `table` and `explain`: they use the API of a running server, or the first table of a source.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use http::{Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;

use super::no_table::TableSource;
use super::{Source, access, json, log_to_stderr, print, zones};
use crate::admin::choose_zone;
use crate::cli::{
    ExplainArgs, ExplainOutput, ModelArgs, SourceArgs, TableArgs, TableOutput, ViewArgs,
};
use crate::explain::{Context, Explanation, Observer, PlainService, explain, service_of};
use crate::mirror::ServiceKey;
use crate::report::Report;
use crate::source::{Feeds, ShrinkGuard, UpdateSettings, file, kube};
use crate::table::Publisher;
use crate::table::failover::Delays;
use crate::table::publish::Reader;
use crate::zone::Name;
use crate::zone::print::zone_file;

/// The exit code of `explain` for a name that does not exist.
const NO_SUCH_NAME: u8 = 3;
/// How long `table` and `explain` wait for a complete table of a cluster.
const FIRST_TABLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The intervals for a command that ends when it has a table.
pub(super) const ONE_SHOT_TIMING: kube::Timing = kube::Timing {
    watch_timeout: FIRST_TABLE_TIMEOUT,
    relist: FIRST_TABLE_TIMEOUT,
};

/// Prints the table of a running server, or of a source.
pub(super) async fn print_table(args: TableArgs) -> anyhow::Result<ExitCode> {
    let TableArgs { view, output } = args;
    log_to_stderr(&view.log, "error")?;
    let text = match &view.server {
        Some(server) => served_table(server, &view.model, output).await?,
        None => read_table(&view, output).await?,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the output for the table of a running server.
async fn served_table(
    server: &Uri,
    model: &ModelArgs,
    output: TableOutput,
) -> anyhow::Result<String> {
    match output {
        TableOutput::Text => Ok(report_of(server).await?.to_text()),
        TableOutput::Json => json(&report_of(server).await?),
        TableOutput::Zone => {
            let zone = match model.zone.as_slice() {
                [zone] => format!("&zone={zone}"),
                _ => String::new(),
            };
            fetch(server, &format!("/api/v1/table?output=zone{zone}")).await
        }
    }
}

/// Returns the output for the first table of a source.
async fn read_table(view: &ViewArgs, output: TableOutput) -> anyhow::Result<String> {
    let reader = first_table(&view.source, &view.model).await?;
    let now = reader.load();
    let zones = zones(&view.model, &[]);
    match output {
        TableOutput::Text => Ok(Report::new(&zones, &now).to_text()),
        TableOutput::Json => json(&Report::new(&zones, &now)),
        TableOutput::Zone => {
            let zone = choose_zone(&zones, None).map_err(|problem| anyhow!(problem))?;
            Ok(zone_file(&zones, zone, &now))
        }
    }
}

/// Prints the explanation of a name, by a running server or by the table of a source.
pub(super) async fn explain_name(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let ExplainArgs { name, view, output } = args;
    log_to_stderr(&view.log, "error")?;
    let text = name;
    let name = Name::from_text(&text).ok_or_else(|| anyhow!("'{text}' is not a domain name"))?;
    let explanation = match &view.server {
        Some(server) => served_explanation(server, &name).await?,
        None => read_explanation(&view, &name).await?,
    };
    print(&match output {
        ExplainOutput::Text => explanation.to_text(),
        ExplainOutput::Json => json(&explanation)?,
    })?;
    Ok(if explanation.exists {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NO_SUCH_NAME)
    })
}

/// Requests the explanation of a name from a running server.
async fn served_explanation(server: &Uri, name: &Name) -> anyhow::Result<Explanation> {
    let query = query_value(&name.to_string());
    let text = fetch(server, &format!("/api/v1/explain?name={query}")).await?;
    serde_json::from_str(&text).with_context(|| format!("cannot parse the response of {server}"))
}

/// Explains a name by the first table of a source. If the name does not exist, also searches for a Service that no
/// watch selects.
async fn read_explanation(view: &ViewArgs, name: &Name) -> anyhow::Result<Explanation> {
    let reader = first_table(&view.source, &view.model).await?;
    let zones = zones(&view.model, &[]);
    let explain_with = |plain: Option<&PlainService>| {
        let context = Context {
            watched: &view.source.namespace,
            observer: Observer::Command(plain),
        };
        let explanation = explain(&zones, &reader.load(), &context, name);
        explanation.context("there is no complete table")
    };
    let explanation = explain_with(None)?;
    let unknown = service_of(&zones, name).filter(|_| !explanation.exists);
    let plain = match unknown {
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
            kube::Access::Auto,
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

/// Runs a source until its first complete table.
pub(super) async fn first_table(args: &SourceArgs, model: &ModelArgs) -> anyhow::Result<Reader> {
    let feeds = Feeds::new(&args.namespace);
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let source = Source::open(args, ONE_SHOT_TIMING, kube::Access::Auto).await?;
    let mut tasks = JoinSet::new();
    let settings = UpdateSettings {
        rules: model.rules(),
        shrink_guard: ShrinkGuard::new(None), // the first table has no predecessor to compare with
        snapshot: None,
        max_stale: None,
        delays: Delays::default(),
    };
    let origin = TableSource::of(&source);
    source.spawn(&mut tasks, &feeds, publisher, settings)?;
    let deadline = Instant::now() + FIRST_TABLE_TIMEOUT;
    while reader.load().table.is_none() {
        if Instant::now() > deadline || !feeds.failures().is_empty() {
            return Err(origin.no_table(&feeds, FIRST_TABLE_TIMEOUT));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(reader)
}

async fn report_of(server: &Uri) -> anyhow::Result<Report> {
    let text = fetch(server, "/api/v1/table").await?;
    serde_json::from_str(&text).with_context(|| format!("cannot parse the response of {server}"))
}

/// Requests a path from the API of a running server.
pub(super) async fn fetch(server: &Uri, path: &str) -> anyhow::Result<String> {
    if server.scheme_str() != Some("http") {
        bail!("{server}: only http:// is supported; kubectl port-forward provides such an address");
    }
    let url = format!("{}{path}", server.to_string().trim_end_matches('/'));
    let response = get(server, &url).await?;
    let status = response.status();
    let body = response
        .into_body()
        .collect()
        .await
        .with_context(|| format!("cannot read the response of {url}"))?;
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    if !status.is_success() {
        bail!("{url} returned {status}: {}", text.trim());
    }
    Ok(text)
}

/// Sends a request to a running server and waits for the head of the response.
async fn get(server: &Uri, url: &str) -> anyhow::Result<Response<Incoming>> {
    let client = HttpClient::builder(TokioExecutor::new()).build_http::<String>();
    let request = client.get(
        url.parse()
            .with_context(|| format!("'{url}' is not a valid URL"))?,
    );
    let seconds = FIRST_TABLE_TIMEOUT.as_secs();
    let timed_out = || anyhow!("no response from {server} within {seconds} s");
    let response = tokio::time::timeout(FIRST_TABLE_TIMEOUT, request)
        .await
        .map_err(|_| timed_out())?;
    response.with_context(|| format!("cannot request {url}"))
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
