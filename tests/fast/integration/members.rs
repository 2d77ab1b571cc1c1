//! The endpoints of a name over real sockets, as far as the models and the recordings do not see it: settings that reach the
//! answers, texts of tenants, and what the log, the table and `/readyz` say.

mod attacks;
mod conflicts;
mod expected_clusters;
mod limits;
mod settings;

use serde_json::Value;
use support::differences::assert_none;
use support::server::Server;

/// Sends each query and compares the outcomes: RDATA, `NODATA`, `NXDOMAIN`.
fn check_outcomes(server: &Server, what: &str, cases: &[(&str, &str)]) {
    let mut differences = Vec::new();
    for (asked, expected) in cases {
        let outcome = server.outcome(asked);
        if outcome != *expected {
            differences.push(format!("{what}, {asked}: {outcome}, expected {expected}"));
        }
    }
    assert_none(&differences);
}

/// Returns the problems of a kind in the table.
fn problems_of_kind(server: &Server, kind: &str) -> Vec<Value> {
    server.section(&format!("problems?kind={kind}"), "problems")
}
