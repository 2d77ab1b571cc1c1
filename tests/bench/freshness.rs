//! Time from the API server's acknowledgment of a change to the first answer with the change: for single changes,
//! compared with CoreDNS and its `kubernetes` plugin on the same API server, and under 500 changes per second.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::objects::mirror;
use support::query::query;
use support::reply::Reply;
use support::wait::TIMEOUT;
use support::wire::{Transport, exchange, try_ask};

use crate::data::Services;
use crate::processes::{ANY, start, wait_until_ready};
use crate::report::{Figure, Report, median};
use crate::start::{coredns_command, objects_to_write, our_command, write_all};
use crate::{Effort, check, print_line};

/// Measured changes per round and server.
const CHANGES: u32 = 20;
/// Time between two queries, which is also the maximum error of a figure.
const PAUSE: Duration = Duration::from_micros(100);
/// Number of services that share the changes, so that each service stays small.
const SPREAD: u32 = 20;
/// Time between two changes, so that each is isolated.
const REST: Duration = Duration::from_millis(20);

/// Changes per second in the measurement with many changes.
const MANY: u32 = 500;
/// Threads that write them.
const WRITERS: u32 = 4;
/// One of this number of changes is measured.
const MEASURED: u32 = 5;
/// The changing objects: the gateways of a hundred services' endpoints go down and come up.
const SERVICES: Services = Services {
    prefix: "busy",
    count: 100,
    clusters: 1,
    endpoints: 5,
    ports: &[("sql", 26_257)],
};

/// Creates endpoint mirrors one by one, and queries the servers alternately for the new one.
///
/// # Errors
///
/// If a program is missing, or an answer does not change.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let cluster = Cluster::start()?;
    let mirrors: Vec<_> = (0..SPREAD)
        .map(|number| mirror("default", &format!("db{number}"), "east"))
        .collect();
    for mirror in &mirrors {
        cluster.put(&mirror.service())?;
    }
    let (ours, ours_at, ours_ready) =
        our_command(&effort.ours().path, ANY, &cluster.kubeconfig, "warn")?;
    let (theirs, theirs_at, theirs_ready) = coredns_command(&cluster.kubeconfig, ANY, folder)?;
    let mut ours = start("global-dns", ours)?;
    let mut theirs_process = start("CoreDNS", theirs)?;
    wait_until_ready(&mut ours, ours_ready)?;
    wait_until_ready(&mut theirs_process, theirs_ready)?;
    // CoreDNS reports that it is ready before it listens.
    theirs_process.wait_for("a reply", |_| {
        let asked = query("cluster.local. A");
        try_ask(theirs_at, &asked, Transport::Tcp, TIMEOUT).ok()
    })?;

    let (mut our_times, mut their_times) = (vec![], vec![]);
    for change in 0..2 * CHANGES * effort.rounds {
        let (host, address) = (
            format!("db-{change}"),
            format!("10.96.{}.{}", 100 + change / 250, 1 + change % 250),
        );
        let mirror = &mirrors[change as usize / 2 % mirrors.len()];
        let object = mirror.endpoint_mirror(&host, &[&address]);
        let (server, asked, times) = match change % 2 {
            0 => (
                ours_at,
                format!("{host}.east.{}.default.global. A", mirror.service_name()),
                &mut our_times,
            ),
            _ => (
                theirs_at,
                format!("{host}-east.default.svc.cluster.local. A"),
                &mut their_times,
            ),
        };
        let asking = thread::spawn(move || first_answer(server, &asked));
        let written = cluster.put(&object)?;
        let answered = asking
            .join()
            .map_err(|_| anyhow::anyhow!("the client panicked"))??;
        times.push(milliseconds_between(written.acknowledged, answered));
        thread::sleep(REST);
    }
    let (ours, theirs) = (median(&our_times), median(&their_times));
    print_line(&format!(
        "freshness: p50 of {} changes each: global-dns {ours:.2} ms, CoreDNS {theirs:.2} ms",
        our_times.len()
    ));
    let name = |who: &str, what: &str| format!("from acknowledged write to answer: {who}, {what}");
    report.figures.extend([
        Figure::new(
            &name("CoreDNS", "p95"),
            vec![quantile(&their_times, 95)],
            "ms",
        ),
        Figure::new(
            &name("global-dns", "p95"),
            vec![quantile(&our_times, 95)],
            "ms",
        ),
        Figure::new(&name("CoreDNS", "p50"), their_times, "ms"),
        Figure::new(&name("global-dns", "p50"), our_times, "ms").at_most(theirs),
    ]);
    drop(theirs_process);
    let (rate, times) = measure_many(&cluster, ours_at, effort, folder)?;
    print_line(&format!(
        "freshness: {rate:.0} changes per second, {} measured: p50 {:.2} ms, p99 {:.2} ms",
        times.len(),
        median(&times),
        quantile(&times, 99)
    ));
    let name = |what: &str| format!("the same, one of {rate:.0} changes per second: {what}");
    report.figures.extend([
        Figure::new(&name("p99"), vec![quantile(&times, 99)], "ms").at_most(20.0),
        Figure::new(&name("p50"), times, "ms"),
    ]);
    Ok(())
}

/// Takes gateways of endpoints down and up. Returns the number of changes per second and the delays of the measured
/// ones.
fn measure_many(
    cluster: &Cluster,
    server: SocketAddr,
    effort: Effort,
    folder: &Path,
) -> Result<(f64, Vec<f64>)> {
    let objects = objects_to_write(&SERVICES, folder)?;
    write_all(cluster, &objects)?;
    let endpoints: Vec<(&Value, &Value)> = objects
        .iter()
        .zip(objects.iter().skip(1))
        .filter(|(mirror, slice)| mirror["kind"] == "Service" && slice["kind"] == "EndpointSlice")
        // The first endpoint of each service stays up, because all endpoints are answered if all gateways are down.
        .filter(|(mirror, _)| !name(mirror).ends_with("-0-east"))
        .collect();
    let length = Duration::from_secs(u64::from(effort.rounds * effort.seconds));
    let started = Instant::now();
    let write = |writer: u32| -> Result<(u32, Vec<f64>)> {
        let mut times = vec![];
        let mut done = 0;
        // Each thread has separate endpoints, so that no other thread changes the expected answer.
        let own: Vec<_> = endpoints
            .iter()
            .skip(writer as usize)
            .step_by(WRITERS as usize)
            .collect();
        for (number, (mirror, slice)) in (0_u32..).zip(own.iter().cycle()) {
            let due = Duration::from_secs(1) * WRITERS * number / MANY;
            if due > length {
                break;
            }
            thread::sleep(due.saturating_sub(started.elapsed()));
            let is_up = (number as usize / own.len()) % 2 == 1;
            let endpoint = json!({"addresses": ["198.51.100.10"], "conditions": {"ready": is_up}});
            let written = cluster.patch(slice, &json!({"endpoints": [endpoint]}))?;
            done += 1;
            if number % MEASURED == 0 {
                let shown = wait_for_change(server, mirror, is_up)?;
                times.push(milliseconds_between(written.acknowledged, shown));
            }
        }
        Ok((done, times))
    };
    let mut all = vec![];
    let mut changes = 0;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(writer)))
            .collect();
        for writer in writers {
            let (done, times) = writer.join().map_err(|_| anyhow!("a writer panicked"))??;
            changes += done;
            all.extend(times);
        }
        Ok::<_, anyhow::Error>(())
    })?;
    Ok((f64::from(changes) / started.elapsed().as_secs_f64(), all))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Queries a service until the answer has the address of an endpoint mirror, or lacks it. Returns the time of that
/// answer.
fn wait_for_change(server: SocketAddr, mirror: &Value, is_up: bool) -> Result<Instant> {
    let metadata = &mirror["metadata"];
    let [namespace, fq_name] = [
        &metadata["namespace"],
        &metadata["annotations"]["mirror.linkerd.io/remote-svc-fq-name"],
    ]
    .map(|text| text.as_str().unwrap_or_default());
    let service = fq_name
        .split('.')
        .nth(1)
        .context("an annotation without a service name")?;
    let address = mirror["spec"]["clusterIP"].as_str().context("an address")?;
    let asked = format!("{service}.{namespace}.global. A");
    query_until(server, &asked, |reply| {
        let mut answers = reply.answers.iter();
        answers.any(|record| record.data == address) == is_up
    })
}

/// Sends queries until a reply has an answer, and returns the time of that reply.
fn first_answer(server: SocketAddr, asked: &str) -> Result<Instant> {
    query_until(server, asked, |reply| !reply.answers.is_empty())
}

/// Sends queries until a reply is right, and returns the time of that reply.
///
/// # Errors
///
/// If no reply is right in time.
pub(crate) fn query_until(
    server: SocketAddr,
    asked: &str,
    is_right: impl Fn(&Reply) -> bool,
) -> Result<Instant> {
    let query = check::query(asked).0;
    let began = Instant::now();
    loop {
        let reply = exchange(server, &query, Transport::Udp, TIMEOUT)?;
        let arrived = Instant::now();
        let reply = Reply::read(&reply).map_err(anyhow::Error::msg)?;
        if is_right(&reply) {
            return Ok(arrived);
        }
        ensure!(
            began.elapsed() < TIMEOUT,
            "the answer to {asked:?} did not change in time"
        );
        thread::sleep(PAUSE);
    }
}

/// Returns the milliseconds from one instant to another. The result can be negative, because a watch may report a write
/// before its writer has the acknowledgment.
fn milliseconds_between(moment: Instant, other: Instant) -> f64 {
    let late = other.saturating_duration_since(moment).as_secs_f64();
    (late - moment.saturating_duration_since(other).as_secs_f64()) * 1e3
}

fn quantile(values: &[f64], hundredths: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() * hundredths / 100]
}
