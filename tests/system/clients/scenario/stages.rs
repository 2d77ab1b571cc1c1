//! The stages of the scenario.

mod observation;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use support::multicluster::Clusters;
use support::multicluster::plan::{EAST, NORTH, WEST};
use support::process::Process;

use super::MANY_PODS;
use super::backends::Backends;
use super::client::{Client, Event, Profile, Running, Sight};
use super::outcome::{Keeping, Outcome, Reaction, Start, ViewOutcome};
use super::pod::Pod;
use super::recorder::{Fault, Recorder};

/// Time for which CoreDNS keeps an answer, and some more.
const CACHE: Duration = Duration::from_millis(5500);
/// Time after which an event that a program does not see counts as not seen.
const BLIND: Duration = Duration::from_secs(35);
/// Pause between two looks at the program.
const PAUSE: Duration = Duration::from_millis(50);

/// The clusters with a program, and the results so far.
pub struct Scenario<'c> {
    client: &'c dyn Client,
    profile: Profile,
    // Dropped before the clusters.
    running: Option<Box<dyn Running>>,
    started: Instant,
    /// The servers of the program in `west` and `north`.
    servers: [Option<Process>; 2],
    backends: Backends,
    recorder: Recorder,
    clusters: Clusters,
    /// The questions of the main part start here.
    mark: usize,
    /// The addresses of the last event.
    expected: BTreeSet<String>,
    outcome: Outcome,
}

// === impl Scenario ===

impl<'c> Scenario<'c> {
    /// Starts the clusters, without links, and the servers.
    pub fn start(client: &'c dyn Client) -> Result<Self> {
        let profile = client.profile();
        let service = profile.service;
        let members = [(WEST, 0), (WEST, 1), (NORTH, 0)]
            .map(|(cluster, ordinal)| service.member(cluster, ordinal));
        let clusters = Clusters::start(&members, &[EAST])?;
        let recorder = Recorder::start(&clusters, profile.server)?;
        let start_server = |cluster| {
            let pod = Pod {
                clusters: &clusters,
            };
            client.start_server(&pod, cluster)
        };
        let servers = [start_server(WEST)?, start_server(NORTH)?];
        // Programs of the client replace the HTTP servers at all ports but the first.
        let ports = match &servers {
            [None, None] => service.port_numbers,
            _ => &service.port_numbers[..1],
        };
        let outcome = Outcome {
            program: profile.name.to_owned(),
            title: profile.title.to_owned(),
            version: client.version()?,
            views: profile.views.iter().map(ViewOutcome::new).collect(),
            ..Outcome::default()
        };
        Ok(Self {
            client,
            running: None,
            started: Instant::now(),
            servers,
            backends: Backends::start(&clusters, ports)?,
            recorder,
            clusters,
            mark: 0,
            expected: BTreeSet::new(),
            outcome,
            profile,
        })
    }

    /// Starts the program while the name does not exist.
    pub fn start_without_clusters(&mut self) -> Result<()> {
        self.check_published(self.profile.service)?;
        let start = self.start_during_fault(None)?;
        self.report("without clusters", &format!("{start:?}"));
        self.outcome.without_clusters = Some(start);
        Ok(())
    }

    /// Applies an event, and measures the time until each view of the program has the new addresses.
    pub fn measure(&mut self, event: Event) -> Result<()> {
        if event == Event::Failover {
            self.apply_order("north:west", &[NORTH])?;
        }
        let views = self.profile.views.clone();
        let before: Vec<_> = views.iter().map(|view| self.look(view)).collect();
        let began = Instant::now();
        let clusters = self.apply(event)?;
        let service = self.profile.service;
        self.expected = self.clusters.addresses(EAST, service, clusters);
        self.check_published(service)?;
        let others = self.views_that_see(event);
        let seen = self.wait_until_seen(&others, began, self.profile.patience)?;
        for (index, seconds) in seen {
            let mut before = before[index].iter();
            let is_still_valid = before.any(|before| self.is_expected(&views[index], before));
            let reaction = if is_still_valid {
                Reaction::Unaffected
            } else {
                Reaction::Seen(seconds)
            };
            self.report(
                views[index].name,
                &format!("{}: {reaction:?}", event.title()),
            );
            self.note(index, event, reaction);
        }
        if event == Event::FirstCluster {
            // Some programs ask more often while the name does not exist.
            self.mark = self.recorder.mark();
        }
        for (index, view) in views.iter().enumerate() {
            let reaction = match view.sight(event) {
                Sight::Sees => continue,
                Sight::Blind(reason) => {
                    if let Ok(seen) = self.wait_until_seen(&[index], began, BLIND) {
                        bail!("it saw the event after {seen:?}, contrary to: {reason}");
                    }
                    Reaction::Blind(reason.to_owned())
                }
                Sight::Sometimes(reason) => match self.wait_until_seen(&[index], began, BLIND) {
                    Ok(_) => Reaction::Sometimes(reason.to_owned()),
                    Err(_) => Reaction::Blind(reason.to_owned()),
                },
            };
            self.report(view.name, &format!("{}: {reaction:?}", event.title()));
            self.note(index, event, reaction);
        }
        Ok(())
    }

    /// Sets a failover order before the event that changes it.
    fn apply_order(&mut self, order: &str, clusters: &[usize]) -> Result<()> {
        let (service, began) = (self.profile.service, Instant::now());
        self.clusters.set_failover(service, order)?;
        self.expected = self.clusters.addresses(EAST, service, clusters);
        self.check_published(service)?;
        let views = self.views_that_see(Event::Failover);
        self.wait_until_seen(&views, began, self.profile.patience)
            .map(drop)
    }

    /// Returns the views that always see an event.
    fn views_that_see(&self, event: Event) -> Vec<usize> {
        let views = self.profile.views.iter().enumerate();
        let views = views.filter(|(_, view)| view.sight(event) == Sight::Sees);
        views.map(|(index, _)| index).collect()
    }

    /// Applies an event. Returns the clusters that answer afterwards.
    fn apply(&mut self, event: Event) -> Result<&'static [usize]> {
        let (clusters, service) = (&mut self.clusters, self.profile.service);
        let member = service.member(WEST, 0);
        match event {
            Event::FirstCluster => clusters.link(WEST)?,
            Event::SecondCluster => clusters.link(NORTH)?,
            Event::NewAddress => {
                self.backends.restart(member)?;
                if let Some(server) = &mut self.servers[0] {
                    server.kill();
                    let pod = Pod { clusters };
                    self.servers[0] = self.client.start_server(&pod, WEST)?;
                }
                clusters.renumber(member)?;
            }
            Event::GatewayDown => clusters.cut(WEST)?,
            Event::GatewayUp => clusters.restore()?,
            Event::Failover => clusters.set_failover(service, "west:north")?,
        }
        Ok(match event {
            Event::FirstCluster | Event::Failover => &[WEST],
            Event::GatewayDown => &[NORTH],
            Event::SecondCluster | Event::NewAddress | Event::GatewayUp => &[WEST, NORTH],
        })
    }

    /// Injects a fault of DNS while the program has addresses.
    pub fn measure_fault(&mut self, fault: Fault) -> Result<()> {
        let views = self.profile.views.clone();
        self.note_habits();
        let mark = self.recorder.mark();
        let began = Instant::now();
        // For each view without addresses, since when.
        let mut lost: BTreeMap<usize, f64> = BTreeMap::new();
        self.recorder.set_fault(Some(fault));
        while began.elapsed() < self.profile.fault && !self.has_ended() {
            for (index, view) in views.iter().enumerate() {
                let has_some = self.look(view).is_ok_and(|seen| !seen.is_empty());
                if has_some {
                    lost.remove(&index);
                } else {
                    lost.entry(index).or_insert(began.elapsed().as_secs_f64());
                }
            }
            thread::sleep(PAUSE);
        }
        self.recorder.set_fault(None);
        let lifted = self.recorder.mark();
        let has_ended = self.has_ended();
        for (index, view) in views.iter().enumerate() {
            let name = self.question_name(view);
            let asks = self.recorder.has_question(mark, &name);
            if asks {
                // The program may count the time since the last answer with records.
                self.wait_for_question(lifted, &name)?;
            }
            let keeping = match lost.get(&index) {
                _ if has_ended => Keeping::Ends,
                Some(seconds) => Keeping::Drops(*seconds),
                None if !asks => Keeping::DoesNotAsk,
                None => Keeping::Keeps,
            };
            self.report(view.name, &format!("{}: {keeping:?}", fault.fact()));
            self.outcome.views[index].faults.insert(fault, keeping);
        }
        // The next stage starts with all addresses. A view that has not seen the last event may have earlier ones.
        let all = self.views_that_see(Event::Failover);
        self.wait_until_seen(&all, began, self.profile.patience)?;
        self.wait_until_used()?;
        self.mark = self.recorder.mark();
        Ok(())
    }

    /// Starts the program again during a fault of DNS.
    pub fn measure_start(&mut self, fault: Fault) -> Result<()> {
        self.running = None;
        let start = self.start_during_fault(Some(fault))?;
        let lifted = Instant::now();
        let all: Vec<usize> = (0..self.profile.views.len()).collect();
        let seen = self.wait_until_seen(&all, lifted, self.profile.patience)?;
        for (index, seconds) in seen {
            let start = match &start {
                Start::Ends(line) => Start::Ends(line.clone()),
                Start::Runs | Start::Recovers(_) => Start::Recovers(seconds),
            };
            let view: &mut ViewOutcome = &mut self.outcome.views[index];
            let text = format!("starts, {}: {start:?}", fault.fact());
            let name = view.view.clone();
            view.starts.insert(fault, start);
            self.report(&name, &text);
        }
        self.mark = self.recorder.mark();
        Ok(())
    }

    /// Counts how many of many endpoints the program uses, with and without TCP.
    pub fn measure_many(&mut self) -> Result<()> {
        let many = self.profile.many.context("no Service with many pods")?;
        let pods = (0..MANY_PODS / 2)
            .flat_map(|ordinal| [WEST, NORTH].map(|cluster| many.member(cluster, ordinal)));
        self.clusters.add(&pods.collect::<Vec<_>>())?;
        self.clusters.write_objects()?;
        self.expected = self.clusters.addresses(EAST, many, &[WEST, NORTH]);
        self.check_published(many)?;
        let mut counts = [vec![], vec![]];
        for (counts, fault) in counts.iter_mut().zip([None, Some(Fault::WithoutTcp)]) {
            self.running = None;
            // CoreDNS must not have an answer that it received over TCP.
            self.recorder.wait_since_last_question(CACHE);
            self.recorder.set_fault(fault);
            self.mark = self.recorder.mark();
            self.start_program(many)?;
            *counts = self.count(many);
            if fault.is_none() {
                self.note_truncation(many);
            }
        }
        self.recorder.set_fault(None);
        let [with_tcp, without_tcp] = counts;
        let views = self
            .outcome
            .views
            .iter_mut()
            .zip(with_tcp.iter().zip(&without_tcp));
        for (view, (with, without)) in views {
            (view.many, view.many_without_tcp) = (Some(*with), Some(*without));
        }
        self.report(
            "many endpoints",
            &format!("{with_tcp:?}, without TCP {without_tcp:?}"),
        );
        Ok(())
    }

    /// Proves what only this program claims.
    pub fn prove_further(&mut self) -> Result<()> {
        self.client.prove_further(&Pod {
            clusters: &self.clusters,
        })
    }

    /// Writes the results.
    pub fn write_outcome(&mut self) -> Result<()> {
        let file = self.outcome.write()?;
        self.report("results", &file.display().to_string());
        Ok(())
    }

    /// Adds the last lines of all logs to an error.
    pub fn with_logs<T>(&mut self, result: Result<T>) -> Result<T> {
        let result = result.map_err(|error| {
            let program = self.running.as_mut().and_then(|running| running.process());
            let logs = program.iter().map(|process| process.log_tail());
            let logs = logs.chain(self.servers.iter().flatten().map(Process::log_tail));
            let logs: Vec<String> = logs.collect();
            anyhow!("{error:#}\n{}", logs.join("\n"))
        });
        self.clusters.with_logs(result)
    }
}
