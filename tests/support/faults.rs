//! Faults of an API server, one after the other, while somebody asks: the table keeps its last complete state, follows
//! afterwards, and never shows half a list.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::objects::{Gateway, Manifest, mirror};
use crate::observer::{Observer, Seen};
use crate::recordings::Recording;
use crate::say::say;
use crate::server::Server;
use crate::standin::{Manner, Reached, Rotated, StandIn};
use crate::steps::Steps;
use crate::wait::eventually;

/// What a fault did to somebody who asked all the while.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub fault: &'static str,
    /// Questions.
    pub tried: u64,
    /// Answers that were never true.
    pub wrong: u64,
    /// Answers without an address.
    pub empty: u64,
    /// Questions without an answer, or with SERVFAIL.
    pub failed: u64,
    /// From the end of the fault to the answer that is true then.
    pub converged: Duration,
}

/// A fault, and how it is played.
pub struct Fault {
    /// What people call it.
    pub name: &'static str,
    play: Play,
}

#[derive(Clone, Copy)]
enum Play {
    /// The stand-in behaves in a manner for a while; what it had told is forgotten at the start, if that is said.
    Manner(Manner, History),
    /// It tells things twice, and in another order.
    Disorder,
    /// One event is about an object that cannot be read.
    Undecodable,
    /// Its lists are empty where 10,000 objects were.
    Emptied,
    /// It becomes what it was, versions too.
    Restore,
    /// What it wants to be shown, or shows, changes.
    Rotation(Rotated),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum History {
    Kept,
    Lost,
}

/// Every fault that there is.
pub const FAULTS: [Fault; 15] = [
    fault(
        "410 storm",
        Play::Manner(Manner::ForgetsAtOnce, History::Lost),
    ),
    fault(
        "429 with Retry-After",
        Play::Manner(Manner::AsksForPatience, History::Lost),
    ),
    fault(
        "500 to everything",
        Play::Manner(Manner::RefusesEverything, History::Lost),
    ),
    fault(
        "a list cut in the middle",
        Play::Manner(Manner::CutsLists, History::Lost),
    ),
    fault(
        "a list that never ends",
        Play::Manner(Manner::EndlessLists, History::Lost),
    ),
    fault(
        "silence after a list",
        Play::Manner(Manner::SilentOnWatches, History::Lost),
    ),
    fault(
        "half-open connections",
        Play::Manner(Manner::Unreachable, History::Kept),
    ),
    fault(
        "half-open after lost history",
        Play::Manner(Manner::Unreachable, History::Lost),
    ),
    fault(
        "garbage lines in watches",
        Play::Manner(Manner::Garbles, History::Kept),
    ),
    fault("events twice, last one first", Play::Disorder),
    fault("one undecodable object", Play::Undecodable),
    fault("empty lists, 10,000 objects", Play::Emptied),
    fault("etcd restored from a backup", Play::Restore),
    fault("certificates rotate", Play::Rotation(Rotated::Certificates)),
    fault("the token rotates", Play::Rotation(Rotated::Token)),
];

const fn fault(name: &'static str, play: Play) -> Fault {
    Fault { name, play }
}

const NAME: &str = "nginx.default.global";
/// Between an answer and the next question.
const PAUSE: Duration = Duration::from_micros(200);
/// How long a fault lasts: longer than it takes to notice that a watch is silent.
const LASTS: Duration = Duration::from_secs(9);
/// Requests within that time, at most: five watches, each with pauses that grow. Whoever is in trouble is left alone.
const MOST_ASKED: usize = 60;
/// How long the truth may take afterwards: a token or a certificate is read again within a minute.
const PATIENCE: Duration = Duration::from_secs(100);
const WATCHES: usize = 5;
/// A silent list is given up after thirty seconds.
const FOLLOWS: Duration = Duration::from_secs(45);

/// Plays those that take no minute, several at a time.
pub fn run(steps: &mut Steps) {
    // A rotation takes a minute: the suite `chaos` plays them.
    let quick = FAULTS
        .iter()
        .filter(|fault| !matches!(fault.play, Play::Rotation(_)));
    let facts: Vec<_> = quick
        .map(|fault| {
            let check = || {
                let outcome = fault.play()?;
                say(&outcome.line());
                outcome.check()
            };
            (
                format!("nothing_wrong_is_answered_during: {}", fault.name),
                check,
            )
        })
        .collect();
    steps.side_by_side(&facts);
}

// === impl Fault ===

impl Fault {
    /// Plays the fault, and counts.
    pub fn play(&self) -> Result<Outcome> {
        let (mut all, extra) = (objects()?, extra("nginx-set-4-east")?);
        if let Play::Emptied = self.play {
            all.extend(crowd());
        }
        let reached = match self.play {
            Play::Rotation(_) => Reached::WithCredentials,
            Play::Manner(..)
            | Play::Disorder
            | Play::Undecodable
            | Play::Emptied
            | Play::Restore => Reached::Openly,
        };
        let standin = StandIn::start_reached(reached, Manner::Good, &all)?;
        let watch_timeout = match self.play {
            // One that ended when it was to would hide that the connection broke.
            Play::Restore => "30s",
            Play::Manner(..)
            | Play::Disorder
            | Play::Undecodable
            | Play::Emptied
            | Play::Rotation(_) => "2s",
        };
        let flags = ["--watch-timeout", watch_timeout];
        let server = Server::ready_of_cluster(&standin.kubeconfig, &flags);
        let played = self.play_on(&standin, &server, &all, &extra);
        server.with_log(played)
    }

    fn play_on(
        &self,
        standin: &StandIn,
        server: &Server,
        all: &[Value],
        extra: &Value,
    ) -> Result<Outcome> {
        let before = Seen::Addresses(addresses(all)?);
        let with_extra = with(&before, extra)?;
        let observer = Observer::start(server.dns, NAME, PAUSE)?;
        observer.wait_for(&before, FOLLOWS)?;
        eventually("every watch to be open", FOLLOWS, || {
            let watches = standin.asked().iter().filter(|asked| asked.watch).count();
            ensure!(watches >= WATCHES, "{watches} are");
            Ok(())
        })?;
        let mut true_ones = vec![before.clone(), with_extra.clone()];
        let last = match self.play {
            Play::Manner(manner, history) => {
                let is_lost = history == History::Lost;
                // Who cannot be reached any more cannot tell that its history is lost, either.
                if is_lost && manner == Manner::Unreachable {
                    standin.lose_history();
                }
                standin.behave(manner);
                if is_lost {
                    standin.lose_history();
                }
                standin.put(extra);
                let asked = standin.asked().len();
                thread::sleep(LASTS);
                let asked = standin.asked().len() - asked;
                ensure!(asked <= MOST_ASKED, "{asked} requests within {LASTS:?}");
                ensure!(
                    server.readyz()?.status == 200,
                    "/readyz fails, although there is a table"
                );
                standin.behave(Manner::Good);
                with_extra
            }
            Play::Disorder => {
                let more = self::extra("nginx-set-3-east")?;
                let both = with(&with_extra, &more)?;
                true_ones.extend([with(&before, &more)?, both.clone()]);
                standin.put_in_disorder(&[extra.clone(), more]);
                both
            }
            Play::Undecodable => {
                standin.put(&undecodable());
                standin.put(extra);
                with_extra
            }
            Play::Emptied => {
                standin.behave(Manner::ListsNothing);
                standin.lose_history();
                eventually("the empty lists to be held", FOLLOWS, || {
                    let held = server.try_metric("global_dns_held_lists")?;
                    ensure!(held > 0.0, "none is");
                    Ok(())
                })?;
                standin.put(extra);
                thread::sleep(LASTS);
                ensure!(
                    server.readyz()?.status == 200,
                    "/readyz fails, although there is a table"
                );
                standin.behave(Manner::Good);
                with_extra
            }
            Play::Restore => {
                let backup = standin.back_up();
                standin.put(extra);
                observer.wait_for(&with_extra, FOLLOWS)?;
                standin.restore(backup);
                before
            }
            Play::Rotation(what) => {
                standin.rotate(what)?;
                standin.put(extra);
                with_extra
            }
        };
        let ended = Instant::now();
        let found = observer.wait_for(&last, PATIENCE)?;
        let converged = found.saturating_duration_since(ended);
        // It stays so.
        thread::sleep(Duration::from_millis(500));
        observer.wait_for(&last, Duration::ZERO)?;
        Ok(Outcome::of(self.name, &observer, &true_ones, converged))
    }
}

// === impl Outcome ===

impl Outcome {
    fn of(
        fault: &'static str,
        observer: &Observer,
        true_ones: &[Seen],
        converged: Duration,
    ) -> Self {
        let (mut tried, mut wrong, mut empty, mut failed) = (0, 0, 0, 0);
        for sighting in observer.history() {
            tried += sighting.answers;
            match &sighting.seen {
                seen if true_ones.contains(seen) => {}
                Seen::Addresses(addresses) if addresses.is_empty() => empty += sighting.answers,
                Seen::Addresses(_) => wrong += sighting.answers,
                Seen::Nothing(what) if what == "NXDOMAIN" => empty += sighting.answers,
                Seen::Nothing(_) => failed += sighting.answers,
            }
        }
        Self {
            fault,
            tried,
            wrong,
            empty,
            failed,
            converged,
        }
    }

    /// A line for people.
    pub fn line(&self) -> String {
        let Self {
            fault,
            tried,
            wrong,
            empty,
            failed,
            converged,
        } = self;
        let seconds = converged.as_secs_f64();
        format!("{fault:32} {tried:8} {wrong:6} {empty:6} {failed:7} {seconds:9.2} s")
    }

    /// Fails if anybody was told anything but the truth.
    pub fn check(&self) -> Result<()> {
        let sound = self.wrong + self.empty + self.failed == 0;
        ensure!(
            sound,
            "{} wrong, {} empty, {} failed",
            self.wrong,
            self.empty,
            self.failed
        );
        // How many there are is the machine's doing; that somebody asked all along is not.
        ensure!(self.tried > 100, "only {} questions", self.tried);
        Ok(())
    }
}

// === Objects ===

/// The Services and slices at the start of recording 02, as recorded.
fn objects() -> Result<Vec<Value>> {
    let state = Recording::read("02-scale-up-east")?.state;
    let objects = state.into_iter().map(|event| event.object);
    Ok(objects
        .filter(|object| object["kind"] != "Endpoints")
        .collect())
}

/// A hundred services with 99 endpoints each: 10,000 objects.
fn crowd() -> Vec<Value> {
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

/// An endpoint mirror that recording 02 adds.
fn extra(name: &str) -> Result<Value> {
    let events = Recording::read("02-scale-up-east")?.events;
    let title = format!("ADDED Service {name}");
    let extra = events.into_iter().find(|event| event.title() == title);
    Ok(extra
        .with_context(|| format!("recording 02 has no {name}"))?
        .object)
}

/// An endpoint mirror whose ports are no list.
fn undecodable() -> Value {
    let mirror = mirror("default", "nginx", "east");
    let mut object = mirror.endpoint_mirror("nginx-set-9", &["10.96.8.8"]);
    object["spec"]["ports"] = json!("http");
    object
}

/// The addresses of the endpoint mirrors of `nginx`.
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

fn with(seen: &Seen, extra: &Value) -> Result<Seen> {
    let Seen::Addresses(known) = seen else {
        return Ok(seen.clone());
    };
    let more = addresses(std::slice::from_ref(extra))?;
    Ok(Seen::Addresses(known.union(&more).copied().collect()))
}
