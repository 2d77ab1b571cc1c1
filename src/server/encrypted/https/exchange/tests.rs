//! Requests whose bodies do not arrive, without TLS, with a clock that stands still while anything can happen.

use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::server::client_prefix::ClientPrefix;
use crate::server::connections::{ConnectionLimits, Connections};
use crate::server::encrypted::https;
use crate::server::socket::Budget;
use crate::server::tests::answerers;

/// A client of an HTTP/2 connection, and the state of the server.
struct Client {
    sender: SendRequest<Bytes>,
    exchange: Arc<Exchange>,
    _stream: TcpStream,
}

/// The client's side of a connection that is served, and the state of the server.
struct Served {
    own: DuplexStream,
    exchange: Arc<Exchange>,
    /// The address of the client is that of a TCP connection.
    stream: TcpStream,
}

impl Served {
    async fn start(held: &Arc<HeldBodies>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (accepted, client) = listener.accept().await.unwrap();
        let limits = ConnectionLimits {
            total: 10,
            per_address: 10,
        };
        let slot = Connections::new(limits, Arc::default()).register(client.ip());
        let exchange = Exchange::new(
            Arc::new(answerers().create()),
            client,
            slot,
            Budget::new(usize::MAX).add(accepted),
            "/dns-query".into(),
            held.clone(),
        );
        let (own, servers) = tokio::io::duplex(1 << 16);
        let serving = https::serve(servers, exchange.clone(), CancellationToken::new());
        tokio::spawn(serving);
        Self {
            own,
            exchange,
            stream,
        }
    }
}

impl Client {
    async fn connect(held: &Arc<HeldBodies>) -> Self {
        let served = Served::start(held).await;
        let (sender, connection) = h2::client::handshake(served.own).await.unwrap();
        tokio::spawn(connection);
        Self {
            sender,
            exchange: served.exchange,
            _stream: served.stream,
        }
    }

    /// Sends the head of a POST request.
    async fn begin(&mut self) -> (ResponseFuture, SendStream<Bytes>) {
        self.sender = self.sender.clone().ready().await.unwrap();
        let request = Request::post("https://localhost/dns-query")
            .header(CONTENT_TYPE, request::MEDIA_TYPE)
            .header(CONTENT_LENGTH, MAX_QUERY)
            .body(())
            .unwrap();
        self.sender.send_request(request, false).unwrap()
    }

    /// Waits until the requests of the connection use this many octets.
    async fn wait_until_held(&self, octets: usize) {
        while self.exchange.held.load(Relaxed) != octets {
            yield_now().await;
        }
    }
}

/// A query of the maximum length.
fn query() -> Bytes {
    let mut query = support::query::query("global. SOA").0;
    query.resize(MAX_QUERY, 0);
    query.into()
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_arrive_do_not_delay_other_requests() {
    let mut client = Client::connect(&Arc::default()).await;
    let started = Instant::now();
    let mut stalled = Vec::new();
    for _ in 0..50 {
        stalled.push(client.begin().await);
    }
    let (response, mut body) = client.begin().await;
    body.send_data(query(), true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    assert!(started.elapsed() < MESSAGE_TIMEOUT / 2);
    for (response, _body) in stalled {
        assert_eq!(response.await.unwrap().status(), 408);
    }
    assert_eq!(started.elapsed().as_secs(), MESSAGE_TIMEOUT.as_secs());
}

#[tokio::test(start_paused = true)]
async fn only_received_octets_are_held() {
    let held = Arc::default();
    let mut client = Client::connect(&held).await;
    let mut requests = Vec::new();
    for _ in 0..90 {
        requests.push(client.begin().await);
    }
    // Each request announces 4096 octets.
    client.wait_until_held(90 * REQUEST_SIZE).await;
    let part = query().slice(..1000);
    requests[0].1.send_data(part, false).unwrap();
    client.wait_until_held(90 * REQUEST_SIZE + 1000).await;
    drop(requests);
    client.wait_until_held(0).await;
}

#[tokio::test(start_paused = true)]
async fn requests_above_the_limit_of_the_client_are_refused() {
    let held = Arc::<HeldBodies>::default();
    let prefix =
        |address: &str| -> ClientPrefix { address.parse::<std::net::IpAddr>().unwrap().into() };
    // Other connections of this client use everything. Other clients do not matter.
    held.add(prefix("192.0.2.1"), 1 << 20);
    held.add(prefix("127.0.0.1"), 1 << 20);
    let mut client = Client::connect(&held).await;
    let mut requests = Vec::new();
    for _ in 0..MIN_HELD / REQUEST_SIZE {
        requests.push(client.begin().await);
    }
    client.wait_until_held(MIN_HELD).await;
    let (response, _body) = client.begin().await;
    assert_eq!(
        response.await.unwrap_err().reason(),
        Some(Reason::REFUSED_STREAM)
    );
    let (response, mut body) = requests.remove(0);
    body.send_data(query(), true).unwrap();
    assert_eq!(
        response.await.unwrap_err().reason(),
        Some(Reason::REFUSED_STREAM)
    );
    // Its own earlier requests still get their time.
    assert_eq!(requests.remove(0).0.await.unwrap().status(), 408);
}

/// The replies before it may be unread: a client of HTTP/1.1 may send several requests at once.
#[tokio::test(start_paused = true)]
async fn request_of_http_1_1_above_the_limit_gets_a_response() {
    let held = Arc::<HeldBodies>::default();
    held.add(std::net::IpAddr::from([127, 0, 0, 1]).into(), 1 << 20);
    let Served {
        mut own, exchange, ..
    } = Served::start(&held).await;
    let query = query();
    let head = format!(
        "POST /dns-query HTTP/1.1\r\nhost: localhost\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
        request::MEDIA_TYPE,
        query.len()
    );
    let mut status_and_headers = async |unread: usize| {
        exchange.held.fetch_add(unread, Relaxed);
        own.write_all(&[head.as_bytes(), &query].concat())
            .await
            .unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\n") {
            response.push(own.read_u8().await.unwrap());
        }
        let text = String::from_utf8(response).unwrap().to_lowercase();
        let length = text
            .split("content-length: ")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .parse()
            .unwrap();
        own.read_exact(&mut vec![0; length]).await.unwrap();
        exchange.held.fetch_sub(unread, Relaxed);
        text
    };
    // Without memory for the head, and without memory for the body.
    for unread in [MIN_HELD, MIN_HELD - REQUEST_SIZE] {
        let refused = status_and_headers(unread).await;
        assert!(refused.starts_with("http/1.1 503 "), "{refused}");
        assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    }
    let answered = status_and_headers(0).await;
    assert!(answered.starts_with("http/1.1 200 "), "{answered}");
}
