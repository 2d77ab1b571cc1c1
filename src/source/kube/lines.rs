//! The events of a watch, one in each line of the response.
//!
//! A line has the same limit as an object of a list. A server or a proxy that never ends a line must not fill the
//! memory. kube's own stream of events has no limit, and skips lines that it cannot decode.

use std::borrow::Cow;

use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::list::MAX_OBJECT_OCTETS;
use super::requests::RequestFailure;
use crate::log::error_chain;
use crate::model::KubeObject;

/// The capacity that the buffer of a watch keeps between two lines. Most objects are shorter.
const KEPT_CAPACITY: usize = 64 << 10;

/// The reader of a response with events.
pub(super) struct EventReader<B> {
    body: B,
    /// The current line, with its end if it is complete.
    line: Vec<u8>,
}

/// An event of a watch.
pub(super) struct WatchEvent<'l> {
    pub(super) kind: EventKind,
    pub(super) object: KubeObject<'l>,
}

/// The meaning of an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum EventKind {
    /// The object was added or modified.
    Applied,
    /// The object was deleted.
    Deleted,
    /// The server has reached the version. There is no object.
    Bookmark,
}

/// One line of a response.
#[derive(Deserialize)]
struct EventLine<'l> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'l, str>,
    #[serde(borrow)]
    object: &'l RawValue,
}

// === impl EventReader ===

impl<B: AsyncBufRead + Unpin> EventReader<B> {
    /// Reads the body of a response.
    pub(super) fn new(body: B) -> Self {
        Self {
            body,
            line: Vec::new(),
        }
    }

    /// Reads the next event. Returns `None` at the end of the response.
    ///
    /// # Errors
    ///
    /// [`RequestFailure::Ended`] if the connection ended, perhaps within an event, which the server sends again.
    /// [`RequestFailure::Unreadable`] if a line is too long or cannot be decoded, so that an event is lost. Other failures if
    /// the server sent one.
    pub(super) async fn next(&mut self) -> Result<Option<WatchEvent<'_>>, RequestFailure> {
        loop {
            self.read_line().await?;
            let is_last = !self.line.ends_with(b"\n");
            if !self.line.trim_ascii().is_empty() {
                return match decode(self.line.trim_ascii()) {
                    Err(RequestFailure::Unreadable(reason)) if is_last => {
                        Err(RequestFailure::Ended(reason))
                    }
                    event => event.map(Some),
                };
            }
            if is_last {
                return Ok(None);
            }
        }
    }

    /// Reads the next line, with its end. Without an end, it is the incomplete last line, or empty.
    async fn read_line(&mut self) -> Result<(), RequestFailure> {
        self.line.clear();
        self.line.shrink_to(KEPT_CAPACITY);
        let read = (&mut self.body)
            .take(MAX_OBJECT_OCTETS as u64)
            .read_until(b'\n', &mut self.line)
            .await;
        // If the server cannot be reached any more, the next watch says so.
        read.map_err(|error| RequestFailure::Ended(error_chain(&error)))?;
        if self.line.len() < MAX_OBJECT_OCTETS || self.line.ends_with(b"\n") {
            return Ok(());
        }
        let mebibytes = MAX_OBJECT_OCTETS >> 20;
        let reason = format!("a line of the watch has more than {mebibytes} MiB");
        Err(RequestFailure::Unreadable(reason))
    }
}

/// Decodes a line. A refusal may be a status instead of an event.
fn decode(line: &[u8]) -> Result<WatchEvent<'_>, RequestFailure> {
    let unreadable = |error| RequestFailure::Unreadable(format!("cannot decode an event: {error}"));
    let EventLine { kind, object } = serde_json::from_slice(line).map_err(|error| {
        let status = serde_json::from_slice::<Status>(line).ok();
        status
            .filter(|status| status.code != 0)
            .map_or_else(|| unreadable(error), RequestFailure::from_status)
    })?;
    let json = object.get();
    let kind = match &*kind {
        "ADDED" | "MODIFIED" => EventKind::Applied,
        "DELETED" => EventKind::Deleted,
        "BOOKMARK" => EventKind::Bookmark,
        _ => {
            let status = serde_json::from_str(json).map_err(unreadable)?;
            return Err(RequestFailure::from_status(status));
        }
    };
    Ok(WatchEvent {
        kind,
        object: KubeObject::read(json),
    })
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;

    use super::*;

    #[tokio::test]
    async fn events_end_with_the_response_or_with_an_error() {
        let event = |name: &str| {
            format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{name}"}}}}}}"#)
        };
        let (a, b) = (event("a"), event("b"));
        let long = "x".repeat(MAX_OBJECT_OCTETS);
        let cases: [(&str, String, &[&str]); 8] = [
            ("a blank line", format!("{a}\n \n{b}\r\n"), &["a", "b"]),
            (
                "a last line without its end",
                format!("{a}\n{b}"),
                &["a", "b"],
            ),
            ("a broken connection", format!("{a}\n{}", &b[..20]), &["a"]),
            (
                "a line that is no event",
                format!("{a}\nwords\n{b}\n"),
                &[
                    "a",
                    "cannot decode an event: expected value at line 1 column 1",
                ],
            ),
            (
                "an incomplete event",
                format!("{}\n{b}\n", &a[..20]),
                &["cannot decode an event: EOF while parsing a string at line 1 column 20"],
            ),
            (
                "a refusal",
                r#"{"kind":"Status","code":504,"message":"slow"}"#.to_owned(),
                &["the API server returned 504: slow"],
            ),
            (
                "the longest line",
                format!("{}{a}\n", &long.replace('x', " ")[a.len() + 1..]),
                &["a"],
            ),
            (
                "a longer line",
                format!("{long}x\n"),
                &["a line of the watch has more than 16 MiB"],
            ),
        ];
        for (what, text, expected) in cases {
            let mut events = EventReader::new(Cursor::new(text));
            let mut read = Vec::new();
            loop {
                match events.next().await {
                    Ok(Some(event)) => read.push(event.object.name().to_owned()),
                    Ok(None) | Err(RequestFailure::Ended(_)) => break,
                    Err(failure) => {
                        read.push(failure.to_string());
                        break;
                    }
                }
            }
            assert_eq!(read, expected, "{what}");
        }
    }
}
