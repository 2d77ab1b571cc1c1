//! Runs the named steps of a suite in order and prints a line for each. Fails once, at the end.
//!
//! The steps share processes that take seconds to start. They are therefore not separate tests.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::output::print_line;

/// Number of steps that run concurrently. Two cores run this many faults without being busy.
const CONCURRENCY: usize = 6;

/// The steps of a suite and their results so far.
pub struct Steps {
    suite: &'static str,
    started: Instant,
    passed: usize,
    /// Their reasons are printed already.
    failures: Vec<String>,
    /// The first prerequisite that failed.
    failed_prerequisite: Option<String>,
}

// === impl Steps ===

impl Steps {
    /// Starts a suite.
    pub fn new(suite: &'static str) -> Self {
        Self {
            suite,
            started: Instant::now(),
            passed: 0,
            failures: Vec::new(),
            failed_prerequisite: None,
        }
    }

    /// Runs an independent step. Returns whether it passed.
    pub fn step(&mut self, fact: &str, check: impl FnOnce() -> Result<()>) -> bool {
        let has_passed = passes(fact, check);
        self.note(fact, has_passed);
        has_passed
    }

    /// Runs steps that share nothing and mostly wait, a few of them at a time.
    pub fn run_concurrently(&mut self, facts: &[(String, impl Fn() -> Result<()> + Sync)]) {
        let next = AtomicUsize::new(0);
        let work = || {
            let take = || facts.get(next.fetch_add(1, Relaxed));
            let passed = |(fact, check): &(String, _)| (fact.clone(), passes(fact, check));
            std::iter::from_fn(take).map(passed).collect::<Vec<_>>()
        };
        let passed: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..CONCURRENCY).map(|_| scope.spawn(work)).collect();
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
        if has_passed {
            self.passed += 1;
        } else {
            self.failures.push(fact.to_owned());
        }
    }

    /// Runs a step that later prerequisites depend on. If one has failed, the later ones fail without running.
    pub fn prerequisite(&mut self, fact: &str, check: impl FnOnce() -> Result<()>) {
        if let Some(failed) = &self.failed_prerequisite {
            print_line(&format!(
                "FAIL    -    {fact}: not run, because {failed} failed"
            ));
            self.failures.push(fact.to_owned());
        } else if !self.step(fact, check) {
            self.failed_prerequisite = Some(fact.to_owned());
        }
    }

    /// Forgets a failed prerequisite, because the next step creates its own state.
    pub fn forget_failed_prerequisite(&mut self) {
        self.failed_prerequisite = None;
    }

    /// Prints the number of steps. Fails if a step failed.
    pub fn finish(self) {
        let seconds = self.started.elapsed().as_secs_f64();
        let (passed, failed) = (self.passed, self.failures.len());
        print_line(&format!(
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

/// Runs a step and prints its result.
fn passes(fact: &str, check: impl FnOnce() -> Result<()>) -> bool {
    let started = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(check));
    let seconds = started.elapsed().as_secs_f64();
    let reason = match outcome {
        Ok(Ok(())) => {
            print_line(&format!("ok   {seconds:6.2} s  {fact}"));
            return true;
        }
        Ok(Err(error)) => format!("{error:#}"),
        Err(panic) => format!("panicked: {}", panic_message(panic.as_ref())),
    };
    print_line(&format!("FAIL {seconds:6.2} s  {fact}: {reason}"));
    false
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
