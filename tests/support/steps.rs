//! Runs the named facts of a suite in order, prints a line for each, and fails once, at the end.
//!
//! The parts a suite stands on take seconds to start and are shared by all its steps, which is why the steps are no
//! tests of their own.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::say::say;

/// Facts that are checked side by side: two cores play that many faults without being busy.
const AT_ONCE: usize = 6;

/// Facts that were checked so far.
pub struct Steps {
    suite: &'static str,
    started: Instant,
    passed: usize,
    /// What was said about them is printed already.
    failures: Vec<String>,
    /// The first step that failed although later ones stand on it.
    missing: Option<String>,
}

// === impl Steps ===

impl Steps {
    /// None yet.
    pub fn new(suite: &'static str) -> Self {
        Self {
            suite,
            started: Instant::now(),
            passed: 0,
            failures: Vec::new(),
            missing: None,
        }
    }

    /// A fact of its own.
    pub fn step(&mut self, fact: &str, check: impl FnOnce() -> Result<()>) -> bool {
        let has_passed = passes(fact, check);
        self.note(fact, has_passed);
        has_passed
    }

    /// Facts that share nothing and mostly wait: `AT_ONCE` of them at a time.
    pub fn side_by_side(&mut self, facts: &[(String, impl Fn() -> Result<()> + Sync)]) {
        let next = AtomicUsize::new(0);
        let work = || {
            let take = || facts.get(next.fetch_add(1, Relaxed));
            let passed = |(fact, check): &(String, _)| (fact.clone(), passes(fact, check));
            std::iter::from_fn(take).map(passed).collect::<Vec<_>>()
        };
        let passed: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            let done = workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap());
            done.collect()
        });
        for (fact, has_passed) in passed {
            self.note(&fact, has_passed);
        }
    }

    fn note(&mut self, fact: &str, has_passed: bool) {
        match has_passed {
            true => self.passed += 1,
            false => self.failures.push(fact.to_owned()),
        }
    }

    /// A fact that later steps stand on: where one of these has failed, the rest of them are failures unrun.
    pub fn needed(&mut self, fact: &str, check: impl FnOnce() -> Result<()>) {
        if let Some(missing) = &self.missing {
            say(&format!(
                "FAIL    -    {fact}: not run, because {missing} failed"
            ));
            self.failures.push(fact.to_owned());
        } else if !self.step(fact, check) {
            self.missing = Some(fact.to_owned());
        }
    }

    /// Forgets what is missing: the next step makes its own state.
    pub fn fresh_start(&mut self) {
        self.missing = None;
    }

    /// Prints how many there were, and fails if one of them did not hold.
    pub fn finish(self) {
        let seconds = self.started.elapsed().as_secs_f64();
        let (passed, failed) = (self.passed, self.failures.len());
        say(&format!(
            "{}: {passed} steps passed, {failed} failed, {seconds:.1} s",
            self.suite
        ));
        assert!(
            self.failures.is_empty(),
            "{}:\n  {}",
            self.suite,
            self.failures.join("\n  ")
        );
    }
}

/// Checks a fact, and prints whether it holds.
fn passes(fact: &str, check: impl FnOnce() -> Result<()>) -> bool {
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(check));
    let seconds = started.elapsed().as_secs_f64();
    let reason = match outcome {
        Ok(Ok(())) => {
            say(&format!("ok   {seconds:6.2} s  {fact}"));
            return true;
        }
        Ok(Err(error)) => format!("{error:#}"),
        Err(panic) => format!("panicked: {}", panic_message(panic.as_ref())),
    };
    say(&format!("FAIL {seconds:6.2} s  {fact}: {reason}"));
    false
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
