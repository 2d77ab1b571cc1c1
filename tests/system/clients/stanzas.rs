//! What the settings of CoreDNS do to the time until a change or a failure is visible to a client.
//!
//! Index:
//!
//! - `settings`: the measured stanzas
//! - `bed`: two replicas of the server behind one cluster IP, and one CoreDNS with all stanzas
//! - `load`: a constant stream of queries to each stanza
//! - `table`: the table in `coredns/README.md`
//!
//! CoreDNS serves each stanza on a port of its own. So one event is measured with all stanzas at the same time.

mod bed;
mod load;
mod settings;
mod table;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use support::networks::in_new_network;
use support::output::print_line;
use support::steps::Steps;
use support::wait::eventually;

use bed::{Bed, Fault};
use load::{Losses, ask};
use settings::{Setting, settings};
use table::Row;

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

pub fn measure() {
    in_new_network(|| {
        let mut steps = Steps::new("stanzas of CoreDNS");
        let settings = settings().unwrap();
        let mut rows: Vec<Row> = settings.iter().map(Row::new).collect();
        let mut bed = None;
        steps.prerequisite("every_stanza_answers", || {
            bed.insert(Bed::start(&settings)?).wait_until_complete()
        });
        let Some(mut bed) = bed else {
            return steps.finish();
        };
        let mut step = |fact: &str, measure: &mut dyn FnMut(&mut Bed, &mut [Row]) -> Result<()>| {
            steps.prerequisite(fact, || measure(&mut bed, &mut rows));
        };
        step("first_addresses_are_counted", &mut measure_order);
        step("new_address_is_seen", &mut measure_changes);
        step("idle_name_is_answered", &mut measure_idle_name);
        step("replica_ends", &mut |bed, rows| {
            measure_faults(bed, Fault::Ended, rows, |row| &mut row.ended)
        });
        step("replica_is_silent", &mut |bed, rows| {
            measure_faults(bed, Fault::Silent, rows, |row| &mut row.silent)
        });
        step("all_replicas_are_silent", &mut |bed, rows| {
            measure_faults(bed, Fault::AllSilent, rows, |row| &mut row.all_silent)
        });
        step("shipped_stanza_keeps_its_promises", &mut |_, rows| {
            check(rows)
        });
        step("table_is_written", &mut |_, rows| table::write(rows));
        steps.finish();
    });
}

// === Measurements ===

/// Measures which share of the answers has the same first address, within the lifetime of one cached answer.
fn measure_order(bed: &mut Bed, rows: &mut [Row]) -> Result<()> {
    for (row, server) in rows.iter_mut().zip(bed.servers()) {
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..200 {
            let answer = ask(*server, BUSY)?;
            let first = *answer.first().context("an empty answer")?;
            *counts.entry(first).or_insert(0_u32) += 1;
        }
        let largest = counts.values().max().copied().unwrap_or_default();
        row.first_address = largest / 2;
    }
    Ok(())
}

/// Measures the time from a change, as the server answers it, to the last old answer.
fn measure_changes(bed: &mut Bed, rows: &mut [Row]) -> Result<()> {
    let names = [BUSY.to_owned()];
    for round in 0..CHANGES {
        let streams = bed.streams(&names)?;
        // Another phase of the cached answers in each round.
        thread::sleep(Duration::from_millis(5_000 + 830 * u64::from(round)));
        let new = bed.change_busy(round)?;
        let changed = Instant::now();
        for (row, stream) in rows.iter_mut().zip(&streams) {
            eventually("the new address", || {
                let last = stream.last().context("no answer")?;
                ensure!(last.contains(&new), "{}: {last:?}", row.setting);
                Ok(())
            })?;
        }
        for (row, stream) in rows.iter_mut().zip(streams) {
            let outcomes = stream.finish();
            let old = outcomes.iter().filter(|one| {
                one.sent > changed && !one.addresses.is_empty() && !one.addresses.contains(&new)
            });
            let last = old.map(|one| one.sent - changed).max();
            row.changes.push(last.unwrap_or_default());
        }
    }
    Ok(())
}

/// Asks a name that nobody has asked since its address changed, longer ago than any TTL.
fn measure_idle_name(bed: &mut Bed, rows: &mut [Row]) -> Result<()> {
    for server in bed.servers() {
        ask(*server, bed::IDLE)?;
    }
    let new = bed.change_idle()?;
    thread::sleep(Duration::from_secs(12));
    for (row, server) in rows.iter_mut().zip(bed.servers()) {
        row.is_idle_name_stale = ask(*server, bed::IDLE)? != [new];
    }
    Ok(())
}

/// Adds the lost and slow queries after several faults to a field of each row.
fn measure_faults(
    bed: &mut Bed,
    fault: Fault,
    rows: &mut [Row],
    field: impl Fn(&mut Row) -> &mut Losses,
) -> Result<()> {
    for _ in 0..FAULTS {
        let losses = measure_fault(bed, fault)?;
        for (row, losses) in rows.iter_mut().zip(losses) {
            field(row).add(losses);
        }
    }
    Ok(())
}

/// Measures the queries after a fault.
fn measure_fault(bed: &mut Bed, fault: Fault) -> Result<Vec<Losses>> {
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

// === Checks ===

/// Asserts what the documentation promises, and that the measurements can tell the settings apart.
fn check(rows: &[Row]) -> Result<()> {
    let find = |setting: Setting| {
        let mut rows = rows.iter();
        rows.find(|row| row.kind == setting).context("no such row")
    };
    let (none, shipped, services, stale) = (
        find(Setting::NoCache)?,
        find(Setting::Shipped)?,
        find(Setting::Services)?,
        find(Setting::Stale)?,
    );
    let second = Duration::from_secs(1);
    ensure!(none.longest_change() < second, "without a cache: {none:?}");
    ensure!(
        shipped.longest_change() < 6 * second,
        "more than a TTL: {shipped:?}"
    );
    ensure!(shipped.longest_change() > second, "no cache: {shipped:?}");
    ensure!(
        services.longest_change() < 2 * second,
        "more than a second: {services:?}"
    );
    ensure!(services.all_silent.failed == 0 && !services.is_idle_name_stale);
    ensure!(!shipped.is_idle_name_stale && stale.is_idle_name_stale);
    ensure!(shipped.all_silent.failed > 0 && stale.all_silent.failed == 0);
    print_line(&format!("stanzas: {} settings measured", rows.len()));
    Ok(())
}
