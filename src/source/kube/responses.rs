//! Responses of the API server, and what failures mean. There are two forms, read object by object: a list, which is one JSON object around an array of up to a
//! hundred thousand objects, and the events of a watch, one in each line.
//!
//! The reader of a list splits off each object when it has arrived, so that memory holds one object and not the whole list. The rest is
//! the list without its items. It shows whether the list is complete. A line has the same limit as an object of a list: a server or
//! a proxy that never ends one must not fill the memory. kube's own stream of events has no limit, and skips lines that it
//! cannot decode.

use std::borrow::Cow;
use std::io;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use kube::core::Status;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::client::error_text;
use crate::log::error_chain;
use crate::model::KubeObject;

/// The maximum length of an object, or of the list without its items, in octets. The default limit of etcd is 1.5 MiB
/// for an object, which needs less than this as JSON.
const MAX_OBJECT_OCTETS: usize = 16 << 20;

/// The maximum number of objects in a list: ten times the largest measured list. An endless list must not fill the
/// memory.
const MAX_OBJECTS: usize = 1_000_000;

/// Splits a list into objects.
#[derive(Default)]
pub(super) struct ListReader {
    /// What has arrived and was not read.
    buffer: Vec<u8>,
    /// The length of `buffer` with which reading goes on. It doubles while an object is incomplete, so that a long object is not
    /// read again for each of its parts.
    enough: usize,
    part: ListPart,
    /// The list without its items.
    frame: Vec<u8>,
    /// The number of complete items.
    items: usize,
}

/// A part of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ListPart {
    /// The octets before the array `items`.
    #[default]
    Head,
    Items,
    /// The octets after it.
    Tail,
}

// === impl ListReader ===

impl ListReader {
    /// Reads the next octets. Calls `take` with the JSON of each object that is complete.
    ///
    /// # Errors
    ///
    /// If an object is too long, or there are too many objects.
    pub(super) fn read(
        &mut self,
        octets: &[u8],
        mut take: impl FnMut(&str),
    ) -> Result<(), RequestFailure> {
        self.buffer.extend_from_slice(octets);
        if self.buffer.len() >= self.enough {
            if self.part == ListPart::Head {
                self.read_head();
            }
            if self.part == ListPart::Items {
                self.read_items(&mut take)?;
            }
            self.enough = (2 * self.buffer.len()).min(MAX_OBJECT_OCTETS);
        }
        if self.part == ListPart::Tail {
            self.frame.append(&mut self.buffer);
        }
        if self.buffer.len().max(self.frame.len()) > MAX_OBJECT_OCTETS {
            let mebibytes = MAX_OBJECT_OCTETS >> 20;
            let reason = format!("the list has an object of more than {mebibytes} MiB");
            return Err(RequestFailure::Unreadable(reason));
        }
        Ok(())
    }

    /// Ends the head where the array `items` of the list starts: with null in its place, the head is an object.
    fn read_head(&mut self) {
        const KEY: &[u8] = b"\"items\"";
        let keys = self.buffer.windows(KEY.len()).enumerate();
        for (start, _) in keys.filter(|(_, octets)| *octets == KEY) {
            let after = &self.buffer[start + KEY.len()..];
            let array = after.iter().position(|octet| !b": \t\r\n".contains(octet));
            let Some(array) = array.filter(|array| after[*array] == b'[') else {
                continue;
            };
            let end = start + KEY.len() + array;
            let head = [&self.buffer[..end], b"null"].concat();
            if serde_json::from_slice::<IgnoredAny>(&[&head, &b"}"[..]].concat()).is_ok() {
                (self.frame, self.part) = (head, ListPart::Items);
                self.buffer.drain(..=end);
                return;
            }
        }
    }

    /// Takes the complete items out of the buffer.
    fn read_items(&mut self, take: &mut impl FnMut(&str)) -> Result<(), RequestFailure> {
        let mut start = 0;
        loop {
            let separators = self.buffer[start..]
                .iter()
                .position(|octet| !b", \t\r\n".contains(octet));
            start += separators.unwrap_or(self.buffer.len() - start);
            if self.buffer.get(start) == Some(&b']') {
                self.part = ListPart::Tail;
                start += 1;
                break;
            }
            let mut items = serde_json::Deserializer::from_slice(&self.buffer[start..])
                .into_iter::<&RawValue>();
            // The rest has not arrived, or is no JSON, which the end of the list shows.
            let Some(Ok(item)) = items.next() else {
                break;
            };
            self.items += 1;
            if self.items > MAX_OBJECTS {
                let reason = format!("the list has more than {MAX_OBJECTS} objects");
                return Err(RequestFailure::Unreadable(reason));
            }
            take(item.get());
            start += items.byte_offset();
        }
        self.buffer.drain(..start);
        Ok(())
    }

    /// Ends the list. Returns its resource version.
    ///
    /// # Errors
    ///
    /// If the list is not complete, as a single page is not.
    pub(super) fn finish(mut self, take: impl FnMut(&str)) -> Result<String, RequestFailure> {
        #[derive(Deserialize)]
        struct List {
            metadata: ListMeta,
            // A proxy may answer 200 with the reason why it has no list.
            #[serde(rename = "items")]
            _items: IgnoredAny,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ListMeta {
            #[serde(default)]
            resource_version: String,
            #[serde(rename = "continue")]
            continue_token: Option<String>,
        }
        self.enough = 0;
        self.read(&[], take)?;
        self.frame.append(&mut self.buffer);
        let List { metadata, .. } = serde_json::from_slice(&self.frame).map_err(|error| {
            RequestFailure::Unreadable(format!("cannot parse the list: {error}"))
        })?;
        if metadata
            .continue_token
            .is_some_and(|token| !token.is_empty())
        {
            let reason = "the API server returned one page instead of the whole list";
            return Err(RequestFailure::Unreadable(reason.to_owned()));
        }
        Ok(metadata.resource_version)
    }
}

// === Events ===

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

// === Failures ===

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

// === impl RequestFailure ===

impl RequestFailure {
    /// Converts the status of a refused request.
    pub(super) fn from_status(status: Status) -> Self {
        let Status { code, message, .. } = status;
        // API servers of every version have this text, and newer ones a cause as well.
        if code == 410 || message.contains("Too large resource version") {
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

#[cfg(test)]
mod tests;
