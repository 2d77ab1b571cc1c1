//! What can go wrong with a list or a watch, and what it means for the watcher.

use std::time::Duration;

use kube::core::Status;

use super::list::ListError;
use crate::telemetry::sentence;

/// How long the server may tell us to stay away: longer, and nobody would know that it is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why listing or watching stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    /// The server ended the watch in good order, or everything is to be listed anew.
    #[error("the watch ended")]
    Ended,
    /// The last list is held: another one must say the same.
    #[error("the last list is not confirmed")]
    Unconfirmed,
    /// The version is too old to go on from, or an event was lost.
    #[error("the resource version is gone: {0}")]
    Gone(String),
    /// Nothing was heard for too long.
    #[error("nothing was heard from the API server for {} s", .0.as_secs())]
    Silent(Duration),
    /// The server or the way to it failed.
    #[error("{0}")]
    Failed(String),
    /// The server has no time for us, and says how long to stay away.
    #[error("{0}")]
    Busy(String, Duration),
    /// Nobody listens to us any more.
    #[error("shutting down")]
    Closed,
}

/// What a request met with.
pub(super) enum Failure {
    /// The server said no: HTTP status and message.
    Refused(u16, String),
    /// The same, not now: and when to come again.
    Later(u16, String, Duration),
    /// No answer in time.
    Silent(Duration),
    /// A list that goes on and on.
    Endless(Duration),
    /// Everything else.
    Broken(String),
}

// === impl Stopped ===

impl Stopped {
    /// Tells whether the connection broke, or was never made.
    pub(super) fn is_break(&self) -> bool {
        match self {
            Self::Silent(_) | Self::Failed(_) | Self::Busy(..) => true,
            Self::Ended | Self::Unconfirmed | Self::Gone(_) | Self::Closed => false,
        }
    }

    /// Returns how long the server asked us to stay away.
    pub(super) fn pause(&self) -> Duration {
        match self {
            Self::Busy(_, pause) => *pause,
            Self::Ended
            | Self::Unconfirmed
            | Self::Gone(_)
            | Self::Silent(_)
            | Self::Failed(_)
            | Self::Closed => Duration::ZERO,
        }
    }
}

/// Tells whether a server says that a resource version is yet to come, as client-go does: servers name the cause since
/// Kubernetes 1.19, and said it in words before.
pub(super) fn is_future(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut causes = causes.map(|cause| cause.reason.as_str());
    causes.any(|reason| reason == "ResourceVersionTooLarge")
        || status.message.contains("Too large resource version")
}

// === impl Failure ===

impl Failure {
    /// Reads what a server says that says no.
    pub(super) fn refused(status: Status) -> Self {
        let Status {
            code,
            message,
            details,
            ..
        } = status;
        let seconds = details.map_or(0, |details| details.retry_after_seconds);
        match Duration::from_secs(seconds.into()).min(LONGEST_PAUSE) {
            Duration::ZERO => Self::Refused(code, message),
            pause => Self::Later(code, message, pause),
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return Self::refused(*status);
        }
        Self::Broken(sentence(&error))
    }
}

impl From<ListError> for Failure {
    fn from(error: ListError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(410, why) => Self::Gone(why),
            Failure::Refused(code, why) => {
                Self::Failed(format!("the API server says {code}: {why}"))
            }
            Failure::Later(code, why, pause) => {
                Self::Busy(format!("the API server says {code}: {why}"), pause)
            }
            Failure::Silent(after) => Self::Silent(after),
            Failure::Endless(after) => {
                Self::Failed(format!("a list did not end within {} s", after.as_secs()))
            }
            Failure::Broken(why) => Self::Failed(why),
        }
    }
}
