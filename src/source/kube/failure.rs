//! What can go wrong with a list or a watch, what it means for the watcher, and how long to wait then.

use std::time::Duration;

use kube::core::Status;

use super::super::backoff::{Backoff, LONGEST};
use super::list::ListError;
use crate::log::sentence;

/// The first pause after a list that failed, and how pauses grow from there: three lists in the first minute, and less
/// than one in five minutes later.
pub(super) const LIST_PAUSE: Duration = Duration::from_secs(5);
/// Each pause is the one before, times this.
pub(super) const LIST_GROWTH: u32 = 3;

/// The first pause after a watch that failed. Each is twice the one before.
pub(super) const WATCH_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause while the server cannot be reached: what is not there cannot be overloaded, and that it is back is to
/// be noticed soon.
pub(super) const LONGEST_UNREACHABLE: Duration = Duration::from_secs(15);

/// The longest pause while one feed is denied what it asks for: that costs the server little, and somebody who has just
/// granted a permission waits for it.
const LONGEST_DENIED: Duration = Duration::from_secs(60);

/// Why watching stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    /// The server, or something on the way to it, ended the watch without an error.
    #[error("the watch ended")]
    Ended,
    /// The version is too old to go on from, or an event was lost.
    #[error("the resource version is gone: {0}")]
    Gone(String),
    /// It could not be opened, or broke.
    #[error(transparent)]
    Failed(Failure),
    /// Nobody listens to us any more.
    #[error("shutting down")]
    Closed,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server said no: HTTP status and message.
    #[error("the API server says {0}: {1}")]
    Refused(u16, String),
    /// The same, and when to come again.
    #[error("the API server says {0}: {1}")]
    Later(u16, String, Duration),
    /// No answer in time.
    #[error("nothing was heard from the API server for {} s", .0.as_secs())]
    Silent(Duration),
    /// A list that goes on and on.
    #[error("a list did not end within {} s", .0.as_secs())]
    Endless(Duration),
    /// A streamed list ended, or fell silent, before it was complete.
    #[error("a streamed list was not completed: {0}")]
    Unfinished(&'static str),
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The answer broke off, or cannot be read.
    #[error("{0}")]
    Broken(String),
}

// === impl Stopped ===

impl Stopped {
    /// Returns how long to wait before the next watch.
    pub(super) fn pause(&self, backoff: &mut Backoff) -> Duration {
        match self {
            Self::Failed(failure @ (Failure::Refused(..) | Failure::Later(..))) => {
                failure.pause(backoff)
            }
            Self::Ended | Self::Failed(_) => backoff.next(LONGEST_UNREACHABLE),
            Self::Gone(_) | Self::Closed => Duration::ZERO,
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
        // Longer than the longest pause of our own, and nobody would know that it is back.
        match Duration::from_secs(seconds.into()).min(LONGEST) {
            Duration::ZERO => Self::Refused(code, message),
            pause => Self::Later(code, message, pause),
        }
    }

    /// Tells whether the server or the way to it is the cause, so that other requests would fail as well. The other
    /// causes are of one feed: permissions, for instance.
    pub(super) fn is_of_the_server(&self) -> bool {
        match self {
            Self::Refused(code, _) => !matches!(code, 400..=499) || matches!(code, 408 | 429),
            Self::Later(..)
            | Self::Silent(_)
            | Self::Endless(_)
            | Self::Unfinished(_)
            | Self::Unreachable(_)
            | Self::Broken(_) => true,
        }
    }

    /// Tells whether a streamed list failed because this server, or what is between, does not do that, or does not let us: a
    /// list may be allowed where a watch is not. A server that is too busy says something else.
    pub(super) fn is_of_streaming(&self) -> bool {
        match self {
            Self::Refused(code, _) => {
                matches!(code, 400..=499) && !matches!(code, 401 | 408 | 410 | 429)
            }
            Self::Unfinished(_) | Self::Endless(_) => true,
            Self::Later(..) | Self::Silent(_) | Self::Unreachable(_) | Self::Broken(_) => false,
        }
    }

    /// Returns how long to wait before the next list.
    pub(super) fn pause(&self, backoff: &mut Backoff) -> Duration {
        match self {
            Self::Later(_, _, asked) => *asked + backoff.next(LONGEST),
            // Credentials rotate, and are read again within a minute.
            Self::Unreachable(_) | Self::Refused(401, _) => backoff.next(LONGEST_UNREACHABLE),
            Self::Refused(..) if !self.is_of_the_server() => backoff.next(LONGEST_DENIED),
            Self::Refused(..)
            | Self::Silent(_)
            | Self::Endless(_)
            | Self::Unfinished(_)
            | Self::Broken(_) => backoff.next(LONGEST),
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = error {
            return Self::refused(*status);
        }
        let has_begun = matches!(
            error,
            kube::Error::ReadEvents(_) | kube::Error::SerdeError(_)
        );
        match has_begun {
            true => Self::Broken(sentence(&error)),
            false => Self::Unreachable(sentence(&error)),
        }
    }
}

impl From<ListError> for Failure {
    fn from(error: ListError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        if let Failure::Refused(410, reason) = failure {
            return Self::Gone(reason);
        }
        Self::Failed(failure)
    }
}
