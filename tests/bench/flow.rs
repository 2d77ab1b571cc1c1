//! Queries at a fixed rate that does not depend on replies (an open loop). A closed loop such as dnsperf's delays its
//! next query if the server stalls, and so hides the latency of the stall.
//!
//! Latency is measured from the time when a query was due, not from the time when the client sent it.

use std::io::{IoSlice, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::socket::sockopt::RcvBuf;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt};
use support::process::run_checked;

use crate::check::query;
use crate::data::read_questions;
use crate::processes::{LOAD, real_time_command};
use crate::servers::Server;

/// Datagrams per call.
const BATCH: usize = 32;
/// Maximum octets of a reply.
const REPLY: usize = 4096;
/// Interval at which the sender sends due queries.
const TICK: Duration = Duration::from_micros(100);
/// Time for replies after the last query; later replies count as lost.
const LINGER: Duration = Duration::from_millis(500);
/// Receive buffer of the client in octets, large enough to lose no reply.
const BUFFER: usize = 8 << 20;
/// Number of query identifiers.
const IDS: usize = 1 << 16;

/// Figures of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Sent queries per second.
    pub(crate) offered: f64,
    /// Replies per second.
    pub(crate) answered: f64,
    /// Queries without a reply.
    pub(crate) lost: u64,
    /// Wrong replies; see [`is_wrong`].
    pub(crate) wrong: u64,
    /// Latency in microseconds: 50th, 99th and 99.9th percentile.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// Sends `rate` queries per second to a server from a separate process.
///
/// # Errors
///
/// If the load cannot run, or cannot reach the rate.
pub(crate) fn flow(server: &Server, questions: &Path, rate: u32, seconds: u32) -> Result<Flow> {
    let mut own = real_time_command(std::env::current_exe()?, LOAD)?;
    own.arg("part-flow");
    own.arg(format!("--server={}", server.address));
    own.arg(format!("--rate={rate}"));
    own.arg(format!("--seconds={seconds}"));
    own.arg("--questions").arg(questions);
    let text = run_checked(&mut own).with_context(|| format!("querying {}", server.name))?;
    let words = text.split_whitespace().map(str::parse);
    let words: Vec<f64> = words.collect::<Result<_, _>>()?;
    let &[offered, answered, lost, wrong, p50, p99, p999] = &words[..] else {
        bail!("expected seven figures, found: {text}");
    };
    ensure!(
        offered > 0.97 * f64::from(rate),
        "the load generator reaches {offered:.0} queries per second instead of {rate}"
    );
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "integers that the child process printed"
    )]
    let (lost, wrong) = (lost as u64, wrong as u64);
    Ok(Flow {
        offered,
        answered,
        lost,
        wrong,
        p50,
        p99,
        p999,
    })
}

/// Runs the child process: sends, receives, and prints the figures of [`Flow`] in one line.
///
/// # Errors
///
/// If the questions cannot be read, or the socket fails.
pub(crate) fn send(server: SocketAddr, questions: &Path, rate: u32, seconds: u32) -> Result<()> {
    let questions = read_questions(questions)?;
    let queries: Vec<Vec<u8>> = questions.iter().map(|question| query(question).0).collect();
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(TICK * 100))?;
    setsockopt(&socket, RcvBuf, &BUFFER)?;
    // Due time of each query in nanoseconds since the start; 0 after its answer.
    let due: Vec<AtomicU64> = (0..IDS).map(|_| AtomicU64::new(0)).collect();
    // Index of each query's question.
    let asked: Vec<AtomicUsize> = (0..IDS).map(|_| AtomicUsize::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let started = Instant::now();
    let (sent, latencies) = thread::scope(|scope| {
        let replies = scope.spawn(|| receive(&socket, &queries, (&due, &asked), started, &is_over));
        let sent = offer(&socket, &queries, (&due, &asked), (started, rate, seconds));
        thread::sleep(LINGER);
        is_over.store(true, Ordering::Relaxed);
        let latencies = replies.join();
        (sent, latencies)
    });
    let (sent, took) = sent?;
    let received = latencies.map_err(|_| anyhow::anyhow!("the receiver panicked"))??;
    let (mut latencies, wrong) = received;
    ensure!(!latencies.is_empty(), "the server sent no reply");
    latencies.sort_unstable();
    let count = latencies.len();
    let quantile = |thousandths: usize| {
        let index = (count * thousandths / 1000).min(count - 1);
        f64::from(latencies[index]) / 1e3
    };
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let (sent, answered) = (sent as f64, count as f64);
    let seconds = took.as_secs_f64();
    println!(
        "{:.1} {:.1} {:.0} {wrong} {:.1} {:.1} {:.1}",
        sent / seconds,
        answered / seconds,
        sent - answered,
        quantile(500),
        quantile(990),
        quantile(999)
    );
    Ok(())
}

/// Sends due queries at each tick. Returns the number of queries and the duration.
fn offer(
    socket: &UdpSocket,
    queries: &[Vec<u8>],
    (due, asked): (&[AtomicU64], &[AtomicUsize]),
    (started, rate, seconds): (Instant, u32, u32),
) -> Result<(u64, Duration)> {
    let total = u64::from(rate) * u64::from(seconds);
    let spacing = 1_000_000_000 / u64::from(rate.max(1));
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    let mut batch = vec![Vec::new(); BATCH];
    let mut sent: u64 = 0;
    while sent < total {
        let now = nanoseconds(started);
        let ready = (now / spacing).min(total);
        if ready <= sent {
            thread::sleep(TICK);
            continue;
        }
        let count = usize::try_from(ready - sent)?.min(BATCH);
        for (slot, number) in batch.iter_mut().zip(sent..).take(count) {
            let id = u16::try_from(number % IDS as u64)?;
            let index = usize::try_from(number)? % queries.len();
            let query = &queries[index];
            asked[usize::from(id)].store(index, Ordering::Relaxed);
            slot.clear();
            slot.extend_from_slice(query);
            slot[..2].copy_from_slice(&id.to_be_bytes());
            due[usize::from(id)].store((number * spacing).max(1), Ordering::Relaxed);
        }
        let slices: Vec<_> = batch[..count].iter().map(|q| [IoSlice::new(q)]).collect();
        let to = vec![None; count];
        let flags = MsgFlags::empty();
        match sendmmsg(socket.as_raw_fd(), &mut headers, &slices, &to, [], flags) {
            Ok(done) => sent += done.count() as u64,
            // Queries that the kernel has no room for are sent again.
            Err(Errno::ENOBUFS | Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((sent, started.elapsed()))
}

/// Receives replies until the end. Returns their latencies in nanoseconds and the number of wrong ones.
fn receive(
    socket: &UdpSocket,
    queries: &[Vec<u8>],
    (due, asked): (&[AtomicU64], &[AtomicUsize]),
    started: Instant,
    is_over: &AtomicBool,
) -> Result<(Vec<u32>, u64)> {
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    let mut packets = vec![[0_u8; REPLY + 64]; BATCH];
    let mut latencies = Vec::with_capacity(1 << 20);
    let (mut wrong, mut first) = (0, None);
    while !is_over.load(Ordering::Relaxed) {
        let mut slices: Vec<_> = packets.iter_mut().map(|p| [IoSliceMut::new(p)]).collect();
        let flags = MsgFlags::MSG_WAITFORONE;
        let count = match recvmmsg(socket.as_raw_fd(), &mut headers, &mut slices, flags, None) {
            Ok(messages) => messages.count(),
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let now = nanoseconds(started);
        for packet in &packets[..count] {
            let id = u16::from_be_bytes([packet[0], packet[1]]);
            let was_due = due[usize::from(id)].swap(0, Ordering::Relaxed);
            if was_due > 0 {
                let latency = now.saturating_sub(was_due);
                latencies.push(u32::try_from(latency).unwrap_or(u32::MAX));
                let query = &queries[asked[usize::from(id)].load(Ordering::Relaxed)];
                let first = *first.get_or_insert([packet[6], packet[7]]);
                wrong += u64::from(is_wrong(query, packet, first));
            }
        }
    }
    Ok((latencies, wrong))
}

/// Returns whether a reply has another question, is not authoritative, is truncated, is an error, or differs from the
/// first reply in its number of records. All names of a flow have the same number of records; only their addresses
/// change.
fn is_wrong(query: &[u8], reply: &[u8], records: [u8; 2]) -> bool {
    const HEADER: usize = 12;
    let labels = query[HEADER..].iter().position(|octet| *octet == 0);
    let end = HEADER + labels.unwrap_or_default() + 5;
    let is_right = reply[2] & 0xfe == 0x84
        && reply[3] & 0x0f == 0
        && reply[6..8] == records
        && records != [0, 0]
        && reply.get(HEADER..end) == query.get(HEADER..end);
    !is_right
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
