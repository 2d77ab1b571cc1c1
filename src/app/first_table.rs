//! The first table of a source, for a command that ends when it has one, or the error of a command that gets none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use tokio::task::JoinSet;

use super::source::SelectedSource;
use crate::cli::{Location, SourceArgs};
use crate::settings::Settings;
use crate::source::Feeds;
use crate::view::{Identity, Server};

/// Maximum time until a command has a complete table of a cluster.
const FIRST_TABLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a source until its first complete table. Returns the place of a server of it, in this process.
pub(super) async fn first_table(
    args: &SourceArgs,
    settings: &Settings,
) -> anyhow::Result<Location> {
    let source = SelectedSource::open(args, false).await?;
    let (url, origin, way_out) = match &source {
        SelectedSource::Files(_) => Default::default(),
        SelectedSource::Cluster(one) => (one.url(), one.origin.clone(), one.way_out.clone()),
    };
    let mut tasks = JoinSet::new();
    let (feeds, reader) = source.start(settings, false, &mut tasks)?;
    let deadline = Instant::now() + FIRST_TABLE_TIMEOUT;
    // The table is visible before the lines of the log about it are written.
    while feeds.events.latest().version == 0 {
        if Instant::now() > deadline || !feeds.failures().is_empty() {
            let why = why_no_table(&feeds);
            match (url.as_str(), why.contains(&url)) {
                ("", _) => bail!("there is no complete table: {why}; check the files of --file"),
                (_, true) => bail!("there is no complete table: {origin}: {why}; {way_out}"),
                _ => bail!("there is no complete table: {url}, {origin}: {why}; {way_out}"),
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let identity = Identity {
        cluster: Some(settings.cluster_name.clone()),
        ..Identity::default()
    };
    let mut server = Server::of_objects(reader, feeds, settings.zones(&[]), identity);
    server.settings = Arc::new(serde_json::to_value(settings)?);
    Ok(Location::InProcess(Box::new(server), tasks))
}

/// Returns why a source has no table.
fn why_no_table(feeds: &Feeds) -> String {
    let failures: Vec<String> = feeds.failures().into_iter().collect();
    let seconds = FIRST_TABLE_TIMEOUT.as_secs();
    let why = match failures.as_slice() {
        [] => format!("no complete list within {seconds} s"),
        some => some.join("; "),
    };
    // Kubernetes 1.21 and older lack an API or a selector.
    match why.contains("returned 404") {
        true => why + " (global-dns needs Kubernetes 1.22 or later)",
        false => why,
    }
}
