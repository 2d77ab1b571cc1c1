//! The source that the flags select: files or an API server.

use tokio::task::JoinSet;
use tracing::warn;

use super::thread::Thread;
use crate::cli::{Cluster, SourceArgs};
use crate::settings::Settings;
use crate::source::{self, Feeds, UpdateSettings, file, kube};
use crate::table::Publisher;
use crate::table::publish::Reader;

/// A source that is open but not running.
pub(super) enum SelectedSource {
    Files(file::Files),
    Cluster(Box<Cluster>),
}

impl SelectedSource {
    /// Opens the source that the flags select; without such flags, the API server.
    pub(super) async fn open(args: &SourceArgs, is_server: bool) -> anyhow::Result<Self> {
        if !args.file.is_empty() {
            return Ok(Self::Files(file::Files::open(args.file.clone())?));
        }
        let cluster = Cluster::open(&args.kubeconfig, is_server).await?;
        Ok(Self::Cluster(Box::new(cluster)))
    }

    /// Starts the source and the update loop on a separate thread. Building a large table must not delay connections.
    /// Both share the thread, so that an update reaches the table without waking another one. A server follows the source and
    /// keeps a history; other commands end with the first table.
    pub(super) fn start(
        self,
        settings: &Settings,
        is_server: bool,
        tasks: &mut JoinSet<()>,
    ) -> anyhow::Result<(Feeds, Reader)> {
        let feeds = Feeds::new(&settings.namespaces).with_links(settings.links_namespaces());
        let publisher = match is_server {
            true => Publisher::new(feeds.clock.now(), settings.history.0),
            false => Publisher::default(),
        };
        let reader = publisher.reader();
        let update_settings = UpdateSettings {
            rules: settings.rules(),
            is_following: is_server,
        };
        let of_source = feeds.clone();
        let run = move || self.run(of_source, publisher, update_settings);
        Thread::new("source")?.run(tasks, run)?;
        Ok((feeds, reader))
    }

    /// Runs the source and the update loop until the source ends.
    async fn run(mut self, feeds: Feeds, publisher: Publisher, settings: UpdateSettings) {
        let run = async |feeds, updates| match &mut self {
            Self::Files(files) => files.run(feeds, updates).await,
            Self::Cluster(cluster) => match cluster.another_client() {
                Ok(client) => kube::run(client, kube::RELIST, feeds, updates).await,
                Err(error) => warn!(%error, "Cannot set up the Kubernetes client"),
            },
        };
        source::run(run, feeds, publisher, settings).await;
    }
}
