//! Kubeconfigs, read as kubectl reads them.

use std::env::{self, split_paths, var_os};
use std::fs::{metadata, read_to_string};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use hyper::Uri;
use hyper::header::HeaderValue;
use kube::Config;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, Kubeconfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};

use super::proxy::proxy;
use crate::cli::groups::KubeconfigArgs;
use crate::model::join_texts;

/// The configuration of a client.
pub(super) struct Configured {
    pub config: Config,
    /// Where it is from.
    pub origin: String,
    /// What to do if the API server does not answer as expected.
    pub way_out: String,
}

/// Returns the configuration of a context: in a file, in those of `KUBECONFIG`, or in that of the home directory.
pub(super) fn load(flags: &KubeconfigArgs) -> Result<Configured> {
    let list = var_os("KUBECONFIG").unwrap_or_default();
    let given = split_paths(&list).filter(|path| !path.as_os_str().is_empty());
    let mut paths: Vec<PathBuf> = given.collect();
    let (mut place, mut flag) = (format!("KUBECONFIG ({})", list.display()), String::new());
    if let Some(path) = &flags.kubeconfig {
        paths = vec![path.clone()];
        place = path.display().to_string();
        flag = format!(" --kubeconfig {place}");
    } else if paths.is_empty() {
        paths.push(env::home_dir().unwrap_or_default().join(".kube/config"));
        place = "~/.kube/config".to_owned();
    }
    let file = read(&paths).with_context(|| format!("cannot read the kubeconfig {place}"))?;
    let context = flags
        .context
        .as_ref()
        .or(file.current_context.as_ref())
        .map_or("", String::as_str);
    let origin = format!("context '{context}' of {place}");
    let config = find(&file, context)
        .and_then(|(cluster, user)| config_of(cluster, user))
        .with_context(|| format!("cannot use {origin}"))?;
    let way_out = format!(
        "check that this works: kubectl{flag} --context {context} get services,endpointslices --all-namespaces"
    );
    Ok(Configured {
        config,
        origin,
        way_out,
    })
}

/// Reads files, and merges them. As kubectl does, it leaves out absent ones, unless all are.
fn read(paths: &[PathBuf]) -> Result<Kubeconfig> {
    let mut present = paths.iter().filter(|path| path.exists()).peekable();
    if let (None, Some(Err(error))) = (present.peek(), paths.first().map(metadata)) {
        bail!("{error}; set --kubeconfig to an existing file");
    }
    let merge = |merged: Kubeconfig, path| merged.merge(Kubeconfig::read_from(path)?);
    Ok(present.try_fold(Kubeconfig::default(), merge)?)
}

/// Returns the cluster and the user of a context.
fn find(file: &Kubeconfig, context: &str) -> Result<(Cluster, AuthInfo)> {
    let named = file.contexts.iter().find(|one| one.name == context);
    let Some(named) = named.and_then(|one| one.context.as_ref()) else {
        let names = join_texts(file.contexts.iter().map(|one| &one.name), ", ");
        bail!("there is no such context; choose one with --context: {names}");
    };
    let cluster = file
        .clusters
        .iter()
        .find(|one| one.name == named.cluster)
        .and_then(|one| one.cluster.clone());
    let cluster = cluster.with_context(|| format!("there is no cluster '{}'", named.cluster))?;
    // As in kubectl, the user may be absent.
    let mut users = file.auth_infos.iter();
    let user = users
        .find(|one| Some(&one.name) == named.user.as_ref())
        .and_then(|one| one.auth_info.clone());
    Ok((cluster, user.unwrap_or_default()))
}

/// Returns the configuration of a client. `Config::from_custom_kubeconfig` would match `NO_PROXY` against the proxy, and refuse
/// a `NO_PROXY` that ends in a comma. The error names the field.
fn config_of(cluster: Cluster, mut user: AuthInfo) -> Result<Config> {
    let url = url_of(&cluster, &user)?;
    let variable = |name: &str| env::var(name).ok();
    let proxy_url = proxy(cluster.proxy_url.as_deref(), &url, variable)?;
    let info = ExecAuthCluster::try_from(&cluster)?;
    let mut config = Config::new(url);
    if let Some(pem) = &info.certificate_authority_data {
        let certificates = CertificateDer::pem_slice_iter(pem).map(|one| Ok(one?.to_vec()));
        let read = certificates.collect::<Result<_, PemError>>();
        config.root_cert = Some(read.context("certificate-authority")?);
        // The client reloads this file, because certificates rotate. Data in the kubeconfig itself take precedence over it.
        config.root_cert_file = cluster
            .certificate_authority
            .map(PathBuf::from)
            .filter(|_| cluster.certificate_authority_data.is_none());
    }
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.disable_compression = cluster.disable_compression.unwrap_or(false);
    config.tls_server_name = cluster.tls_server_name;
    config.proxy_url = proxy_url;
    check(&mut user)?;
    if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        exec.cluster = Some(info);
    }
    config.auth_info = user;
    Ok(config)
}

/// Returns the URL of the API server. As in kubectl, one without a scheme is https if anything is said about TLS. A token is not sent
/// without TLS because a scheme was forgotten.
fn url_of(cluster: &Cluster, user: &AuthInfo) -> Result<Uri> {
    let server = cluster.server.as_deref().unwrap_or_default();
    let mut text = server.to_owned();
    if !server.contains("://") {
        let has_tls = cluster.certificate_authority.is_some()
            || cluster.certificate_authority_data.is_some()
            || cluster.insecure_skip_tls_verify == Some(true)
            || user.client_certificate.is_some()
            || user.client_certificate_data.is_some();
        let has_token = user.token.is_some() || user.token_file.is_some() || user.exec.is_some();
        if has_token && !has_tls {
            bail!(
                "server: '{server}' has no scheme, and a token needs TLS: write https://{server}"
            );
        }
        text = format!("{}://{server}", if has_tls { "https" } else { "http" });
    }
    text.parse()
        .ok()
        .filter(|url: &Uri| url.host().is_some())
        .with_context(|| format!("server: '{server}' is not a URL"))
}

/// Checks what authenticates a user, and removes the newlines at the ends of tokens, which kube would send.
fn check(user: &mut AuthInfo) -> Result<()> {
    if let Some(provider) = user.auth_provider.as_ref().filter(|one| one.name != "oidc") {
        let name = &provider.name;
        bail!(
            "auth-provider: '{name}' is not supported, nor by kubectl; use a credential plugin (exec)"
        );
    }
    // The type of the token can only be written, and read as JSON.
    let mut token = serde_json::to_value(&*user)?["token"]
        .take()
        .as_str()
        .unwrap_or_default()
        .trim()
        .to_owned();
    if HeaderValue::from_str(&token).is_err() {
        bail!("token: it has characters that no token has");
    }
    // As in kubectl, the file takes precedence. kube reads it again when the token has changed.
    if let Some(file) = user.token_file.take() {
        let text = read_to_string(&file).with_context(|| format!("tokenFile {file}"))?;
        token = text.trim().to_owned();
        user.token_file = Some(file).filter(|_| token == text);
    }
    let is_in_file = user.token_file.is_some() || token.is_empty();
    user.token = (!is_in_file).then(|| token.into());
    Ok(())
}
