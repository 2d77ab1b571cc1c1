//! The way to an API server: a kubeconfig, or the service account of the pod.

mod credential;
mod kubeconfig;
mod proxy;
mod replica;
mod requests;

use std::path::PathBuf;
use std::time::Duration;

use http::Request;
use http::header::AUTHORIZATION;
use kube::client::Body;
use kube::{Client, Config};
use tower::{BoxError, service_fn};

pub use kubeconfig::ConnectError;
pub(super) use replica::StreamError;
pub use replica::{Replica, ReplicaError};

use credential::Credential;
use kubeconfig::Credentials;

use crate::log::error_chain;
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
    /// The token or certificate that may expire.
    credential: Option<Credential>,
    client: Client,
    /// The origin of the configuration.
    pub credentials: Credentials,
}

impl Cluster {
    /// Reads the configuration, and runs the credential plugin if it names one. Does not connect.
    ///
    /// # Errors
    ///
    /// If the kubeconfig, the service account, a file that they name, or the output of the plugin cannot be used.
    pub async fn open(access: KubeAccess) -> Result<Self, ConnectError> {
        let is_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let (mut config, credentials) = match access {
            KubeAccess::Auto if is_pod => in_pod()?,
            KubeAccess::Pod => in_pod()?,
            KubeAccess::Auto => kubeconfig::load(None, None)?,
            KubeAccess::Kubeconfig { path, context } => {
                kubeconfig::load(path.as_deref(), context.as_deref())?
            }
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // The watcher logs failed requests and retries them itself. The client would retry without a log message, after
        // growing pauses.
        config.default_retry = false;
        let credential = credential::take(&mut config.auth_info)
            .await
            .map_err(|why| ConnectError(format!("cannot use {credentials}: {why}")))?;
        let client = client_of(&config, credential.as_ref())?;
        Ok(Self {
            config,
            credential,
            client,
            credentials,
        })
    }

    /// Returns a client for another runtime, because a client is bound to one. It shares the token.
    ///
    /// # Errors
    ///
    /// If a certificate cannot be used any more.
    pub fn another_client(&self) -> Result<Client, ConnectError> {
        client_of(&self.config, self.credential.as_ref())
    }

    /// Returns the URL of the API server, for messages.
    pub fn url(&self) -> String {
        let url = self.config.cluster_url.to_string();
        url.trim_end_matches('/').to_owned()
    }
}

/// Returns the configuration of a pod.
fn in_pod() -> Result<(Config, Credentials), ConnectError> {
    let config = Config::incluster().map_err(|error| {
        let why = error_chain(&error);
        let sentence = "not running in a pod of a cluster";
        ConnectError(format!("{sentence} ({why}); set --kubeconfig or --file"))
    })?;
    let way_out =
        "check the network policies and the permissions of the ServiceAccount of this pod";
    let credentials = Credentials {
        origin: "ServiceAccount of this pod".to_owned(),
        way_out: way_out.to_owned(),
    };
    Ok((config, credentials))
}

fn client_of(config: &Config, credential: Option<&Credential>) -> Result<Client, ConnectError> {
    let client = client(config.clone()).map_err(|error| {
        let why = error_chain(&error);
        ConnectError(format!("cannot set up the Kubernetes client: {why}"))
    })?;
    let Some(credential) = credential.cloned() else {
        return Ok(client);
    };
    let send = move |mut request: Request<Body>| {
        let (client, credential) = (client.clone(), credential.clone());
        async move {
            let value = credential.authorization().await?;
            request.headers_mut().insert(AUTHORIZATION, value);
            Ok::<_, BoxError>(client.send(request).await?)
        }
    };
    Ok(Client::new(service_fn(send), &config.default_namespace))
}
