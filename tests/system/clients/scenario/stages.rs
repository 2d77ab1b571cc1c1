//! The stages of the scenario.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use support::multicluster::Clusters;
use support::multicluster::plan::{EAST, NORTH, Service, WEST};
use support::process::Process;

use super::backends::Backends;
use super::faults::{Fault, Faults};
use super::pod::Pod;
use super::{Client, Event, MANY, MANY_PODS, Profile, View, WEB};
use crate::clients::results::{Results, last_error, seconds};

/// Time for which CoreDNS keeps an answer, and some more.
const CACHE: Duration = Duration::from_millis(5500);
/// How long a change may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time after which an event that a program does not see counts as not seen.
const BLIND: Duration = Duration::from_secs(35);
/// Duration of a fault at the start of a program. Programs keep a negative answer for 5 or 10 seconds, and the fault
/// must not end at the same time.
const FAULT_AT_START: Duration = Duration::from_secs(12);
/// Maximum time until the number of used addresses is final.
const COUNTING: Duration = Duration::from_secs(30);
/// Minimum time between two starts of a program that ends. A kubelet waits longer after every start.
const RESTART: Duration = Duration::from_secs(1);
/// Pause between two looks at the program.
const PAUSE: Duration = Duration::from_millis(50);

/// The clusters with a program, and the results so far.
pub struct Scenario<'c> {
    client: &'c mut dyn Client,
    profile: Profile,
    // Processes are dropped before the clusters.
    processes: Vec<Process>,
    started: Instant,
    /// The servers of the program in `west` and `north`.
    servers: [Option<Process>; 2],
    backends: Backends,
    _faults: Faults,
    clusters: Clusters,
    /// The Service that the program uses, and its expected addresses.
    service: &'static Service,
    expected: BTreeSet<String>,
    pub results: Results,
}

// === impl Scenario ===

impl<'c> Scenario<'c> {
    /// Starts the clusters, without links, and the servers.
    pub fn start(client: &'c mut dyn Client) -> Result<Self> {
        let profile = client.profile();
        let members =
            [(WEST, 0), (WEST, 1), (NORTH, 0)].map(|(cluster, host)| WEB.member(cluster, host));
        let clusters = Clusters::start(&members, &[EAST])?;
        let pod = pod(&clusters, &WEB);
        let servers = [
            client.start_server(&pod, WEST)?,
            client.start_server(&pod, NORTH)?,
        ];
        // Servers of the program replace the HTTP servers at all ports but the first.
        let ports = match &servers {
            [None, None] => WEB.port_numbers,
            _ => &WEB.port_numbers[..1],
        };
        let names: Vec<&str> = profile.views.iter().map(|view| view.name).collect();
        Ok(Self {
            processes: Vec::new(),
            started: Instant::now(),
            servers,
            backends: Backends::start(&clusters, ports)?,
            _faults: Faults::start(&clusters)?,
            clusters,
            service: &WEB,
            expected: BTreeSet::new(),
            results: Results::new(profile.name, &names),
            client,
            profile,
        })
    }

    /// Starts the program while the name does not exist.
    pub fn start_without_clusters(&mut self) -> Result<()> {
        self.clusters.check_answer(EAST, &WEB, &[])?;
        let start = self.start_without_addresses()?;
        self.results.add(
            "starts without clusters",
            vec![start; self.profile.views.len()],
        );
        Ok(())
    }

    /// Applies an event, and measures the time until each view of the program has the new addresses.
    pub fn measure(&mut self, event: Event) -> Result<()> {
        if event == Event::Failover {
            self.clusters.set_failover(&WEB, "north:west")?;
            self.expected = self.clusters.addresses(EAST, &WEB, &[NORTH]);
            self.wait_for_all(|view| !view.blind.contains(&event))?;
        }
        let views = self.profile.views;
        let before: Vec<_> = views.iter().map(|view| self.look(view)).collect();
        let began = Instant::now();
        let clusters = self.apply(event)?;
        self.expected = self.clusters.addresses(EAST, &WEB, clusters);
        let times = self.wait_until_seen(began, |view| {
            if view.blind.contains(&event) {
                BLIND
            } else {
                PATIENCE
            }
        })?;
        let cells = views.iter().zip(before).zip(times);
        let cells = cells.map(|((view, before), time)| match (before, time) {
            (Ok(before), Some(_)) if self.is_expected(view, &before) => "–".to_owned(),
            (_, Some(time)) => seconds(time),
            (_, None) => "not seen".to_owned(),
        });
        let cells = cells.collect();
        self.results.add(event.title(), cells);
        Ok(())
    }

    /// Applies an event. Returns the clusters that answer afterwards.
    fn apply(&mut self, event: Event) -> Result<&'static [usize]> {
        let clusters = &mut self.clusters;
        let member = WEB.member(WEST, 0);
        match event {
            Event::FirstCluster => clusters.link(WEST)?,
            Event::SecondCluster => clusters.link(NORTH)?,
            Event::NewAddress => {
                self.backends.restart(member)?;
                if let Some(server) = &mut self.servers[0] {
                    server.kill();
                    self.servers[0] = self.client.start_server(&pod(clusters, &WEB), WEST)?;
                }
                clusters.renumber(member)?;
            }
            Event::GatewayDown => clusters.cut(WEST)?,
            Event::GatewayUp => clusters.restore()?,
            Event::Failover => clusters.set_failover(&WEB, "west:north")?,
        }
        Ok(match event {
            Event::FirstCluster | Event::Failover => &[WEST],
            Event::GatewayDown => &[NORTH],
            Event::SecondCluster | Event::NewAddress | Event::GatewayUp => &[WEST, NORTH],
        })
    }

    /// Injects a fault of DNS while the program has addresses.
    pub fn measure_fault(&mut self, fault: Fault) -> Result<()> {
        let views = self.profile.views;
        let mut lost: Vec<Option<f64>> = vec![None; views.len()];
        Faults::set(&self.clusters, Some(fault))?;
        let began = Instant::now();
        while began.elapsed() < self.profile.fault && !self.has_ended() {
            for (lost, view) in lost.iter_mut().zip(views) {
                let has_some = self.look(view).is_ok_and(|seen| !seen.is_empty());
                let since = lost.unwrap_or(began.elapsed().as_secs_f64());
                *lost = (!has_some).then_some(since);
            }
            thread::sleep(PAUSE);
        }
        Faults::set(&self.clusters, None)?;
        let has_ended = self.has_ended();
        let cells = lost.iter().map(|lost| match lost {
            _ if has_ended => "ends".to_owned(),
            Some(since) => format!("none after {}", seconds(*since)),
            None => "keeps".to_owned(),
        });
        self.results
            .add(&format!("runs: {}", fault.name()), cells.collect());
        // A program may count the time since the last answer with records.
        thread::sleep(CACHE);
        // A view that has not seen the last event may have earlier addresses.
        self.wait_for_all(|view| !view.blind.contains(&Event::Failover))
    }

    /// Starts the program again during a fault of DNS, and measures the time from its end to the use of all addresses.
    pub fn measure_start(&mut self, fault: Fault) -> Result<()> {
        Faults::set(&self.clusters, Some(fault))?;
        let start = self.start_without_addresses()?;
        Faults::set(&self.clusters, None)?;
        let times = self.wait_until_seen(Instant::now(), |_| PATIENCE)?;
        let cells = times
            .into_iter()
            .map(|time| format!("{start}, {}", seconds(time.unwrap_or_default())));
        self.results
            .add(&format!("starts: {}", fault.name()), cells.collect());
        Ok(())
    }

    /// Counts how many of many endpoints the program uses, with and without TCP.
    pub fn measure_many(&mut self) -> Result<()> {
        let pods = (0..MANY_PODS / 2)
            .flat_map(|ordinal| [WEST, NORTH].map(|cluster| MANY.member(cluster, ordinal)));
        self.clusters.add(&pods.collect::<Vec<_>>())?;
        self.clusters.write_objects()?;
        self.service = &MANY;
        self.expected = self.clusters.addresses(EAST, &MANY, &[WEST, NORTH]);
        self.clusters.check_answer(EAST, &MANY, &[WEST, NORTH])?;
        for (column, is_refused) in [("addresses of 60", false), ("without TCP", true)] {
            self.processes.clear();
            // CoreDNS must not have an answer that it received over TCP.
            thread::sleep(CACHE);
            Faults::refuse_tcp(&self.clusters, is_refused)?;
            self.start_program()?;
            let counts = self.count()?;
            self.results
                .add(column, counts.iter().map(usize::to_string).collect());
        }
        Faults::refuse_tcp(&self.clusters, false)
    }

    /// Returns the largest number of addresses that each view uses.
    fn count(&mut self) -> Result<Vec<usize>> {
        let (views, began) = (self.profile.views, Instant::now());
        let mut counts = vec![0; views.len()];
        while began.elapsed() < COUNTING {
            for (count, view) in counts.iter_mut().zip(views) {
                let seen = self.look(view).unwrap_or_default();
                *count = seen.intersection(&self.expected).count().max(*count);
            }
            let mut pairs = counts.iter().zip(views);
            if pairs.all(|(count, view)| view.uses_one || *count == usize::from(MANY_PODS)) {
                break;
            }
            self.restart_if_ended()?;
            thread::sleep(PAUSE);
        }
        Ok(counts)
    }

    /// Proves what only this program claims.
    pub fn prove_further(&mut self) -> Result<()> {
        self.client.prove_further(&pod(&self.clusters, &WEB))
    }

    /// Adds the last lines of all logs to an error.
    pub fn with_logs(&self, result: Result<()>) -> Result<()> {
        let result = result.map_err(|error| {
            let processes = self.processes.iter().chain(self.servers.iter().flatten());
            let logs: Vec<String> = processes.map(Process::log_tail).collect();
            anyhow!("{error:#}\n{}", logs.join("\n"))
        });
        self.clusters.with_logs(result)
    }

    // === The program ===

    /// Starts the program while DNS has no addresses for it. Returns what it does.
    fn start_without_addresses(&mut self) -> Result<String> {
        self.start_program()?;
        while self.started.elapsed() < FAULT_AT_START {
            if self.has_ended() {
                let errors = self.processes.iter().map(last_error);
                return Ok(format!("ends ({})", errors.collect::<Vec<_>>().join("; ")));
            }
            for view in self.profile.views {
                let seen = self.look(view).unwrap_or_default();
                ensure!(seen.is_empty(), "{}: {seen:?} without records", view.name);
            }
            thread::sleep(PAUSE);
        }
        Ok("runs".to_owned())
    }

    fn start_program(&mut self) -> Result<()> {
        self.processes.clear();
        self.processes = self.client.start(&pod(&self.clusters, self.service))?;
        self.started = Instant::now();
        Ok(())
    }

    fn restart_if_ended(&mut self) -> Result<()> {
        if self.has_ended() && self.started.elapsed() > RESTART {
            self.start_program()?;
        }
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        self.processes.iter_mut().any(Process::has_ended)
    }

    /// Returns the addresses that the program uses.
    fn look(&mut self, view: &View) -> Result<BTreeSet<String>> {
        let pod = pod(&self.clusters, self.service);
        self.client.seen(&pod, &self.processes, view)
    }

    fn is_expected(&self, view: &View, found: &BTreeSet<String>) -> bool {
        if view.uses_one {
            found.len() == 1 && found.is_subset(&self.expected)
        } else {
            *found == self.expected
        }
    }

    /// Waits until these views have the expected addresses.
    fn wait_for_all(&mut self, is_waited_for: impl Fn(&View) -> bool) -> Result<()> {
        let patience = |view: &View| {
            if is_waited_for(view) {
                PATIENCE
            } else {
                Duration::ZERO
            }
        };
        self.wait_until_seen(Instant::now(), patience).map(drop)
    }

    /// Waits until each view has the expected addresses. Returns the seconds since `began`, or nothing for a view that has
    /// not seen them in its own time. Fails if that is [`PATIENCE`].
    fn wait_until_seen(
        &mut self,
        began: Instant,
        patience: impl Fn(&View) -> Duration,
    ) -> Result<Vec<Option<f64>>> {
        let views = self.profile.views;
        let mut times = vec![None; views.len()];
        loop {
            let mut is_waiting = false;
            for (time, view) in times.iter_mut().zip(views) {
                if time.is_some() {
                    continue;
                }
                let found = self.look(view);
                let (elapsed, patience) = (began.elapsed(), patience(view));
                if found
                    .as_ref()
                    .is_ok_and(|found| self.is_expected(view, found))
                {
                    *time = Some(elapsed.as_secs_f64());
                } else if elapsed < patience {
                    is_waiting = true;
                } else if patience == PATIENCE {
                    bail!("{} uses {found:?}, expected {:?}", view.name, self.expected);
                }
            }
            if !is_waiting {
                return Ok(times);
            }
            self.restart_if_ended()?;
            thread::sleep(PAUSE);
        }
    }
}

fn pod<'c>(clusters: &'c Clusters, service: &'static Service) -> Pod<'c> {
    Pod { clusters, service }
}
