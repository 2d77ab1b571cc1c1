//! Faults of an API server during continuous queries. The server keeps its last complete table, catches up afterwards,
//! and never serves a partial list.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::objects::{Gateway, Manifest, mirror};
use crate::observer::{Observation, Observer};
use crate::output::print_line;
use crate::recordings::Recording;
use crate::server::Server;
use crate::standin::{Access, Behavior, Rotation, StandIn};
use crate::steps::Steps;
use crate::wait::eventually;
use crate::watches::WATCHES;

/// The effects of a fault on a client that queries continuously.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The name of the fault.
    pub fault: &'static str,
    /// Number of queries.
    pub queries: u64,
    /// Number of answers that were never correct.
    pub wrong: u64,
    /// Number of answers without an address.
    pub empty: u64,
    /// Number of queries without an answer or with SERVFAIL.
    pub failed: u64,
    /// Time from the end of the fault to the correct answer.
    pub converged: Duration,
}

/// A fault and its simulation.
pub struct Fault {
    /// The name.
    pub name: &'static str,
    simulation: Simulation,
}

#[derive(Clone, Copy)]
enum Simulation {
    /// A behavior of the stand-in for a while, with or without the loss of its event history at the start.
    Behavior(Behavior, History),
    /// Repeated events in reverse order.
    Disorder,
    /// One event with an undecodable object.
    Undecodable,
    /// Empty lists after 10,000 objects.
    EmptyLists,
    /// A restored backup, including resource versions.
    Restore,
    /// A rotation of the token or of the certificates.
    Rotation(Rotation),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum History {
    Kept,
    Lost,
}

/// All faults.
pub const FAULTS: [Fault; 15] = [
    lost("410 storm", Behavior::ExpiredWatches),
    lost("429", Behavior::TooManyRequests),
    lost("500 to everything", Behavior::InternalErrors),
    lost("a list cut in the middle", Behavior::TruncatedLists),
    lost("a list that never ends", Behavior::EndlessLists),
    lost("silence after a list", Behavior::SilentWatches),
    kept("half-open connections", Behavior::Unreachable),
    lost("half-open after lost history", Behavior::Unreachable),
    kept("garbage lines in watches", Behavior::GarbageInWatches),
    fault("events twice, last one first", Simulation::Disorder),
    fault("one undecodable object", Simulation::Undecodable),
    fault("empty lists, 10,000 objects", Simulation::EmptyLists),
    fault("etcd restored from a backup", Simulation::Restore),
    fault(
        "certificates rotate",
        Simulation::Rotation(Rotation::Certificates),
    ),
    fault("the token rotates", Simulation::Rotation(Rotation::Token)),
];

const fn fault(name: &'static str, simulation: Simulation) -> Fault {
    Fault { name, simulation }
}

/// Makes the fault of an API server that also loses its history.
const fn lost(name: &'static str, behavior: Behavior) -> Fault {
    fault(name, Simulation::Behavior(behavior, History::Lost))
}

/// Makes the fault of an API server that keeps its history.
const fn kept(name: &'static str, behavior: Behavior) -> Fault {
    fault(name, Simulation::Behavior(behavior, History::Kept))
}

const NAME: &str = "nginx.default.global";
/// Pause after each answer.
const PAUSE: Duration = Duration::from_micros(200);
/// The message about a list that is not applied.
pub const LACKS_OBJECTS: &str = "List lacks most objects; listing again";
/// Duration of a fault.
const FAULT_DURATION: Duration = Duration::from_secs(9);
/// Minimum number of queries, which takes a fraction of a second.
const MIN_QUERIES: u64 = 100;
/// Maximum number of requests during a fault: every watch with growing backoff. The client must not overload a failing
/// API server.
const MAX_REQUESTS: usize = 12 * WATCHES.len();

/// Simulates all faults, a few at a time.
pub fn run(steps: &mut Steps) {
    let facts: Vec<_> = FAULTS
        .iter()
        .map(|fault| {
            let check = || {
                let outcome = fault.simulate()?;
                print_line(&outcome.line());
                outcome.check()
            };
            (
                format!("answers_stay_correct_during: {}", fault.name),
                check,
            )
        })
        .collect();
    steps.run_concurrently(&facts);
}

// === impl Fault ===

impl Fault {
    /// Simulates the fault and counts its effects.
    fn simulate(&self) -> Result<Outcome> {
        let (mut all, extra) = (objects()?, extra("nginx-set-4-east")?);
        if let Simulation::EmptyLists = self.simulation {
            all.extend(many_objects());
        }
        let access = match self.simulation {
            Simulation::Rotation(_) => Access::Credentials,
            _ => Access::Open,
        };
        let standin = StandIn::start_with_access(access, Behavior::Normal, &all)?;
        if let Simulation::Restore = self.simulation {
            // A watch that ends by itself would hide that the connection broke.
            standin.keep_watches();
        }
        let server = Server::ready_of_cluster(&standin.kubeconfig, &[]);
        let outcome = self.simulate_on(&standin, &server, &all, &extra);
        server.with_log(outcome)
    }

    fn simulate_on(
        &self,
        standin: &StandIn,
        server: &Server,
        all: &[Value],
        extra: &Value,
    ) -> Result<Outcome> {
        let before = Observation::Addresses(addresses(all)?);
        let with_extra = with(&before, extra)?;
        let observer = Observer::start(server.dns, NAME, PAUSE)?;
        observer.wait_for(&before)?;
        eventually("every watch to be open", || {
            let requests = standin.requests();
            let watches = requests.iter().filter(|request| request.watch).count();
            ensure!(watches >= WATCHES.len(), "{watches} watches are open");
            Ok(())
        })?;
        let mut correct = vec![before.clone(), with_extra.clone()];
        let last = match self.simulation {
            Simulation::Behavior(behavior, history) => {
                let is_lost = history == History::Lost;
                // An unreachable server cannot report that its history is lost, so the loss comes first.
                if is_lost && behavior == Behavior::Unreachable {
                    standin.lose_history();
                }
                standin.set_behavior(behavior);
                if is_lost {
                    standin.lose_history();
                }
                standin.put(extra);
                let before = standin.requests().len();
                thread::sleep(FAULT_DURATION);
                let requests = standin.requests().len() - before;
                ensure!(
                    requests <= MAX_REQUESTS,
                    "{requests} requests within {FAULT_DURATION:?}"
                );
                ensure!(
                    server.readyz()?.status == 200,
                    "/readyz fails although a table exists"
                );
                standin.set_behavior(Behavior::Normal);
                with_extra
            }
            Simulation::Disorder => {
                let more = self::extra("nginx-set-3-east")?;
                let both = with(&with_extra, &more)?;
                correct.extend([with(&before, &more)?, both.clone()]);
                standin.put_in_disorder(&[extra.clone(), more]);
                both
            }
            Simulation::Undecodable => {
                standin.put(&undecodable());
                standin.put(extra);
                with_extra
            }
            Simulation::EmptyLists => {
                standin.set_behavior(Behavior::EmptyLists);
                standin.lose_history();
                eventually("an empty list", || {
                    let lists = server.log.count(LACKS_OBJECTS);
                    ensure!(lists > 0, "no list was doubted");
                    Ok(())
                })?;
                standin.put(extra);
                // The next list follows after ten seconds.
                thread::sleep(FAULT_DURATION / 2);
                ensure!(
                    server.readyz()?.status == 200,
                    "/readyz fails although a table exists"
                );
                standin.set_behavior(Behavior::Normal);
                with_extra
            }
            Simulation::Restore => {
                let backup = standin.back_up();
                standin.put(extra);
                observer.wait_for(&with_extra)?;
                standin.restore(backup);
                before
            }
            Simulation::Rotation(rotation) => {
                standin.rotate(rotation)?;
                standin.put(extra);
                with_extra
            }
        };
        let ended = Instant::now();
        let answered = observer.wait_for(&last)?;
        let converged = answered.saturating_duration_since(ended);
        // The answer must stay the same.
        thread::sleep(Duration::from_millis(500));
        observer.check_last(&last)?;
        eventually("enough queries", || {
            let queries = observer.queries();
            ensure!(queries > MIN_QUERIES, "{queries} queries");
            Ok(())
        })?;
        Ok(Outcome::of(self.name, &observer, &correct, converged))
    }
}

// === impl Outcome ===

impl Outcome {
    fn of(
        fault: &'static str,
        observer: &Observer,
        correct: &[Observation],
        converged: Duration,
    ) -> Self {
        let (mut queries, mut wrong, mut empty, mut failed) = (0, 0, 0, 0);
        for run in observer.history() {
            queries += run.count;
            match &run.answer {
                answer if correct.contains(answer) => {}
                Observation::Addresses(addresses) if addresses.is_empty() => empty += run.count,
                Observation::Addresses(_) => wrong += run.count,
                Observation::Other(text) if text == "NXDOMAIN" => empty += run.count,
                Observation::Other(_) => failed += run.count,
            }
        }
        Self {
            fault,
            queries,
            wrong,
            empty,
            failed,
            converged,
        }
    }

    /// Formats a line of the table of faults.
    fn line(&self) -> String {
        let (fault, queries, seconds) = (self.fault, self.queries, self.converged.as_secs_f64());
        let (wrong, empty, failed) = (self.wrong, self.empty, self.failed);
        format!("{fault:32} {queries:8} {wrong:6} {empty:6} {failed:7} {seconds:9.2} s")
    }

    /// Fails unless all answers were correct.
    fn check(&self) -> Result<()> {
        let is_correct = self.wrong + self.empty + self.failed == 0;
        ensure!(
            is_correct,
            "{} wrong, {} empty, {} failed",
            self.wrong,
            self.empty,
            self.failed
        );
        Ok(())
    }
}

// === Objects ===

/// Returns the initial Services and slices of recording 02.
fn objects() -> Result<Vec<Value>> {
    let state = Recording::read("02-scale-up-east")?.state;
    let objects = state.into_iter().map(|event| event.object);
    Ok(objects
        .filter(|object| object["kind"] != "Endpoints")
        .collect())
}

/// Returns a hundred services with 99 endpoints each, 10,000 objects.
fn many_objects() -> Vec<Value> {
    let service = |number: usize| {
        let service = format!("db{number}");
        let all = (1..100).fold(mirror("prod", &service, "east"), |mirror, host| {
            let address = format!("10.100.{number}.{host}");
            mirror.endpoint_behind(Gateway::Unknown, &format!("{service}-{host}"), &[&address])
        });
        Manifest::from(all).0
    };
    (0..100).flat_map(service).collect()
}

/// Returns an endpoint mirror that recording 02 adds.
fn extra(name: &str) -> Result<Value> {
    let events = Recording::read("02-scale-up-east")?.events;
    let title = format!("ADDED Service {name}");
    let extra = events.into_iter().find(|event| event.title() == title);
    Ok(extra
        .with_context(|| format!("recording 02 has no {name}"))?
        .object)
}

/// Returns an endpoint mirror with ports that are not a list.
fn undecodable() -> Value {
    let mirror = mirror("default", "nginx", "east");
    let mut object = mirror.endpoint_mirror("nginx-set-9", &["10.96.8.8"]);
    object["spec"]["ports"] = json!("http");
    object
}

/// Returns the addresses of the endpoint mirrors of `nginx`.
fn addresses(objects: &[Value]) -> Result<BTreeSet<std::net::Ipv4Addr>> {
    let is_of_nginx = |object: &&Value| {
        let parent = &object["metadata"]["labels"]["mirror.linkerd.io/headless-mirror-svc-name"];
        let is_service = object["kind"] == "Service";
        is_service
            && parent
                .as_str()
                .is_some_and(|parent| parent.starts_with("nginx-"))
    };
    let address = |object: &Value| {
        let address = object["spec"]["clusterIP"]
            .as_str()
            .context("no cluster IP")?;
        Ok(address.parse()?)
    };
    objects.iter().filter(is_of_nginx).map(address).collect()
}

fn with(answer: &Observation, extra: &Value) -> Result<Observation> {
    let Observation::Addresses(known) = answer else {
        return Ok(answer.clone());
    };
    let more = addresses(std::slice::from_ref(extra))?;
    Ok(Observation::Addresses(
        known.union(&more).copied().collect(),
    ))
}
