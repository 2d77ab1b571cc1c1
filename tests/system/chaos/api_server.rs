//! Faults of the API server: errors, silence, lost history, cut connections, invalid data, rotated credentials.

use support::faults::FAULTS;
use support::output::print_line;

#[test]
fn faults_of_the_api_server() {
    let mut unsound = Vec::new();
    for fault in &FAULTS {
        let outcome = fault.simulate();
        if let Ok(outcome) = &outcome {
            print_line(&outcome.line());
        }
        if let Err(error) = outcome.and_then(|outcome| outcome.check()) {
            unsound.push(format!("{}: {error:#}", fault.name));
        }
    }
    assert!(unsound.is_empty(), "{}", unsound.join("\n"));
}
