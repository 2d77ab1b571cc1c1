//! HTTP client for the admin and API listeners.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::wait::TIMEOUT;

/// A response of an HTTP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Requests a page over HTTP/1.1.
pub fn get(server: SocketAddr, path: &str) -> io::Result<Page> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let bad = || io::Error::other(format!("no HTTP: {text}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(bad)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    assert!(
        !head.to_lowercase().contains("transfer-encoding: chunked"),
        "{path}: this client does not support chunked responses"
    );
    Ok(Page {
        status: status.ok_or_else(bad)?,
        body: body.to_owned(),
    })
}

/// Returns the value of a metric, named with its labels, from a metrics page.
pub fn metric<'p>(page: &'p str, name_and_labels: &str) -> Option<&'p str> {
    page.lines().find_map(|line| {
        let rest = line.strip_prefix(name_and_labels)?;
        rest.trim_start_matches("{}").strip_prefix(' ')
    })
}
