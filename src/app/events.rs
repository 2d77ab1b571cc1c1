//! `events`: the last changes of the answers, as a running server recorded them.

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::{StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::io::StreamReader;

use super::api::{Api, with_query};
use super::command_log::log_to_stderr;
use super::origin::{ChosenServer, RemoteServer, ServerDocument, find_server, note};
use super::output::{json, print};
use super::screen::{harmless_but_colors, write};
use crate::cli::{EventsArgs, Output};
use crate::model::{ClusterName, Timestamp, list_some};
use crate::report::{Colors, Shade};

/// The path of the API.
const PATH: &str = "/api/v1/events";
/// The most octets of one line of the stream. A server that sends more is not one of ours.
const MAX_LINE: usize = 1 << 20;
/// The pause before the next attempt to reach a server.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The response of the API. Fields and kinds of a newer server are passed on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReceivedEvents {
    schema_version: u32,
    /// The time since which the server knows all events. Older servers do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    known_since: Option<String>,
    events: Vec<ReceivedEvent>,
}

/// A change, as the server described it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct ReceivedEvent(Map<String, Value>);

/// Prints the events that are printed so far, and follows them.
struct Follower<'a> {
    args: &'a EventsArgs,
    /// The time of the last event. Another server may have other IDs.
    last_time: String,
}

/// Prints the events of a running server, and with `--watch` follows them.
pub(super) async fn print_events(args: EventsArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.log)?;
    let mut server = find(&args).await?;
    let chosen = server.chosen_and_compared().await;
    if !args.watch {
        let mut events: ReceivedEvents = server.api.read(&args.path()).await?;
        events.events.retain(|event| args.selects(event));
        note_begin(&events, &args);
        let form = (args.output, args.color.colors());
        print(&all(&events, form, chosen.as_ref())?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut follower = Follower {
        args: &args,
        last_time: String::new(),
    };
    if begin(args.output, chosen.as_ref())?.is_break() {
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
            if let Ok(found) = server.find_again(&args.server, &args.kubeconfig).await {
                break found;
            }
        };
        note_origin(server.chosen_and_compared().await.as_ref());
    }
}

/// Returns the server to query. Only a running server has events.
async fn find(args: &EventsArgs) -> anyhow::Result<RemoteServer> {
    let found = find_server(&args.server, &args.kubeconfig).await?;
    found.map_err(|error| anyhow!(error).context("only a running server has events"))
}

// === impl Follower ===

impl Follower<'_> {
    /// Prints new events until the stream ends. Breaks if nobody reads the output.
    async fn follow(&mut self, api: &mut Api) -> anyhow::Result<ControlFlow<()>> {
        // The stream begins before the events are read. So none is lost between both, and a server without events needs no
        // position.
        let (_connection, body) = api.stream(PATH).await?;
        let known: ReceivedEvents = api.read(&self.args.path()).await?;
        // A server that is reached again has told it.
        if self.last_time.is_empty() {
            note_begin(&known, self.args);
        }
        let events = known.events;
        let read: BTreeSet<u64> = events.iter().map(ReceivedEvent::id).collect();
        for event in events {
            if event.text("time") > &*self.last_time && self.show(event)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        // Each message of the server has one line with its type, and then one with its data (WHATWG HTML, section 9.2).
        let octets = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
        let mut lines = FramedRead::new(octets, LinesCodec::new_with_max_length(MAX_LINE));
        let mut kind = String::new();
        while let Some(line) = lines.next().await {
            let line = line.context("cannot read the events of the server")?;
            match (line.split_once(": "), &*kind) {
                (Some(("event", name)), _) => kind = name.to_owned(),
                (Some(("data", json)), "change") => {
                    let event: ReceivedEvent = serde_json::from_str(json)
                        .context("cannot parse an event of the server")?;
                    if !read.contains(&event.id()) && self.show(event)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                (Some(("data", _)), "reset") => {
                    note("the server no longer has all events since the last one");
                }
                _ => {} // `table`: the answers may be unchanged
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Prints an event, if it is selected.
    fn show(&mut self, event: ReceivedEvent) -> anyhow::Result<ControlFlow<()>> {
        if !self.args.selects(&event) {
            return Ok(ControlFlow::Continue(()));
        }
        self.last_time = event.text("time").to_owned();
        write(&one(&event, self.args.output, self.args.color.colors())?)
    }
}

// === impl ReceivedEvent ===

impl ReceivedEvent {
    /// Returns the ID, which every server sends.
    fn id(&self) -> u64 {
        self.0.get("id").and_then(Value::as_u64).unwrap_or_default()
    }

    /// Returns its first service, and the number of the others.
    fn services(&self) -> String {
        let services = self.0.get("services").and_then(Value::as_array);
        let names = services.into_iter().flatten().filter_map(Value::as_str);
        list_some(names, 1)
    }

    /// Returns a text, or nothing if the event does not have it.
    fn text(&self, name: &str) -> &str {
        let text = self.0.get(name).and_then(Value::as_str);
        text.unwrap_or_default()
    }
}

// === Output ===

/// Notes where the known events begin, if the user asked for earlier ones.
fn note_begin(events: &ReceivedEvents, args: &EventsArgs) {
    let known = events
        .known_since
        .as_deref()
        .and_then(|text| Some((text, Timestamp::from_text(text)?)));
    if let Some((text, begin)) = known
        && args.since.is_some_and(|since| since < begin)
    {
        note(&format!("the server knows the events since {text}"));
    }
}

impl EventsArgs {
    /// Returns the path of the API with the events that are selected by time, cluster and kind.
    fn path(&self) -> String {
        let list = |values: Vec<&str>| Some(values.join(",")).filter(|list| !list.is_empty());
        let query = [
            ("since", self.since.map(Timestamp::to_exact_text)),
            ("cluster", list(self.clusters())),
            ("kind", list(self.kinds())),
        ];
        with_query(PATH, query)
    }

    /// Returns whether an event is selected. Streams have all of them, and so do older servers.
    fn selects(&self, event: &ReceivedEvent) -> bool {
        // Times of events have seconds.
        let since = self.since.map(|since| since.seconds());
        let time = Timestamp::from_text(event.text("time")).map(Timestamp::seconds);
        let has = |name, values: &[&str]| values.is_empty() || values.contains(&event.text(name));
        since.is_none_or(|since| time.is_none_or(|time| since <= time))
            && has("cluster", &self.clusters())
            && has("kind", &self.kinds())
    }

    fn clusters(&self) -> Vec<&str> {
        self.cluster.iter().map(ClusterName::as_str).collect()
    }

    fn kinds(&self) -> Vec<&str> {
        self.kind.iter().map(<&str>::from).collect()
    }
}

/// Prints what is above the events of a watch.
fn begin(output: Output, chosen: Option<&ChosenServer>) -> anyhow::Result<ControlFlow<()>> {
    match output {
        // Each line is an event, so the origin is beside them.
        Output::Json => {
            note_origin(chosen);
            Ok(ControlFlow::Continue(()))
        }
        _ => write(&heading(output, chosen)),
    }
}

/// Prints the origin to standard error.
fn note_origin(chosen: Option<&ChosenServer>) {
    if let Some(chosen) = chosen {
        note(chosen.heading("").trim_end());
    }
}

/// Returns the lines above the events.
fn heading(output: Output, chosen: Option<&ChosenServer>) -> String {
    let columns = match output {
        Output::Json => "",
        Output::Wide => {
            "ID       TIME                  KIND          SERVICE                   CLUSTER      TEXT\n"
        }
        _ => "TIME                  KIND          SERVICE                   TEXT\n",
    };
    let origin = chosen.map(|chosen| chosen.heading(""));
    origin.unwrap_or_default() + columns
}

/// Returns all events.
fn all(
    events: &ReceivedEvents,
    (output, colors): (Output, Colors),
    chosen: Option<&ChosenServer>,
) -> anyhow::Result<String> {
    let document = ServerDocument {
        content: events,
        origin: chosen,
    };
    match output {
        Output::Json => json(&document),
        _ => {
            let mut text = heading(output, chosen);
            for event in &events.events {
                text += &one(event, output, colors)?;
            }
            Ok(text)
        }
    }
}

/// Returns one event as a line. JSON: one object for each line.
fn one(event: &ReceivedEvent, output: Output, colors: Colors) -> anyhow::Result<String> {
    let text = |name| event.text(name);
    let kind = format!("{:12}", text("kind"));
    let kind = colors.paint(Shade::of_change(text("kind")), &kind);
    let (time, name, sentence) = (text("time"), event.services(), text("text"));
    let row = match output {
        Output::Json => return Ok(serde_json::to_string(event)? + "\n"),
        Output::Wide => {
            let cluster = Some(text("cluster")).filter(|text| !text.is_empty());
            let (id, cluster) = (event.id(), cluster.unwrap_or("-"));
            format!("{id:<7}  {time:20}  {kind}  {name:24}  {cluster:11}  {sentence}\n")
        }
        _ => format!("{time:20}  {kind}  {name:24}  {sentence}\n"),
    };
    Ok(harmless_but_colors(&row))
}
