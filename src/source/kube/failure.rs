//! Failures of lists and watches, their meaning for the watcher, and the pauses after them.

use std::io;
use std::time::Duration;

use kube::core::Status;
use tokio::time::timeout;

use super::super::backoff::{Backoff, LONGEST_PAUSE};
use super::client::error_text;
use super::list::ListError;
use crate::log::error_chain;

/// The first pause after a failed list. With [`LIST_GROWTH`] there are three lists in the first minute, and later less
/// than one in five minutes.
pub(super) const LIST_PAUSE: Duration = Duration::from_secs(5);
/// The factor between one pause after a failed list and the next.
pub(super) const LIST_GROWTH: u32 = 3;

/// The first pause after a failed watch. Each following pause is twice as long.
pub(super) const WATCH_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause while the server is unreachable. Such a server is not overloaded, and its return must be noticed
/// soon.
pub(super) const LONGEST_UNREACHABLE: Duration = Duration::from_secs(15);

/// The longest pause while the requests of one feed are denied. A denial costs the server little, and an administrator
/// who has granted a permission waits for the effect.
const LONGEST_DENIED: Duration = Duration::from_secs(60);

/// The reason why a list failed or a watch stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server refused the request.
    #[error("the API server returned {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The message of the server.
        message: String,
        /// The time until the next request that the server named (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// The version has expired or is in the future, or the kind is not defined any more. The feed must be relisted.
    #[error("{0}")]
    Gone(String),
    /// The server is unreachable.
    #[error("{0}")]
    Unreachable(String),
    /// The server sent nothing in time, a list did not end in time, or the response broke off.
    #[error("{0}")]
    Broken(String),
    /// The connection ended. Servers and proxies often end a watch in this way.
    #[error("{0}")]
    Ended(String),
    /// The response, or an event, cannot be parsed. The feed must be relisted.
    #[error("{0}")]
    Unreadable(String),
}

/// Returns whether a status means that the resource version is in the future. Like client-go, it checks the cause,
/// which servers send since Kubernetes 1.19, and the message, for older ones.
fn is_future_version(status: &Status) -> bool {
    let mut causes = status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .map(|cause| cause.reason.as_str());
    causes.any(|reason| reason == "ResourceVersionTooLarge")
        || status.message.contains("Too large resource version")
}

// === impl Failure ===

impl Failure {
    /// Converts the status of a refused request.
    pub(super) fn from_status(status: Status) -> Self {
        let is_gone = status.code == 410 || is_future_version(&status);
        let Status {
            code,
            message,
            details,
            ..
        } = status;
        if is_gone {
            return Self::Gone(format!("the resource version is gone: {message}"));
        }
        let seconds = details.map_or(0, |details| details.retry_after_seconds);
        // The limit ensures that the recovery of the server is noticed.
        let pause = Duration::from_secs(seconds.into()).min(LONGEST_PAUSE);
        Self::Refused {
            code,
            message,
            retry_after: (!pause.is_zero()).then_some(pause),
        }
    }

    /// Returns the failure of a server that sent nothing in time.
    pub(super) fn silent(limit: Duration) -> Self {
        Self::Broken(format!(
            "the API server sent nothing for {} s",
            limit.as_secs()
        ))
    }

    /// Returns whether the server or the network is the cause, so that requests of other feeds would fail too. Other
    /// causes, such as missing permissions, concern one feed.
    pub(super) fn is_server_wide(&self) -> bool {
        match self {
            Self::Refused {
                code, retry_after, ..
            } => !matches!(code, 400..=499) || matches!(code, 408 | 429) || retry_after.is_some(),
            Self::Gone(_) => false,
            _ => true,
        }
    }

    /// Returns how long to wait before the next list.
    pub(super) fn pause(&self, backoff: &mut Backoff) -> Duration {
        match self {
            Self::Refused {
                retry_after: Some(requested),
                ..
            } => *requested + backoff.next(LONGEST_PAUSE),
            // Credentials rotate. The client reloads them within a minute.
            Self::Unreachable(_) | Self::Refused { code: 401, .. } => {
                backoff.next(LONGEST_UNREACHABLE)
            }
            _ if self.is_server_wide() => backoff.next(LONGEST_PAUSE),
            _ => backoff.next(LONGEST_DENIED),
        }
    }

    /// Returns how long to wait before the next watch.
    pub(super) fn watch_pause(&self, backoff: &mut Backoff) -> Duration {
        match self {
            Self::Refused { .. } => self.pause(backoff),
            _ => backoff.next(LONGEST_UNREACHABLE),
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(*status),
            kube::Error::ReadEvents(_) | kube::Error::SerdeError(_) => {
                Self::Broken(error_text(&error))
            }
            _ => Self::Unreachable(error_text(&error)),
        }
    }
}

impl From<kube::core::request::Error> for Failure {
    fn from(error: kube::core::request::Error) -> Self {
        Self::Broken(error_chain(&error))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Broken(error_chain(&error))
    }
}

impl From<ListError> for Failure {
    fn from(error: ListError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// Waits for a part of a response, up to a limit.
pub(super) async fn within<T, E>(
    limit: Duration,
    part: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure>
where
    Failure: From<E>,
{
    Ok(timeout(limit, part)
        .await
        .map_err(|_| Failure::silent(limit))??)
}
