//! Where objects come from, as the flags say it: files, or an API server.

use std::convert::Infallible;
use std::path::PathBuf;
use std::thread;

use anyhow::Context as _;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::warn;

use crate::cli::SourceArgs;
use crate::source::{self, Feeds, Policy, file, kube};
use crate::table::Publisher;

/// An opened source, not running yet.
pub(super) enum Source {
    Files(file::Files),
    Cluster(Box<kube::Cluster>),
}

impl Source {
    /// Opens what the flags name; without any, what `default` says.
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

    /// Names what is read from: snapshots of another place are of no use.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Files(_) => "files".to_owned(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// Runs the source and what follows it, on one thread of their own: to build a large table must keep no connection
    /// waiting, and a change that was read is in the table without another thread to wake.
    pub(super) fn spawn(
        self,
        tasks: &mut JoinSet<()>,
        feeds: &Feeds,
        publisher: Publisher,
        policy: Policy,
    ) -> anyhow::Result<()> {
        let feeds = feeds.clone();
        let (running, ended) = oneshot::channel::<Infallible>();
        let work = move || {
            let _running = running; // until this thread ends, by a panic too
            self.run(feeds, publisher, policy);
        };
        thread::Builder::new()
            .name("source".to_owned())
            .spawn(work)
            .context("starting the thread of the source")?;
        tasks.spawn(async { _ = ended.await });
        Ok(())
    }

    /// Runs the source and what follows it on this thread, until the source ends.
    fn run(mut self, feeds: Feeds, publisher: Publisher, policy: Policy) {
        let run = async |feeds, updates| match &mut self {
            Self::Files(files) => files.run(feeds, updates).await,
            Self::Cluster(cluster) => cluster.run(feeds, updates).await,
        };
        let run = source::run(run, feeds, publisher, policy);
        match runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(run),
            Err(error) => warn!(%error, "The source cannot run"),
        }
    }
}

/// Says how the flags reach the API server; without any, as `default` says.
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
