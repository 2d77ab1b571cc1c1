//! A client of DNS over QUIC, which can do what none should.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, ConnectionError, Endpoint, ReadToEndError, RecvStream, SendStream};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::tls::Client;
use crate::wait::PATIENCE;
use crate::wire::frame;

/// Octets of a stream that are read at most: a message with its length, and a little more that should not be there.
const MOST: usize = 65_600;

/// A QUIC connection.
pub struct Quic {
    runtime: Runtime,
    _endpoint: Endpoint,
    connection: Connection,
}

/// A stream of one query.
pub struct Exchange {
    /// Towards the server.
    pub send: SendStream,
    /// From the server.
    pub receive: RecvStream,
}

impl Quic {
    /// Connects with what the client offers.
    pub fn connect(client: &Client, server: SocketAddr) -> Result<Self, ConnectionError> {
        Self::connect_from(client, Ipv4Addr::LOCALHOST.into(), server)
    }

    /// Connects from an address of its own.
    pub fn connect_from(
        client: &Client,
        own: IpAddr,
        server: SocketAddr,
    ) -> Result<Self, ConnectionError> {
        // One thread, which answers what the server asks while nobody here waits.
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
            let connection = patiently(connection).await?;
            Ok::<_, ConnectionError>((endpoint, connection))
        };
        let (endpoint, connection) = runtime.block_on(connecting)?;
        Ok(Self {
            runtime,
            _endpoint: endpoint,
            connection,
        })
    }

    /// Asks over a stream of its own; returns the reply.
    pub fn ask(&self, packet: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = self.ask_all(&[packet.to_vec()]);
        all.remove(0)
    }

    /// Asks all at once, each over a stream of its own.
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

    /// Opens a stream.
    pub fn open(&self) -> Result<Exchange, ConnectionError> {
        let opened = self.runtime.block_on(patiently(self.connection.open_bi()));
        opened.map(|(send, receive)| Exchange { send, receive })
    }

    /// Writes octets to a stream, and its end.
    pub fn write(&self, exchange: &mut Exchange, octets: &[u8], is_last: bool) -> io::Result<()> {
        self.runtime.block_on(async {
            patiently(exchange.send.write_all(octets)).await?;
            if is_last {
                exchange.send.finish().map_err(io::Error::other)?;
            }
            Ok(())
        })
    }

    /// Reads a stream to its end.
    pub fn read(&self, mut exchange: Exchange) -> Result<Vec<u8>, ReadToEndError> {
        let reading = exchange.receive.read_to_end(MOST);
        self.runtime.block_on(patiently(reading))
    }

    /// Opens a stream in one direction, as no client of DNS does.
    pub fn open_uni(&self) -> Option<SendStream> {
        let opening = self.connection.open_uni();
        // A server that allows none never says so.
        let wait = std::time::Duration::from_millis(200);
        let opened = self
            .runtime
            .block_on(async { timeout(wait, opening).await });
        opened.ok()?.ok()
    }

    /// Waits until the server closes the connection.
    pub fn closed(&self) -> ConnectionError {
        self.runtime.block_on(patiently(self.connection.closed()))
    }

    /// Whether it has been closed by now.
    pub fn is_closed(&self) -> bool {
        self.connection.close_reason().is_some()
    }
}

async fn patiently<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future)
        .await
        .expect("the server to answer in time")
}
