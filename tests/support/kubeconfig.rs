//! Kubeconfig files.

use crate::ports::free_port;
use tempfile::TempDir;

/// Returns a kubeconfig with the context `here`, with further fields of the cluster and fields of the user, in YAML.
pub fn text(url: &str, cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         clusters: [{{name: here, cluster: {{server: '{url}', {cluster}}}}}]\n\
         users: [{{name: me, user: {{{user}}}}}]\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n"
    )
}

/// A kubeconfig file with the context `here`.
pub struct Kubeconfig {
    /// The URL of its API server.
    pub url: String,
    /// The path of the file.
    pub path: String,
    _folder: TempDir,
}

// === impl Kubeconfig ===

impl Kubeconfig {
    /// Writes a kubeconfig for the API server at this URL.
    pub fn write(url: &str) -> Self {
        Self::with(url, "", "")
    }

    /// Writes the file, as [`text`].
    pub fn with(url: &str, cluster: &str, user: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, text(url, cluster, user)).unwrap();
        Self {
            url: url.to_owned(),
            path: path.display().to_string(),
            _folder: folder,
        }
    }

    /// Writes a kubeconfig for an API server that refuses connections.
    pub fn of_closed_port() -> Self {
        Self::write(&format!("http://127.0.0.1:{}", free_port()))
    }

    /// Returns the flag for this file.
    pub fn flag(&self) -> String {
        format!("--kubeconfig={}", self.path)
    }
}
