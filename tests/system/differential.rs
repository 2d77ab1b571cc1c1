//! Compares the answers of two binaries: that of another revision, and that of the current source. Both watch one simulated
//! API server, and both are asked the same questions after each change. A refactoring must not change an answer; the answers that
//! rules of the design changed since the reference are exceptions, which are counted.
//! `tests/system/differential/run` runs these tests; `tests/run` does not.
//!
//! Index:
//!
//! - `settings`: the settings of both servers
//! - `world`: generated objects and their changes
//! - `markers`: objects that show how far a server has read its watches
//! - `questions`: the names of a world and similar names that do not exist, with each type
//! - `exceptions`: the answers that a rule changed
//! - `comparison`: the servers of a world, their replies and their differences

mod comparison;
mod exceptions;
mod markers;
mod questions;
mod settings;
mod world;

// The generators of the fuzz targets.
#[path = "../fuzz/checks/choices.rs"]
mod choices;
#[path = "../fuzz/checks/kinds.rs"]
mod kinds;
#[path = "../fuzz/checks/objects.rs"]
mod objects;

use std::env;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use comparison::{Outcome, Program, run_world};
use support::commands::binary;

/// Time after which a difference counts. Settings of a Service that is gone stay for ten seconds, and both servers count
/// them on their own.
const PATIENCE: Duration = Duration::from_secs(30);

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn answers_equal_those_of_another_revision() {
    let reference = variable("GLOBAL_DNS_TEST_REFERENCE")
        .expect("tests/system/differential/run sets GLOBAL_DNS_TEST_REFERENCE");
    let number = |name: &str, default: u64| {
        variable(name).map_or(default, |value| value.parse().expect("a number"))
    };
    let seed = number("GLOBAL_DNS_TEST_SEED", 0);
    let worlds = number("GLOBAL_DNS_TEST_WORLDS", 24);
    let reference = Program::new("reference", PathBuf::from(reference));
    let current = Program::new("current", binary());
    let (began, mut total) = (Instant::now(), Outcome::default());
    let mut different = Vec::new();
    for seed in seed..seed + worlds {
        match run_world(&reference, &current, seed, PATIENCE) {
            Ok(outcome) => {
                println!("{outcome}");
                total.add(&outcome);
            }
            Err(difference) => {
                println!(
                    "{difference:#}\nrepeat it with: tests/system/differential/run --seed {seed} --worlds 1 REVISION"
                );
                different.push(seed);
            }
        }
    }
    assert!(different.is_empty(), "the worlds {different:?} differ");
    println!(
        "{worlds} worlds in {:.0?}: {}",
        began.elapsed(),
        total.counts()
    );
    if worlds >= settings::all().len() as u64 {
        total.assert_covers_all();
    }
}

#[test]
fn other_settings_of_one_side_are_differences() {
    let one = Program::new("one", binary());
    // Each changes a part of the answers: a TTL, the members, the choice of endpoints, a name.
    for setting in [
        "ttl=6",
        "localMembers=none",
        "gatewayDown=include",
        "excludeClusters=[east]",
        "shortNames.which=none",
    ] {
        let other = Program::new("other", binary()).with_setting(setting);
        let differs = |seed: &u64| run_world(&one, &other, *seed, Duration::from_secs(1)).is_err();
        // Only worlds with the defaults have no such setting themselves.
        let seeds = settings::seeds_of_the_defaults().take(4);
        assert!(seeds.into_iter().any(|seed| differs(&seed)), "{setting}");
    }
}

#[test]
fn one_binary_does_not_differ_from_itself() {
    let one = Program::new("one", binary());
    for seed in [0, 1, 2] {
        let outcome = run_world(&one, &one, seed, PATIENCE);
        outcome.unwrap_or_else(|difference| panic!("{difference:#}"));
    }
}
