//! Client for streams of server-sent events.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use serde_json::Value;

use crate::wait::TIMEOUT;

/// An open stream of events.
#[derive(Debug)]
pub struct EventStream {
    reader: BufReader<TcpStream>,
    /// Status code of the response.
    pub status: u16,
    /// Head of the response, in lower case.
    pub head: String,
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerEvent {
    /// The ID.
    pub id: String,
    /// The type: `change`, `table` or `reset`.
    pub kind: String,
    /// The data.
    pub data: Value,
}

// === impl EventStream ===

impl EventStream {
    /// Requests a stream with further lines of the head. HTTP/1.0, so that the response is not chunked.
    pub fn open(server: SocketAddr, path: &str, lines: &[&str]) -> Self {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let head =
            format!("GET {path} HTTP/1.0\r\nHost: {server}\r\nAccept: text/event-stream\r\n");
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        stream
            .write_all((head + &lines + "\r\n").as_bytes())
            .unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        }
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Self {
            reader,
            status: status.unwrap_or_else(|| panic!("no HTTP: {head}")),
            head: head.to_lowercase(),
        }
    }

    /// Waits for the next event. Skips comments. Returns `None` at the end of the stream, and fails after [`TIMEOUT`].
    pub fn try_next(&mut self) -> io::Result<Option<ServerEvent>> {
        let mut event = ServerEvent {
            id: String::new(),
            kind: String::new(),
            data: Value::Null,
        };
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if Instant::now() > deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            match line.trim_end_matches('\n').split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("event", kind)) => kind.clone_into(&mut event.kind),
                Some(("data", json)) => event.data = serde_json::from_str(json)?,
                None if !event.kind.is_empty() => return Ok(Some(event)),
                _ => {}
            }
        }
    }

    /// Waits for the next event of one type. Skips others.
    pub fn next(&mut self, kind: &str) -> ServerEvent {
        loop {
            let event = self.try_next().unwrap();
            let event = event.unwrap_or_else(|| panic!("the stream ended before {kind}"));
            if event.kind == kind {
                return event;
            }
        }
    }

    /// Waits for changes. Returns the kind and the subject of each.
    pub fn changes(&mut self, count: usize) -> Vec<String> {
        (0..count)
            .map(|_| summary(&self.next("change").data))
            .collect()
    }
}

/// Returns the kind and the subject of a change: services, cluster and endpoints, as far as they apply.
pub fn summary(change: &Value) -> String {
    let list = |field: &str| {
        let items = change[field].as_array().into_iter().flatten();
        items
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(",")
    };
    let text = |field: &str| change[field].as_str().unwrap_or_default().to_owned();
    let parts = [
        text("kind"),
        list("services"),
        text("cluster"),
        list("endpoints"),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}
