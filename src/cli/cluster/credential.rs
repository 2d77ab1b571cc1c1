//! Tokens and certificates of a credential plugin, which expire. kube would run it three times for each client.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal as _, stdin};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use http::HeaderValue;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use crate::log::error_chain;

/// A token or a certificate that is read again when it has expired. Clones share it.
#[derive(Clone)]
pub(super) struct Credential {
    plugin: Arc<ExecConfig>,
    last: Arc<tokio::sync::Mutex<Option<Secret>>>,
}

/// The field `status` of an ExecCredential, which a plugin prints.
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
/// until it ends. Returns what has the tokens of requests. The error is a clause.
pub(super) async fn take(user: &mut AuthInfo) -> Result<Option<Credential>, String> {
    let has_token = user.token.is_some() || user.token_file.is_some();
    let Some(plugin) = user.exec.take().filter(|_| !has_token) else {
        return Ok(None);
    };
    let credential = Credential::of(plugin);
    let secret = credential.secret().await?;
    if let (Some(certificate), Some(key)) = (secret.client_certificate_data, secret.client_key_data)
    {
        user.client_certificate_data = Some(base64(&certificate));
        user.client_key_data = Some(base64(&key).into());
    }
    Ok(secret.token.is_some().then_some(credential))
}

/// Encodes a text as the fields of a kubeconfig are encoded.
fn base64(text: &str) -> String {
    let encoded = json!(ByteString(text.as_bytes().to_vec()));
    encoded.as_str().unwrap_or_default().to_owned()
}

// === impl Credential ===

impl Credential {
    /// Returns what is from this plugin. It runs once for all clients of the process, as in kubectl.
    fn of(plugin: ExecConfig) -> Self {
        static PLUGINS: Mutex<BTreeMap<String, Credential>> = Mutex::new(BTreeMap::new());
        // The order of the variables in JSON is always the same.
        let key = json!([plugin, plugin.cluster]);
        let new = || Self {
            plugin: Arc::new(plugin),
            last: Arc::default(),
        };
        let mut plugins = PLUGINS.lock();
        plugins.entry(key.to_string()).or_insert_with(new).clone()
    }

    /// Returns the last token or certificate, or reads another one if it has expired. The error is a clause.
    async fn secret(&self) -> Result<Secret, String> {
        let mut last = self.last.lock().await;
        let is_valid = |secret: &&Secret| {
            let expires = secret.expiration_timestamp.as_ref();
            expires.is_none_or(|time| Timestamp::now() < time.0)
        };
        if let Some(secret) = last.as_ref().filter(is_valid) {
            return Ok(secret.clone());
        }
        // A plugin may ask a person. Nobody waits for its thread at the end of the process.
        let (sender, read) = oneshot::channel();
        let plugin = self.plugin.clone();
        thread::spawn(move || _ = sender.send(run(&plugin)));
        let secret = read.await.map_err(|error| error.to_string())??;
        Ok(last.insert(secret).clone())
    }

    /// Returns the value of the header `Authorization`.
    pub(super) async fn authorization(&self) -> Result<HeaderValue, String> {
        let token = self.secret().await?.token.unwrap_or_default();
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let mut value =
            value.map_err(|_| "the token has characters that no token has".to_owned())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Runs a credential plugin, as kubectl does. Its standard error is that of this program.
fn run(exec: &ExecConfig) -> Result<Secret, String> {
    let command = exec.command.as_deref().unwrap_or_default();
    let failed = |why: String| {
        let why = why.trim();
        format!("the credential plugin '{command}' (exec) failed: {why}")
    };
    let is_interactive =
        exec.interactive_mode != Some(ExecInteractiveMode::Never) && stdin().is_terminal();
    let info = json!({
        "kind": "ExecCredential",
        "apiVersion": exec.api_version,
        "spec": {"interactive": is_interactive, "cluster": exec.cluster},
    });
    let variables = exec.env.iter().flatten();
    let variables = variables.filter_map(|one| Some((one.get("name")?, one.get("value")?)));
    let input = match is_interactive {
        true => Stdio::inherit(),
        false => Stdio::null(),
    };
    let run = Command::new(command)
        .args(exec.args.iter().flatten())
        .envs(variables)
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(input)
        .stderr(Stdio::inherit())
        .output();
    let output = run.map_err(|error| {
        let is_absent = error.kind() == ErrorKind::NotFound;
        let hint = exec.install_hint.as_deref().filter(|_| is_absent);
        failed(format!("{error} {}", hint.unwrap_or_default()))
    })?;
    match output.status.success() {
        true => parse(&output.stdout).map_err(failed),
        false => Err(failed(output.status.to_string())),
    }
}

/// Parses what a plugin prints: JSON, but kubectl accepts YAML, too.
fn parse(output: &[u8]) -> Result<Secret, String> {
    #[derive(Deserialize)]
    struct ExecCredential {
        status: Secret,
    }
    let read = serde_saphyr::from_slice::<ExecCredential>(output);
    let read = read.map_err(|error| format!("no ExecCredential: {}", error_chain(&error)))?;
    let mut secret = read.status;
    let token = secret.token.map(|token| token.trim().to_owned());
    secret.token = token.filter(|token| !token.is_empty());
    let certificate = secret.client_certificate_data.as_ref();
    let certificate = certificate.and(secret.client_key_data.as_ref());
    match secret.token.is_some() || certificate.is_some() {
        true => Ok(secret),
        false => Err("it printed neither a token nor a certificate".to_owned()),
    }
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
    async fn plugin_runs_again_when_its_token_has_expired() {
        for (year, is_kept) in [("2099", true), ("2020", false)] {
            let expires = format!("expirationTimestamp: {year}-01-01T00:00:00Z");
            let of_client = async || {
                let mut user = user(&format!("token: t$$, {expires}"));
                let credential = take(&mut user).await.unwrap().unwrap();
                credential.authorization().await.unwrap()
            };
            // Clients share it.
            let (first, second) = (of_client().await, of_client().await);
            assert!(first.to_str().unwrap().starts_with("Bearer t"), "{first:?}");
            assert_eq!(first == second, is_kept, "{year}");
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
