//! Failures of lists and watches, and what they mean.

use std::io;
use std::time::Duration;

use kube::core::Status;
use tokio::time::timeout;

use super::client::error_text;
use crate::log::error_chain;

/// The reason why a list failed or a watch stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestFailure {
    /// The server refused the request.
    #[error("the API server returned {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The message of the server.
        message: String,
    },
    /// The version has expired or is in the future, or the kind is not defined any more. The feed must be listed.
    #[error("{0}")]
    Gone(String),
    /// The server is unreachable, sent nothing in time, or the response broke off.
    #[error("{0}")]
    Broken(String),
    /// The connection ended. Servers and proxies often end a watch in this way.
    #[error("{0}")]
    Ended(String),
    /// Nothing was heard from a watch for too long.
    #[error("the watch is silent")]
    Silent,
    /// The response, or an event, cannot be parsed. The feed must be listed.
    #[error("{0}")]
    Unreadable(String),
}

/// Returns whether a status means that the resource version is in the future. Like client-go, it checks the cause,
/// which servers send since Kubernetes 1.19, and the message, for older ones.
fn is_future_version(status: &Status) -> bool {
    status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .map(|cause| cause.reason.as_str())
        .any(|reason| reason == "ResourceVersionTooLarge")
        || status.message.contains("Too large resource version")
}

// === impl RequestFailure ===

impl RequestFailure {
    /// Converts the status of a refused request.
    pub(super) fn from_status(status: Status) -> Self {
        let is_gone = status.code == 410 || is_future_version(&status);
        let Status { code, message, .. } = status;
        if is_gone {
            return Self::Gone(format!("the resource version is gone: {message}"));
        }
        Self::Refused { code, message }
    }

    /// Returns whether the server or the network is the cause, so that requests of other feeds would fail too. Other
    /// causes, such as missing permissions, concern one feed.
    pub(super) fn is_server_wide(&self) -> bool {
        match self {
            Self::Refused { code, .. } => !matches!(code, 400..=499) || matches!(code, 408 | 429),
            Self::Gone(_) => false,
            _ => true,
        }
    }
}

impl From<kube::Error> for RequestFailure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(*status),
            _ => Self::Broken(error_text(&error)),
        }
    }
}

impl From<kube::core::request::Error> for RequestFailure {
    fn from(error: kube::core::request::Error) -> Self {
        Self::Broken(error_chain(&error))
    }
}

impl From<io::Error> for RequestFailure {
    fn from(error: io::Error) -> Self {
        Self::Broken(error_chain(&error))
    }
}

/// Waits for a part of a response, up to a limit.
pub(crate) async fn within<T, E>(
    limit: Duration,
    part: impl Future<Output = Result<T, E>>,
) -> Result<T, RequestFailure>
where
    RequestFailure: From<E>,
{
    let silent = |_| {
        let seconds = limit.as_secs();
        RequestFailure::Broken(format!("the API server sent nothing for {seconds} s"))
    };
    Ok(timeout(limit, part).await.map_err(silent)??)
}
