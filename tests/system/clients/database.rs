//! The scenario of databases: one member in each cluster, and the time until the members see each event.
//!
//! It has the events of the other scenario. A member that ends is started again, as by a kubelet. `files` has the names
//! and files of a member.

mod files;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTERS, EAST, NORTH, Service, WEST};
use support::networks::in_new_network;
use support::process::Process;
use support::steps::Steps;

pub use files::{address_of, cluster_of, configuration, data, name_of};

use crate::clients::results::{Results, last_error, seconds};
use crate::clients::scenario::{Event, pod};

/// A database with one member in each cluster.
pub trait Database: Sync {
    fn profile(&self) -> Profile;

    /// Starts the member of a cluster, or starts it again.
    fn start(&self, clusters: &Clusters, cluster: usize) -> Result<Vec<Process>>;

    /// Returns the clusters whose members take part, as the member of a cluster sees it.
    fn members(&self, clusters: &Clusters, viewer: usize) -> Result<BTreeSet<usize>>;

    /// Writes a value through the member of a cluster.
    fn write(&self, clusters: &Clusters, cluster: usize, value: &str) -> Result<()>;

    /// Reads the value from the member of a cluster.
    fn read(&self, clusters: &Clusters, cluster: usize) -> Result<String>;

    /// Adds the member of a linked cluster to the cluster of `east`, if it does not join by itself.
    fn join(&self, _clusters: &Clusters, _cluster: usize) -> Result<()> {
        Ok(())
    }

    /// Makes the member of a cluster the leader, if one can choose it.
    fn lead(&self, _clusters: &Clusters, _cluster: usize) -> Result<()> {
        Ok(())
    }

    /// Changes the clusters before any member starts.
    fn prepare(&self, _clusters: &mut Clusters) -> Result<()> {
        Ok(())
    }

    /// Proves what only this database has, after all events.
    fn prove_further(&self, _scenario: &mut Scenario<'_>) -> Result<()> {
        Ok(())
    }
}

/// What is fixed about a database.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name of the directory.
    pub name: &'static str,
    /// The command that prints the version.
    pub version: &'static [&'static str],
    /// The first one is that of the members.
    pub services: &'static [Service],
    /// Whether each member accepts writes before any cluster is linked. They do not become one cluster later by themselves.
    pub splits: bool,
    /// Whether two members start without the third one.
    pub starts_with_two: bool,
}

/// The clusters with a database, and the results so far.
pub struct Scenario<'d> {
    database: &'d dyn Database,
    profile: Profile,
    /// The processes of each cluster. Dropped before the clusters.
    running: [Vec<Process>; CLUSTERS.len()],
    /// The last start of the member of each cluster.
    started: [Instant; CLUSTERS.len()],
    pub clusters: Clusters,
    results: Results,
}

/// Time for which the members run without links, or must not change.
const UNCHANGED: Duration = Duration::from_secs(15);
/// Maximum time until an event is seen.
const PATIENCE: Duration = Duration::from_secs(180);
/// Minimum time between two starts of a member. A kubelet waits longer after every start.
const RESTART: Duration = Duration::from_secs(1);
/// Pause between two looks at the members.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the scenario with a database, and writes its results.
pub fn prove(database: &dyn Database) {
    in_new_network(|| {
        let profile = database.profile();
        let mut steps = Steps::new(profile.name);
        let mut scenario = None;
        steps.prerequisite("three clusters start", || {
            scenario = Some(Scenario::start(database)?);
            Ok(())
        });
        let Some(scenario) = &mut scenario else {
            return steps.finish();
        };
        let mut step = |fact: &str, stage: &mut dyn FnMut(&mut Scenario<'_>) -> Result<()>| {
            steps.prerequisite(&format!("{}: {fact}", profile.name), || {
                let result = stage(scenario);
                scenario.with_logs(result)
            });
        };
        step(
            "members start before any cluster is linked",
            &mut |scenario| scenario.start_alone(),
        );
        for event in Event::ALL {
            step(event.title(), &mut |scenario| scenario.measure(event));
        }
        step("gone for good", &mut |scenario| scenario.lose_member());
        step("further statements are true", &mut |scenario| {
            database.prove_further(scenario)
        });
        step("results are written", &mut |scenario| {
            scenario.results.write(&pod::version(profile.version)?)
        });
        steps.finish();
    });
}

// === impl Scenario ===

impl<'d> Scenario<'d> {
    fn start(database: &'d dyn Database) -> Result<Self> {
        let profile = database.profile();
        let services = profile.services.iter();
        let members = services.flat_map(|service| ALL.map(|cluster| service.member(cluster, 0)));
        let members: Vec<_> = members.collect();
        Ok(Self {
            clusters: Clusters::start(&members, &[EAST])?,
            running: Default::default(),
            started: [Instant::now(); CLUSTERS.len()],
            results: Results::new(profile.name, &["members"]),
            database,
            profile,
        })
    }

    /// Starts all members while no cluster is linked.
    fn start_alone(&mut self) -> Result<()> {
        self.database.prepare(&mut self.clusters)?;
        for cluster in ALL {
            self.start_member(cluster)?;
        }
        let mut last_error = None;
        let began = Instant::now();
        while began.elapsed() < UNCHANGED {
            for cluster in ALL {
                last_error = self.restart_if_ended(cluster)?.or(last_error);
            }
            thread::sleep(PAUSE);
        }
        for cluster in ALL {
            if self.profile.splits {
                self.check_data(cluster, CLUSTERS[cluster].name, &[cluster])?;
            } else {
                self.check_refusal(cluster)?;
            }
        }
        let start = last_error.map_or("runs".to_owned(), |error| format!("ends ({error})"));
        self.results
            .add("before any cluster is linked", vec![start]);
        Ok(())
    }

    /// Applies an event, and measures the time until the member in `east` sees it.
    fn measure(&mut self, event: Event) -> Result<()> {
        let time = match event {
            Event::FirstCluster => self.link_first()?,
            Event::SecondCluster => Some(self.link_second()?),
            Event::NewAddress => self.renumber()?,
            Event::GatewayDown => Some(self.lose_leader()?),
            Event::GatewayUp => {
                let began = Instant::now();
                self.clusters.restore()?;
                let seen = self.wait_for_members(&ALL)?;
                self.check_data(EAST, "complete-again", &ALL)?;
                Some(seen - began)
            }
            Event::Failover => {
                self.change_order()?;
                None
            }
        };
        let cell = time.map_or("–".to_owned(), |time| seconds(time.as_secs_f64()));
        self.results.add(event.title(), vec![cell]);
        Ok(())
    }

    // === Events ===

    /// Returns nothing if two members wait for the third one.
    fn link_first(&mut self) -> Result<Option<Duration>> {
        let began = Instant::now();
        self.link(WEST)?;
        if self.profile.starts_with_two {
            let seen = self.wait_for_members(&[EAST, WEST])?;
            return Ok(Some(seen - began));
        }
        let began = Instant::now();
        while began.elapsed() < UNCHANGED {
            self.check_refusal(EAST)?;
            for cluster in ALL {
                self.restart_if_ended(cluster)?;
            }
            thread::sleep(PAUSE);
        }
        Ok(None)
    }

    fn link_second(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.link(NORTH)?;
        let seen = self.wait_for_members(&ALL)?;
        self.clusters.make_pods_ready()?;
        self.check_data(NORTH, "complete", &ALL)?;
        Ok(seen - began)
    }

    fn link(&mut self, cluster: usize) -> Result<()> {
        self.clusters.link(cluster)?;
        self.wait_until(|scenario| scenario.database.join(&scenario.clusters, cluster))?;
        Ok(())
    }

    /// Gives the leader another address. Returns nothing if it has opened the connection itself, by an address that did
    /// not change.
    fn renumber(&mut self) -> Result<Option<Duration>> {
        self.make_leader(WEST)?;
        let service = self.service();
        let old = service.member(WEST, 0).synthetic_address(EAST);
        let is_affected = self.has_connection(&old)?;
        let began = Instant::now();
        for service in self.profile.services {
            self.clusters.renumber(service.member(WEST, 0))?;
        }
        if !is_affected {
            self.check_unaffected()?;
            return Ok(None);
        }
        let new = self.clusters.addresses(EAST, service, &[WEST]);
        let new = new.first().context("no address")?;
        let seen = self.wait_until(|scenario| {
            ensure!(scenario.has_connection(new)?, "no connection to {new}");
            scenario.check_members(&ALL)
        })?;
        Ok(Some(seen - began))
    }

    /// Disconnects the cluster of the leader.
    fn lose_leader(&mut self) -> Result<Duration> {
        self.make_leader(WEST)?;
        let began = Instant::now();
        self.clusters.cut(WEST)?;
        let seen = self.write_without_west("without-west")?;
        // Otherwise values would be lost when the gateway comes back.
        self.wait_until(|scenario| scenario.check_refusal(WEST))?;
        self.check_data(EAST, "still-without-west", &[EAST, NORTH])?;
        Ok(seen - began)
    }

    /// Sets an order. It changes the answer for the Service, but not the names of the pods.
    fn change_order(&mut self) -> Result<()> {
        let service = self.service();
        self.clusters.set_failover(service, "north:*")?;
        self.clusters.check_answer(EAST, service, &[NORTH])?;
        // A member that has come back may restart once more.
        self.wait_for_members(&ALL)?;
        self.check_unaffected()
    }

    /// The pod of a member ends, and its name with it, as after the loss of a node. The others accept writes, also after one of them
    /// has restarted. Then the member is back, with its data and another address.
    fn lose_member(&mut self) -> Result<()> {
        self.wait_for_members(&ALL)?;
        let began = Instant::now();
        self.running[WEST].clear();
        for service in self.profile.services {
            self.clusters.lose(service.member(WEST, 0))?;
        }
        let go_on = self.write_without_west("gone")? - began;
        let began = Instant::now();
        self.start_member(NORTH)?;
        let restart = self.write_without_west("restarted")? - began;
        let began = Instant::now();
        for service in self.profile.services {
            self.clusters.take_back(service.member(WEST, 0))?;
        }
        self.start_member(WEST)?;
        let back = self.wait_for_members(&ALL)? - began;
        self.check_data(EAST, "taken-back", &ALL)?;
        let cells = [go_on, restart, back].map(|time| seconds(time.as_secs_f64()));
        self.results.add("gone for good", vec![cells.join(", ")]);
        Ok(())
    }

    /// Waits until the others take part, and the member in `north` accepts a write.
    fn write_without_west(&mut self, value: &str) -> Result<Instant> {
        let seen = self.wait_until(|scenario| {
            scenario.check_members(&[EAST, NORTH])?;
            let Self {
                database, clusters, ..
            } = scenario;
            database.write(clusters, NORTH, value)
        })?;
        self.check_data(EAST, &format!("{value}-too"), &[EAST, NORTH])?;
        Ok(seen)
    }

    /// Makes the member of a cluster the leader, if one can choose it, and waits until all members take part.
    pub fn make_leader(&mut self, cluster: usize) -> Result<()> {
        self.wait_until(|scenario| {
            scenario.database.lead(&scenario.clusters, cluster)?;
            scenario.check_members(&ALL)
        })?;
        self.check_data(cluster, "leads", &ALL)
    }

    /// Returns the Service of the members.
    pub fn service(&self) -> &'static Service {
        &self.profile.services[0]
    }

    // === Checks ===

    /// Writes a value in one cluster, and waits until it arrives in others.
    fn check_data(&mut self, from: usize, value: &str, to: &[usize]) -> Result<()> {
        self.wait_until(|scenario| scenario.database.write(&scenario.clusters, from, value))?;
        for &cluster in to {
            self.wait_until(|scenario| {
                let found = scenario.database.read(&scenario.clusters, cluster)?;
                let name = CLUSTERS[cluster].name;
                ensure!(found == value, "{name} has {found:?}, expected {value:?}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Asserts that the member of a cluster accepts no writes.
    fn check_refusal(&self, cluster: usize) -> Result<()> {
        let accepts = self.database.write(&self.clusters, cluster, "alone");
        ensure!(
            accepts.is_err(),
            "{} accepts writes",
            CLUSTERS[cluster].name
        );
        Ok(())
    }

    /// Asserts that all members stay connected.
    fn check_unaffected(&self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < UNCHANGED {
            self.check_members(&ALL)?;
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn check_members(&self, clusters: &[usize]) -> Result<()> {
        let expected: BTreeSet<usize> = clusters.iter().copied().collect();
        let found = self.database.members(&self.clusters, EAST)?;
        ensure!(
            found == expected,
            "the members are {found:?}, expected {expected:?}"
        );
        Ok(())
    }

    fn wait_for_members(&mut self, clusters: &[usize]) -> Result<Instant> {
        self.wait_until(|scenario| scenario.check_members(clusters))
    }

    /// Waits until a check succeeds, and returns the time of that. Restarts members that end.
    fn wait_until(&mut self, check: impl Fn(&Self) -> Result<()>) -> Result<Instant> {
        let began = Instant::now();
        loop {
            let checked = check(self);
            match checked {
                Ok(()) => return Ok(Instant::now()),
                Err(error) if began.elapsed() > PATIENCE => return Err(error),
                Err(_) => {}
            }
            for cluster in ALL {
                self.restart_if_ended(cluster)?;
            }
            thread::sleep(PAUSE);
        }
    }

    // === Processes ===

    /// Starts the member of a cluster again if one of its processes has ended. Returns its last error.
    fn restart_if_ended(&mut self, cluster: usize) -> Result<Option<String>> {
        let mut processes = self.running[cluster].iter_mut();
        let Some(ended) = processes.find_map(|process| process.has_ended().then_some(process))
        else {
            return Ok(None);
        };
        let error = last_error(ended);
        if self.started[cluster].elapsed() > RESTART {
            self.start_member(cluster)?;
        }
        Ok(Some(error))
    }

    fn start_member(&mut self, cluster: usize) -> Result<()> {
        self.running[cluster].clear();
        self.running[cluster] = self.database.start(&self.clusters, cluster)?;
        self.started[cluster] = Instant::now();
        Ok(())
    }

    /// Returns whether a process in `east` has a connection to an address.
    fn has_connection(&self, address: &str) -> Result<bool> {
        let arguments = ["-Htn", "state", "established", "dst", address];
        let list = self.clusters.network(EAST).run("ss", &arguments)?;
        Ok(!list.trim().is_empty())
    }

    fn with_logs(&self, result: Result<()>) -> Result<()> {
        self.clusters.with_logs(result).map_err(|error| {
            let logs = self.running.iter().flatten().map(Process::log_tail);
            let logs: Vec<String> = logs.collect();
            anyhow!("{error:#}\n{}", logs.join("\n"))
        })
    }
}
