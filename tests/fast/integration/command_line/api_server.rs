//! An API server with fixed responses, for commands that read single objects. `support::standin` has lists and watches.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A running server. Its thread ends with the process of the tests.
pub(super) struct ApiServer {
    /// URL without a final slash.
    pub(super) url: String,
    /// Path of a kubeconfig with the context `here`.
    pub(super) kubeconfig: String,
    _folder: TempDir,
}

impl ApiServer {
    /// Starts a server that answers each path with an object, and other paths with 404.
    pub(super) fn start(responses: BTreeMap<String, Value>) -> Self {
        let (server, listener) = Self::listen();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Fails if the client is gone.
                let _ = answer(&stream, &responses);
            }
        });
        server
    }

    /// Starts a server that accepts connections and sends nothing.
    pub(super) fn stalled() -> Self {
        let (server, listener) = Self::listen();
        thread::spawn(move || listener.incoming().collect::<Vec<_>>());
        server
    }

    /// Returns a server that refuses connections.
    pub(super) fn closed() -> Self {
        Self::listen().0
    }

    fn listen() -> (Self, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
             clusters: [{{name: here, cluster: {{server: '{url}'}}}}]\n\
             users: [{{name: me, user: {{}}}}]\n\
             contexts: [{{name: here, context: {{cluster: here, user: me}}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        let server = Self {
            url,
            kubeconfig: path.display().to_string(),
            _folder: folder,
        };
        (server, listener)
    }
}

fn answer(mut stream: &TcpStream, responses: &BTreeMap<String, Value>) -> std::io::Result<()> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let first = head.first().cloned().unwrap_or_default();
    let path = first.split(['?', ' ']).nth(1).unwrap_or_default();
    let missing = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
        "message": "the server could not find the requested resource", "metadata": {},
    });
    let (status, body) = match responses.get(path) {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", &missing),
    };
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}
