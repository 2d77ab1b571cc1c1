//! `events`: the last changes of the answers, as a running server recorded them.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use serde_json::Value;
use tokio::time::sleep;

use super::remote::{find_replica, find_server, show};
use crate::check::finding::{items, text};
use crate::cli::{Cluster, EventsArgs, Output, harmless_json, is_closed, local_text, note, print};
use crate::http::Api;
use crate::model::{Timestamp, list_some};
use crate::view::{Filter, ViewKind};

/// The pause before the next attempt to reach a server.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Prints the events of a running server, and with `--watch` follows them.
pub(super) async fn print_events(args: EventsArgs) -> Result<ExitCode> {
    let found = find_server(&args.server, &args.kubeconfig, "").await;
    let cluster = found.cluster.clone();
    let server = found.server().context("only a running server has events")?;
    let filter = Filter {
        text: args.filter.clone(),
        cluster: args.cluster.clone(),
        kind: args.kind.clone(),
        since: args.since,
        ..Filter::default()
    };
    if args.watch {
        watch(&args, server, cluster.transpose()?, filter).await
    } else {
        show(&server, ViewKind::Events, &filter, &args.print).await
    }
}

/// Prints the events so far, then each event when it happens, until nobody reads the output. The filter selects what is not printed
/// yet: the events after the last one, and since its time, because another server has other IDs.
async fn watch(
    args: &EventsArgs,
    mut server: Api,
    cluster: Option<Arc<Cluster>>,
    mut filter: Filter,
) -> Result<ExitCode> {
    // The sentences below the list, such as that no service matches.
    let shortest = Filter {
        limit: Some(1),
        ..filter.clone()
    };
    server
        .document(ViewKind::Events, &shortest, false)
        .await?
        .sections
        .into_iter()
        .skip(1)
        .flat_map(|one| one.rows)
        .for_each(|row| note(&local_text(&row.cells.concat())));
    loop {
        match follow(&server, &mut filter, args.print.output).await {
            Ok(()) => note("the server ended the stream; reconnecting"),
            Err(error) if is_closed(&error) => return Err(error),
            Err(error) => note(&format!("{error:#}; reconnecting")),
        }
        loop {
            sleep(RETRY_DELAY).await;
            // Another replica, if it was one. Never another kind of server, which may have other data.
            let Some(cluster) = &cluster else { break };
            let found = find_replica(cluster, args.server.server_namespace.as_ref());
            if let Ok((found, _)) = found.await {
                server = found;
                break;
            }
        }
    }
}

/// Prints events, and new ones until the stream ends.
async fn follow(server: &Api, filter: &mut Filter, output: Output) -> Result<()> {
    // Events that come between the list and the stream follow this one.
    let last = server.status().await?["lastEvent"].as_u64();
    let events = server.items(ViewKind::Events, filter).await?;
    if events.is_empty() {
        filter.after = last;
    }
    for event in events {
        print_event(&event, filter, output)?;
    }
    let new = Filter {
        since: None,
        ..filter.clone()
    };
    let mut messages = server.stream(&new).await?;
    while let Some(message) = messages.next().await {
        let (kind, data) = message?;
        match &*kind {
            "change" => {
                let event =
                    serde_json::from_str(&data).context("cannot parse an event of the server")?;
                print_event(&event, filter, output)?;
            }
            "reset" => note("the server no longer has all events since the last one"),
            _ => {} // `table`: the answers may be unchanged
        }
    }
    Ok(())
}

/// Prints an event as a line. The filter selects later ones from now on.
fn print_event(event: &Value, filter: &mut Filter, output: Output) -> Result<()> {
    filter.after = event["id"].as_u64().or(filter.after);
    filter.since = Timestamp::from_text(text(event, "time")).or(filter.since);
    if output == Output::Json {
        return print(&(harmless_json(&serde_json::to_string(event)?) + "\n"));
    }
    let services = list_some(items(event, "services").filter_map(Value::as_str), 1);
    let [time, kind, sentence] = ["time", "kind", "text"].map(|field| text(event, field));
    let line = format!("{time}  {kind:12}  {services:24}  {sentence}");
    print(&(local_text(&line) + "\n"))
}
