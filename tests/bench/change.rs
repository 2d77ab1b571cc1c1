//! One change in a service of 5,000 endpoints, and among 20,000 services: the time from the event to the changed answer,
//! and the CPU time of the server. The event comes from a simulated API server, so that no time of a real one is measured.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::objects::Mirror;
use support::query::query;
use support::reply::Reply;
use support::standin::{Behavior, StandIn};
use support::wait::TIMEOUT;
use support::wire::{Transport, exchange};

use crate::Effort;
use crate::data::{Services, address};
use crate::report::{Report, median};
use crate::servers::Server;

const SHAPES: [(&str, Services); 2] = [
    (
        "a service of 5,000 endpoints",
        Services {
            prefix: "big",
            count: 1,
            clusters: 1,
            endpoints: 5_000,
            first: 0,
        },
    ),
    (
        "20,000 services",
        Services {
            prefix: "db",
            count: 20_000,
            clusters: 1,
            endpoints: 1,
            first: 0,
        },
    ),
];
/// Time between two changes: 50 a second.
const REST: Duration = Duration::from_millis(20);
/// Time between two queries, which is also the maximum error of a figure.
const PAUSE: Duration = Duration::from_micros(100);
/// Measured changes in a second of a round.
const CHANGES: u32 = 50;

/// A server with an API server of its own, and the service that changes.
struct Side {
    server: Server,
    api_server: StandIn,
    mirror: Mirror,
    /// The number of the last address.
    last: usize,
}

/// Changes an endpoint of each binary in turns. Each round includes all binaries, so that other work on the machine
/// affects them equally.
///
/// # Errors
///
/// If a server does not start, or an answer does not change.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    for (what, services) in SHAPES {
        let objects = services.objects().0;
        let sides = effort.binaries.iter().map(|binary| {
            let api_server = StandIn::start(Behavior::Normal, &objects)?;
            api_server.keep_watches();
            let kubeconfig = api_server.kubeconfig.to_str().context("a path")?;
            let server = Server::start(binary, ["--kubeconfig", kubeconfig], &[])?;
            let mirror = services.mirror(services.count / 2, "east");
            Ok(Side {
                server,
                api_server,
                mirror,
                last: 500_000,
            })
        });
        let mut sides = sides.collect::<Result<Vec<_>>>()?;
        for _ in 0..effort.rounds {
            for side in &mut sides {
                let ([time, late], cost) = side.change(CHANGES * effort.seconds)?;
                let name = side.server.name;
                report.add(&format!("{what}: from event to answer"), "ms", name, time);
                let percentile = format!("{what}: from event to answer, 99th percentile");
                report.add(&percentile, "ms", name, late);
                report.add(&format!("{what}: CPU time of a change"), "ms", name, cost);
            }
        }
    }
    Ok(())
}

// === impl Side ===

impl Side {
    /// Returns the median and the 99th percentile of the time from an event to the changed answer, and the mean CPU time of a change,
    /// in milliseconds.
    fn change(&mut self, changes: u32) -> Result<([f64; 2], f64)> {
        let mut times = vec![];
        for _ in 0..changes {
            let (object, address) = self.next();
            let began = Instant::now();
            self.api_server.put(&object);
            let shown = self.wait_for(&address)?;
            times.push((shown - began).as_secs_f64() * 1e3);
            thread::sleep(REST.saturating_sub(began.elapsed()));
        }
        // The same without queries, which also take CPU time.
        let before = self.run_time()?;
        for _ in 0..changes {
            let (object, _) = self.next();
            self.api_server.put(&object);
            thread::sleep(REST);
        }
        let spent = self.run_time()? - before;
        ensure!(spent > 0.0, "{} took no CPU time", self.server.name);
        times.sort_by(f64::total_cmp);
        let late = times[times.len() * 99 / 100];
        Ok(([median(&times), late], spent / f64::from(changes)))
    }

    /// Returns the first endpoint with another address.
    fn next(&mut self) -> (Value, String) {
        self.last += 1;
        let address = address(self.last);
        let object = self.mirror.endpoint_mirror(&self.host(), &[&address]);
        (object, address)
    }

    fn host(&self) -> String {
        format!("{}-0", self.mirror.service_name())
    }

    /// Queries the changed host until its answer is an address. Returns the time of that reply.
    fn wait_for(&self, address: &str) -> Result<Instant> {
        let service = self.mirror.service_name();
        let namespace = self.mirror.service()["metadata"]["namespace"].clone();
        let namespace = namespace.as_str().context("a namespace")?;
        let asked = format!("{}.east.{service}.{namespace}.global. A", self.host());
        let query = query(&asked).0;
        let began = Instant::now();
        loop {
            let reply = exchange(self.server.address, &query, Transport::Udp, TIMEOUT)?;
            let arrived = Instant::now();
            let reply = Reply::read(&reply).map_err(anyhow::Error::msg)?;
            if reply.data() == [address] {
                return Ok(arrived);
            }
            ensure!(began.elapsed() < TIMEOUT, "{asked} did not change in time");
            thread::sleep(PAUSE);
        }
    }

    /// Returns the time that all threads of the server have run, in milliseconds. The CPU time in `/proc/PID/stat` has a
    /// resolution of ten.
    fn run_time(&self) -> Result<f64> {
        let mut nanoseconds = 0.0;
        for task in fs::read_dir(self.server.process.proc("task"))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            let number = text
                .split(' ')
                .next()
                .and_then(|number| number.parse::<f64>().ok());
            nanoseconds += number.context("no number in schedstat")?;
        }
        Ok(nanoseconds / 1e6)
    }
}
