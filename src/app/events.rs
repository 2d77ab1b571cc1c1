//! `events`: the last changes of the answers, as a running server recorded them.

mod stream;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;

use super::api::Api;
use super::flags::log_to_stderr;
use super::origin::{ChosenServer, Server, ServerDocument, find_server, note};
use super::output::{json, print, yaml};
use super::screen::{harmless, write};
use super::source::access;
use crate::cli::{EventsArgs, EventsOutput};
use crate::report::Selection;
use crate::source::kube;
use stream::Frames;

/// The path of the API.
const PATH: &str = "/api/v1/events";
/// The pause before the next attempt to reach a server.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The response of the API.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Events {
    schema_version: u32,
    events: Vec<Event>,
}

/// A change.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Event {
    id: u64,
    time: String,
    kind: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    service: String,
    #[serde(default)]
    cluster: String,
    #[serde(default)]
    hostname: String,
    text: String,
}

/// Prints the events that are printed so far, and follows them.
struct Follower<'a> {
    args: &'a EventsArgs,
    /// The time of the last event. Another server may have other IDs.
    last_time: String,
}

/// Prints the events of a running server, and with `--watch` follows them.
pub(super) async fn print_events(args: EventsArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.log, "error")?;
    let mut server = find(&args).await?;
    let chosen = server.chosen();
    if !args.watch {
        let mut events = read(&mut server.api).await?;
        events
            .events
            .retain(|event| args.selection().has_event(event));
        print(&all(&events, args.output, chosen.as_ref())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut follower = Follower {
        args: &args,
        last_time: String::new(),
    };
    if write(&heading(args.output, chosen.as_ref()))?.is_break() {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        match follower.follow(&mut server.api).await {
            Ok(ControlFlow::Break(())) => return Ok(ExitCode::SUCCESS),
            Ok(ControlFlow::Continue(())) => note("the server ended the stream; reconnecting"),
            Err(error) => note(&format!("{error:#}; reconnecting")),
        }
        server = loop {
            tokio::time::sleep(RETRY_DELAY).await;
            if let Ok(found) = find(&args).await {
                break found;
            }
        };
        if let Some(chosen) = server.chosen() {
            note(chosen.heading("").trim_end());
        }
    }
}

/// Returns the server to query. Only a running server has events.
async fn find(args: &EventsArgs) -> anyhow::Result<Server> {
    let access = access(
        args.kubeconfig.as_ref(),
        args.context.as_ref(),
        kube::KubeAccess::Auto,
    );
    let found = find_server(&args.server, access).await?;
    found.map_err(|error| anyhow!(error).context("only a running server has events"))
}

async fn read(api: &mut Api) -> anyhow::Result<Events> {
    let text = api.get(PATH).await?;
    serde_json::from_str(&text).context("cannot parse the events of the server")
}

// === impl Follower ===

impl Follower<'_> {
    /// Prints new events until the stream ends. Breaks if nobody reads the output.
    async fn follow(&mut self, api: &mut Api) -> anyhow::Result<ControlFlow<()>> {
        // The stream begins before the events are read. So none is lost between both, and a server without events needs no
        // position.
        let (_connection, mut body) = api.stream(PATH).await?;
        let events = read(api).await?.events;
        let read: BTreeSet<u64> = events.iter().map(|event| event.id).collect();
        for event in events {
            if event.time > self.last_time && self.show(event)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let mut frames = Frames::default();
        while let Some(part) = body.frame().await {
            let part = part.context("the connection to the server failed")?;
            let Ok(octets) = part.into_data() else {
                continue; // trailers
            };
            for frame in frames.push(&octets) {
                match frame.event.as_str() {
                    "change" => {
                        let event: Result<Event, _> = serde_json::from_str(&frame.data);
                        let event = event.context("cannot parse an event of the server")?;
                        if !read.contains(&event.id) && self.show(event)?.is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                    "reset" => note("the server no longer has all events since the last one"),
                    _ => {} // `table`: the answers may be unchanged
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Prints an event, if it is selected.
    fn show(&mut self, event: Event) -> anyhow::Result<ControlFlow<()>> {
        let line = if self.args.selection().has_event(&event) {
            one(&event, self.args.output)?
        } else {
            return Ok(ControlFlow::Continue(()));
        };
        self.last_time = event.time;
        write(&line)
    }
}

// === Output ===

impl EventsArgs {
    fn selection(&self) -> Selection<'_> {
        Selection {
            namespaces: &self.namespace,
            filters: &self.filter,
        }
    }
}

impl Selection<'_> {
    /// Returns whether an event is selected. One without a service concerns everything.
    fn has_event(&self, event: &Event) -> bool {
        (event.namespace.is_empty() && event.service.is_empty())
            || self.has(&event.namespace, &event.service)
    }
}

/// Returns the lines above the events.
fn heading(output: EventsOutput, chosen: Option<&ChosenServer>) -> String {
    let columns = match output {
        EventsOutput::Text => {
            "TIME                  KIND               SERVICE                   TEXT\n"
        }
        EventsOutput::Wide => {
            "ID       TIME                  KIND               NAMESPACE        SERVICE          CLUSTER      HOST         TEXT\n"
        }
        // Each line is an event.
        EventsOutput::Json | EventsOutput::Yaml => return String::new(),
    };
    let origin = chosen.map(|chosen| harmless(&chosen.heading("")));
    origin.unwrap_or_default() + columns
}

/// Returns all events.
fn all(
    events: &Events,
    output: EventsOutput,
    chosen: Option<&ChosenServer>,
) -> anyhow::Result<String> {
    let document = ServerDocument {
        content: events,
        origin: chosen,
    };
    match output {
        EventsOutput::Json => json(&document),
        EventsOutput::Yaml => yaml(&document),
        EventsOutput::Text | EventsOutput::Wide => {
            let mut text = heading(output, chosen);
            for event in &events.events {
                text += &one(event, output)?;
            }
            Ok(text)
        }
    }
}

/// Returns one event as a line. JSON: one object for each line. YAML: one document for each event.
fn one(event: &Event, output: EventsOutput) -> anyhow::Result<String> {
    let Event {
        id,
        time,
        kind,
        namespace,
        service,
        cluster,
        hostname,
        text,
    } = event;
    Ok(match output {
        EventsOutput::Text => {
            let name = if service.is_empty() {
                namespace.clone()
            } else {
                format!("{namespace}/{service}")
            };
            harmless(&format!("{time:20}  {kind:17}  {name:24}  {text}\n"))
        }
        EventsOutput::Wide => {
            let filled = |cell: &str| match cell {
                "" => "-".to_owned(),
                some => some.to_owned(),
            };
            let [namespace, service, cluster, hostname] =
                [namespace, service, cluster, hostname].map(|cell| filled(cell));
            harmless(&format!(
                "{id:<7}  {time:20}  {kind:17}  {namespace:15}  {service:15}  {cluster:11}  {hostname:11}  {text}\n"
            ))
        }
        EventsOutput::Json => serde_json::to_string(event)? + "\n",
        EventsOutput::Yaml => format!("---\n{}", yaml(event)?),
    })
}
