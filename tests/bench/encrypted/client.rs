//! The load generator: a closed loop of queries over TLS, in one thread. Each reply triggers the
//! next query. Latency ends with the reply. It starts with the query, or with the connect if the connection is new.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, ValueEnum};
use futures::future::try_join_all;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use support::wire::frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
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
        is_new: load.connections != Connections::Kept,
        depth: usize::try_from(load.depth)?,
        connector: connector(load)?,
        queries: queries(&load.questions)?,
        deadline: started + length,
    });
    let clients = (0..load.clients).map(|number| Shared::run_client(shared.clone(), number));
    let all = async { tokio::time::timeout(length + TIMEOUT, try_join_all(clients)).await };
    let results = runtime.block_on(all);
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
    config.alpn_protocols = vec![b"dot".to_vec()];
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
            if let Err(error) = shared.ask_tls(&mut next, &mut results).await {
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
}

/// Checks that a reply has records, as all questions of the load do.
fn check(reply: &[u8]) -> Result<()> {
    if reply.len() < HEADER || reply[3] & 0x0f != 0 || reply[6..8] == [0, 0] {
        bail!("a reply without records: {reply:?}");
    }
    Ok(())
}

// === impl Results ===

impl Results {
    fn record(&mut self, latency: Duration) {
        self.latencies
            .push(u32::try_from(latency.as_nanos()).unwrap_or(u32::MAX));
    }
}
