//! The source that the flags select: files or an API server.

use std::convert::Infallible;
use std::path::PathBuf;
use std::thread;

use anyhow::Context as _;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::warn;

use crate::cli::SourceArgs;
use crate::source::{self, Feeds, UpdateSettings, file, kube};
use crate::table::Publisher;

/// A source that is open but not running.
pub(super) enum Source {
    Files(file::Files),
    Cluster(Box<kube::Cluster>),
}

impl Source {
    /// Opens the source that the flags select; without such flags, the API server as `default` specifies.
    pub(super) async fn open(
        args: &SourceArgs,
        timing: kube::Timing,
        default: kube::Access,
    ) -> anyhow::Result<Self> {
        let SourceArgs {
            file,
            kubeconfig,
            context,
            namespace: _,
        } = args;
        if !file.is_empty() {
            return Ok(Self::Files(file::Files::open(
                file.clone(),
                file::Timing::default(),
            )?));
        }
        let access = access(kubeconfig.as_ref(), context.as_ref(), default);
        let cluster = kube::Cluster::open(access, timing).await?;
        Ok(Self::Cluster(Box::new(cluster)))
    }

    /// Returns the location of the source. A snapshot of another location is ignored.
    pub(super) fn location(&self) -> String {
        match self {
            Self::Files(_) => "files".to_owned(),
            Self::Cluster(cluster) => cluster.url(),
        }
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
        let (running, ended) = oneshot::channel::<Infallible>();
        let work = move || {
            let _running = running; // dropped when this thread ends, also by a panic
            self.run(feeds, publisher, settings);
        };
        thread::Builder::new()
            .name("source".to_owned())
            .spawn(work)
            .context("cannot start the thread of the source")?;
        tasks.spawn(async { _ = ended.await });
        Ok(())
    }

    /// Runs the source and the update loop on this thread until the source ends.
    fn run(mut self, feeds: Feeds, publisher: Publisher, settings: UpdateSettings) {
        let run = async |feeds, updates| match &mut self {
            Self::Files(files) => files.run(feeds, updates).await,
            Self::Cluster(cluster) => cluster.run(feeds, updates).await,
        };
        let run = source::run(run, feeds, publisher, settings);
        match runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(run),
            Err(error) => warn!(%error, "Cannot start the runtime of the source"),
        }
    }
}

/// Returns how to reach the API server: by the flags, or else as `default` specifies.
pub(super) fn access(
    kubeconfig: Option<&PathBuf>,
    context: Option<&String>,
    default: kube::Access,
) -> kube::Access {
    match (kubeconfig, context) {
        (None, None) => default,
        (path, context) => kube::Access::Kubeconfig {
            path: path.cloned(),
            context: context.cloned(),
        },
    }
}
