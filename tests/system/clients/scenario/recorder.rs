//! A DNS proxy between the program and its DNS server. It records each question, and replaces replies during a fault.
//!
//! Destination NAT in `east` leads the queries to it. Faults apply to names of the zone `global.` only, so that the
//! search list of a pod works as usual.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use support::codes::type_name;
use support::multicluster::plan::{CLUSTER_DNS, EAST, GLOBAL_DNS};
use support::multicluster::{Clusters, GLOBAL_DNS_POD};
use support::reply::Reply;
use support::reply::rtype::{A, AAAA};
use support::wire::{Transport, exchange, frame, read_framed};

use super::client::Server;

/// Address of the proxy in `east`.
const ADDRESS: &str = "10.244.0.54:5354";
/// CoreDNS in `east`.
const CORE_DNS: &str = "127.0.0.1:53";
const ZONE: &str = "global.";
/// Maximum time of a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions of one lookup follow each other faster than this.
const ONE_LOOKUP: Duration = Duration::from_millis(100);

/// A fault of DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Every reply is SERVFAIL.
    Servfail,
    /// Every reply is NXDOMAIN with an SOA record.
    Nxdomain,
    /// Every reply is NOERROR without answer, with an SOA record.
    Empty,
    /// TCP connections are closed without a reply.
    WithoutTcp,
}

/// A question that the program asked.
#[derive(Clone, Debug)]
pub struct Question {
    pub at: Instant,
    /// As the program spells it, with a final dot.
    pub name: String,
    pub rtype: u16,
    pub over: Transport,
    /// The UDP payload size, if the query has EDNS.
    pub edns: Option<u16>,
    /// Whether the reply was truncated.
    pub is_truncated: bool,
}

/// What a program asks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Habits {
    /// The types that it asks for the name.
    pub types: BTreeSet<String>,
    /// Whether it asks for A and AAAA in one lookup.
    pub asks_both_families: bool,
    /// The UDP payload size of its queries.
    pub edns: Option<u16>,
    /// Median of the seconds between two lookups.
    pub period: Option<f64>,
    /// Whether it repeats a question over TCP after a truncated reply. `None`: no reply was truncated.
    pub retries_over_tcp: Option<bool>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    questions: Vec<Question>,
}

pub struct Recorder {
    state: Arc<Mutex<State>>,
}

// === impl Fault ===

impl Fault {
    /// The faults that replace answers.
    pub const ANSWERS: [Self; 3] = [Self::Servfail, Self::Nxdomain, Self::Empty];
    /// The faults at the start of a program. Before any cluster is linked, the reply is NXDOMAIN anyway.
    pub const AT_START: [Self; 2] = [Self::Servfail, Self::Empty];

    pub fn fact(self) -> &'static str {
        match self {
            Self::Servfail => "fails_with_servfail",
            Self::Nxdomain => "answers_nxdomain",
            Self::Empty => "answers_without_records",
            Self::WithoutTcp => "refuses_tcp",
        }
    }

    /// Returns the reply to a query, if the fault replaces replies.
    fn reply(self, query: &[u8], question: &Question) -> Option<Vec<u8>> {
        let rcode = match self {
            Self::Servfail => 2,
            Self::Nxdomain => 3,
            Self::Empty => 0,
            Self::WithoutTcp => return None,
        };
        let end = query.len().min(HEADER + question.name.len() + 1 + 4);
        let mut reply = query[..end].to_vec();
        // QR, and RD of the query; RA and the response code.
        reply[2] = 0x80 | (query[2] & 0x01);
        reply[3] = 0x80 | rcode;
        // One question, no answer, no additional record.
        reply[4..HEADER].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        if self != Self::Servfail {
            reply[9] = 1;
            // The owner is the last label of the question.
            let zone = HEADER + question.name.len() - ZONE.len();
            reply.extend([0xc0, u8::try_from(zone).unwrap()]);
            reply.extend(SOA);
        }
        Some(reply)
    }
}

/// Size of the header of a message.
const HEADER: usize = 12;

/// Type, class, TTL and data of an SOA record. Both its names are the root, its minimum is that of the server.
const SOA: [u8; 32] = [
    0, 6, 0, 1, 0, 0, 0, 5, 0, 22, // SOA IN, TTL 5, 22 octets
    0, 0, // names
    0, 0, 0, 1, 0, 0, 14, 16, 0, 0, 2, 88, 0, 1, 81, 128, 0, 0, 0, 5,
];

// === impl Recorder ===

impl Recorder {
    /// Starts the proxy in front of a server.
    pub fn start(clusters: &Clusters, server: Server) -> Result<Self> {
        let (service, upstream) = match server {
            Server::ClusterDns => (CLUSTER_DNS, CORE_DNS),
            Server::GlobalDns => (GLOBAL_DNS, GLOBAL_DNS_POD),
        };
        let (address, _) = ADDRESS.split_once(':').unwrap_or_default();
        let network = clusters.network(EAST);
        network.ip(&format!("address add {address}/32 dev lo"))?;
        let (datagrams, streams) = (UdpSocket::bind(ADDRESS)?, TcpListener::bind(ADDRESS)?);
        let rule = |protocol: &str| {
            format!(
                "insert rule ip proxy output ip daddr {service} {protocol} dport 53 dnat to {ADDRESS}\n"
            )
        };
        network.nft(&(rule("udp") + &rule("tcp")))?;
        let recorder = Self {
            state: Arc::default(),
        };
        let upstream = upstream.parse()?;
        // Both threads end with the process of the tests.
        let state = Arc::clone(&recorder.state);
        thread::spawn(move || forward_datagrams(datagrams, upstream, &state));
        let state = Arc::clone(&recorder.state);
        thread::spawn(move || forward_streams(&streams, upstream, &state));
        Ok(recorder)
    }

    /// Starts or ends a fault.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.state.lock().unwrap().fault = fault;
    }

    /// Returns the number of questions so far, for [`Self::questions`].
    pub fn mark(&self) -> usize {
        self.state.lock().unwrap().questions.len()
    }

    /// Returns the questions after `mark` for a name: in any spelling, or in capital letters only if `name` has these.
    pub fn questions(&self, mark: usize, name: &str) -> Vec<Question> {
        let is_upper = name.to_ascii_lowercase() != name;
        let state = self.state.lock().unwrap();
        let questions = state.questions.iter().skip(mark);
        let asked = questions.filter(|question| {
            if is_upper {
                question.name == name
            } else {
                question.name.eq_ignore_ascii_case(name)
            }
        });
        asked.cloned().collect()
    }

    /// Returns whether the program asked for a name after `mark`.
    pub fn has_question(&self, mark: usize, name: &str) -> bool {
        !self.questions(mark, name).is_empty()
    }

    /// Waits until the last question is older than a duration.
    pub fn wait_since_last_question(&self, duration: Duration) {
        loop {
            let state = self.state.lock().unwrap();
            let last = state.questions.last().map(|question| question.at.elapsed());
            drop(state);
            match last.and_then(|elapsed| duration.checked_sub(elapsed)) {
                Some(remaining) => thread::sleep(remaining),
                None => return,
            }
        }
    }

    /// Returns what the program asked for a name after `mark`.
    pub fn habits(&self, mark: usize, name: &str) -> Habits {
        Habits::of(&self.questions(mark, name))
    }
}

fn forward_datagrams(socket: UdpSocket, upstream: SocketAddr, state: &Arc<Mutex<State>>) {
    let socket = Arc::new(socket);
    let mut buffer = [0; 65_535];
    while let Ok((length, client)) = socket.recv_from(&mut buffer) {
        let query = buffer[..length].to_vec();
        let (socket, state) = (Arc::clone(&socket), Arc::clone(state));
        thread::spawn(move || {
            if let Ok(reply) = reply_to(&query, Transport::Udp, upstream, &state) {
                // Fails if the program has closed its socket.
                let _ = socket.send_to(&reply, client);
            }
        });
    }
}

fn forward_streams(listener: &TcpListener, upstream: SocketAddr, state: &Arc<Mutex<State>>) {
    for stream in listener.incoming().flatten() {
        let state = Arc::clone(state);
        // An error ends the connection.
        thread::spawn(move || forward_stream(stream, upstream, &state).ok());
    }
}

fn forward_stream(
    mut stream: TcpStream,
    upstream: SocketAddr,
    state: &Mutex<State>,
) -> io::Result<()> {
    loop {
        let query = read_framed(&mut stream)?;
        // CoreDNS must not see the question, because it would cache the complete answer.
        if state.lock().unwrap().fault == Some(Fault::WithoutTcp) {
            return Ok(());
        }
        let reply = reply_to(&query, Transport::Tcp, upstream, state)?;
        stream.write_all(&frame(&reply))?;
    }
}

/// Returns the reply to a query, and records the question.
fn reply_to(
    query: &[u8],
    over: Transport,
    upstream: SocketAddr,
    state: &Mutex<State>,
) -> io::Result<Vec<u8>> {
    let at = Instant::now();
    let parsed = Reply::read(query).map_err(io::Error::other)?;
    let asked = parsed.questions.first();
    let asked = asked.ok_or_else(|| io::Error::other("no question"))?;
    let mut question = Question {
        at,
        name: asked.name.clone(),
        rtype: asked.rtype,
        over,
        edns: parsed.opt.as_ref().map(|opt| opt.payload),
        is_truncated: false,
    };
    let fault = state.lock().unwrap().fault;
    let lower = question.name.to_ascii_lowercase();
    let is_ours = lower.ends_with(&format!(".{ZONE}"));
    let faulty = fault.filter(|_| is_ours);
    let reply = match faulty.and_then(|fault| fault.reply(query, &question)) {
        Some(reply) => reply,
        None => exchange(upstream, query, over, PATIENCE)?,
    };
    question.is_truncated = reply.get(2).is_some_and(|octet| octet & 0x02 != 0);
    state.lock().unwrap().questions.push(question);
    Ok(reply)
}

// === impl Habits ===

impl Habits {
    fn of(questions: &[Question]) -> Self {
        let types = questions.iter().map(|question| type_name(question.rtype));
        let truncated = || questions.iter().filter(|question| question.is_truncated);
        Self {
            types: types.map(|name| name.to_string()).collect(),
            asks_both_families: asks_both_families(questions),
            edns: questions.iter().filter_map(|question| question.edns).max(),
            period: period(questions),
            retries_over_tcp: truncated().next().map(|_| {
                let is_tcp = |question: &Question| question.over == Transport::Tcp;
                questions.iter().any(is_tcp)
            }),
        }
    }
}

/// Returns whether most lookups have a question for A and one for AAAA.
fn asks_both_families(questions: &[Question]) -> bool {
    let has_partner = |question: &&Question| {
        let mut others = questions.iter();
        others.any(|other| {
            let distance = other.at.max(question.at) - other.at.min(question.at);
            let types = [question.rtype, other.rtype];
            matches!(types, [A, AAAA] | [AAAA, A]) && distance < ONE_LOOKUP
        })
    };
    let partners = questions.iter().filter(has_partner).count();
    partners > 0 && partners * 2 >= questions.len()
}

/// Returns the median of the seconds between lookups.
fn period(questions: &[Question]) -> Option<f64> {
    let first = questions.first()?.rtype;
    let of_first = questions.iter().filter(|question| question.rtype == first);
    let times: Vec<Instant> = of_first.map(|question| question.at).collect();
    let pauses = times.windows(2).map(|two| two[1] - two[0]);
    // A repetition over TCP or after a lost packet belongs to the same lookup.
    let mut pauses: Vec<Duration> = pauses.filter(|pause| *pause >= ONE_LOOKUP).collect();
    pauses.sort_unstable();
    pauses.get(pauses.len() / 2).map(Duration::as_secs_f64)
}
