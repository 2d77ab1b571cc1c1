//! The shares of clients that look up a name all the time, behind CoreDNS with its cache.
//!
//! An answer in the cache sends all clients of a CoreDNS pod to one cluster. So the shares of a minute differ from the
//! weights. The test has several CoreDNS pods: server blocks of one process, each with a cache of its own.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use support::commands::tool;
use support::networks::in_new_network;
use support::output::print_line;
use support::process::Process;
use support::query::query;
use support::reply::rtype;
use support::repository::repository;
use support::steps::Steps;
use support::wait::eventually_within;
use support::wire::{Transport, try_ask};

use super::bed::{Bed, CLUSTERS, Order};
use super::outcome::{Spread, SpreadRow};

/// The stanzas, with the seconds for which they keep an answer.
const STANZAS: [(&str, f64); 2] = [("Corefile", 5.0), ("Corefile.services", 1.0)];
/// The names, with their orders.
const NAMES: [(&str, Order); 2] = [
    ("web.prod.global", Order::USUAL),
    ("even.prod.global", Order::EVEN),
];
/// The pods of each stanza.
const PODS: usize = 8;
/// The numbers of pods whose clients are counted together.
const GROUPS: [usize; 3] = [1, 2, 4];
const MINUTES: usize = 4;
const MINUTE: Duration = Duration::from_secs(60);
/// Look-ups per second of each client.
const RATE: u32 = 50;
/// The cluster whose share is counted.
const WEST: usize = 1;
/// Maximum time of an answer, before the client asks again.
const PATIENCE: Duration = Duration::from_secs(2);

/// The look-ups of a client in each minute: to `west`, and all.
type Minutes = [[usize; 2]; MINUTES];

/// A client of one pod: it looks up one name.
#[derive(Clone, Copy)]
struct Client {
    stanza: usize,
    pod: usize,
    name: usize,
}

pub(super) fn measure() {
    in_new_network(|| {
        let mut steps = Steps::new("shares behind CoreDNS");
        let mut started = None;
        steps.prerequisite("coredns_answers", || {
            let bed = Bed::start("10.96.0.53:53")?;
            let coredns = start_coredns(&bed)?;
            started = Some((bed, coredns));
            Ok(())
        });
        let Some((bed, _coredns)) = started else {
            return steps.finish();
        };
        let (mut rows, mut look_ups) = (Vec::new(), 0);
        steps.prerequisite("shares_of_minutes_are_counted", || {
            let asked = bed.look_ups("A")?;
            rows = bed.with_log(count())?;
            look_ups = bed.look_ups("A")? - asked;
            print_line(&format!("{look_ups} answers were drawn"));
            Ok(())
        });
        steps.step("shares_of_all_minutes_are_those_of_the_weights", || {
            rows.iter().try_for_each(check)
        });
        steps.step("longer_cache_has_a_wider_spread", || check_widths(&rows));
        steps.prerequisite("results_are_written", || {
            let rows = rows.clone();
            let spread = Spread {
                rate: RATE,
                look_ups,
                rows,
            };
            spread.write()
        });
        steps.finish();
    });
}

fn start_coredns(bed: &Bed) -> Result<Process> {
    let mut text = String::new();
    for (stanza, (file, _)) in STANZAS.iter().enumerate() {
        let block = fs::read_to_string(repository("coredns").join(file))?;
        for pod in 0..PODS {
            let port = address(stanza, pod)?.port();
            ensure!(block.contains("global:53 {"), "{file} has another zone");
            text += &block.replace("global:53 {", &format!("global:{port} {{"));
        }
    }
    let file = bed.folder().join("Corefile");
    fs::write(&file, text)?;
    let mut command = bed.command(&tool("coredns")?)?;
    command.arg("-conf").arg(file);
    let mut process = Process::start("coredns", command)?;
    for (stanza, pod) in
        (0..STANZAS.len()).flat_map(|stanza| (0..PODS).map(move |pod| (stanza, pod)))
    {
        let server = address(stanza, pod)?;
        eventually_within("an answer of each pod", 2 * MINUTE, || {
            process.check()?;
            look_up(server, NAMES[0].0).map(drop)
        })?;
    }
    Ok(process)
}

fn address(stanza: usize, pod: usize) -> Result<SocketAddr> {
    let port = u16::try_from(5_400 + PODS * stanza + pod)?;
    Ok(SocketAddr::from(([10, 96, 0, 10], port)))
}

/// Runs all clients at the same time. Returns a row for each stanza, order and number of pods.
fn count() -> Result<Vec<SpreadRow>> {
    let clients = (0..STANZAS.len()).flat_map(|stanza| {
        let pods = (0..PODS).flat_map(|pod| (0..NAMES.len()).map(move |name| (pod, name)));
        pods.map(move |(pod, name)| Client { stanza, pod, name })
    });
    let clients: Vec<Client> = clients.collect();
    let began = Instant::now();
    let counted = thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter()
            .map(|client| scope.spawn(move || look_up_always(*client, began)))
            .collect();
        let counted = threads.into_iter().map(|thread| thread.join().unwrap());
        counted.collect::<Result<Vec<Minutes>>>()
    })?;
    let mut rows = Vec::new();
    for (stanza, name, group) in (0..STANZAS.len()).flat_map(|stanza| {
        let names = (0..NAMES.len()).flat_map(|name| GROUPS.map(|group| (name, group)));
        names.map(move |(name, group)| (stanza, name, group))
    }) {
        let pods = clients.iter().zip(&counted);
        let pods = pods.filter(|(client, _)| client.stanza == stanza && client.name == name);
        let pods: Vec<&Minutes> = pods.map(|(_, minutes)| minutes).collect();
        rows.push(row(stanza, name, group, &pods));
    }
    Ok(rows)
}

/// Looks up the name at a constant rate, as before each connection. There is none, because a listener that is busy would slow
/// down the clients of its cluster, and make its share smaller. Look-ups that are late are left out.
fn look_up_always(client: Client, began: Instant) -> Result<Minutes> {
    let (server, (name, _)) = (address(client.stanza, client.pod)?, NAMES[client.name]);
    let mut minutes = Minutes::default();
    let mut due = Duration::ZERO;
    loop {
        thread::sleep(due.saturating_sub(began.elapsed()));
        due = began.elapsed().max(due) + Duration::from_secs(1) / RATE;
        let minute = began.elapsed().as_secs() / MINUTE.as_secs();
        let Some(minute) = minutes.get_mut(usize::try_from(minute)?) else {
            return Ok(minutes);
        };
        // Again if a packet is lost on a busy machine.
        let cluster = eventually_within("an answer", MINUTE, || look_up(server, name))?;
        minute[0] += usize::from(cluster == WEST);
        minute[1] += 1;
    }
}

/// Returns the cluster of the only address of a name.
fn look_up(server: SocketAddr, name: &str) -> Result<usize> {
    let question = query(&format!("{name} A +rd"));
    let reply = try_ask(server, &question, Transport::Udp, PATIENCE)
        .with_context(|| format!("{name} at {server}"))?;
    let answers = reply.answers.iter();
    let addresses: Vec<Ipv4Addr> = answers
        .filter(|record| record.rtype == rtype::A)
        .map(|record| Ok(record.data.parse()?))
        .collect::<Result<_>>()?;
    ensure!(addresses.len() == 1, "{name} at {server}: {addresses:?}");
    let mut clusters = CLUSTERS.iter();
    let cluster = clusters.position(|(_, address)| *address == addresses[0]);
    cluster.with_context(|| format!("an unknown address: {addresses:?}"))
}

/// Returns the shares of clients that use as many pods as a group has, in equal parts.
fn row(stanza: usize, name: usize, group: usize, pods: &[&Minutes]) -> SpreadRow {
    let percent = |counts: &[[usize; 2]]| {
        let [west, all] = counts
            .iter()
            .fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
        100.0 * west as f64 / all.max(1) as f64
    };
    let groups = pods.chunks_exact(group);
    let minutes = groups.flat_map(|group| {
        (0..MINUTES).map(|minute| {
            let counts: Vec<_> = group.iter().map(|pod| pod[minute]).collect();
            percent(&counts)
        })
    });
    let mut minutes: Vec<f64> = minutes.collect();
    minutes.sort_by(f64::total_cmp);
    let all: Vec<[usize; 2]> = pods.iter().flat_map(|pod| **pod).collect();
    let row = SpreadRow {
        stanza: STANZAS[stanza].0.to_owned(),
        order: NAMES[name].1,
        pods: group,
        minutes,
        total: percent(&all),
    };
    print_line(&format!("{row:?}"));
    row
}

// === Checks ===

/// Asserts that the share of all minutes is that of the weight, within four standard deviations of the draws.
fn check(row: &SpreadRow) -> Result<()> {
    let expected = row.order.percent()[WEST];
    let mut stanzas = STANZAS.iter();
    let stanza = stanzas.find(|(file, _)| *file == row.stanza);
    let (_, ttl) = stanza.context("an unknown stanza")?;
    // An answer is kept for at most a second longer.
    let draws = (PODS * MINUTES) as f64 * MINUTE.as_secs_f64() / (ttl + 1.0);
    let tolerance = 4.0 * (expected * (100.0 - expected) / draws).sqrt();
    ensure!(
        (row.total - expected).abs() < tolerance,
        "{:.1} % instead of {expected:.1} % ± {tolerance:.1}: {row:?}",
        row.total
    );
    Ok(())
}

fn check_widths(rows: &[SpreadRow]) -> Result<()> {
    let width = |row: &SpreadRow| Some(row.minutes.last()? - row.minutes.first()?);
    let [long, short] = STANZAS.map(|(file, _)| {
        let mut rows = rows.iter();
        let row = rows.find(|row| row.stanza == file && row.order == Order::EVEN && row.pods == 1);
        row.and_then(width)
    });
    ensure!(long > short && short > Some(0.0), "{long:?}, {short:?}");
    Ok(())
}
