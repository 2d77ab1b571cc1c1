//! The origin of the API server's address and of the credentials, for messages.

use std::fmt;
use std::path::PathBuf;

use kube::config::{Kubeconfig, KubeconfigError};

use super::connect_error::ConnectError;

/// The origin of the configuration of a client.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// The service account of the pod.
    Pod,
    /// A kubeconfig.
    Kubeconfig {
        /// The file. `None`: the default location.
        path: Option<PathBuf>,
        /// The context.
        context: String,
    },
}

// === impl Credentials ===

impl Credentials {
    /// Returns what to do if the API server does not answer as expected.
    pub fn way_out(&self) -> String {
        let command = match self {
            Self::Pod => {
                return "check the network policies and the permissions of the ServiceAccount of this pod"
                    .to_owned();
            }
            Self::Kubeconfig { path, context } => {
                let file = path
                    .as_ref()
                    .map(|path| format!(" --kubeconfig {}", path.display()));
                format!("kubectl{} --context {context}", file.unwrap_or_default())
            }
        };
        format!("check that this works: {command} get services,endpointslices --all-namespaces")
    }
}

impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod => f.write_str("ServiceAccount of this pod"),
            Self::Kubeconfig { path, context } => match path {
                Some(path) => write!(f, "context '{context}' of {}", path.display()),
                None => write!(f, "context '{context}' of {}", default_location()),
            },
        }
    }
}

/// Returns the default location of kubeconfigs.
fn default_location() -> String {
    let variable = std::env::var("KUBECONFIG")
        .ok()
        .filter(|value| !value.is_empty());
    variable.map_or("~/.kube/config".to_owned(), |value| {
        format!("KUBECONFIG ({value})")
    })
}

/// Converts the error of an unusable kubeconfig. `file` is its content, if it could be read.
pub(super) fn kubeconfig_error(
    path: Option<&PathBuf>,
    file: Option<&Kubeconfig>,
    error: KubeconfigError,
) -> ConnectError {
    let path = match path {
        Some(path) => path.display().to_string(),
        None => format!("at its default location {}", default_location()),
    };
    let contexts = || {
        let contexts = file.into_iter().flat_map(|file| &file.contexts);
        let names: Vec<&str> = contexts.map(|context| context.name.as_str()).collect();
        if names.is_empty() {
            "it has no contexts".to_owned()
        } else {
            format!("its contexts are: {}", names.join(", "))
        }
    };
    match error {
        KubeconfigError::ReadConfig(source, _) => ConnectError::Unreadable { path, source },
        KubeconfigError::LoadContext(name) => ConnectError::Context {
            path,
            problem: format!("it has no context '{name}'"),
            contexts: contexts(),
        },
        KubeconfigError::CurrentContextNotSet => ConnectError::Context {
            path,
            problem: "it has no current context".to_owned(),
            contexts: contexts(),
        },
        other => ConnectError::Kubeconfig {
            path,
            source: Box::new(other),
        },
    }
}
