//! A client of DNS over QUIC. It can also violate the protocol.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

pub use quinn::ConnectionError;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, Endpoint, ReadToEndError, RecvStream, SendStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::tls::Client;
use crate::wait::TIMEOUT;
use crate::wire::frame;

/// Maximum number of octets to read from a stream. It exceeds the largest message, so that surplus octets are detected.
const MAX_READ: usize = 65_600;

/// A QUIC connection.
pub struct Quic {
    runtime: Runtime,
    _endpoint: Endpoint,
    connection: Connection,
}

/// A bidirectional stream for one query.
pub struct Exchange {
    /// The direction to the server.
    pub send: SendStream,
    /// The direction from the server.
    pub receive: RecvStream,
}

impl Quic {
    /// Connects from loopback.
    pub fn connect(client: &Client, server: SocketAddr) -> Result<Self, ConnectionError> {
        Self::connect_from(client, Ipv4Addr::LOCALHOST.into(), server)
    }

    /// Connects from a given local address.
    pub fn connect_from(
        client: &Client,
        own: IpAddr,
        server: SocketAddr,
    ) -> Result<Self, ConnectionError> {
        // The thread keeps the connection alive while the test does not wait for it.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let connecting = async {
            let config = QuicClientConfig::try_from(client.0.clone()).unwrap();
            let mut endpoint = Endpoint::client((own, 0).into()).unwrap();
            endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(config)));
            let connection = endpoint.connect(server, "localhost").unwrap();
            let connection = with_timeout(connection).await?;
            Ok::<_, ConnectionError>((endpoint, connection))
        };
        let (endpoint, connection) = runtime.block_on(connecting)?;
        Ok(Self {
            runtime,
            _endpoint: endpoint,
            connection,
        })
    }

    /// Sends a query over a new stream and returns the reply.
    pub fn ask(&self, packet: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = self.ask_all(&[packet.to_vec()]);
        all.remove(0)
    }

    /// Sends all queries concurrently, each over a new stream.
    pub fn ask_all(&self, packets: &[Vec<u8>]) -> Vec<io::Result<Vec<u8>>> {
        let mut open = Vec::new();
        for packet in packets {
            open.push(self.open().map_err(io::Error::other).map(|mut exchange| {
                let sent = self.write(&mut exchange, &frame(packet), true);
                (exchange, sent)
            }));
        }
        let replies = open.into_iter().map(|opened| {
            let (exchange, sent) = opened?;
            sent?;
            let octets = self.read(exchange).map_err(io::Error::other)?;
            let Some((length, message)) = octets.split_first_chunk() else {
                return Err(io::Error::other(format!("no reply: {octets:?}")));
            };
            let length = usize::from(u16::from_be_bytes(*length));
            assert_eq!(length, message.len(), "the length of the reply");
            Ok(message.to_vec())
        });
        replies.collect()
    }

    /// Opens a bidirectional stream.
    pub fn open(&self) -> Result<Exchange, ConnectionError> {
        let opened = self
            .runtime
            .block_on(with_timeout(self.connection.open_bi()));
        opened.map(|(send, receive)| Exchange { send, receive })
    }

    /// Writes octets to a stream. If `is_last`, also ends it.
    pub fn write(&self, exchange: &mut Exchange, octets: &[u8], is_last: bool) -> io::Result<()> {
        self.runtime.block_on(async {
            with_timeout(exchange.send.write_all(octets)).await?;
            if is_last {
                exchange.send.finish().map_err(io::Error::other)?;
            }
            Ok(())
        })
    }

    /// Reads a stream to its end.
    pub fn read(&self, mut exchange: Exchange) -> Result<Vec<u8>, ReadToEndError> {
        let reading = exchange.receive.read_to_end(MAX_READ);
        self.runtime.block_on(with_timeout(reading))
    }

    /// Opens a unidirectional stream, which DNS over QUIC does not use.
    pub fn open_uni(&self) -> Option<SendStream> {
        let opening = self.connection.open_uni();
        // A server that allows no such stream sends no error.
        let wait = std::time::Duration::from_millis(200);
        let opened = self
            .runtime
            .block_on(async { timeout(wait, opening).await });
        opened.ok()?.ok()
    }

    /// Waits until the server closes the connection.
    pub fn wait_for_close(&self) -> ConnectionError {
        self.runtime
            .block_on(with_timeout(self.connection.closed()))
    }

    /// Returns whether the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.connection.close_reason().is_some()
    }
}

async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, future)
        .await
        .expect("the server must answer in time")
}
