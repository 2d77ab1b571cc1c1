//! Clients on the first node that know the only right answer of each name, and a judge of what they saw.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, ensure};
use support::output::print_line;
use support::query::query;
use support::reply::Reply;
use support::wait::eventually_within;
use support::wire::read_datagram;

use super::accidents::Accident;
use super::lab::{LONGEST, Lab};

/// Time of a try, and number of tries of a query, as of a resolver of glibc with `attempts:3`.
const PATIENCE: Duration = Duration::from_secs(2);
const TRIES: usize = 3;
/// A watch ends when every query was answered for this time.
const QUIET: Duration = Duration::from_secs(10);
/// Number of clients of each way.
const CLIENTS: usize = 4;

/// The way of a query.
struct Way {
    name: &'static str,
    server: &'static str,
    /// Time between the queries of a client. kube-proxy is slow with many ports of one client, so the direct ones ask less.
    milliseconds: u64,
    /// Whether a client keeps its port as long as it works: kube-proxy keeps it at one pod.
    keeps_port: bool,
}

/// All ways. `without cache` is a CoreDNS that forwards each query.
const WAYS: [Way; 4] = [
    way("CoreDNS", "10.96.0.10:53", 40, false),
    way("without cache", "10.96.0.11:53", 40, false),
    way("Service, new ports", "10.96.0.53:53", 100, false),
    way("Service, one port", "10.96.0.53:53", 100, true),
];

/// How many queries of each way may fail, after all tries.
pub type Limits = [usize; WAYS.len()];

/// Questions, such as `db.prod.global. A`, and the only right outcome of each, as in [`Reply::outcome`].
pub type Questions = BTreeMap<String, String>;

/// What the clients of one way saw.
#[derive(Debug, Default)]
struct Tally {
    sent: usize,
    /// Bad first tries by their kind.
    bad: BTreeMap<String, usize>,
    /// Queries without an answer after all tries.
    failed: usize,
    /// Answers that are not right, with their numbers. None of them is ever allowed.
    wrong: BTreeMap<String, usize>,
}

/// What all clients share.
struct Watch<'a> {
    questions: &'a Questions,
    /// In the order of [`WAYS`].
    tallies: [Mutex<Tally>; WAYS.len()],
    last_bad: Mutex<Instant>,
    has_ended: AtomicBool,
}

const fn way(name: &'static str, server: &'static str, milliseconds: u64, keeps_port: bool) -> Way {
    Way {
        name,
        server,
        milliseconds,
        keeps_port,
    }
}

/// Starts clients of all ways, lets an accident happen, and waits until every query was answered for ten seconds. Prints what was seen
/// in that time. Fails if a way saw a wrong answer, or more failed queries than its limit.
pub fn watch(lab: &mut Lab, questions: &Questions, accident: &Accident) -> Result<()> {
    let network = Arc::clone(&lab.networks[0]);
    let watch = Watch {
        questions,
        tallies: Default::default(),
        last_bad: Mutex::new(Instant::now()),
        has_ended: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        for number in 0..WAYS.len() * CLIENTS {
            let (network, watch) = (&network, &watch);
            let (way, client) = (number % WAYS.len(), number / WAYS.len());
            let ask = move || watch.ask_until_its_end(way, client);
            scope.spawn(move || network.enter(ask).unwrap());
        }
        let result = watch.observe(|| accident.happen(lab));
        watch.has_ended.store(true, Relaxed);
        result
    })?;
    let mut faults = Vec::new();
    for ((way, tally), limit) in WAYS.iter().zip(&watch.tallies).zip(accident.limits) {
        let tally = tally.lock().unwrap();
        let line = format!("{}: {tally:?}", way.name);
        print_line(&format!("    {line}"));
        if tally.failed > limit || !tally.wrong.is_empty() {
            faults.push(format!("{line}; limit {limit}"));
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

// === impl Watch ===

impl Watch<'_> {
    /// Waits until each way is in use, does something, and waits until every query was answered for ten seconds.
    fn observe(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        eventually_within("queries on each way", LONGEST, || {
            let mut sent = self.tallies.iter().map(|tally| tally.lock().unwrap().sent);
            ensure!(sent.all(|sent| sent > 2 * CLIENTS), "too few");
            Ok(())
        })?;
        act()?;
        let done = Instant::now();
        eventually_within("ten seconds without a bad answer", LONGEST, || {
            let last_bad = self.last_bad.lock().unwrap();
            ensure!(done.max(*last_bad).elapsed() > QUIET, "too early");
            Ok(())
        })
    }

    /// Asks all questions again and again. Each client of a way begins with another one.
    fn ask_until_its_end(&self, way: usize, client: usize) {
        let mut socket = None;
        let start = client * self.questions.len() / CLIENTS;
        for (question, right) in self.questions.iter().cycle().skip(start) {
            if self.has_ended.load(Relaxed) {
                return;
            }
            self.ask(way, question, right, &mut socket);
            thread::sleep(Duration::from_millis(WAYS[way].milliseconds));
        }
    }

    /// Sends a query until it is answered, as often as a resolver does. A wrong answer does not get worse by more of them, so nobody
    /// waits for their end.
    fn ask(&self, way: usize, question: &str, right: &str, socket: &mut Option<UdpSocket>) {
        let tally = || self.tallies[way].lock().unwrap();
        tally().sent += 1;
        for number in 1..=TRIES {
            match exchange(&WAYS[way], question, socket) {
                Ok(outcome) if outcome == right => return,
                Ok(outcome) => {
                    let wrong = format!("{question}: {outcome} instead of {right}");
                    *tally().wrong.entry(wrong).or_default() += 1;
                    return;
                }
                Err(why) if number == 1 => *tally().bad.entry(why.to_string()).or_default() += 1,
                Err(_) => {}
            }
            tally().failed += usize::from(number == TRIES);
            *self.last_bad.lock().unwrap() = Instant::now();
        }
    }
}

/// Returns the outcome of a query, or why a resolver asks again. After a failure, the next query has a new port also if the way keeps
/// it, as a client with a pool of sockets does.
fn exchange(way: &Way, question: &str, kept: &mut Option<UdpSocket>) -> Result<String> {
    let socket = match kept.take() {
        Some(socket) => socket,
        None => UdpSocket::bind("0.0.0.0:0")?,
    };
    socket.connect(way.server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(&query(&format!("{question} +edns")).0)?;
    let reply = Reply::read(&read_datagram(&socket)?).map_err(Error::msg)?;
    *kept = way.keeps_port.then_some(socket);
    let status = reply.status();
    ensure!(["NOERROR", "NXDOMAIN"].contains(&&*status), status);
    Ok(reply.outcome())
}
