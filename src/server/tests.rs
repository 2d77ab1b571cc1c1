//! Tests of listeners.

use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::testing::support::query::Parts;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::connections::ConnectionPlace;
use super::counters::CounterSet;
use super::tcp::READ_QUOTA;
use super::*;
use crate::table::Publisher;
use crate::testing::zones;
use crate::wire::{Access, ResponseSettings};
use crate::zone::{AnswerOrder, RecordType};

/// Returns an answerer for the zone `global.` without a table.
pub(crate) fn answerer() -> Answerer {
    let settings = ResponseSettings {
        zones: zones(&["global"]),
        access: Access::new(&[], &[]),
        order: AnswerOrder::Rotate,
        udp_max: 1232,
        server_id: "server".to_owned(),
    };
    let reader = Publisher::default().reader();
    let refused = RefusedClients::default();
    Answerer::new(settings, refused, reader, CounterSet::default())
}

/// Returns the query `. NS`, which is refused with and without a table.
fn query(id: u8) -> Vec<u8> {
    Parts::new(".", RecordType::NS.0).packet(id.into()).0
}

/// Returns a connection with its client.
pub(super) async fn connect() -> (Arc<ConnectionPlace>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await;
    let (stream, peer) = listener.accept().await.unwrap();
    let connections = Connections::new(9, Access::for_all(&[]), Transport::Tcp, Arc::default());
    (connections.add(stream, peer), client.unwrap())
}

/// A connection with octets that are at hand without a read of the socket, like those that TLS has decrypted.
struct Decrypted {
    /// A query, with its length.
    message: Vec<u8>,
}

impl AsyncRead for Decrypted {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while to.remaining() >= self.message.len() {
            to.put_slice(&self.message);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Decrypted {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn busy_client_yields_although_its_octets_are_decrypted() {
    let (place, _client) = connect().await;
    let message = [&[0, query(1).len() as u8][..], &query(1)].concat();
    let most = (2 * READ_QUOTA / message.len()) as u64;
    let stream = Decrypted { message };
    let answerer = Arc::new(answerer());
    let counters = answerer.counters.clone();
    let stop = CancellationToken::new();
    let connection = Connection::new(stream, place, Transport::Tls, answerer, stop);
    let mut serving = Box::pin(connection.serve());
    let requests = &counters.requests[Transport::Tls as usize];
    for turn in 1..=3 {
        assert!(futures::poll!(serving.as_mut()).is_pending());
        let answered: u64 = requests.iter().map(|count| count.load(SeqCst)).sum();
        // A read ends with a part of a message.
        assert!((1..=turn * most).contains(&answered), "{answered}");
    }
}

#[tokio::test]
async fn panic_ends_only_its_own_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counters = Arc::<counters::Counters>::default();
    let access = Access::for_all(&[]);
    let connections = Connections::new(9, access, Transport::Tcp, counters.clone());
    let number = AtomicUsize::new(0);
    let serve = move |place: Arc<ConnectionPlace>| {
        let number = number.fetch_add(1, SeqCst);
        async move {
            assert!(number != 1, "an injected panic");
            place.stream.try_write(&[number as u8]).unwrap();
        }
    };
    let stop = CancellationToken::new();
    tokio::spawn(accept(listener, Arc::new(connections), stop, serve));
    for number in 0..3 {
        let mut received = Vec::new();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.read_to_end(&mut received).await.unwrap();
        assert_eq!(received.is_empty(), number == 1);
    }
    assert_eq!(counters.panics[Transport::Tcp as usize].load(SeqCst), 1);
    assert_eq!(counters.connections.load(SeqCst), 0);
}

#[test]
fn ns_addresses_are_usable_at_port_53() {
    fn all<T: FromStr<Err: Debug>>(text: &str) -> Vec<T> {
        let texts = text.split_whitespace();
        texts.map(|text| text.parse().unwrap()).collect()
    }
    for (given, listeners, expected) in [
        // A given address, such as that of a Service, is used with any listeners.
        ("10.96.0.53", "0.0.0.0:5353 10.244.0.7:53", "10.96.0.53"),
        (
            "2001:db8::53 10.96.0.53 2001:db8::53",
            "",
            "10.96.0.53 2001:db8::53",
        ),
        (
            "",
            "192.0.2.53:53 [2001:db8::53]:53",
            "192.0.2.53 2001:db8::53",
        ),
        // Resolvers use only port 53.
        ("", "192.0.2.53:5353 192.0.2.54:53", "192.0.2.54"),
        // Wildcard addresses are unusable.
        ("", "0.0.0.0:53 [::]:53", ""),
        // On another host, a loopback address means that host.
        ("", "127.0.0.1:53 [::1]:53 192.0.2.53:53", "192.0.2.53"),
        ("", "127.0.0.1:53", "127.0.0.1"),
    ] {
        let found = ns_addresses(&all::<IpAddr>(given), &all::<SocketAddr>(listeners));
        assert_eq!(found, all::<IpAddr>(expected), "{listeners}");
    }
}

/// Queries to a broadcast address are not for this server alone.
#[tokio::test(flavor = "multi_thread")]
async fn queries_to_a_broadcast_address_get_no_reply() {
    let (answerer, any) = (answerer(), SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let counters = answerer.shared.counters.clone();
    let listeners = bind_dns(&[ListenAddress::At(any)]).unwrap();
    let port = listeners[0].address.port();
    let mut server = DnsServer::new(listeners, None, answerer, 1, 100);
    server.open().unwrap();
    let socket = UdpSocket::bind(any).unwrap();
    let timeout = Some(Duration::from_secs(10));
    socket.set_read_timeout(timeout).unwrap();
    socket.set_broadcast(true).unwrap();
    for (id, address) in [(1, [127, 255, 255, 255]), (2, [127, 0, 0, 1])] {
        let to = SocketAddr::from((address, port));
        socket.send_to(&query(id), to).unwrap();
    }
    let mut reply = [0; 512];
    socket.recv(&mut reply).unwrap();
    assert_eq!(reply[1], 2, "the reply to the second query");
    assert_eq!(counters.sum(|counters| &counters.dropped), 1);
    server.stop().await;
}
