//! Tests of listeners.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::testing::support::query::Parts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::counters::CounterSet;
use super::*;
use crate::table::Publisher;
use crate::testing::zones;
use crate::wire::{Access, ResponseSettings, Transport};
use crate::zone::{AnswerOrder, RecordType};

/// Timeout that is sufficient on a busy machine.
const LONG: Duration = Duration::from_secs(10);

/// A server on loopback for the zone `global.` without a table, with its counters.
struct Running {
    server: DnsServer,
    answerers: Answerers,
    dns: SocketAddr,
}

impl Running {
    fn start(udp_workers: usize) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, udp_workers)
    }

    fn start_at(address: Ipv4Addr, udp_workers: usize) -> Self {
        let answerers = answerers();
        let address = SocketAddr::from((address, 0));
        let listeners = bind_dns(&[address.into()]).unwrap();
        let dns = listeners[0].address;
        let server = DnsServer::start(listeners, &answerers, udp_workers, 100);
        let mut server = server.unwrap();
        server.open().unwrap();
        Self {
            server,
            answerers,
            dns,
        }
    }

    fn panics(&self, transport: Transport) -> u64 {
        self.answerers.0.counters.panics(transport)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.dns).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }
}

/// Returns answerers for the zone `global.` without a table.
pub(crate) fn answerers() -> Answerers {
    let settings = ResponseSettings {
        zones: zones(&["global"]),
        access: Access::around(&[]),
        order: AnswerOrder::Rotate,
        udp_max: 1232,
        server_id: "server".to_owned(),
        tcp_idle: TCP_IDLE,
    };
    let reader = Publisher::default().reader();
    let refused = RefusedClients::default();
    Answerers::new(settings, refused, reader, CounterSet::default())
}

#[tokio::test]
async fn requests_have_their_local_address() {
    use axum::Router;
    use axum::extract::Extension;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let page = async |Extension(LocalAddress(own)): Extension<LocalAddress>| own.to_string();
    let routes = Router::new().route("/", get(page));
    tokio::spawn(serve_http(listener, routes));
    for own in ["127.0.0.1", "127.0.0.5"] {
        let mut stream = tokio::net::TcpStream::connect((own, port)).await.unwrap();
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        stream.write_all(head).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with(&format!("\r\n\r\n{own}")), "{text}");
    }
}

/// Returns the query `. NS`, which is refused with and without a table.
fn query(id: u8) -> Vec<u8> {
    Parts::new(".", RecordType::NS.0).packet(id.into()).0
}

fn ask_over_tcp(stream: &mut TcpStream, id: u8) -> io::Result<u8> {
    let packet = query(id);
    stream.write_all(&[&[0, packet.len() as u8][..], &packet].concat())?;
    let mut reply = vec![0; 2 + packet.len()];
    stream.read_exact(&mut reply)?;
    Ok(reply[3])
}

/// A connection that panics on request, like a panic while answering.
struct Panicking {
    stream: socket::Socket,
    must_panic: Arc<AtomicBool>,
}

impl AsyncRead for Panicking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, to);
        let has_read = polled.is_ready() && !to.filled().is_empty();
        assert!(
            !has_read || !self.must_panic.swap(false, SeqCst),
            "an injected panic"
        );
        polled
    }
}

impl AsyncWrite for Panicking {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A connection with octets that are at hand without a read of the socket, like those that TLS has decrypted.
struct Decrypted {
    /// A query, with its length.
    message: Vec<u8>,
    /// The number of queries that are left.
    left: usize,
}

impl AsyncRead for Decrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left > 0 && to.remaining() >= self.message.len() {
            self.left -= 1;
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
    let running = Running::start(1);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, client) = listener.accept().await.unwrap();
    let packet = query(1);
    let message = [&[0, packet.len() as u8][..], &packet].concat();
    let octets = message.len();
    let shared = running.server.connections[0].add(stream, client.ip());
    let stream = Decrypted {
        message,
        left: 10_000,
    };
    let answerer = Arc::new(running.answerers.create());
    let counters = answerer.counters.clone();
    let stop = running.server.stop.clone();
    let connection = tcp::Connection::new(stream, shared, Transport::Tls, client, answerer, stop);
    let mut serving = Box::pin(connection.serve());
    let requests = &counters.requests[Transport::Tls as usize];
    let answered = || requests.iter().map(|count| count.load(SeqCst)).sum::<u64>();
    for turn in 1..=3 {
        assert!(futures::poll!(serving.as_mut()).is_pending());
        // A read ends with a part of a message.
        let most = turn * (2 * socket::READ_QUOTA / octets) as u64;
        assert!((1..=most).contains(&answered()), "{turn}: {}", answered());
    }
    running.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_ends_only_its_own_connection() {
    let mut running = Running::start(1);
    let must_panic = Arc::<AtomicBool>::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    running.dns = listener.local_addr().unwrap();
    let answerer = Arc::new(running.answerers.create());
    let (stop, connections) = (
        running.server.stop.clone(),
        running.server.connections[0].clone(),
    );
    let listener_context = (answerer.clone(), stop.clone(), must_panic.clone());
    let serve = move |stream: socket::Socket, client| {
        let (answerer, stop, must_panic) = listener_context.clone();
        let shared = stream.shared().clone();
        let stream = Panicking { stream, must_panic };
        tcp::Connection::new(stream, shared, Transport::Tcp, client, answerer, stop).serve()
    };
    let note_end = move |ended| tcp::note_end(&answerer, Transport::Tcp, ended);
    tokio::spawn(accept::accept(listener, connections, stop, serve, note_end));
    let (mut one, mut other) = (running.connect(), running.connect());
    assert_eq!(ask_over_tcp(&mut one, 1).unwrap(), 1);
    assert_eq!(ask_over_tcp(&mut other, 2).unwrap(), 2);
    must_panic.store(true, SeqCst);
    assert!(ask_over_tcp(&mut one, 3).is_err(), "the connection ends");
    assert_eq!(ask_over_tcp(&mut other, 4).unwrap(), 4);
    assert_eq!(ask_over_tcp(&mut running.connect(), 5).unwrap(), 5);
    while running.panics(Transport::Tcp) < 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(running.panics(Transport::Udp), 0);
    running.server.stop().await;
}

#[test]
fn ns_addresses_are_usable_at_port_53() {
    let addresses = |given: &[&str], listeners: &[&str]| -> Vec<String> {
        let given: Vec<IpAddr> = given.iter().map(|ip| ip.parse().unwrap()).collect();
        let listeners: Vec<SocketAddr> = listeners.iter().map(|at| at.parse().unwrap()).collect();
        let found = ns_addresses(&given, &listeners);
        found.iter().map(ToString::to_string).collect()
    };
    // A given address, such as that of a Service, is used with any listeners.
    for listeners in [
        &["0.0.0.0:5353", "[::]:5353"],
        &["10.244.0.7:53", "[::]:53"],
    ] {
        assert_eq!(addresses(&["10.96.0.53"], listeners), ["10.96.0.53"]);
    }
    let twice = ["2001:db8::53", "10.96.0.53", "2001:db8::53"];
    assert_eq!(addresses(&twice, &[]), ["10.96.0.53", "2001:db8::53"]);
    for (listeners, expected) in [
        (
            &["192.0.2.53:53", "[2001:db8::53]:53"][..],
            &["192.0.2.53", "2001:db8::53"][..],
        ),
        // Resolvers use only port 53.
        (&["192.0.2.53:5353", "192.0.2.54:53"], &["192.0.2.54"]),
        (&["127.0.0.1:1053"], &[]),
        // Wildcard addresses are unusable.
        (&["0.0.0.0:53", "[::]:53"], &[]),
        (&["0.0.0.0:5353", "[::]:5353"], &[]),
        // On another host, a loopback address means that host.
        (
            &["127.0.0.1:53", "[::1]:53", "192.0.2.53:53"],
            &["192.0.2.53"],
        ),
        (&["127.0.0.1:53"], &["127.0.0.1"]),
        (&[], &[]),
    ] {
        assert_eq!(addresses(&[], listeners), expected, "{listeners:?}");
    }
}

/// Queries to a broadcast address are not for this server alone.
#[tokio::test(flavor = "multi_thread")]
async fn queries_to_a_broadcast_address_get_no_reply() {
    let running = Running::start_at(Ipv4Addr::UNSPECIFIED, 1);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.set_broadcast(true).unwrap();
    let port = running.dns.port();
    for (id, address) in [(1, [127, 255, 255, 255]), (2, [127, 0, 0, 1])] {
        let to = SocketAddr::from((address, port));
        socket.send_to(&query(id), to).unwrap();
    }
    let mut reply = [0; 512];
    socket.recv(&mut reply).unwrap();
    assert_eq!(reply[1], 2, "the reply to the second query");
    let dropped = running
        .answerers
        .0
        .counters
        .sum(|counters| &counters.dropped);
    assert_eq!(dropped, 1);
    running.server.stop().await;
}
