//! Why no client of the API server could be created.

/// The reason why no client could be created.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file of the kubeconfig cannot be read.
    #[error("cannot read the kubeconfig {path}: {source}; set --kubeconfig to an existing file")]
    Unreadable {
        /// The path of the file, or a description of the default location.
        path: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The kubeconfig lacks the context.
    #[error("cannot use the kubeconfig {path}: {problem}; {contexts}; choose one with --context")]
    Context {
        /// The path of the file, or a description of the default location.
        path: String,
        /// The problem with the context.
        problem: String,
        /// A list of the contexts.
        contexts: String,
    },
    /// The kubeconfig cannot be used.
    #[error("cannot read the kubeconfig {path}")]
    Kubeconfig {
        /// The path of the file, or a description of the default location.
        path: String,
        /// The cause.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// Neither a kubeconfig nor the service account of a pod is available.
    #[error("not running in a pod of a cluster ({0}); set --kubeconfig or --file")]
    NotInCluster(#[source] Box<kube::config::InClusterError>),
    /// The client cannot be created because of its certificates or credentials.
    #[error("cannot set up the Kubernetes client")]
    Client(#[source] Box<kube::Error>),
}
