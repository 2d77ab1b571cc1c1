//! The way to an API server: a kubeconfig, or the service account of the pod.

mod credential;
mod kubeconfig;
mod proxy;
mod replica;

use std::env;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper::header::AUTHORIZATION;
use hyper::{Request, StatusCode};
use kube::client::Body;
use kube::{Client, Config};
use tower::{BoxError, service_fn};

use credential::Credential;
use kubeconfig::Configured;

use super::groups::KubeconfigArgs;
use crate::http::Unreachable;
use crate::source::kube::client;

/// Maximum time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An API server.
pub struct Cluster {
    config: Config,
    /// The token or certificate that may expire.
    credential: Option<Arc<Credential>>,
    /// Sends the requests of commands.
    pub client: Client,
    /// The origin of the configuration, for messages: the kubeconfig with its context, or the pod.
    pub origin: String,
    /// What to do if the API server does not answer as expected.
    pub way_out: String,
}

/// Returns whether this process runs in a pod.
pub fn is_pod() -> bool {
    env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

// === impl Cluster ===

impl Cluster {
    /// Reads the configuration, and runs the credential plugin if it names one. Does not connect. Without flags, a server uses the
    /// service account of its pod; a command that runs outside of pods, the kubeconfig at the default location.
    ///
    /// # Errors
    ///
    /// If the kubeconfig, the service account, a file that they name, or the output of the plugin cannot be used.
    pub async fn open(flags: &KubeconfigArgs, is_server: bool) -> Result<Self, Unreachable> {
        let Configured {
            mut config,
            origin,
            way_out,
        } = if (is_server || is_pod()) && !flags.is_given() {
            in_pod()?
        } else {
            kubeconfig::load(flags)?
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // The watcher logs failed requests and retries them itself. The client would retry without a log message, after
        // growing pauses.
        config.default_retry = false;
        if flags.as_user.is_some() {
            config.auth_info.impersonate.clone_from(&flags.as_user);
            let groups = flags
                .as_groups
                .iter()
                .map(|one| one.trim_matches(['[', ']']));
            let groups = groups.filter(|one| !one.is_empty()).map(str::to_owned);
            config.auth_info.impersonate_groups = Some(groups.collect());
        }
        let credential = credential::take(&mut config.auth_info)
            .await
            .with_context(|| format!("cannot use {origin}"))?;
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
    pub fn another_client(&self) -> Result<Client> {
        client_of(&self.config, self.credential.as_ref())
    }

    /// Returns the URL of the API server, for messages.
    pub fn url(&self) -> String {
        self.config
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned()
    }
}

/// Returns the configuration of a pod.
fn in_pod() -> Result<Configured> {
    let config = Config::incluster()
        .context("set --kubeconfig or --file: not running in a pod of a cluster")?;
    let way_out =
        "check the network policies and the permissions of the ServiceAccount of this pod";
    Ok(Configured {
        config,
        origin: "ServiceAccount of this pod".to_owned(),
        way_out: way_out.to_owned(),
    })
}

/// Returns a client whose requests have the token of a credential.
fn client_of(config: &Config, credential: Option<&Arc<Credential>>) -> Result<Client> {
    let client = client(config.clone()).context("cannot set up the Kubernetes client")?;
    let Some(credential) = credential.cloned() else {
        return Ok(client);
    };
    let send = move |mut request: Request<Body>| {
        let (client, credential) = (client.clone(), credential.clone());
        async move {
            let value = credential.authorization().await?;
            request.headers_mut().insert(AUTHORIZATION, value);
            let response = client.send(request).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                credential.forget().await;
            }
            Ok::<_, BoxError>(response)
        }
    };
    Ok(Client::new(service_fn(send), &config.default_namespace))
}
