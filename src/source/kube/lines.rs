//! The lines of a response that has one event in each: a watch, or a streamed list.
//!
//! A line has the same limit as an object of a plain list. A server or a proxy that never ends a line must not fill the
//! memory. kube's own stream of events has no limit, and skips lines that it cannot decode.

use std::error::Error;
use std::io;

use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, Stream, stream};
use kube::core::{Status, WatchEvent};
use serde_json::Value;

use super::failure::{Failure, StopReason};
use super::list::MAX_OBJECT_OCTETS;
use crate::log::error_chain;

/// The capacity that the buffer of a watch keeps between two lines. Most objects are shorter.
const KEPT_CAPACITY: usize = 64 << 10;

/// The reason why a line could not be read.
pub(super) enum LineError {
    /// It has more than [`MAX_OBJECT_OCTETS`].
    TooLong,
    /// The connection broke.
    Broken(io::Error),
}

/// Reads the next line of a response, with its end. Without an end, it is the incomplete last line, or empty.
pub(super) async fn read_line(
    body: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> Result<(), LineError> {
    line.clear();
    let mut limited = body.take(MAX_OBJECT_OCTETS as u64);
    let read = limited.read_until(b'\n', line).await;
    read.map_err(LineError::Broken)?;
    if is_complete(line) || line.len() < MAX_OBJECT_OCTETS {
        Ok(())
    } else {
        Err(LineError::TooLong)
    }
}

/// Returns whether a line has its end.
pub(super) fn is_complete(line: &[u8]) -> bool {
    line.last() == Some(&b'\n')
}

/// Returns the events of a watch. A line that is too long or cannot be decoded has lost an event, so the feed must be
/// relisted.
pub(super) fn events_of(
    body: impl AsyncBufRead + Unpin,
) -> impl Stream<Item = Result<WatchEvent<Value>, StopReason>> {
    // The stream owns the line. So it loses nothing if its user stops waiting for the next event.
    stream::try_unfold((body, Vec::new()), async |(mut body, mut line)| {
        let event = next_event(&mut body, &mut line).await?;
        Ok(event.map(|event| (event, (body, line))))
    })
}

/// Reads the next event of a watch. Returns `None` at its end.
async fn next_event(
    body: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> Result<Option<WatchEvent<Value>>, StopReason> {
    loop {
        match read_line(body, line).await {
            Ok(()) => {}
            Err(LineError::TooLong) => {
                let mebibytes = MAX_OBJECT_OCTETS >> 20;
                let reason = format!("a line of the watch has more than {mebibytes} MiB");
                return Err(StopReason::Gone(reason));
            }
            Err(LineError::Broken(error)) if is_end(&error) => return Ok(None),
            Err(LineError::Broken(error)) => {
                return Err(Failure::Broken(error_chain(&error)).into());
            }
        }
        let event = match line.trim_ascii() {
            [] => None,
            text => Some(decode_event(text)),
        };
        let is_last = !is_complete(line);
        line.shrink_to(KEPT_CAPACITY);
        match event {
            // A connection may end within an event. The server sends it again.
            None | Some(Err(StopReason::Gone(_))) if is_last => return Ok(None),
            None => {}
            Some(event) => return event.map(Some),
        }
    }
}

/// Decodes a line of a watch. A refusal may be a status instead of an event.
fn decode_event(line: &[u8]) -> Result<WatchEvent<Value>, StopReason> {
    serde_json::from_slice(line).map_err(|error| match serde_json::from_slice::<Status>(line) {
        Ok(status) if status.code != 0 => Failure::from_status(status).into(),
        Ok(_) | Err(_) => StopReason::Gone(format!("cannot decode an event: {error}")),
    })
}

/// Returns whether an error means that the connection has ended. Servers and proxies often end a watch in this way.
fn is_end(error: &(dyn Error + 'static)) -> bool {
    let Some(io_error) = error.downcast_ref::<io::Error>() else {
        let is_cut = error.to_string().contains("unexpected EOF during chunk");
        return is_cut || error.source().is_some_and(is_end);
    };
    // The source of an I/O error is that of the error within it.
    let within = io_error
        .get_ref()
        .map(|error| error as &(dyn Error + 'static));
    let is_end_of_connection = matches!(
        io_error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut
    );
    is_end_of_connection || within.is_some_and(is_end)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use futures::io::Cursor;

    use super::*;

    #[tokio::test]
    async fn events_end_with_the_response_or_with_an_error() {
        let event = |name: &str| format!(r#"{{"type":"ADDED","object":{{"name":"{name}"}}}}"#);
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
            let events = events_of(Cursor::new(text));
            let read = events.map(|event| match event {
                Ok(WatchEvent::Added(object)) => object["name"].as_str().unwrap().to_owned(),
                Ok(other) => format!("{other:?}"),
                Err(stopped) => stopped.to_string(),
            });
            assert_eq!(read.collect::<Vec<_>>().await, expected, "{what}");
        }
    }
}
