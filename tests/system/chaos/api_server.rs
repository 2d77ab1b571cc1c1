//! Faults of the API server in one table: errors, silence, lost history, cut connections, invalid data, rotated
//! credentials.

use std::time::Duration;

use support::faults::{FAULTS, Outcome};
use support::output::print_line;

/// Totals over all faults.
#[derive(Default)]
struct Sum {
    tried: u64,
    wrong: u64,
    empty: u64,
    failed: u64,
    slowest: Duration,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        self.tried += outcome.queries;
        self.wrong += outcome.wrong;
        self.empty += outcome.empty;
        self.failed += outcome.failed;
        self.slowest = self.slowest.max(outcome.converged);
    }
}

#[test]
fn faults_of_the_api_server() {
    let heading = ("fault", "tried", "wrong", "empty", "failed", "converged");
    let (fault, tried, wrong, empty, failed, converged) = heading;
    print_line(&format!(
        "{fault:32} {tried:>8} {wrong:>6} {empty:>6} {failed:>7} {converged:>11}"
    ));
    let mut unsound = Vec::new();
    let mut sum = Sum::default();
    for fault in &FAULTS {
        let outcome = fault.simulate();
        if let Ok(outcome) = &outcome {
            print_line(&outcome.line());
            sum.add(outcome);
        }
        if let Err(error) = outcome.and_then(|outcome| outcome.check()) {
            unsound.push(format!("{}: {error:#}", fault.name));
        }
    }
    let Sum { tried, wrong, .. } = sum;
    let (empty, failed, slowest) = (sum.empty, sum.failed, sum.slowest.as_secs_f64());
    print_line(&format!(
        "{:32} {tried:>8} {wrong:>6} {empty:>6} {failed:>7} {slowest:>9.2} s maximum",
        "total"
    ));
    let (all, survived) = (FAULTS.len(), FAULTS.len() - unsound.len());
    print_line(&format!(
        "{survived} of {all} faults without wrong, empty or failed answers"
    ));
    assert!(unsound.is_empty(), "{}", unsound.join("\n"));
}
