//! The source that watches an API server.

mod client;
mod leases;
mod limiter;
mod requests;
mod responses;
mod watcher;

#[cfg(test)]
mod scripted;
#[cfg(test)]
mod tests;

use std::time::Duration;

use kube::Client;
use tracing::{Instrument, info_span};

pub(crate) use client::client;
pub(crate) use responses::{RequestFailure, within};
pub use watcher::RELIST;

use limiter::Limiters;
use requests::Requests;
use watcher::Watcher;

use super::{Feeds, Updates};

/// Watches every feed of an API server, and polls Leases, until the receiver of the updates is closed. Each feed is listed again after
/// `relist`, which is [`RELIST`] for a server.
pub async fn run(client: Client, relist: Duration, feeds: Feeds, updates: Updates) {
    let limiters = Limiters::default();
    let watches = feeds.all().into_iter().map(|feed| {
        let span = info_span!("watch", %feed);
        let requests = Requests::new(client.clone(), feed);
        Watcher::new(requests, &limiters, relist, &feeds, &updates)
            .run()
            .instrument(span)
    });
    let leases = leases::poll_leases(&client, &feeds, &updates);
    tokio::select! {
        _ = futures::future::join(futures::future::join_all(watches), leases) => {}
        () = updates.closed() => {}
    }
}
