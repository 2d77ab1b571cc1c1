//! `events`: the last changes of the answers, as a running server recorded them.

use std::io;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::{StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::io::StreamReader;

use super::command_log::log_to_stderr;
use super::remote::{RunningServer, find_server};
use crate::cli::{EventsArgs, Output, local_text, note, print, write};
use crate::model::{Timestamp, list_some};
use crate::view::{Filter, View};

/// The most octets of one line of the stream. A server that sends more is not one of ours.
const MAX_LINE: usize = 1 << 20;
/// The pause before the next attempt to reach a server.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// The events that are printed so far.
struct Printed {
    /// The ID of the last one, from which a stream continues.
    position: Option<u64>,
    /// Its time. Another server has other IDs.
    time: Option<Timestamp>,
}

/// Prints the events of a running server, and with `--watch` follows them.
pub(super) async fn print_events(args: EventsArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.log)?;
    let mut server = find(&args).await?;
    let filter = args.events_filter();
    if args.watch {
        return watch(&args, server, filter).await;
    }
    let document = server.document(View::Events, &filter, args.output).await?;
    if args.output != Output::Json {
        print(&format!("answered by {}\n\n", server.name(&document)))?;
    }
    args.form().print(document)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the events so far, then each event when it happens, until nobody reads the output.
async fn watch(
    args: &EventsArgs,
    mut server: RunningServer,
    mut filter: Filter,
) -> anyhow::Result<ExitCode> {
    // Events that come between the list and the stream follow this one.
    let status = server.items(View::Status, &Filter::default()).await?;
    let status = status.objects();
    let last = status
        .first()
        .and_then(|status| status["lastEvent"].as_u64());
    let mut printed = Printed {
        position: last,
        time: None,
    };
    loop {
        let listed = server.items(View::Events, &filter).await;
        let followed = match listed {
            Ok(listed) => follow(args, &mut server, &filter, listed.objects(), &mut printed).await,
            Err(error) => Err(error),
        };
        match followed {
            Ok(ControlFlow::Break(())) => return Ok(ExitCode::SUCCESS),
            Ok(ControlFlow::Continue(())) => note("the server ended the stream; reconnecting"),
            Err(error) => note(&format!("{error:#}; reconnecting")),
        }
        filter.after = printed.position;
        filter.since = printed.time.or(filter.since);
        server = loop {
            tokio::time::sleep(RETRY_DELAY).await;
            if let Ok(found) = server.find_again(&args.server, &args.kubeconfig).await {
                break found;
            }
        };
    }
}

/// Returns the server to query. Only a running server has events.
async fn find(args: &EventsArgs) -> anyhow::Result<RunningServer> {
    let found = find_server(&args.server, &args.kubeconfig).await?;
    found.map_err(|error| anyhow!(error).context("only a running server has events"))
}

/// Prints events, and new ones until the stream ends. Breaks if nobody reads the output.
async fn follow(
    args: &EventsArgs,
    server: &mut RunningServer,
    filter: &Filter,
    listed: Vec<Value>,
    printed: &mut Printed,
) -> anyhow::Result<ControlFlow<()>> {
    for event in listed {
        if printed.show(args, &event)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    let filter = Filter {
        after: printed.position,
        since: None,
        ..filter.clone()
    };
    let (_connection, body) = server.api.stream(&filter).await?;
    // Each message of the server has lines with its ID, its type, and its data (WHATWG HTML, section 9.2).
    let octets = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
    let mut lines = FramedRead::new(octets, LinesCodec::new_with_max_length(MAX_LINE));
    let mut kind = String::new();
    while let Some(line) = lines.next().await {
        let line = line.context("cannot read the events of the server")?;
        match (line.split_once(": "), &*kind) {
            (Some(("event", name)), _) => kind = name.to_owned(),
            (Some(("data", json)), "change") => {
                let event: Value =
                    serde_json::from_str(json).context("cannot parse an event of the server")?;
                if printed.show(args, &event)?.is_break() {
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

// === impl Printed ===

impl Printed {
    /// Prints an event as a line.
    fn show(&mut self, args: &EventsArgs, event: &Value) -> anyhow::Result<ControlFlow<()>> {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        self.position = event["id"].as_u64().or(self.position);
        self.time = Timestamp::from_text(text("time")).or(self.time);
        if args.output == Output::Json {
            return write(&(serde_json::to_string(event)? + "\n"));
        }
        let services = event["services"].as_array().into_iter().flatten();
        let services = list_some(services.filter_map(Value::as_str), 1);
        let [time, kind, sentence] = ["time", "kind", "text"].map(text);
        let line = format!("{time}  {kind:12}  {services:24}  {sentence}");
        write(&(local_text(&line) + "\n"))
    }
}
