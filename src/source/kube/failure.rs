//! Failures of lists and watches, their meaning for the watcher, and the pauses after them.

use std::time::Duration;

use kube::core::Status;

use super::super::backoff::{Backoff, LONGEST_PAUSE};
use super::client::error_text;
use super::list::ListError;

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

/// The reason why a watch stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum StopReason {
    /// The server or a proxy ended the watch without an error.
    #[error("the watch ended")]
    Ended,
    /// The version has expired or is in the future, or an event was lost. The feed must be relisted.
    #[error("{0}")]
    Gone(String),
    /// The watch could not be opened, or its connection broke.
    #[error(transparent)]
    Failed(Failure),
    /// The receiver of the updates is closed.
    #[error("shutting down")]
    Closed,
}

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server refused the request: HTTP status and message.
    #[error("the API server returned {0}: {1}")]
    Refused(u16, String),
    /// The server refused the request and named the time until the next one (`Retry-After`).
    #[error("the API server returned {0}: {1}")]
    RetryLater(u16, String, Duration),
    /// The server sent nothing in time.
    #[error("the API server sent nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// The list did not end in time.
    #[error("the list did not end within {} s", .0.as_secs())]
    Endless(Duration),
    /// A streamed list ended or stalled before it was complete.
    #[error("the streamed list is incomplete: {0}")]
    Unfinished(&'static str),
    /// The server is unreachable.
    #[error("{0}")]
    Unreachable(String),
    /// The response broke off or cannot be parsed.
    #[error("{0}")]
    Broken(String),
}

// === impl StopReason ===

impl StopReason {
    /// Returns how long to wait before the next watch.
    pub(super) fn pause(&self, backoff: &mut Backoff) -> Duration {
        match self {
            Self::Failed(failure @ (Failure::Refused(..) | Failure::RetryLater(..))) => {
                failure.pause(backoff)
            }
            Self::Ended | Self::Failed(_) => backoff.next(LONGEST_UNREACHABLE),
            Self::Gone(_) | Self::Closed => Duration::ZERO,
        }
    }
}

/// Returns whether a status means that the resource version is in the future. Like client-go, it checks the cause,
/// which servers send since Kubernetes 1.19, and the message, for older ones.
pub(super) fn is_future_version(status: &Status) -> bool {
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
        let Status {
            code,
            message,
            details,
            ..
        } = status;
        let seconds = details.map_or(0, |details| details.retry_after_seconds);
        // The limit ensures that the recovery of the server is noticed.
        match Duration::from_secs(seconds.into()).min(LONGEST_PAUSE) {
            Duration::ZERO => Self::Refused(code, message),
            pause => Self::RetryLater(code, message, pause),
        }
    }

    /// Returns whether the server or the network is the cause, so that requests of other feeds would fail too. Other
    /// causes, such as missing permissions, concern one feed.
    pub(super) fn is_server_wide(&self) -> bool {
        match self {
            Self::Refused(code, _) => !matches!(code, 400..=499) || matches!(code, 408 | 429),
            Self::RetryLater(..)
            | Self::Silent(_)
            | Self::Endless(_)
            | Self::Unfinished(_)
            | Self::Unreachable(_)
            | Self::Broken(_) => true,
        }
    }

    /// Returns whether a streamed list failed because the server or a proxy does not support or permit it. A list may
    /// be permitted where a watch is not. Overload has other status codes.
    pub(super) fn is_streaming_unsupported(&self) -> bool {
        match self {
            Self::Refused(code, _) => {
                matches!(code, 400..=499) && !matches!(code, 401 | 408 | 410 | 429)
            }
            Self::Unfinished(_) | Self::Endless(_) => true,
            Self::RetryLater(..) | Self::Silent(_) | Self::Unreachable(_) | Self::Broken(_) => {
                false
            }
        }
    }

    /// Returns how long to wait before the next list.
    pub(super) fn pause(&self, backoff: &mut Backoff) -> Duration {
        match self {
            Self::RetryLater(_, _, requested) => *requested + backoff.next(LONGEST_PAUSE),
            // Credentials rotate. The client reloads them within a minute.
            Self::Unreachable(_) | Self::Refused(401, _) => backoff.next(LONGEST_UNREACHABLE),
            Self::Refused(..) if !self.is_server_wide() => backoff.next(LONGEST_DENIED),
            Self::Refused(..)
            | Self::Silent(_)
            | Self::Endless(_)
            | Self::Unfinished(_)
            | Self::Broken(_) => backoff.next(LONGEST_PAUSE),
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return Self::from_status(*status);
        }
        let is_in_response = matches!(
            error,
            kube::Error::ReadEvents(_) | kube::Error::SerdeError(_)
        );
        if is_in_response {
            Self::Broken(error_text(&error))
        } else {
            Self::Unreachable(error_text(&error))
        }
    }
}

impl From<ListError> for Failure {
    fn from(error: ListError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<Failure> for StopReason {
    fn from(failure: Failure) -> Self {
        if let Failure::Refused(410, reason) = failure {
            return Self::Gone(format!("the resource version is gone: {reason}"));
        }
        Self::Failed(failure)
    }
}
