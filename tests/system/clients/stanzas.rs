//! What the settings of CoreDNS do to the time until a change or a failure is visible to a client.
//! `tests/system/clients/README.md` has the table of a run.
//!
//! Index:
//!
//! - `settings`: the measured stanzas
//! - `bed`: two replicas of the server behind one cluster IP, and one CoreDNS with all stanzas
//! - `load`: a constant stream of queries to each stanza
//!
//! CoreDNS serves each stanza on a port of its own. So one event is measured with all stanzas at the same time.

mod bed;
mod load;
mod settings;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use support::networks::in_new_network;
use support::steps::Steps;
use support::wait::eventually;

use bed::{Bed, Fault};
use load::{Losses, ask};
use settings::{NO_CACHE, SERVICES, SHIPPED, STALE, Stanza, settings};

use crate::clients::results::{Results, seconds};

/// Number of measured changes.
const CHANGES: u8 = 6;
/// Number of measured faults of each kind.
const FAULTS: u8 = 3;
/// Time in which queries are counted after a fault. A silent replica is removed at its end.
const SILENCE: Duration = Duration::from_secs(10);
/// Time until kube-proxy removes a replica that has ended.
const REMOVAL: Duration = Duration::from_secs(1);
/// The name that all clients of `app` query.
const BUSY: &str = "app.prod.global";

/// The stanzas, and what was measured of each one.
struct Measurements {
    bed: Bed,
    stanzas: Vec<Stanza>,
    results: Results,
    /// The longest time until the last old answer.
    changes: Vec<Duration>,
    /// Whether the first answer for an idle name was older than every TTL.
    is_idle_name_stale: Vec<bool>,
    /// The lost queries while all replicas were silent.
    all_silent: Vec<Losses>,
}

pub fn measure() {
    in_new_network(|| {
        let mut steps = Steps::new("stanzas of CoreDNS");
        let mut measurements = None;
        steps.prerequisite("every_stanza_answers", || {
            let measurements = measurements.insert(Measurements::start()?);
            measurements.bed.wait_until_complete()
        });
        let Some(mut all) = measurements else {
            return steps.finish();
        };
        let mut step = |fact: &str, measure: &mut dyn FnMut(&mut Measurements) -> Result<()>| {
            steps.prerequisite(fact, || measure(&mut all));
        };
        step("new_address_is_seen", &mut Measurements::measure_changes);
        step(
            "idle_name_is_answered",
            &mut Measurements::measure_idle_name,
        );
        step(
            "first_addresses_are_counted",
            &mut Measurements::measure_order,
        );
        for (fact, fault) in [
            ("a replica ends", Fault::Ended),
            ("a replica is silent", Fault::Silent),
            ("all are silent", Fault::AllSilent),
        ] {
            step(fact, &mut |all| all.measure_faults(fact, fault));
        }
        step("shipped_stanza_keeps_its_promises", &mut |all| all.check());
        step("results_are_written", &mut |all| {
            all.results.write("CoreDNS")
        });
        steps.finish();
    });
}

// === impl Measurements ===

impl Measurements {
    fn start() -> Result<Self> {
        let stanzas = settings()?;
        let names: Vec<&str> = stanzas.iter().map(|stanza| stanza.name).collect();
        Ok(Self {
            bed: Bed::start(&stanzas)?,
            results: Results::new("stanzas", &names),
            stanzas,
            changes: Vec::new(),
            is_idle_name_stale: Vec::new(),
            all_silent: Vec::new(),
        })
    }

    /// Measures the time from a change, as the server answers it, to the last old answer.
    fn measure_changes(&mut self) -> Result<()> {
        self.changes = vec![Duration::ZERO; self.stanzas.len()];
        for round in 0..CHANGES {
            let streams = self.bed.streams(&[BUSY.to_owned()])?;
            // Another phase of the cached answers in each round.
            thread::sleep(Duration::from_millis(5_000 + 830 * u64::from(round)));
            let new = self.bed.change_busy(round)?;
            let changed = Instant::now();
            for (stanza, stream) in self.stanzas.iter().zip(&streams) {
                eventually("the new address", || {
                    let last = stream.last().context("no answer")?;
                    ensure!(last.contains(&new), "{}: {last:?}", stanza.name);
                    Ok(())
                })?;
            }
            for (longest, stream) in self.changes.iter_mut().zip(streams) {
                let outcomes = stream.finish();
                let old = outcomes.iter().filter(|one| {
                    one.sent > changed && !one.addresses.is_empty() && !one.addresses.contains(&new)
                });
                let last = old.map(|one| one.sent - changed).max();
                *longest = last.unwrap_or_default().max(*longest);
            }
        }
        let cells = self.changes.iter().map(|time| seconds(time.as_secs_f64()));
        self.results.add("old address for", cells.collect());
        Ok(())
    }

    /// Asks a name that nobody has asked since its address changed, longer ago than any TTL.
    fn measure_idle_name(&mut self) -> Result<()> {
        for server in self.bed.servers() {
            ask(*server, bed::IDLE)?;
        }
        let new = self.bed.change_idle()?;
        thread::sleep(Duration::from_secs(12));
        let servers = self.bed.servers().iter();
        let is_stale = servers.map(|server| Ok(ask(*server, bed::IDLE)? != [new]));
        self.is_idle_name_stale = is_stale.collect::<Result<_>>()?;
        let cell = |is_stale: &bool| if *is_stale { "**old**" } else { "new" }.to_owned();
        let cells = self.is_idle_name_stale.iter().map(cell);
        self.results.add("idle name", cells.collect());
        Ok(())
    }

    /// Measures which share of the answers has the same first address, within the lifetime of one cached answer.
    fn measure_order(&mut self) -> Result<()> {
        let mut cells = Vec::new();
        for server in self.bed.servers() {
            let mut counts = BTreeMap::new();
            for _ in 0..200 {
                let answer = ask(*server, BUSY)?;
                *counts.entry(answer[0]).or_insert(0_u32) += 1;
            }
            let largest = counts.values().max().copied().unwrap_or_default();
            cells.push(format!("{} %", largest / 2));
        }
        self.results.add("same first address", cells);
        Ok(())
    }

    /// Counts the lost and slow queries after several faults.
    fn measure_faults(&mut self, column: &str, fault: Fault) -> Result<()> {
        let mut sums = vec![Losses::default(); self.stanzas.len()];
        for _ in 0..FAULTS {
            for (sum, losses) in sums.iter_mut().zip(self.measure_fault(fault)?) {
                sum.add(losses);
            }
        }
        self.results
            .add(column, sums.iter().map(Losses::text).collect());
        if fault == Fault::AllSilent {
            self.all_silent = sums;
        }
        Ok(())
    }

    /// Counts the queries after a fault.
    fn measure_fault(&mut self, fault: Fault) -> Result<Vec<Losses>> {
        let bed = &mut self.bed;
        let streams = bed.streams(&bed::hosts())?;
        // Every name is in every cache, and half of the queries find it there.
        thread::sleep(Duration::from_secs(8));
        let began = Instant::now();
        bed.begin(fault)?;
        let until_removal = match fault {
            Fault::Ended => REMOVAL,
            Fault::Silent | Fault::AllSilent => SILENCE,
        };
        thread::sleep(until_removal);
        bed.remove(fault)?;
        thread::sleep(SILENCE - until_removal);
        let counted = began..Instant::now();
        // Time for retries that have begun before.
        thread::sleep(Duration::from_secs(3));
        let losses = streams.into_iter().map(|stream| {
            let outcomes = stream.finish();
            Losses::of(outcomes.iter().filter(|one| counted.contains(&one.sent)))
        });
        let losses: Vec<Losses> = losses.collect();
        bed.end(fault)?;
        bed.wait_until_complete()?;
        Ok(losses)
    }

    /// Asserts what the documentation promises, and that the measurements can tell the settings apart.
    fn check(&self) -> Result<()> {
        let index = |name: &str| {
            let mut stanzas = self.stanzas.iter();
            stanzas
                .position(|stanza| stanza.name == name)
                .context("no such stanza")
        };
        let (none, shipped) = (index(NO_CACHE)?, index(SHIPPED)?);
        let (services, stale) = (index(SERVICES)?, index(STALE)?);
        let (changes, second) = (&self.changes, Duration::from_secs(1));
        ensure!(changes[none] < second, "old answers without a cache");
        ensure!(changes[shipped] < 6 * second, "more than a TTL");
        ensure!(changes[shipped] > second, "no cache");
        ensure!(changes[services] < 2 * second, "more than a second");
        let (lost, old) = (&self.all_silent, &self.is_idle_name_stale);
        ensure!(lost[services].failed == 0 && !old[services]);
        ensure!(!old[shipped] && old[stale]);
        ensure!(lost[shipped].failed > 0 && lost[stale].failed == 0);
        Ok(())
    }
}
