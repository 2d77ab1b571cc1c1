//! The oracle: hickory-server with the printed zone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::rr::{LowerName, Name};
use hickory_proto::serialize::txt::Parser;
use hickory_server::Server;
use hickory_server::store::in_memory::InMemoryZoneHandler;
use hickory_server::zone_handler::{AxfrPolicy, Catalog, ZoneType};
use support::differences::set;
use support::query::hex;
use support::reply::Reply;
use support::wait::TIMEOUT;
use support::wire::{Transport, exchange};
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Runtime;

use super::messages::TestMessage;
use super::text;

/// Idle timeout of connections. Connections of tests can be idle for longer than those of clients.
const IDLE: Duration = Duration::from_secs(300);
/// Maximum number of queued replies of a connection.
const WAITING: usize = 32;

/// A running name server. The drop ends it.
pub struct Oracle {
    address: SocketAddr,
    _server: Server<Catalog>,
    _runtime: Runtime,
}

impl Oracle {
    /// Serves a zone file of `global.`.
    pub fn start(zone: &str) -> Self {
        let origin = Name::from_ascii("global.").unwrap();
        let parser = Parser::new(zone, None, Some(origin.clone()));
        let (_, records) = parser.parse().unwrap();
        let handler =
            InMemoryZoneHandler::<hickory_server::net::runtime::TokioRuntimeProvider>::new(
                origin.clone(),
                records,
                ZoneType::Primary,
                AxfrPolicy::Deny,
            );
        let mut catalog = Catalog::new();
        catalog.upsert(LowerName::from(origin), vec![Arc::new(handler.unwrap())]);

        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let context = runtime.enter();
        let mut server = Server::new(catalog);
        let (udp, tcp) = runtime.block_on(async {
            // If the port is not free over TCP, the loop tries another one.
            loop {
                let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                let address = udp.local_addr().unwrap();
                if let Ok(tcp) = TcpListener::bind(address).await {
                    return (udp, tcp);
                }
            }
        });
        let address = udp.local_addr().unwrap();
        server.register_socket(udp);
        server.register_listener(tcp, IDLE, WAITING);
        drop(context);
        Self {
            address,
            _server: server,
            _runtime: runtime,
        }
    }

    /// Compares response code, AA and answer records of a reply. Returns a description of the difference, if there is
    /// one.
    pub fn compare(&self, asked: &TestMessage, reply: &[u8]) -> Option<String> {
        // Queries over UDP first, then over TCP after truncation.
        let mut theirs = self.ask(asked, Transport::Udp);
        if theirs.is_truncated() {
            theirs = self.ask(asked, Transport::Tcp);
        }
        let ours = Reply::read(reply).unwrap();
        let seen = |message: &Reply| {
            let answers = set(message.answers.iter().map(text));
            (message.status(), message.is_authoritative(), answers)
        };
        (seen(&ours) != seen(&theirs)).then(|| {
            let (ours, theirs) = (seen(&ours), seen(&theirs));
            let (what, packet) = (&asked.what, hex(&asked.packet));
            format!("{what} {packet}\n we\n  {ours:?}\n hickory-server\n  {theirs:?}")
        })
    }

    fn ask(&self, asked: &TestMessage, over: Transport) -> Reply {
        let reply = exchange(self.address, &asked.packet, over, TIMEOUT)
            .unwrap_or_else(|error| panic!("{} over {over:?}: {error}", asked.what));
        Reply::read_prefix(&reply).unwrap()
    }
}
