//! Requests whose bodies do not arrive, without TLS, with a clock that stands still while anything can happen.

use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::server::connections::{ConnectionLimits, Connections};
use crate::server::encrypted::https;
use crate::server::socket::Budget;
use crate::server::tests::answerers;

/// A client of an HTTP/2 connection.
struct Client {
    sender: SendRequest<Bytes>,
    /// The address of the client is that of a TCP connection.
    _stream: TcpStream,
}

impl Client {
    async fn connect(budget: &Budget) -> Self {
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
            budget.add(accepted),
            "/dns-query".into(),
        );
        let (own, servers) = tokio::io::duplex(1 << 16);
        tokio::spawn(https::serve(servers, exchange, CancellationToken::new()));
        let (sender, connection) = h2::client::handshake(own).await.unwrap();
        tokio::spawn(connection);
        Self {
            sender,
            _stream: stream,
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
}

async fn wait_until_in_use(budget: &Budget, octets: usize) {
    while budget.in_use() != octets {
        yield_now().await;
    }
}

/// A query of the maximum length.
fn query() -> Bytes {
    let mut query = crate::testing::support::query::query("global. SOA").0;
    query.resize(MAX_QUERY, 0);
    query.into()
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_arrive_do_not_delay_other_requests() {
    let mut client = Client::connect(&Budget::new(usize::MAX)).await;
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
    let budget = Budget::new(usize::MAX);
    let mut client = Client::connect(&budget).await;
    let mut requests = Vec::new();
    for _ in 0..90 {
        requests.push(client.begin().await);
    }
    // Each request announces 4096 octets.
    wait_until_in_use(&budget, 90 * REQUEST_SIZE).await;
    let part = query().slice(..1000);
    requests[0].1.send_data(part, false).unwrap();
    wait_until_in_use(&budget, 90 * REQUEST_SIZE + 1000).await;
    drop(requests);
    wait_until_in_use(&budget, 0).await;
}

#[tokio::test(start_paused = true)]
async fn connection_with_most_requests_is_closed_above_the_budget() {
    let budget = Budget::new(20 * REQUEST_SIZE);
    let mut other = Client::connect(&budget).await;
    let (response, mut body) = other.begin().await;
    let mut client = Client::connect(&budget).await;
    let mut requests = Vec::new();
    for _ in 0..20 {
        requests.push(client.begin().await);
    }
    for (response, _body) in requests {
        assert!(response.await.unwrap_err().is_io());
    }
    wait_until_in_use(&budget, REQUEST_SIZE).await;
    body.send_data(query(), true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
}
