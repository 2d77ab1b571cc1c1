//! What the stages share: starting the program, looking at its addresses, and waiting for them.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use support::multicluster::GLOBAL_DNS_POD;
use support::multicluster::plan::{NAMESPACE, Service};
use support::output::print_line;
use support::process::Process;
use support::query::query;
use support::wait::eventually;
use support::wire::{Transport, try_ask};

use super::{PAUSE, Scenario};
use crate::clients::scenario::MANY_PODS;
use crate::clients::scenario::client::{Event, Uses, View};
use crate::clients::scenario::outcome::{Reaction, Start, ViewOutcome};
use crate::clients::scenario::pod::Pod;
use crate::clients::scenario::recorder::Fault;

/// Duration of a fault of DNS at the start of a program. Programs keep a negative answer for 5 or 10 seconds, and the fault
/// must not end at the same time.
const FAULT_AT_START: Duration = Duration::from_secs(12);
/// Maximum time until the number of used addresses is final.
const COUNTING: Duration = Duration::from_secs(30);
/// Minimum time between two starts of a program that ends. A kubelet waits longer after every start.
const RESTART: Duration = Duration::from_secs(1);

// === impl Scenario ===

impl Scenario<'_> {
    /// Returns the largest number of addresses that each view uses.
    pub(super) fn count(&mut self, many: &Service) -> Vec<usize> {
        let (views, began) = (self.profile.views.clone(), Instant::now());
        let mut counts = vec![0; views.len()];
        let enough = |view: &View| match view.uses {
            Uses::All => usize::from(MANY_PODS),
            Uses::One => 1,
        };
        while began.elapsed() < COUNTING {
            for (count, view) in counts.iter_mut().zip(&views) {
                let seen = self.look(view).unwrap_or_default();
                let seen = seen.intersection(&self.expected).count();
                *count = seen.max(*count);
            }
            let mut pairs = counts.iter().zip(&views);
            if pairs.all(|(count, view)| *count >= enough(view)) {
                break;
            }
            if self.restart_if_ended(many).is_err() {
                break;
            }
            thread::sleep(PAUSE);
        }
        counts
    }

    /// Starts the program, and waits for the duration of a fault after its first question or until it ends.
    pub(super) fn start_during_fault(&mut self, fault: Option<Fault>) -> Result<Start> {
        let mark = self.recorder.mark();
        self.recorder.set_fault(fault);
        self.start_program(self.profile.service)?;
        let views = self.profile.views.clone();
        let names: Vec<String> = views.iter().map(|view| self.question_name(view)).collect();
        let deadline = Instant::now() + self.profile.patience;
        let mut asked_at = None;
        let start = loop {
            if self.has_ended() {
                break Start::Ends(self.last_line());
            }
            for view in &views {
                // Some programs ask only when they are used.
                let seen = self.look(view).unwrap_or_default();
                ensure!(seen.is_empty(), "{}: {seen:?} without records", view.name);
            }
            let is_asked = names
                .iter()
                .all(|name| self.recorder.has_question(mark, name));
            if is_asked {
                let asked_at: &mut Instant = asked_at.get_or_insert_with(Instant::now);
                if asked_at.elapsed() > FAULT_AT_START {
                    break Start::Runs;
                }
            }
            ensure!(
                Instant::now() < deadline,
                "the program does not ask for {names:?}"
            );
            thread::sleep(PAUSE);
        };
        self.recorder.set_fault(None);
        Ok(start)
    }

    pub(super) fn start_program(&mut self, service: &'static Service) -> Result<()> {
        let pod = Pod {
            clusters: &self.clusters,
        };
        self.running = Some(self.client.start(&pod, service)?);
        self.started = Instant::now();
        Ok(())
    }

    pub(super) fn restart_if_ended(&mut self, service: &Service) -> Result<()> {
        if self.has_ended() && self.started.elapsed() > RESTART {
            self.outcome.restarts += 1;
            let many = self.profile.many.filter(|many| *many == service);
            self.start_program(many.unwrap_or(self.profile.service))?;
        }
        Ok(())
    }

    pub(super) fn has_ended(&mut self) -> bool {
        let process = self.running.as_mut().and_then(|running| running.process());
        process.is_some_and(Process::has_ended)
    }

    /// Returns the last line of the program's log that is not empty.
    pub(super) fn last_line(&mut self) -> String {
        let process = self.running.as_mut().and_then(|running| running.process());
        let lines = process.map(|process| process.log().lines());
        let lines = lines.unwrap_or_default();
        let mut lines = lines.iter().rev().filter(|line| !line.trim().is_empty());
        lines.next().cloned().unwrap_or_default()
    }

    /// Returns the addresses that the program uses.
    pub(super) fn look(&mut self, view: &View) -> Result<BTreeSet<String>> {
        let running = self
            .running
            .as_mut()
            .context("the program is not started")?;
        let pod = Pod {
            clusters: &self.clusters,
        };
        running.seen(&pod, view)
    }

    /// Waits until these views have the expected addresses. Returns the seconds of each one since `began`.
    pub(super) fn wait_until_seen(
        &mut self,
        views: &[usize],
        began: Instant,
        patience: Duration,
    ) -> Result<BTreeMap<usize, f64>> {
        let mut seen = BTreeMap::new();
        loop {
            let mut last = Vec::new();
            for &index in views.iter().filter(|index| !seen.contains_key(*index)) {
                let view = self.profile.views[index].clone();
                match self.look(&view) {
                    Ok(found) if self.is_expected(&view, &found) => last.push((index, None)),
                    other => last.push((index, Some(format!("{}: {other:?}", view.name)))),
                }
            }
            let seconds = began.elapsed().as_secs_f64();
            seen.extend(
                last.iter()
                    .filter(|each| each.1.is_none())
                    .map(|each| (each.0, seconds)),
            );
            if seen.len() == views.len() {
                return Ok(seen);
            }
            if began.elapsed() > patience {
                let missing: Vec<String> = last.into_iter().filter_map(|each| each.1).collect();
                bail!(
                    "not seen within {patience:?}: expected {:?}, but the program uses {}",
                    self.expected,
                    missing.join("; ")
                );
            }
            self.restart_if_ended(self.profile.service)?;
            thread::sleep(PAUSE);
        }
    }

    /// Waits until every view has addresses.
    pub(super) fn wait_until_used(&mut self) -> Result<()> {
        let views = self.profile.views.clone();
        let began = Instant::now();
        for view in &views {
            while self.look(view).map_or(true, |seen| seen.is_empty()) {
                ensure!(
                    began.elapsed() < self.profile.patience,
                    "{} has no addresses",
                    view.name
                );
                self.restart_if_ended(self.profile.service)?;
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Waits until the program asks for a name after `mark`. Some programs ask only when they are used.
    pub(super) fn wait_for_question(&mut self, mark: usize, name: &str) -> Result<()> {
        let views = self.profile.views.clone();
        let began = Instant::now();
        while !self.recorder.has_question(mark, name) {
            ensure!(
                began.elapsed() < self.profile.patience,
                "no question for {name}"
            );
            for view in &views {
                // It may have no addresses yet.
                let _ = self.look(view);
            }
            self.restart_if_ended(self.profile.service)?;
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    pub(super) fn is_expected(&self, view: &View, found: &BTreeSet<String>) -> bool {
        match view.uses {
            Uses::All => *found == self.expected,
            Uses::One => found.len() == 1 && found.is_subset(&self.expected),
        }
    }

    /// Waits until global-dns itself answers with the expected addresses.
    pub(super) fn check_published(&self, service: &Service) -> Result<()> {
        let question = format!("{}.{NAMESPACE}.global. A", service.name);
        eventually(&question, || {
            let (server, patience) = (GLOBAL_DNS_POD.parse()?, Duration::from_secs(2));
            let reply = try_ask(server, &query(&question), Transport::Tcp, patience)?;
            let found = reply.data_set();
            ensure!(
                found == self.expected,
                "it is {found:?}, expected {:?}",
                self.expected
            );
            Ok(())
        })
    }

    /// Stores what the program asked so far, unless it is known already.
    pub(super) fn note_habits(&mut self) {
        let views = self.profile.views.clone();
        for (view, index) in views.iter().zip(0..) {
            let name = self.question_name(view);
            let habits = self.recorder.habits(self.mark, &name);
            let noted: &mut ViewOutcome = &mut self.outcome.views[index];
            noted.habits.get_or_insert(habits);
        }
    }

    /// Stores whether the program repeats questions for many records over TCP.
    pub(super) fn note_truncation(&mut self, many: &Service) {
        let views = self.profile.views.clone();
        for (view, index) in views.iter().zip(0..) {
            let name = format!("{}{}.{NAMESPACE}.global.", view.prefix, many.name);
            let retries = self.recorder.habits(self.mark, &name).retries_over_tcp;
            let noted: &mut ViewOutcome = &mut self.outcome.views[index];
            if let Some(habits) = &mut noted.habits {
                habits.retries_over_tcp = retries;
            }
        }
    }

    /// Returns the name that the program asks for in a view.
    pub(super) fn question_name(&self, view: &View) -> String {
        let service = self.profile.service.name;
        let name = format!("{}{service}.{NAMESPACE}.global.", view.prefix);
        if view.is_upper {
            name.to_ascii_uppercase()
        } else {
            name
        }
    }

    pub(super) fn note(&mut self, index: usize, event: Event, reaction: Reaction) {
        self.outcome.views[index].events.insert(event, reaction);
    }

    pub(super) fn report(&self, what: &str, result: &str) {
        print_line(&format!("{}: {what}: {result}", self.profile.title));
    }
}
