//! The source that the flags select: files or an API server.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::warn;

use crate::cli::Cluster;
use crate::http::Api;
use crate::model::join_texts;
use crate::server::thread;
use crate::settings::Settings;
use crate::source::{self, Feeds, UpdateSettings, Updates, file, kube};
use crate::table::Publisher;
use crate::view::{Identity, Server};
use crate::zone::Zones;

/// Maximum time until a command has a complete table of a cluster.
const FIRST_TABLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A source that is open but not running.
#[derive(Clone)]
pub(super) enum SelectedSource {
    Files(Arc<Mutex<file::Files>>),
    Cluster(Arc<Cluster>),
}

impl SelectedSource {
    /// Reads files for the first time.
    pub(super) fn files(paths: &[PathBuf]) -> Result<Self> {
        let files = file::Files::open(paths.to_vec())?;
        Ok(Self::Files(Arc::new(Mutex::new(files))))
    }

    /// Starts the source and the update loop, each on a thread of its own: objects are read while a table is built, and neither delays
    /// connections. A server follows the source and keeps a history; other commands end with the first table. Returns what views show.
    pub(super) fn start(
        self,
        settings: &Settings,
        is_server: bool,
        zones: Zones,
        identity: Identity,
        tasks: &mut JoinSet<()>,
    ) -> Result<Server> {
        let feeds = Feeds::new(&settings.namespaces).with_links(settings.links_namespaces());
        let publisher = if is_server {
            Publisher::new(feeds.clock.now(), settings.history.0)
        } else {
            Publisher::default()
        };
        let reader = publisher.reader();
        let update_settings = UpdateSettings {
            rules: settings.rules(),
            is_following: is_server,
        };
        let reading = thread::runtime()?;
        let of_reading = reading.handle().clone();
        let heartbeat = feeds.reading.clone();
        thread::run("source", reading, tasks, || heartbeat.follow_runtime())?;
        let of_loop = feeds.clone();
        let read = async move |feeds: Feeds, updates: Updates| {
            if let Err(ended) = of_reading.spawn(self.clone().read(feeds, updates)).await
                && let Ok(panic) = ended.try_into_panic()
            {
                resume_unwind(panic);
            }
        };
        let run = || source::run(read, of_loop, publisher, update_settings);
        thread::run("table", thread::runtime()?, tasks, run)?;
        let mut server = Server::of_objects(reader, feeds, zones, identity);
        server.settings = Arc::new(serde_json::to_value(settings)?);
        server.namespaces = settings.namespaces.clone().into();
        Ok(server)
    }

    /// Reads objects until the receiver of the updates is closed.
    async fn read(self, feeds: Feeds, updates: Updates) {
        match self {
            Self::Files(files) => files.lock().await.run(feeds, updates).await,
            Self::Cluster(cluster) => match cluster.another_client() {
                Ok(client) => kube::run(client, kube::RELIST, feeds, updates).await,
                Err(error) => warn!(%error, "Cannot set up the Kubernetes client"),
            },
        }
    }

    /// Runs the source until its first complete table, for a command that ends when it has one. Returns the API of a server of it,
    /// in this process.
    pub(super) async fn into_api(self, settings: &Settings) -> Result<Api> {
        let identity = Identity {
            cluster: Some(settings.cluster_name.clone()),
            ..Identity::default()
        };
        let (source, zones, mut tasks) = (self.clone(), settings.zones(&[]), JoinSet::new());
        let server = source.start(settings, false, zones, identity, &mut tasks)?;
        let deadline = Instant::now() + FIRST_TABLE_TIMEOUT;
        // The table is visible before the lines of the log about it are written.
        while server.feeds.events.latest().version == 0 {
            let failures = join_texts(server.feeds.failures(), "; ");
            if Instant::now() > deadline || !failures.is_empty() {
                bail!("there is no complete table: {}", self.explain(failures));
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(Api::InProcess(Box::new(server), tasks))
    }

    /// Says what to do about the failures of the first lists.
    fn explain(&self, mut failures: String) -> String {
        if failures.is_empty() {
            let seconds = FIRST_TABLE_TIMEOUT.as_secs();
            failures = format!("no complete list within {seconds} s");
        }
        match self {
            Self::Files(_) => format!("--file: {failures}; check the files"),
            Self::Cluster(cluster) => {
                let Cluster {
                    origin, way_out, ..
                } = &**cluster;
                let url = cluster.url();
                if failures.contains(&url) {
                    format!("{origin}: {failures}; {way_out}")
                } else {
                    format!("{url}, {origin}: {failures}; {way_out}")
                }
            }
        }
    }
}
