//! Forwards ports as a kubelet does, with `v4.channel.k8s.io` over a websocket. The simulated API server answers with it.
//!
//! A forwarded port is that port on loopback of this host, as for a pod with `hostNetwork`.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Bytes, Message};

/// The subprotocol: the first octet of a message is its channel.
const PROTOCOL: &str = "v4.channel.k8s.io";
/// The channels of the first port.
const DATA: u8 = 0;
const ERROR: u8 = 1;

/// Accepts a websocket and connects it with a port of loopback.
pub(crate) fn forward(headers: &HeaderMap, upgrade: OnUpgrade, port: &str) -> Response {
    let key = headers.get("sec-websocket-key");
    let protocols = headers
        .get("sec-websocket-protocol")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let is_supported = protocols.split(", ").any(|one| one == PROTOCOL);
    let (Some(key), Ok(port), true) = (key, port.parse::<u16>(), is_supported) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    tokio::spawn(async move {
        if let Err(error) = pump(upgrade, port).await {
            eprintln!("port-forward of {port}: {error:#}");
        }
    });
    let accept = derive_accept_key(key.as_bytes());
    let head = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-protocol", PROTOCOL),
        ("sec-websocket-accept", &accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, head).into_response()
}

/// Copies octets in both directions until one side ends.
async fn pump(upgrade: OnUpgrade, port: u16) -> Result<()> {
    let stream = TokioIo::new(upgrade.await?);
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    for channel in [DATA, ERROR] {
        let [low, high] = port.to_le_bytes();
        socket.send(message(channel, &[low, high])).await?;
    }
    let mut pod = match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(pod) => pod,
        Err(error) => {
            socket
                .send(message(ERROR, error.to_string().as_bytes()))
                .await?;
            socket.close(None).await.context("closing")?;
            // Octets of the client that nobody reads would reset the connection, and the client would not see the reason.
            while socket.next().await.is_some_and(|received| received.is_ok()) {}
            return Ok(());
        }
    };
    let mut buffer = vec![0; 16 << 10];
    loop {
        tokio::select! {
            received = socket.next() => match received.transpose()? {
                Some(Message::Binary(octets)) if octets.first() == Some(&DATA) => {
                    pod.write_all(&octets[1..]).await?;
                }
                Some(Message::Close(_)) | None => return Ok(()),
                Some(_) => {}
            },
            read = pod.read(&mut buffer) => match read? {
                0 => return socket.close(None).await.context("closing"),
                length => socket.send(message(DATA, &buffer[..length])).await?,
            },
        }
    }
}

fn message(channel: u8, octets: &[u8]) -> Message {
    Message::Binary(Bytes::from([&[channel], octets].concat()))
}
