//! Kubeconfigs, read as kubectl reads them.

use std::env::{self, split_paths, var_os};
use std::fs::{metadata, read_to_string};
use std::path::PathBuf;

use http::{HeaderValue, Uri};
use kube::Config;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, Kubeconfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};

use super::error::ClusterError;
use super::proxy::proxy;
use crate::cli::groups::KubeconfigArgs;
use crate::log::error_chain;

/// The configuration of a client, its origin, and what to do if the API server does not answer as expected.
pub(super) type Configured = (Config, String, String);

/// Returns the configuration of a context, in a file or in those at the default location.
pub(super) fn load(flags: &KubeconfigArgs) -> Result<Configured, ClusterError> {
    let (paths, place) = match &flags.kubeconfig {
        Some(path) => (vec![path.clone()], path.display().to_string()),
        None => default_location(),
    };
    let (start, flag) = match flags.kubeconfig {
        Some(_) => ("", format!(" --kubeconfig {place}")),
        None => ("at its default location ", String::new()),
    };
    let cannot = |what: String| move |why: String| ClusterError::unusable(&what, &why);
    let file = read(&paths).map_err(cannot(format!("read the kubeconfig {start}{place}")))?;
    let context = flags.context.as_ref().or(file.current_context.as_ref());
    let context = context.map_or("", String::as_str);
    let found = find(&file, context);
    let (cluster, user) = found.map_err(cannot(format!("use the kubeconfig {start}{place}")))?;
    let origin = format!("context '{context}' of {place}");
    let config = config_of(cluster, user).map_err(cannot(format!("use {origin}")))?;
    let way_out = format!(
        "check that this works: kubectl{flag} --context {context} get services,endpointslices --all-namespaces"
    );
    Ok((config, origin, way_out))
}

/// Reads files, and merges them. As kubectl does, it leaves out absent ones, unless all are.
fn read(paths: &[PathBuf]) -> Result<Kubeconfig, String> {
    let mut present = paths.iter().filter(|path| path.exists()).peekable();
    if let (None, Some(Err(error))) = (present.peek(), paths.first().map(metadata)) {
        return Err(format!("{error}; set --kubeconfig to an existing file"));
    }
    let merge = |merged: Kubeconfig, path| merged.merge(Kubeconfig::read_from(path)?);
    let merged = present.try_fold(Kubeconfig::default(), merge);
    merged.map_err(|error| error_chain(&error))
}

/// Returns the files of `KUBECONFIG`, or else that of the home directory, and their name for messages.
fn default_location() -> (Vec<PathBuf>, String) {
    let list = var_os("KUBECONFIG").unwrap_or_default();
    let given = split_paths(&list).filter(|path| !path.as_os_str().is_empty());
    let given: Vec<PathBuf> = given.collect();
    if given.is_empty() {
        let home = env::home_dir().unwrap_or_default();
        return (vec![home.join(".kube/config")], "~/.kube/config".to_owned());
    }
    (given, format!("KUBECONFIG ({})", list.display()))
}

/// Returns the cluster and the user of a context. The error is a clause.
fn find(file: &Kubeconfig, context: &str) -> Result<(Cluster, AuthInfo), String> {
    let named = file.contexts.iter().find(|one| one.name == context);
    let Some(named) = named.and_then(|one| one.context.as_ref()) else {
        let names: Vec<&str> = file.contexts.iter().map(|one| one.name.as_str()).collect();
        let has = match names.as_slice() {
            [] => "it has no contexts".to_owned(),
            names => format!("its contexts are: {}", names.join(", ")),
        };
        let problem = match context {
            "" => "it has no current context".to_owned(),
            context => format!("it has no context '{context}'"),
        };
        return Err(format!("{problem}; {has}; choose one with --context"));
    };
    let mut clusters = file.clusters.iter();
    let cluster = clusters.find(|one| one.name == named.cluster);
    let cluster = cluster.and_then(|one| one.cluster.clone()).ok_or_else(|| {
        format!(
            "it has no cluster '{}', which context '{context}' names",
            named.cluster
        )
    })?;
    // As in kubectl, the user may be absent.
    let mut users = file.auth_infos.iter();
    let user = users.find(|one| Some(&one.name) == named.user.as_ref());
    let user = user.and_then(|one| one.auth_info.clone());
    Ok((cluster, user.unwrap_or_default()))
}

/// Returns the configuration of a client. `Config::from_custom_kubeconfig` would match `NO_PROXY` against the proxy, and refuse
/// a `NO_PROXY` that ends in a comma. The error is a clause that names the field.
fn config_of(cluster: Cluster, mut user: AuthInfo) -> Result<Config, String> {
    let server = cluster.server.as_deref().unwrap_or_default();
    let url: Uri = server
        .parse()
        .map_err(|error| format!("server: '{server}' is not a URL: {error}"))?;
    let proxy_url = proxy(cluster.proxy_url.as_deref(), &url, |name| {
        env::var(name).ok()
    })?;
    let info = ExecAuthCluster::try_from(&cluster).map_err(|error| error_chain(&error))?;
    check(&mut user, &info)?;
    let mut config = Config::new(url);
    if let Some(pem) = &info.certificate_authority_data {
        let certificates = CertificateDer::pem_slice_iter(pem);
        let certificates = certificates.map(|one| Ok(one?.to_vec()));
        let read = certificates.collect::<Result<_, PemError>>();
        config.root_cert = Some(read.map_err(|error| format!("certificate-authority: {error}"))?);
        // The client reloads this file, because certificates rotate. Data in the kubeconfig itself take precedence over it.
        let file = cluster.certificate_authority.map(PathBuf::from);
        config.root_cert_file = file.filter(|_| cluster.certificate_authority_data.is_none());
    }
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.disable_compression = cluster.disable_compression.unwrap_or(false);
    config.tls_server_name = cluster.tls_server_name;
    config.proxy_url = proxy_url;
    config.auth_info = user;
    Ok(config)
}

/// Checks what authenticates a user, and prepares it for the client.
fn check(user: &mut AuthInfo, cluster: &ExecAuthCluster) -> Result<(), String> {
    if let Some(provider) = user.auth_provider.as_ref().filter(|one| one.name != "oidc") {
        let name = &provider.name;
        return Err(format!(
            "auth-provider: '{name}' is not supported, nor by kubectl; use a credential plugin (exec)"
        ));
    }
    // The type of the token can only be written, and read as JSON.
    let token = serde_json::to_value(&*user).map_err(|error| error.to_string())?;
    let token = token["token"].as_str().map(str::trim).unwrap_or_default();
    if HeaderValue::from_str(token).is_err() {
        return Err("token: it has characters that no token has".to_owned());
    }
    user.token = Some(token)
        .filter(|token| !token.is_empty())
        .map(Into::into);
    // As in kubectl, the file takes precedence.
    if let Some(file) = user.token_file.take() {
        let text = read_to_string(&file).map_err(|error| format!("tokenFile {file}: {error}"))?;
        // kube would send the newline at its end. It reads another file again when the token has changed.
        let is_whole = text.trim() == text;
        user.token = (!is_whole).then(|| text.trim().to_owned().into());
        user.token_file = Some(file).filter(|_| is_whole);
    }
    if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        exec.cluster = Some(cluster.clone());
    }
    Ok(())
}
