//! The API server: how it is reached, and a watcher for each feed. The only door to the `kube` client.

mod client;
mod failure;
mod limiter;
mod list;
mod look;
mod overlap;
mod requests;
mod watcher;

#[cfg(test)]
mod scripted;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tracing::{Instrument, info_span, warn};

use requests::ApiServer;
use watcher::Watcher;

use super::{Feeds, Updates};
use crate::log::sentence;

/// When the API server is asked, and given up.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long the server is asked to keep a watch open. Silence for longer means a dead connection.
    pub watch_timeout: Duration,
    /// About how often one of the watches, in turn, is relisted.
    pub relist: Duration,
}

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read or lacks the context.
    #[error("reading kubeconfig {path}")]
    Kubeconfig {
        /// The file, or where it was looked for.
        path: String,
        /// What is wrong with it.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// No kubeconfig was given, and this is no pod with a service account.
    #[error("neither --kubeconfig nor --file is given, and this is no pod in a cluster")]
    NotInCluster(#[source] Box<kube::config::InClusterError>),
    /// The client cannot be made: certificates, credentials.
    #[error("setting up the Kubernetes client")]
    Client(#[source] Box<kube::Error>),
}

/// How the API server is reached.
#[derive(Clone, Debug)]
pub enum Access {
    /// As a pod of the cluster, by its service account.
    Pod,
    /// As a kubeconfig says.
    Kubeconfig {
        /// The file; else `KUBECONFIG`, else the one in the home directory.
        path: Option<PathBuf>,
        /// Its context; else its current one.
        context: Option<String>,
    },
    /// As a pod if this is one, else by the kubeconfig in its usual place.
    Usual,
}

/// An API server to watch.
pub struct Cluster {
    config: Config,
    client: Client,
    timing: Timing,
}

impl Cluster {
    /// Reads how the API server is reached. Does not connect.
    ///
    /// # Errors
    ///
    /// If the kubeconfig, the service account or what they refer to cannot be used.
    pub async fn open(access: Access, timing: Timing) -> Result<Self, ConnectError> {
        let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let mut config = match access {
            Access::Usual if is_pod => Self::pod()?,
            Access::Pod => Self::pod()?,
            Access::Usual => Self::kubeconfig(None, None).await?,
            Access::Kubeconfig { path, context } => Self::kubeconfig(path, context).await?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // Requests that are refused come back to the watcher at once, which tells of it, and pauses for seconds at most:
        // the client would try again by itself, silently, after longer and longer pauses.
        config.default_retry = false;
        let client = client::client(config.clone());
        Ok(Self {
            config,
            client: client.map_err(|e| ConnectError::Client(Box::new(e)))?,
            timing,
        })
    }

    /// Returns where the API server is.
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string()
    }

    fn pod() -> Result<Config, ConnectError> {
        Config::incluster().map_err(|e| ConnectError::NotInCluster(Box::new(e)))
    }

    async fn kubeconfig(
        path: Option<PathBuf>,
        context: Option<String>,
    ) -> Result<Config, ConnectError> {
        let name = path
            .as_ref()
            .map_or("in its usual place".to_owned(), |p| p.display().to_string());
        let failed = |source| ConnectError::Kubeconfig {
            path: name.clone(),
            source: Box::new(source),
        };
        let file = match &path {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let options = KubeConfigOptions {
            context,
            ..KubeConfigOptions::default()
        };
        let file = file.map_err(failed)?;
        let authority = certificate_authority(&file, options.context.as_ref());
        let mut config = Config::from_custom_kubeconfig(file, &options)
            .await
            .map_err(failed)?;
        // Read again from time to time: certificates rotate. In a pod the client does so on its own.
        config.root_cert_file = authority;
        Ok(config)
    }

    /// Watches every feed, for ever.
    pub async fn run(&self, feeds: Feeds, updates: Updates) {
        // A client belongs to the runtime that it is made in, which need not be this one.
        let client = match client::client(self.config.clone()) {
            Ok(client) => client,
            Err(error) => return warn!(error = sentence(&error), "There is no client any more"),
        };
        watch(client, self.timing, &feeds, &updates).await;
    }
}

/// Watches every feed of an API server until the process ends.
async fn watch(client: Client, timing: Timing, feeds: &Feeds, updates: &Updates) {
    let server = Arc::new(ApiServer::new(client));
    let watches = feeds.all().into_iter().map(|feed| {
        let span = info_span!("watch", %feed);
        let (server, feeds, updates) = (server.clone(), feeds.clone(), updates.clone());
        let watcher = Watcher::new(server, timing, feed, feeds, updates);
        watcher.run().instrument(span)
    });
    futures::future::join_all(watches).await;
}

/// Returns the file of certificates that a context of a kubeconfig trusts, if they are in one.
fn certificate_authority(file: &Kubeconfig, context: Option<&String>) -> Option<PathBuf> {
    let name = context.or(file.current_context.as_ref())?;
    let context = file.contexts.iter().find(|context| context.name == *name)?;
    let cluster = &context.context.as_ref()?.cluster;
    let cluster = file.clusters.iter().find(|other| other.name == *cluster)?;
    let cluster = cluster.cluster.as_ref()?;
    // Data in the kubeconfig itself win over a file.
    let is_file = cluster.certificate_authority_data.is_none();
    let file = cluster.certificate_authority.as_ref().filter(|_| is_file)?;
    Some(PathBuf::from(file))
}
