//! The scenario of databases: one member in each cluster, and the time until the members see each event.
//!
//! It has the events of the other scenario. A member that ends is started again, as by a kubelet. `files` has the names
//! and files of a member.

mod files;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTERS, EAST, NORTH, Service, WEST};
use support::networks::in_new_network;
use support::output::print_line;
use support::process::Process;
use support::steps::Steps;

pub use files::{cluster_of, configuration, data, name_of};

use crate::clients::scenario::client::Event;
use crate::clients::scenario::outcome::{Outcome, Reaction, Start, ViewOutcome};

/// A database with one member in each cluster.
pub trait Database: Sync {
    fn profile(&self) -> Profile;

    fn version(&self) -> Result<String>;

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
    fn further(&self, _scenario: &mut Scenario<'_>) -> Result<()> {
        Ok(())
    }
}

/// What is fixed about a database.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name of the directory.
    pub name: &'static str,
    /// The name for readers.
    pub title: &'static str,
    /// The first one is that of the members.
    pub services: &'static [Service],
    /// The setting that decides how fast a change is seen.
    pub setting: &'static str,
    /// What happens before any cluster is linked.
    pub alone: Alone,
    /// Whether two members start without the third one.
    pub starts_with_two: bool,
}

/// What the members do before any cluster is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alone {
    /// They accept no writes.
    Waits,
    /// Each accepts writes. They do not become one cluster later by themselves.
    Splits,
}

/// The clusters with a database, and the results so far.
pub struct Scenario<'d> {
    pub database: &'d dyn Database,
    profile: Profile,
    /// The processes of each cluster. Dropped before the clusters.
    pub running: [Vec<Process>; CLUSTERS.len()],
    /// The last start of the member of each cluster.
    started: [Instant; CLUSTERS.len()],
    pub clusters: Clusters,
    outcome: Outcome,
}

/// Time for which the members run without links.
const ALONE: Duration = Duration::from_secs(15);
/// Maximum time until an event is seen.
const PATIENCE: Duration = Duration::from_secs(180);
/// Minimum time between two starts of a member. A kubelet waits longer after every start.
const RESTART: Duration = Duration::from_secs(1);
/// Pause between two looks at the members.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the scenario with a database, and writes its results.
pub fn prove(database: &dyn Database) {
    in_new_network(|| {
        let mut steps = Steps::new(database.profile().title);
        let mut scenario = None;
        steps.prerequisite("three_clusters_start", || {
            scenario = Some(Scenario::start(database)?);
            Ok(())
        });
        let Some(scenario) = &mut scenario else {
            return steps.finish();
        };
        let mut step = |fact: &str, stage: &mut dyn FnMut(&mut Scenario<'_>) -> Result<()>| {
            steps.prerequisite(fact, || {
                let result = stage(scenario);
                scenario.with_logs(result)
            });
        };
        step(
            "members_start_before_any_cluster_is_linked",
            &mut |scenario| scenario.start_alone(),
        );
        for event in Event::ALL {
            step(event.fact(), &mut |scenario| {
                scenario.measure(event).context(event.title())
            });
        }
        step("the_program_has_its_own_proof", &mut |scenario| {
            let database = scenario.database;
            database.further(scenario)
        });
        step("results_are_written", &mut |scenario| {
            scenario.outcome.write().map(drop)
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
        let view = ViewOutcome {
            view: "members".to_owned(),
            setting: profile.setting.to_owned(),
            ..ViewOutcome::default()
        };
        Ok(Self {
            clusters: Clusters::start(&members, &[EAST])?,
            running: Default::default(),
            started: [Instant::now(); CLUSTERS.len()],
            outcome: Outcome {
                program: profile.name.to_owned(),
                title: profile.title.to_owned(),
                version: database.version()?,
                alone: Some(profile.alone),
                views: vec![view],
                ..Outcome::default()
            },
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
        let began = Instant::now();
        let mut last_words = None;
        while began.elapsed() < ALONE {
            for cluster in ALL {
                last_words = self.restart_if_ended(cluster)?.or(last_words);
            }
            thread::sleep(PAUSE);
        }
        for cluster in ALL {
            let name = CLUSTERS[cluster].name;
            match self.profile.alone {
                Alone::Waits => {
                    let accepts = self.database.write(&self.clusters, cluster, "alone");
                    ensure!(accepts.is_err(), "{name} accepts writes without links");
                }
                Alone::Splits => self.check_data(cluster, name, &[cluster])?,
            }
        }
        let start = last_words.map_or(Start::Runs, Start::Ends);
        self.report(&format!(
            "without links: {start:?}, {:?}",
            self.profile.alone
        ));
        self.outcome.without_clusters = Some(start);
        Ok(())
    }

    /// Applies an event, and measures the time until the member in `east` sees it.
    fn measure(&mut self, event: Event) -> Result<()> {
        let old = self.service().member(WEST, 0).synthetic_address(EAST);
        let began = Instant::now();
        let reaction = match event {
            Event::FirstCluster => {
                self.link(WEST)?;
                if self.profile.starts_with_two {
                    self.wait_for(&[EAST, WEST], began)?
                } else {
                    self.check_waiting()?
                }
            }
            Event::SecondCluster => {
                self.link(NORTH)?;
                let reaction = self.wait_for(&ALL, began)?;
                self.clusters.make_pods_ready()?;
                self.check_data(NORTH, "complete", &ALL)?;
                reaction
            }
            Event::NewAddress => {
                self.make_leader(WEST)?;
                let is_affected = self.has_connection(&old)?;
                let began = Instant::now();
                for service in self.profile.services {
                    self.clusters.renumber(service.member(WEST, 0))?;
                }
                let new = self.clusters.addresses(EAST, self.service(), &[WEST]);
                let new = new.first().context("no address")?;
                if is_affected {
                    self.wait_until(began, |scenario| {
                        ensure!(scenario.has_connection(new)?, "no connection to {new}");
                        scenario.check_members(&ALL)
                    })?
                } else {
                    // The other member has opened the connection, by an address that did not change.
                    self.check_unaffected()?;
                    Reaction::Blind("the other member has opened the connection".to_owned())
                }
            }
            Event::GatewayDown => {
                self.make_leader(WEST)?;
                let began = Instant::now();
                self.clusters.cut(WEST)?;
                let reaction = self.wait_until(began, |scenario| {
                    scenario.check_members(&[EAST, NORTH])?;
                    scenario
                        .database
                        .write(&scenario.clusters, NORTH, "without-west")
                })?;
                // Otherwise values would be lost when the gateway comes back.
                self.wait_until(Instant::now(), |scenario| {
                    let accepts = scenario.database.write(&scenario.clusters, WEST, "alone");
                    ensure!(accepts.is_err(), "the lost member accepts writes");
                    Ok(())
                })?;
                self.check_data(EAST, "still-without-west", &[EAST, NORTH])?;
                reaction
            }
            Event::GatewayUp => {
                self.clusters.restore()?;
                let reaction = self.wait_for(&ALL, began)?;
                self.check_data(EAST, "complete-again", &ALL)?;
                reaction
            }
            Event::Failover => self.change_order()?,
        };
        self.report(&format!("{}: {reaction:?}", event.title()));
        self.outcome.views[0].events.insert(event, reaction);
        Ok(())
    }

    fn link(&mut self, cluster: usize) -> Result<()> {
        self.clusters.link(cluster)?;
        self.wait_until(Instant::now(), |scenario| {
            scenario.database.join(&scenario.clusters, cluster)
        })?;
        Ok(())
    }

    /// Makes the member of a cluster the leader, if one can choose it, and waits until all members take part.
    pub fn make_leader(&mut self, cluster: usize) -> Result<()> {
        self.wait_until(Instant::now(), |scenario| {
            scenario.database.lead(&scenario.clusters, cluster)?;
            scenario.check_members(&ALL)
        })?;
        self.check_data(cluster, "leads", &ALL)
    }

    /// Asserts that two members wait for the third one.
    fn check_waiting(&mut self) -> Result<Reaction> {
        let began = Instant::now();
        while began.elapsed() < ALONE {
            ensure!(self.database.write(&self.clusters, EAST, "two").is_err());
            for cluster in ALL {
                self.restart_if_ended(cluster)?;
            }
            thread::sleep(PAUSE);
        }
        Ok(Reaction::Blind("waits for the third cluster".to_owned()))
    }

    /// Asserts that all members stay connected.
    fn check_unaffected(&self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < ALONE {
            self.check_members(&ALL)?;
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Sets an order. It changes the answer for the Service, but not the names of the pods.
    fn change_order(&mut self) -> Result<Reaction> {
        let service = self.service();
        self.clusters.set_failover(service, "north:*")?;
        self.clusters.check_answer(EAST, service, &[NORTH])?;
        // A member that has come back may restart once more.
        self.wait_for(&ALL, Instant::now())?;
        self.check_unaffected()?;
        Ok(Reaction::Blind("names of pods ignore the order".to_owned()))
    }

    /// Returns the Service of the members.
    pub fn service(&self) -> &'static Service {
        &self.profile.services[0]
    }

    /// Writes a value in one cluster, and waits until it arrives in others.
    pub fn check_data(&mut self, from: usize, value: &str, to: &[usize]) -> Result<()> {
        self.wait_until(Instant::now(), |scenario| {
            scenario.database.write(&scenario.clusters, from, value)
        })?;
        for &cluster in to {
            self.wait_until(Instant::now(), |scenario| {
                let found = scenario.database.read(&scenario.clusters, cluster)?;
                let name = CLUSTERS[cluster].name;
                ensure!(found == value, "{name} has {found:?}, expected {value:?}");
                Ok(())
            })?;
        }
        Ok(())
    }

    fn wait_for(&mut self, clusters: &[usize], began: Instant) -> Result<Reaction> {
        self.wait_until(began, |scenario| scenario.check_members(clusters))
    }

    pub fn check_members(&self, clusters: &[usize]) -> Result<()> {
        let expected: BTreeSet<usize> = clusters.iter().copied().collect();
        let found = self.database.members(&self.clusters, EAST)?;
        ensure!(
            found == expected,
            "the members are {found:?}, expected {expected:?}"
        );
        Ok(())
    }

    /// Waits until a check succeeds. Restarts members that end.
    pub fn wait_until(
        &mut self,
        began: Instant,
        check: impl Fn(&Self) -> Result<()>,
    ) -> Result<Reaction> {
        loop {
            let checked = check(self);
            let seconds = began.elapsed();
            match checked {
                Ok(()) => return Ok(Reaction::Seen(seconds.as_secs_f64())),
                Err(error) if seconds > PATIENCE => return Err(error),
                Err(_) => {}
            }
            for cluster in ALL {
                self.restart_if_ended(cluster)?;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Starts the member of a cluster again if one of its processes has ended. Returns the last line of its log.
    fn restart_if_ended(&mut self, cluster: usize) -> Result<Option<String>> {
        let mut processes = self.running[cluster].iter_mut();
        let Some(ended) = processes.find_map(|process| process.has_ended().then_some(process))
        else {
            return Ok(None);
        };
        let lines = ended.log().lines();
        let line = lines.iter().rev().find(|line| !line.trim().is_empty());
        let line = line.cloned().unwrap_or_default();
        if self.started[cluster].elapsed() > RESTART {
            self.outcome.restarts += 1;
            self.start_member(cluster)?;
        }
        Ok(Some(line))
    }

    pub fn start_member(&mut self, cluster: usize) -> Result<()> {
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

    fn report(&self, text: &str) {
        print_line(&format!("{}: {text}", self.profile.title));
    }
}
