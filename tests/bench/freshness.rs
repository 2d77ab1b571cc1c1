//! From the API server's acknowledgement of a new endpoint mirror to the answer that has it, beside a CoreDNS with its
//! `kubernetes` plugin on the same API server.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Map, json};

use crate::cluster::Cluster;
use crate::processes::{ANY, Process};
use crate::report::{Figure, Report, median};
use crate::start::{coredns_command, our_command};
use crate::support::PATIENCE;
use crate::support::message::{A, Message, question};
use crate::support::mirror_objects::HeadlessMirror;
use crate::support::wire::{Over, exchange};
use crate::{Effort, check, data, say};

/// Changes that are measured in each round for each server.
const CHANGES: u32 = 20;
/// Time between two questions, and so what a figure may be off by.
const PAUSE: Duration = Duration::from_micros(100);
/// Time between two changes, so that each is isolated.
const REST: Duration = Duration::from_millis(20);

/// Makes one endpoint mirror after the other, and asks one server for it, then the other server for the next.
///
/// # Errors
///
/// If a part is missing, or a change does not show.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let cluster = Cluster::start()?;
    let ports = json!([{"name": "sql", "port": 26_257}]);
    let mirror = HeadlessMirror {
        name: "db-east",
        namespace: "default",
        cluster: "east",
        service: "db",
        ports: &ports,
    };
    cluster.put(&mirror.service(Map::new()))?;
    let (ours, ours_at, ours_ready) = our_command(&cluster.kubeconfig)?;
    let (theirs, theirs_at, theirs_ready) = coredns_command(&cluster.kubeconfig, ANY, folder)?;
    let mut ours = Process::start("global-dns", ours, folder)?;
    let mut theirs = Process::start("CoreDNS", theirs, folder)?;
    ours.wait_until_ready(ours_ready)?;
    theirs.wait_until_ready(theirs_ready)?;
    // CoreDNS says that it is ready before it listens.
    theirs.wait_for("a reply", || {
        question("cluster.local.", A).try_ask(theirs_at)
    })?;

    let (mut our_times, mut their_times) = (vec![], vec![]);
    for change in 0..2 * CHANGES * effort.rounds {
        let (host, address) = (
            format!("db-{change}"),
            format!("10.96.{}.{}", 100 + change / 250, 1 + change % 250),
        );
        let name = format!("{host}-east");
        let object = mirror.endpoint(&name, &host, &[address]);
        let (server, asked, times) = match change % 2 {
            0 => (
                ours_at,
                format!("{host}.east.db.default.global."),
                &mut our_times,
            ),
            _ => (
                theirs_at,
                format!("{name}.default.svc.cluster.local."),
                &mut their_times,
            ),
        };
        let asking = thread::spawn(move || first_answer(server, &asked));
        let written = cluster.put(&object)?;
        let answered = asking
            .join()
            .map_err(|_| anyhow::anyhow!("the client panicked"))??;
        let took = answered.saturating_duration_since(written.acknowledged);
        times.push(took.as_secs_f64() * 1e3);
        thread::sleep(REST);
    }
    let (ours, theirs) = (median(&our_times), median(&their_times));
    say(&format!(
        "freshness: p50 of {} changes each: global-dns {ours:.2} ms, CoreDNS {theirs:.2} ms",
        our_times.len()
    ));
    let name = |who: &str, what: &str| format!("from acknowledged write to answer: {who}, {what}");
    report.figures.extend([
        Figure::new(&name("CoreDNS", "p95"), vec![p95(&their_times)], "ms"),
        Figure::new(&name("global-dns", "p95"), vec![p95(&our_times)], "ms"),
        Figure::new(&name("CoreDNS", "p50"), their_times, "ms"),
        Figure::new(&name("global-dns", "p50"), our_times, "ms").at_most(theirs),
    ]);
    Ok(())
}

/// Asks until there is an answer, and returns when it came.
fn first_answer(server: SocketAddr, name: &str) -> Result<Instant> {
    let asked = data::Question {
        name: name.to_owned(),
        rtype: A,
    };
    let query = check::query(&asked, 1)?;
    let began = Instant::now();
    loop {
        let reply = exchange(server, &query, Over::Udp, PATIENCE)?;
        let arrived = Instant::now();
        let reply = Message::read(&reply).map_err(anyhow::Error::msg)?;
        if !reply.answers.is_empty() {
            return Ok(arrived);
        }
        ensure!(began.elapsed() < PATIENCE, "{name} is not answered");
        thread::sleep(PAUSE);
    }
}

fn p95(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() * 95 / 100]
}
