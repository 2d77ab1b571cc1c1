//! An API server that refuses, falls silent, forgets, cuts, garbles and rotates: one table.

use crate::faults::FAULTS;
use crate::harness::say;

#[test]
fn faults_of_the_api_server() {
    let heading = ("fault", "tried", "wrong", "empty", "failed", "converged");
    let (fault, tried, wrong, empty, failed, converged) = heading;
    say(&format!(
        "{fault:32} {tried:>8} {wrong:>6} {empty:>6} {failed:>7} {converged:>11}"
    ));
    let mut unsound = Vec::new();
    for fault in &FAULTS {
        let outcome = fault.play();
        if let Ok(outcome) = &outcome {
            say(&outcome.line());
        }
        if let Err(error) = outcome.and_then(|outcome| outcome.check()) {
            unsound.push(format!("{}: {error:#}", fault.name));
        }
    }
    let (all, survived) = (FAULTS.len(), FAULTS.len() - unsound.len());
    say(&format!(
        "{survived} of {all} faults survived with nothing wrong, empty or failed"
    ));
    assert!(unsound.is_empty(), "{}", unsound.join("\n"));
}
