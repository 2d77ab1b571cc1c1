//! The way to an API server: a kubeconfig, or the service account of the pod.

mod connect_error;
mod credentials;
mod query;
mod replica;

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

pub use connect_error::ConnectError;
pub use credentials::Credentials;
pub use replica::{Replica, ReplicaError};

use credentials::kubeconfig_error;

use crate::source::kube::client;

/// Maximum time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The way to reach the API server.
#[derive(Clone, Debug)]
pub enum KubeAccess {
    /// With the service account of the pod.
    Pod,
    /// With a kubeconfig.
    Kubeconfig {
        /// The file. Default: `KUBECONFIG`, or else the file in the home directory.
        path: Option<PathBuf>,
        /// The context. Default: the current context.
        context: Option<String>,
    },
    /// In a pod, with its service account; otherwise with the kubeconfig at the default location.
    Auto,
}

/// An API server.
pub struct Cluster {
    config: Config,
    client: Client,
    credentials: Credentials,
}

impl Cluster {
    /// Reads the configuration. Does not connect.
    ///
    /// # Errors
    ///
    /// If the kubeconfig, the service account, or a file that they name cannot be used.
    pub async fn open(access: KubeAccess) -> Result<Self, ConnectError> {
        let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let (mut config, credentials) = match access {
            KubeAccess::Auto if is_pod => Self::pod()?,
            KubeAccess::Pod => Self::pod()?,
            KubeAccess::Auto => Self::kubeconfig(None, None).await?,
            KubeAccess::Kubeconfig { path, context } => Self::kubeconfig(path, context).await?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // The watcher logs failed requests and retries them itself. The client would retry without a log message, after
        // growing pauses.
        config.default_retry = false;
        let client = client(config.clone()).map_err(|error| ConnectError::Client(Box::new(error)));
        Ok(Self {
            config,
            client: client?,
            credentials,
        })
    }

    /// Returns the URL of the API server.
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// Returns the configuration of a client.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the origin of the configuration.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    fn pod() -> Result<(Config, Credentials), ConnectError> {
        let config = Config::incluster().map_err(|e| ConnectError::NotInCluster(Box::new(e)))?;
        Ok((config, Credentials::Pod))
    }

    async fn kubeconfig(
        path: Option<PathBuf>,
        context: Option<String>,
    ) -> Result<(Config, Credentials), ConnectError> {
        let file = match &path {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let file = file.map_err(|error| kubeconfig_error(path.as_ref(), None, error))?;
        let options = KubeConfigOptions {
            context,
            ..KubeConfigOptions::default()
        };
        let authority = certificate_authority(&file, options.context.as_ref());
        let mut config = Config::from_custom_kubeconfig(file.clone(), &options)
            .await
            .map_err(|error| kubeconfig_error(path.as_ref(), Some(&file), error))?;
        let context = options.context.or(file.current_context).unwrap_or_default();
        // The client reloads this file, because certificates rotate. In a pod it does so without this setting.
        config.root_cert_file = authority;
        Ok((config, Credentials::Kubeconfig { path, context }))
    }
}

/// Returns the file with the certificate authority of a context, if the kubeconfig names one.
fn certificate_authority(file: &Kubeconfig, context: Option<&String>) -> Option<PathBuf> {
    let name = context.or(file.current_context.as_ref())?;
    let context = file.contexts.iter().find(|context| context.name == *name)?;
    let name = &context.context.as_ref()?.cluster;
    let named = file.clusters.iter().find(|other| other.name == *name)?;
    let cluster = named.cluster.as_ref()?;
    // Data in the kubeconfig itself take precedence over a file.
    let is_file = cluster.certificate_authority_data.is_none();
    let file = cluster.certificate_authority.as_ref().filter(|_| is_file)?;
    Some(PathBuf::from(file))
}
