//! What was answered at an earlier time: a client records every reply while objects change, and `--at` gives each of them.
//!
//! A reply is compared with the interval between its query and its arrival, not with one moment, so that a busy machine changes
//! nothing. The history keeps one table for each 100 ms of a burst: replies of a burst are excepted and counted.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::objects::{Gateway, mirror, namespace};
use support::output::print_line;
use support::process::run_global_dns;
use support::query::query;
use support::reply::{Reply, rtype};
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::read_datagram;

const NAMESPACE: &str = "past";
/// The services. One that changes more than five times a minute flaps, and the history leaves out its states.
const SERVICES: u8 = 8;
/// The changes of each service and cluster.
const CHANGES: u8 = 2;
/// Each round writes two objects: of each cluster one.
const CLUSTERS: [&str; 2] = ["east", "west"];
/// The step in which the history thins bursts, with the time from the start of a table until it answers on a busy machine.
const THINNED: i64 = 100 + 100;
/// The pause after each object, so that its state is longer than the step of the history.
const PAUSE: Duration = Duration::from_millis(160);
/// The share of the changes of the reply that must be exact, in percent.
const MIN_EXACT: usize = 90;

/// Equal replies that follow each other.
#[derive(Debug)]
struct Run {
    /// The result, the TTL, and the sorted addresses.
    reply: String,
    /// When the first query was sent and its reply had arrived, in milliseconds since the epoch.
    sent: i64,
    received: i64,
    /// When the last query was sent.
    last: i64,
}

/// A client that queries one name all the time.
struct Client {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(Vec<Run>, usize)>>,
}

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step("each_change_of_the_reply_is_told_with_its_time", || {
        cluster.put(&namespace(NAMESPACE))?;
        for service in 0..SERVICES {
            for cluster_name in CLUSTERS {
                write(cluster, service, cluster_name, first_step(service))?;
            }
        }
        let server = Server::ready_of_cluster(&cluster.kubeconfig, &[]);
        let check_all = || {
            let mut counts = Counts::default();
            for service in 0..SERVICES {
                check(cluster, &server, service, &mut counts)?;
            }
            counts.check()
        };
        server.with_log(check_all())
    });
}

/// The name of a service.
fn name_of(service: u8) -> String {
    format!("db-{service}.{NAMESPACE}.global")
}

/// Returns the step of the changes at which a service begins.
fn first_step(service: u8) -> u8 {
    service * CHANGES
}

/// Writes the objects of a service in one of the clusters, for the given step of its changes.
fn write(cluster: &Cluster, service: u8, name: &str, step: u8) -> Result<()> {
    let octet = if name == "east" { 71 } else { 72 };
    let address = |step: u8| format!("10.96.{octet}.{}", 10 * service + step / 8 + 1);
    let service = format!("db-{service}");
    let of = |gateway: Gateway, annotation: Option<&str>| {
        let mirror = mirror(NAMESPACE, &service, name);
        let mirror = match annotation {
            Some(ttl) => mirror.annotation("global-dns/ttl", ttl),
            None => mirror,
        };
        mirror.endpoint_behind(gateway, &format!("{service}-0"), &[&address(step)])
    };
    let endpoint =
        of(Gateway::Up, None).endpoint_mirror(&format!("{service}-0"), &[&address(step)]);
    let writes = match step % 8 {
        0 => of(Gateway::Up, None).writes(),
        1 | 3 => of(Gateway::Down, None).writes(),
        2 => of(Gateway::Up, None).writes(),
        4 => of(Gateway::Up, Some("3")).writes(),
        5 => of(Gateway::Up, Some("2")).writes(),
        6 => of(Gateway::Up, None).writes(),
        _ => {
            cluster.delete(&endpoint)?;
            return Ok(());
        }
    };
    for object in &writes {
        cluster.put(object)?;
    }
    Ok(())
}

/// The changes of replies that were compared.
#[derive(Default)]
struct Counts {
    replies: usize,
    changes: usize,
    exact: usize,
    commands: usize,
}

impl Counts {
    fn check(&self) -> Result<()> {
        let Self {
            replies,
            changes,
            exact,
            commands,
        } = *self;
        print_line(&format!(
            "past: {replies} replies, {changes} changes of the reply: {exact} exact, {} within the step of the history, \
             {commands} also by the command",
            changes - exact
        ));
        // Some writes change nothing that is answered.
        let writes = usize::from(SERVICES * CHANGES) * CLUSTERS.len();
        ensure!(
            changes > 3 * writes / 4,
            "the reply changed only {changes} times"
        );
        ensure!(
            exact * 100 >= MIN_EXACT * changes,
            "only {exact} of {changes} are exact"
        );
        ensure!(commands > 0, "no command was compared");
        Ok(())
    }
}

/// Changes the objects of a service, and compares each reply with what the server says about its time.
fn check(cluster: &Cluster, server: &Server, service: u8, counts: &mut Counts) -> Result<()> {
    let name = &name_of(service);
    eventually("the answer", || {
        let outcome = server.outcome(&format!("{name} A"));
        ensure!(outcome.contains("10.96."), "{outcome}");
        Ok(())
    })?;
    let client = Client::start(server.dns, name)?;
    for step in 1..=CHANGES {
        for cluster_name in CLUSTERS {
            write(cluster, service, cluster_name, first_step(service) + step)?;
            sleep(PAUSE);
        }
    }
    sleep(Duration::from_secs(1));
    let (runs, replies) = client.end()?;
    counts.replies += replies;
    for run in runs.iter().skip(1) {
        counts.changes += 1;
        let (at_end, at_start) = (
            told(server, name, run.received)?,
            told(server, name, run.sent - 1)?,
        );
        if at_end == run.reply || at_start == run.reply {
            counts.exact += 1;
        } else {
            // The history may have left out the first table of this reply, in favor of the next one within the step. The reply has
            // answered until `last` for certain, also if the client had to wait for a core.
            let later = run.received + THINNED;
            let is_told = run.last <= later || told(server, name, later)? == run.reply;
            ensure!(
                is_told,
                "{name} was {}, but --at gives {at_start} and {at_end}, also after the step of the history: {run:?}",
                run.reply
            );
        }
    }
    if let Some(last) = runs.last() {
        check_command(server, name, last)?;
        counts.commands += 1;
    }
    Ok(())
}

/// Returns what the API tells of a time.
fn told(server: &Server, name: &str, time: i64) -> Result<String> {
    let at = text(time)?;
    let explained = server.try_api(&format!("/api/v1/explain?name={name}&at={at}"))?;
    reply_of(&explained)
}

fn text(time: i64) -> Result<String> {
    Ok(format!("{:.3}", Timestamp::from_millisecond(time)?))
}

/// Returns the A reply of an explanation, as [`Run::reply`].
fn reply_of(explained: &Value) -> Result<String> {
    let answers = explained["answers"].as_array().context("no answers")?;
    let answer = answers.iter().find(|answer| answer["rtype"] == "A");
    let answer = answer.context("no answer of type A")?;
    let records = answer["records"].as_array().context("no records")?;
    let data = records.iter().filter_map(|record| record["data"].as_str());
    let mut addresses: Vec<&str> = data.collect();
    addresses.sort_unstable();
    let result = if addresses.is_empty() {
        answer["result"].clone()
    } else {
        json!(["NOERROR", answer["ttl"]])
    };
    Ok(format!("{result} {}", addresses.join(" ")))
}

/// Compares a reply with the output of `explain --at`.
fn check_command(server: &Server, name: &str, run: &Run) -> Result<()> {
    let (url, at) = (
        format!("--server=http://{}", server.api),
        text(run.received)?,
    );
    let output = run_global_dns(&["explain", name, &url, "--at", &at, "-o", "json"]);
    let explained = serde_json::from_str(&output.stdout).context("reading the output")?;
    let told = reply_of(&explained)?;
    ensure!(
        told == run.reply,
        "explain --at {at} tells {told}, not {}",
        run.reply
    );
    Ok(())
}

// === impl Client ===

impl Client {
    fn start(server: SocketAddr, name: &str) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let question = format!("{name} A");
        let thread = thread::spawn(move || {
            let (mut runs, mut replies) = (Vec::<Run>::new(), 0);
            let mut packet = query(&question);
            while !stopped.load(Ordering::Relaxed) {
                packet = packet.with_id(packet.id().wrapping_add(1));
                let sent = Timestamp::now().as_millisecond();
                socket.send(&packet.0)?;
                let reply = read(&read_datagram(&socket)?)?;
                let received = Timestamp::now().as_millisecond() + 1;
                replies += 1;
                match runs.last_mut() {
                    Some(run) if run.reply == reply => run.last = sent,
                    _ => runs.push(Run {
                        reply,
                        sent,
                        received,
                        last: sent,
                    }),
                }
                sleep(Duration::from_millis(1));
            }
            Ok((runs, replies))
        });
        Ok(Self { stop, thread })
    }

    /// Stops it. Returns the changes of the reply, and the number of replies.
    fn end(self) -> Result<(Vec<Run>, usize)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the client panicked")?
    }
}

/// Returns a reply as [`Run::reply`].
fn read(octets: &[u8]) -> Result<String> {
    let reply = Reply::read(octets).map_err(anyhow::Error::msg)?;
    let records = reply.answers.iter().filter(|one| one.rtype == rtype::A);
    let mut addresses: Vec<&str> = records.clone().map(|one| &*one.data).collect();
    addresses.sort_unstable();
    let result = match (reply.rcode, records.map(|one| one.ttl).next()) {
        (0, Some(ttl)) => json!(["NOERROR", ttl]),
        (0, None) => json!("NODATA"),
        _ => json!(reply.status()),
    };
    Ok(format!("{result} {}", addresses.join(" ")))
}
