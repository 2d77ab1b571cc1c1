//! Tokens and certificates of a credential plugin, which expire. kube would run it three times for each client.

use std::io::{ErrorKind, IsTerminal as _, stdin};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::header::HeaderValue;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Mutex, oneshot};

/// A token or a certificate that is read again when it has expired.
pub(super) struct Credential {
    plugin: ExecConfig,
    last: Mutex<Option<Secret>>,
}

/// What a plugin prints.
#[derive(Deserialize)]
struct ExecCredential {
    status: Secret,
}

/// A token, a certificate, or both.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    /// `None`: it does not expire.
    expiration_timestamp: Option<Time>,
}

/// Takes what expires out of the configuration of a client, reads it, and puts a certificate back in, with which the client connects
/// until it ends. Returns what has the tokens of requests.
pub(super) async fn take(user: &mut AuthInfo) -> Result<Option<Arc<Credential>>> {
    let has_token = user.token.is_some() || user.token_file.is_some();
    let Some(plugin) = user.exec.take().filter(|_| !has_token) else {
        return Ok(None);
    };
    let credential = Credential {
        plugin,
        last: Mutex::default(),
    };
    let secret = credential.secret().await?;
    if let Some((certificate, key)) = secret.certificate() {
        // The fields of a kubeconfig are encoded in Base64, as octets in the objects of Kubernetes.
        let encoded = |text: &str| json!(ByteString(text.into()));
        user.client_certificate_data = encoded(certificate).as_str().map(Into::into);
        user.client_key_data = encoded(key).as_str().map(Into::into);
    }
    Ok(secret.token.map(|_| Arc::new(credential)))
}

// === impl Secret ===

impl Secret {
    /// Returns the certificate and its key, in PEM.
    fn certificate(&self) -> Option<(&str, &str)> {
        self.client_certificate_data
            .as_deref()
            .zip(self.client_key_data.as_deref())
    }
}

// === impl Credential ===

impl Credential {
    /// Returns the last token or certificate, or reads another one if it has expired.
    async fn secret(&self) -> Result<Secret> {
        let mut last = self.last.lock().await;
        if let Some(secret) = last.as_ref().filter(|secret: &&Secret| {
            secret
                .expiration_timestamp
                .as_ref()
                .is_none_or(|time| Timestamp::now() < time.0)
        }) {
            return Ok(secret.clone());
        }
        // A plugin may ask a person. Nobody waits for its thread at the end of the process.
        let (sender, read) = oneshot::channel();
        let plugin = self.plugin.clone();
        thread::spawn(move || _ = sender.send(run(&plugin)));
        let secret = read.await?.with_context(|| {
            let command = self.plugin.command.as_deref().unwrap_or_default();
            format!("the credential plugin '{command}' (exec) failed")
        })?;
        Ok(last.insert(secret).clone())
    }

    /// Forgets a token that the API server refuses: one without an expiration is valid until then.
    pub(super) async fn forget(&self) {
        *self.last.lock().await = None;
    }

    /// Returns the value of the header `Authorization`.
    pub(super) async fn authorization(&self) -> Result<HeaderValue> {
        let token = self.secret().await?.token.unwrap_or_default();
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .context("the token has characters that no token has")?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Runs a credential plugin, as kubectl does. Its standard error is that of this program.
fn run(exec: &ExecConfig) -> Result<Secret> {
    let is_interactive =
        exec.interactive_mode != Some(ExecInteractiveMode::Never) && stdin().is_terminal();
    let info = json!({
        "kind": "ExecCredential",
        "apiVersion": exec.api_version,
        "spec": {"interactive": is_interactive, "cluster": exec.cluster},
    });
    let variables = exec
        .env
        .iter()
        .flatten()
        .filter_map(|one| Some((one.get("name")?, one.get("value")?)));
    let input = if is_interactive {
        Stdio::inherit()
    } else {
        Stdio::null()
    };
    let run = Command::new(exec.command.as_deref().unwrap_or_default())
        .args(exec.args.iter().flatten())
        .envs(variables)
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(input)
        .stderr(Stdio::inherit())
        .output();
    let output = match (run, &exec.install_hint) {
        (Err(error), Some(hint)) if error.kind() == ErrorKind::NotFound => bail!("{error} {hint}"),
        (run, _) => run?,
    };
    ensure!(output.status.success(), "{}", output.status);
    // It prints JSON, but kubectl accepts YAML, too.
    let mut secret = serde_saphyr::from_slice::<ExecCredential>(&output.stdout)
        .context("no ExecCredential")?
        .status;
    let token = secret.token.map(|token| token.trim().to_owned());
    secret.token = token.filter(|token| !token.is_empty());
    let is_empty = secret.token.is_none() && secret.certificate().is_none();
    ensure!(!is_empty, "it printed neither a token nor a certificate");
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a user with a plugin that prints a `status`.
    fn user(status: &str) -> AuthInfo {
        let script = format!("echo \"status: {{{status}}}\"");
        serde_json::from_value(json!({"exec": {"command": "sh", "args": ["-c", script]}})).unwrap()
    }

    /// The token of each run is another one.
    #[tokio::test]
    async fn plugin_runs_again_when_its_token_has_expired_or_is_refused() {
        for (year, is_kept) in [("2099", true), ("2020", false)] {
            let expires = format!("expirationTimestamp: {year}-01-01T00:00:00Z");
            let mut user = user(&format!("token: t$$, {expires}"));
            let credential = take(&mut user).await.unwrap().unwrap();
            let token = async || credential.authorization().await.unwrap();
            let (first, second) = (token().await, token().await);
            assert!(first.to_str().unwrap().starts_with("Bearer t"), "{first:?}");
            assert_eq!(first == second, is_kept, "{year}");
            credential.forget().await;
            assert_ne!(token().await, second);
        }
    }

    #[tokio::test]
    async fn certificate_of_a_plugin_is_that_of_the_client() {
        let mut user = user("token: '', clientCertificateData: C, clientKeyData: K");
        assert!(take(&mut user).await.unwrap().is_none());
        let certificate = user.client_certificate_data.as_deref();
        assert_eq!(certificate, Some("Qw=="));
        let user = serde_json::to_value(user).unwrap();
        assert_eq!(user["client-key-data"], "Sw==");
        assert_eq!(user["exec"], json!(null));
    }
}
