//! The first table of a source, for a command that ends when it has one, or the error of a command that gets none.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use tokio::task::JoinSet;

use super::source::SelectedSource;
use crate::cli::{KubeAccess, SourceArgs};
use crate::settings::Settings;
use crate::source::{Feeds, UpdateSettings, kube};
use crate::table::Publisher;
use crate::table::publish::Reader;

/// Maximum time until a command has a complete table of a cluster.
const FIRST_TABLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The intervals for a command that ends when it has a table.
const ONE_SHOT_TIMING: kube::WatchTiming = kube::WatchTiming {
    watch_timeout: FIRST_TABLE_TIMEOUT,
    relist: FIRST_TABLE_TIMEOUT,
};

/// The location of a source, for messages.
struct TableSource {
    /// The URL of the API server, and where it is from. `None`: files.
    cluster: Option<(String, String)>,
    /// The advice if the source has no table.
    way_out: String,
}

/// The first table of a source. The source runs until this is dropped.
pub(super) struct FirstTable {
    /// The table.
    pub(super) reader: Reader,
    /// The state of its feeds.
    pub(super) feeds: Feeds,
    _tasks: JoinSet<()>,
}

/// Runs a source until its first complete table.
pub(super) async fn first_table(
    args: &SourceArgs,
    settings: &Settings,
) -> anyhow::Result<FirstTable> {
    let feeds = Feeds::new(&settings.namespaces).with_links(settings.links_namespaces());
    let publisher = Publisher::default();
    let reader = publisher.reader();
    let source = SelectedSource::open(args, ONE_SHOT_TIMING, KubeAccess::Auto).await?;
    let mut tasks = JoinSet::new();
    let update_settings = UpdateSettings {
        rules: settings.rules(),
        is_following: false,
    };
    let origin = TableSource::of(&source);
    source.spawn(&mut tasks, &feeds, publisher, update_settings)?;
    let deadline = Instant::now() + FIRST_TABLE_TIMEOUT;
    // The table is visible before the lines of the log about it are written.
    while feeds.events.latest().version == 0 {
        if Instant::now() > deadline || !feeds.failures().is_empty() {
            return Err(origin.no_table(&feeds, FIRST_TABLE_TIMEOUT));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(FirstTable {
        reader,
        feeds,
        _tasks: tasks,
    })
}

// === impl TableSource ===

impl TableSource {
    /// Returns the origin of a source.
    fn of(source: &SelectedSource) -> Self {
        match source {
            SelectedSource::Files(_) => Self {
                cluster: None,
                way_out: "check the files of --file".to_owned(),
            },
            SelectedSource::Cluster(cluster, _) => Self {
                cluster: Some((
                    cluster.url().trim_end_matches('/').to_owned(),
                    cluster.credentials().to_string(),
                )),
                way_out: cluster.credentials().way_out(),
            },
        }
    }

    /// Returns the error after a wait for the first table.
    fn no_table(&self, feeds: &Feeds, waited: Duration) -> anyhow::Error {
        let mut problems: Vec<String> = feeds.failures().into_iter().collect();
        if problems.is_empty() {
            let seconds = waited.as_secs();
            problems = vec![format!("no complete list within {seconds} s")];
        }
        // Kubernetes 1.21 and older lack an API or a selector.
        let is_old = problems
            .iter()
            .any(|problem| problem.contains("returned 404"));
        let version = if is_old {
            " (global-dns needs Kubernetes 1.22 or later)"
        } else {
            ""
        };
        let why = problems.join("; ");
        let (place, way_out) = match &self.cluster {
            None => (String::new(), &self.way_out),
            Some((url, from)) if why.contains(url.as_str()) => (format!("{from}: "), &self.way_out),
            Some((url, from)) => (format!("{url}, {from}: "), &self.way_out),
        };
        anyhow!("there is no complete table: {place}{why}{version}; {way_out}")
    }
}
