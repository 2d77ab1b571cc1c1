//! The first table of a source, for a command that ends when it has one, or the error of a command that gets none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use tokio::task::JoinSet;

use super::source::SelectedSource;
use crate::cli::{KubeAccess, SourceArgs};
use crate::settings::Settings;
use crate::source::{Feeds, UpdateSettings, kube};
use crate::table::Publisher;
use crate::view::{Identity, Server};

/// Maximum time until a command has a complete table of a cluster.
const FIRST_TABLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The intervals for a command that ends when it has a table.
const ONE_SHOT_TIMING: kube::WatchTiming = kube::WatchTiming {
    watch_timeout: FIRST_TABLE_TIMEOUT,
    relist: FIRST_TABLE_TIMEOUT,
};

/// Runs a source until its first complete table. Returns a server of it, and the tasks of the source, which the server needs.
pub(super) async fn first_table(
    args: &SourceArgs,
    settings: &Settings,
) -> anyhow::Result<(Server, JoinSet<()>)> {
    let feeds = Feeds::new(&settings.namespaces).with_links(settings.links_namespaces());
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let source = SelectedSource::open(args, ONE_SHOT_TIMING, KubeAccess::Auto).await?;
    let (url, origin, way_out) = match &source {
        SelectedSource::Files(_) => (
            String::new(),
            String::new(),
            "check the files of --file".to_owned(),
        ),
        SelectedSource::Cluster(cluster, _) => (
            cluster.url(),
            format!("{}: ", cluster.credentials),
            cluster.credentials.way_out.clone(),
        ),
    };
    let mut tasks = JoinSet::new();
    let update_settings = UpdateSettings {
        rules: settings.rules(),
        is_following: false,
    };
    source.spawn(&mut tasks, &feeds, publisher, update_settings)?;
    let deadline = Instant::now() + FIRST_TABLE_TIMEOUT;
    // The table is visible before the lines of the log about it are written.
    while feeds.events.latest().version == 0 {
        if Instant::now() > deadline || !feeds.failures().is_empty() {
            let why = why_no_table(&feeds);
            let place = match why.contains(&url) {
                true => origin,
                false => format!("{url}, {origin}"),
            };
            bail!("there is no complete table: {place}{why}; {way_out}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let identity = Identity {
        cluster: Some(settings.cluster_name.clone()),
        ..Identity::default()
    };
    let mut server = Server::of_objects(reader, feeds, settings.zones(&[]), identity);
    server.settings = Arc::new(serde_json::to_value(settings)?);
    Ok((server, tasks))
}

/// Returns why a source has no table.
fn why_no_table(feeds: &Feeds) -> String {
    let failures: Vec<String> = feeds.failures().into_iter().collect();
    let why = match failures.as_slice() {
        [] => format!(
            "no complete list within {} s",
            FIRST_TABLE_TIMEOUT.as_secs()
        ),
        some => some.join("; "),
    };
    // Kubernetes 1.21 and older lack an API or a selector.
    match why.contains("returned 404") {
        true => why + " (global-dns needs Kubernetes 1.22 or later)",
        false => why,
    }
}
