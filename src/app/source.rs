//! The source that the flags select: files or an API server.

use tokio::task::JoinSet;
use tracing::warn;

use super::thread::{Priority, Thread};
use crate::cli::{Cluster, KubeAccess, SourceArgs};
use crate::source::{self, Feeds, UpdateSettings, file, kube};
use crate::table::Publisher;

/// A source that is open but not running.
pub(super) enum SelectedSource {
    Files(file::Files),
    Cluster(Box<Cluster>, kube::WatchTiming),
}

impl SelectedSource {
    /// Opens the source that the flags select; without such flags, the API server as `default` specifies.
    pub(super) async fn open(
        args: &SourceArgs,
        timing: kube::WatchTiming,
        default: KubeAccess,
    ) -> anyhow::Result<Self> {
        let SourceArgs {
            file,
            kubeconfig,
            namespace: _, // the settings have it
        } = args;
        if !file.is_empty() {
            return Ok(Self::Files(file::Files::open(file.clone())?));
        }
        let cluster = Cluster::open(kubeconfig.access_or(default)).await?;
        Ok(Self::Cluster(Box::new(cluster), timing))
    }

    /// Runs the source and the update loop on a separate thread. Building a large table must not delay connections.
    /// Both share the thread, so that an update reaches the table without waking another one.
    pub(super) fn spawn(
        self,
        tasks: &mut JoinSet<()>,
        feeds: &Feeds,
        publisher: Publisher,
        settings: UpdateSettings,
    ) -> anyhow::Result<()> {
        let feeds = feeds.clone();
        let run = move || self.run(feeds, publisher, settings);
        Thread::new("source")?.run(Priority::Normal, tasks, run)
    }

    /// Runs the source and the update loop until the source ends.
    async fn run(mut self, feeds: Feeds, publisher: Publisher, settings: UpdateSettings) {
        let run = async |feeds, updates| match &mut self {
            Self::Files(files) => files.run(feeds, updates).await,
            Self::Cluster(cluster, timing) => match cluster.another_client() {
                Ok(client) => kube::run(client, *timing, feeds, updates).await,
                Err(error) => warn!(%error, "Cannot set up the Kubernetes client"),
            },
        };
        source::run(run, feeds, publisher, settings).await;
    }
}
