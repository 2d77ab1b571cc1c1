//! The load generator: a closed loop of queries over TLS, HTTP/2 or HTTP/1.1, in one thread. Each reply triggers the
//! next query. Latency ends with the reply. It starts with the query, or with the connect if the connection is new.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use futures::future::try_join_all;
use h2::client::SendRequest;
use http::Request;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use support::wire::frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::check::query;
use crate::data::read_questions;
use crate::load::{Latency, print_figures};

/// Failed connections after which the load generator stops with an error.
const FAILURES: u64 = 1_000;
/// Time limit of the load generator in addition to its duration.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Length of a message header in octets.
const HEADER: usize = 12;

/// Settings of the load.
#[derive(Debug, Args)]
pub(crate) struct Load {
    /// Server address
    #[arg(long)]
    server: SocketAddr,
    /// Protocol
    #[arg(long)]
    protocol: Protocol,
    /// Lifetime of connections
    #[arg(long)]
    connections: Connections,
    /// Number of parallel connections
    #[arg(long)]
    clients: u32,
    /// Number of outstanding queries on each connection
    #[arg(long)]
    depth: u32,
    /// Duration in seconds
    #[arg(long)]
    seconds: u32,
    /// File of the trusted certificate
    #[arg(long)]
    certificate: PathBuf,
    /// File of names and types, one question per line
    #[arg(long)]
    questions: PathBuf,
}

/// Protocol of the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// RFC 7858.
    #[value(name = "TLS")]
    Tls,
    /// RFC 8484 over HTTP/2 with POST.
    #[value(name = "HTTPS-POST")]
    Post,
    /// RFC 8484 over HTTP/2 with GET.
    #[value(name = "HTTPS-GET")]
    Get,
    /// RFC 8484 over HTTP/1.1 with POST.
    #[value(name = "HTTP/1.1-POST")]
    Http1,
}

/// Lifetime of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Connections {
    /// Until the load ends.
    Kept,
    /// One query, after a full handshake.
    New,
    /// One query; the handshake resumes the previous session.
    Resumed,
}

/// State that all clients share.
struct Shared {
    server: SocketAddr,
    protocol: Protocol,
    /// Each connection takes only one query.
    is_new: bool,
    depth: usize,
    connector: TlsConnector,
    /// Queries in wire format with identifier 0.
    queries: Vec<Vec<u8>>,
    deadline: Instant,
}

/// Results of one client.
#[derive(Default)]
struct Results {
    /// Latencies in nanoseconds.
    latencies: Vec<u32>,
    lost: u64,
}

type Stream = TlsStream<TcpStream>;

// === impl Protocol ===

impl Protocol {
    /// Returns the name in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tls => "TLS",
            Self::Post => "HTTPS-POST",
            Self::Get => "HTTPS-GET",
            Self::Http1 => "HTTP/1.1-POST",
        }
    }

    /// Returns the protocol ID of ALPN.
    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Tls => b"dot",
            Self::Post | Self::Get => b"h2",
            Self::Http1 => b"http/1.1",
        }
    }
}

// === impl Connections ===

impl Connections {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::New => "new",
            Self::Resumed => "resumed",
        }
    }
}

/// Sends queries for the configured time and prints figures.
///
/// # Errors
///
/// If the questions cannot be read, or no query is answered.
pub(crate) fn ask(load: &Load) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build()?;
    let started = Instant::now();
    let length = Duration::from_secs(load.seconds.into());
    let shared = Rc::new(Shared {
        server: load.server,
        protocol: load.protocol,
        is_new: load.connections != Connections::Kept,
        depth: usize::try_from(load.depth)?,
        connector: connector(load)?,
        queries: queries(&load.questions)?,
        deadline: started + length,
    });
    let clients = (0..load.clients).map(|number| Shared::run_client(shared.clone(), number));
    let all = async { tokio::time::timeout(length + TIMEOUT, try_join_all(clients)).await };
    let results = LocalSet::new().block_on(&runtime, all);
    let results = results.context("the load generator timed out")??;
    let took = started.elapsed();
    let lost = results.iter().map(|results| results.lost).sum();
    let mut latencies: Vec<u32> = results
        .into_iter()
        .flat_map(|results| results.latencies)
        .collect();
    ensure!(!latencies.is_empty(), "the server sent no reply");
    latencies.sort_unstable();
    let quantile = |hundredths: usize| {
        let index = (latencies.len() * hundredths / 100).min(latencies.len() - 1);
        f64::from(latencies[index]) / 1e3
    };
    let latency = Latency {
        p50: quantile(50),
        p99: quantile(99),
    };
    print_figures(latencies.len() as u64, lost, took, Some(latency));
    Ok(())
}

fn queries(questions: &Path) -> Result<Vec<Vec<u8>>> {
    let questions = read_questions(questions)?;
    Ok(questions.iter().map(|question| query(question).0).collect())
}

/// Returns a TLS 1.3 connector with one cipher suite, one group and one trusted certificate.
fn connector(load: &Load) -> Result<TlsConnector> {
    let mut provider = ring::default_provider();
    provider.cipher_suites = vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256];
    provider.kx_groups = vec![ring::kx_group::X25519];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&load.certificate)?)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![load.protocol.alpn().to_vec()];
    if load.connections != Connections::Resumed {
        config.resumption = Resumption::disabled();
    }
    Ok(TlsConnector::from(Arc::new(config)))
}

// === impl Shared ===

impl Shared {
    /// Sends queries on one connection after another until the time is over.
    async fn run_client(shared: Rc<Self>, number: u32) -> Result<Results> {
        let mut results = Results::default();
        let mut next = number as usize * 37; // clients start at different names
        while Instant::now() < shared.deadline {
            let asked = match shared.protocol {
                Protocol::Tls => shared.ask_tls(&mut next, &mut results).await,
                Protocol::Post | Protocol::Get => {
                    Self::ask_http2(&shared, &mut next, &mut results).await
                }
                Protocol::Http1 => shared.ask_http1(&mut next, &mut results).await,
            };
            if let Err(error) = asked {
                results.lost += 1;
                if results.lost >= FAILURES {
                    return Err(error.context("a thousand connections failed"));
                }
            }
        }
        Ok(results)
    }

    async fn connect(&self) -> Result<Stream> {
        let stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        Ok(self.connector.connect(name, stream).await?)
    }

    fn query(&self, next: &mut usize) -> &[u8] {
        *next += 1;
        &self.queries[*next % self.queries.len()]
    }

    /// Returns whether a connection must take no more queries.
    fn is_over(&self) -> bool {
        self.is_new || Instant::now() >= self.deadline
    }

    async fn ask_tls(&self, next: &mut usize, results: &mut Results) -> Result<()> {
        let mut began = vec![Instant::now(); self.depth];
        let mut stream = self.connect().await?;
        if !self.is_new {
            began.fill(Instant::now());
        }
        let mut outbox = Vec::new();
        for place in 0..self.depth {
            self.write(place, next, &mut outbox)?;
        }
        let (mut under_way, mut inbox) = (self.depth, Vec::new());
        while under_way > 0 {
            stream.write_all(&outbox).await?;
            stream.flush().await?;
            outbox.clear();
            ensure!(
                stream.read_buf(&mut inbox).await? > 0,
                "the server closed the connection"
            );
            let mut done = 0;
            while let Some((length, rest)) = inbox[done..].split_first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                let Some(reply) = rest.get(..length) else {
                    break;
                };
                done += 2 + length;
                check(reply)?;
                let place = usize::from(u16::from_be_bytes([reply[0], reply[1]]));
                let began = began.get_mut(place).context("a reply without a query")?;
                results.record(began.elapsed());
                if self.is_over() {
                    under_way -= 1;
                } else {
                    *began = Instant::now();
                    self.write(place, next, &mut outbox)?;
                }
            }
            inbox.drain(..done);
        }
        // A clean shutdown, as of a client that needs no more replies.
        stream.shutdown().await?;
        Ok(())
    }

    /// Writes a query. Its identifier is its index among the outstanding queries.
    fn write(&self, place: usize, next: &mut usize, outbox: &mut Vec<u8>) -> Result<()> {
        let mut query = self.query(next).to_vec();
        query[..2].copy_from_slice(&u16::try_from(place)?.to_be_bytes());
        outbox.extend(frame(&query));
        Ok(())
    }

    async fn ask_http2(shared: &Rc<Self>, next: &mut usize, results: &mut Results) -> Result<()> {
        let began = Instant::now();
        let stream = shared.connect().await?;
        let (client, connection) = h2::client::handshake(stream).await?;
        let connection = spawn_local(connection);
        let places = (0..shared.depth).map(|place| {
            let (shared, client) = (shared.clone(), client.clone());
            let mut next = *next + place * 101;
            async move {
                let mut results = Results::default();
                let mut began = began;
                loop {
                    if !shared.is_new {
                        began = Instant::now();
                    }
                    shared.request(client.clone(), &mut next).await?;
                    results.record(began.elapsed());
                    if shared.is_over() {
                        return Ok::<_, anyhow::Error>(results);
                    }
                }
            }
        });
        for place in try_join_all(places).await? {
            results.latencies.extend(place.latencies);
        }
        *next += 1;
        drop(client);
        // The connection sends GOAWAY after all handles are dropped.
        connection.await??;
        Ok(())
    }

    /// Sends a query over HTTP/2.
    async fn request(&self, client: SendRequest<Bytes>, next: &mut usize) -> Result<()> {
        let query = self.query(next);
        let mut client = client.ready().await?;
        let accept = ("accept", "application/dns-message");
        let response = match self.protocol {
            Protocol::Get => {
                let uri = format!("https://localhost/dns-query?dns={}", base64url(query));
                let request = Request::get(uri).header(accept.0, accept.1).body(())?;
                client.send_request(request, true)?.0
            }
            Protocol::Post | Protocol::Tls | Protocol::Http1 => {
                let request = Request::post("https://localhost/dns-query");
                let request = request.header("content-type", accept.1);
                let request = request.header(accept.0, accept.1).body(())?;
                let (response, mut body) = client.send_request(request, false)?;
                body.send_data(Bytes::copy_from_slice(query), true)?;
                response
            }
        };
        let response = response.await?;
        ensure!(response.status() == 200, "{}", response.status());
        let mut body = response.into_body();
        let mut reply = Vec::new();
        while let Some(part) = body.data().await {
            let part = part?;
            body.flow_control().release_capacity(part.len())?;
            reply.extend_from_slice(&part);
        }
        check(&reply)
    }

    async fn ask_http1(&self, next: &mut usize, results: &mut Results) -> Result<()> {
        let mut began = Instant::now();
        let mut stream = self.connect().await?;
        let mut inbox = Vec::new();
        loop {
            if !self.is_new {
                began = Instant::now();
            }
            let query = self.query(next);
            let head = format!(
                "POST /dns-query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/dns-message\r\n\
                 accept: application/dns-message\r\ncontent-length: {}\r\n\r\n",
                query.len()
            );
            stream.write_all(&[head.as_bytes(), query].concat()).await?;
            stream.flush().await?;
            read_http1(&mut stream, &mut inbox).await?;
            results.record(began.elapsed());
            if self.is_over() {
                stream.shutdown().await?;
                return Ok(());
            }
        }
    }
}

/// Reads a response with a length.
async fn read_http1(stream: &mut Stream, inbox: &mut Vec<u8>) -> Result<()> {
    inbox.clear();
    loop {
        ensure!(
            stream.read_buf(inbox).await? > 0,
            "the server closed the connection"
        );
        let Some(head) = inbox.windows(4).position(|octets| octets == b"\r\n\r\n") else {
            continue;
        };
        let text = std::str::from_utf8(&inbox[..head])?.to_ascii_lowercase();
        ensure!(text.starts_with("http/1.1 200"), "{text}");
        let mut lines = text.lines();
        let length = lines.find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length
            .context("a response without content-length")?
            .trim()
            .parse()?;
        let Some(reply) = inbox.get(head + 4..head + 4 + length) else {
            continue;
        };
        return check(reply);
    }
}

/// Checks that a reply has records, as all questions of the load do.
fn check(reply: &[u8]) -> Result<()> {
    if reply.len() < HEADER || reply[3] & 0x0f != 0 || reply[6..8] == [0, 0] {
        bail!("a reply without records: {reply:?}");
    }
    Ok(())
}

/// Encodes octets with the URL alphabet, without padding (RFC 4648 section 5).
fn base64url(octets: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letters = octets.chunks(3).flat_map(|three| {
        let bits = three
            .iter()
            .fold(0_u32, |bits, octet| bits << 8 | u32::from(*octet));
        let bits = bits << (8 * (3 - three.len()));
        let letter = move |index: usize| ALPHABET[(bits >> (18 - 6 * index)) as usize & 63];
        (0..=three.len()).map(letter)
    });
    letters.map(char::from).collect()
}

// === impl Results ===

impl Results {
    fn record(&mut self, latency: Duration) {
        self.latencies
            .push(u32::try_from(latency.as_nanos()).unwrap_or(u32::MAX));
    }
}
