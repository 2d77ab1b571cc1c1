//! The way to an API server: a kubeconfig, or the service account of the pod.

mod credential;
mod error;
mod kubeconfig;
mod proxy;
mod replica;
mod requests;

use std::time::Duration;

use http::Request;
use http::header::AUTHORIZATION;
use kube::client::Body;
use kube::{Client, Config};
use tower::{BoxError, service_fn};

pub use error::ClusterError;
pub use replica::Replica;

use credential::Credential;
use kubeconfig::Configured;

use super::groups::KubeconfigArgs;
use crate::log::error_chain;
use crate::source::kube::client;

/// Maximum time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An API server.
pub struct Cluster {
    config: Config,
    /// The token or certificate that may expire.
    credential: Option<Credential>,
    client: Client,
    /// The origin of the configuration, for messages: the kubeconfig with its context, or the pod.
    pub origin: String,
    /// What to do if the API server does not answer as expected.
    pub way_out: String,
}

// === impl Cluster ===

impl Cluster {
    /// Reads the configuration, and runs the credential plugin if it names one. Does not connect. Without flags, a server uses the
    /// service account of its pod; a command that runs outside of pods, the kubeconfig at the default location.
    ///
    /// # Errors
    ///
    /// If the kubeconfig, the service account, a file that they name, or the output of the plugin cannot be used.
    pub async fn open(flags: &KubeconfigArgs, is_server: bool) -> Result<Self, ClusterError> {
        let is_pod = is_server || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let (mut config, origin, way_out) = match is_pod && !flags.is_given() {
            true => in_pod()?,
            false => kubeconfig::load(flags)?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // The watcher logs failed requests and retries them itself. The client would retry without a log message, after
        // growing pauses.
        config.default_retry = false;
        let credential = credential::take(&mut config.auth_info).await;
        let unusable = |why: String| ClusterError::unusable(&format!("use {origin}"), &why);
        let credential = credential.map_err(unusable)?;
        Ok(Self {
            client: client_of(&config, credential.as_ref())?,
            config,
            credential,
            origin,
            way_out,
        })
    }

    /// Returns a client for another runtime, because a client is bound to one. It shares the token.
    ///
    /// # Errors
    ///
    /// If a certificate cannot be used any more.
    pub fn another_client(&self) -> Result<Client, ClusterError> {
        client_of(&self.config, self.credential.as_ref())
    }

    /// Returns the URL of the API server, for messages.
    pub fn url(&self) -> String {
        let url = self.config.cluster_url.to_string();
        url.trim_end_matches('/').to_owned()
    }
}

/// Returns the configuration of a pod.
fn in_pod() -> Result<Configured, ClusterError> {
    let config = Config::incluster().map_err(|error| {
        let why = error_chain(&error);
        ClusterError(format!(
            "not running in a pod of a cluster ({why}); set --kubeconfig or --file"
        ))
    })?;
    let way_out =
        "check the network policies and the permissions of the ServiceAccount of this pod";
    let origin = "ServiceAccount of this pod";
    Ok((config, origin.to_owned(), way_out.to_owned()))
}

fn client_of(config: &Config, credential: Option<&Credential>) -> Result<Client, ClusterError> {
    let client = client(config.clone()).map_err(|error| {
        ClusterError::unusable("set up the Kubernetes client", &error_chain(&error))
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
