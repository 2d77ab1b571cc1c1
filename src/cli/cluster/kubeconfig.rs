//! Kubeconfigs, read as kubectl reads them.

use std::env::{self, split_paths, var_os};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use http::{HeaderValue, Uri};
use kube::Config;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, Kubeconfig, KubeconfigError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::proxy::proxy;
use crate::log::error_chain;

/// The origin of the configuration of a client, for messages.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The kubeconfig with its context, or the pod.
    pub(super) origin: String,
    /// What to do if the API server does not answer as expected.
    pub way_out: String,
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

/// Why no client of the API server could be created: a sentence that names the setting.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(pub(super) String);

/// Returns the configuration of a context, in a file or in those at the default location.
pub(super) fn load(
    path: Option<&Path>,
    context: Option<&str>,
) -> Result<(Config, Credentials), ConnectError> {
    let (start, place, flag) = match path.map(Path::display) {
        Some(path) => ("", path.to_string(), format!(" --kubeconfig {path}")),
        None => (
            "at its default location ",
            default_location(),
            String::new(),
        ),
    };
    let cannot = |use_: &str, why: String| {
        ConnectError(format!(
            "cannot {use_} the kubeconfig {start}{place}: {why}"
        ))
    };
    let paths = path.map_or_else(default_paths, |path| vec![path.to_owned()]);
    let file = read(&paths).map_err(|why| cannot("read", why))?;
    let context = context.or(file.current_context.as_deref());
    let context = context.unwrap_or_default();
    let (cluster, user) = find(&file, context).map_err(|problem| cannot("use", problem))?;
    let credentials = Credentials {
        origin: format!("context '{context}' of {place}"),
        way_out: format!(
            "check that this works: kubectl{flag} --context {context} get services,endpointslices --all-namespaces"
        ),
    };
    let config = config_of(cluster, user)
        .map_err(|why| ConnectError(format!("cannot use {credentials}: {why}")))?;
    Ok((config, credentials))
}

/// Reads files, and merges them. As kubectl does, it leaves out absent ones, unless all are.
fn read(paths: &[PathBuf]) -> Result<Kubeconfig, String> {
    let mut merged: Option<Kubeconfig> = None;
    let mut absent = None;
    for path in paths {
        let file = match Kubeconfig::read_from(path) {
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => {
                absent = Some(error);
                continue;
            }
            read => read.map_err(|error| error_chain(&error))?,
        };
        merged = Some(match merged {
            None => file,
            Some(first) => first.merge(file).map_err(|error| error_chain(&error))?,
        });
    }
    merged.ok_or_else(|| {
        let absent = absent.unwrap_or_else(|| ErrorKind::NotFound.into());
        format!("{absent}; set --kubeconfig to an existing file")
    })
}

/// Returns the files of `KUBECONFIG`, or else that of the home directory.
fn default_paths() -> Vec<PathBuf> {
    let list = var_os("KUBECONFIG").unwrap_or_default();
    let given = split_paths(&list).filter(|path| !path.as_os_str().is_empty());
    let given: Vec<PathBuf> = given.collect();
    if given.is_empty() {
        let home = env::home_dir().unwrap_or_default();
        return vec![home.join(".kube/config")];
    }
    given
}

/// Returns the default location of kubeconfigs, for messages.
fn default_location() -> String {
    match env::var("KUBECONFIG") {
        Ok(value) if !value.is_empty() => format!("KUBECONFIG ({value})"),
        _ => "~/.kube/config".to_owned(),
    }
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
        let read = certificates.collect::<Result<_, rustls::pki_types::pem::Error>>();
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
    if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        exec.cluster = Some(cluster.clone());
    }
    Ok(())
}
