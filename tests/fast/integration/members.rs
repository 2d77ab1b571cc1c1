//! The endpoints of a name, the owner of a short name, and the zone of a name.

mod aliases;
mod attacks;
mod bad_clusters;
mod bad_kinds;
mod clusters;
mod conflicts;
mod expected_clusters;
mod failover_orders;
mod gateways;
mod links;
mod local_members;
mod short_names;
mod ttls;

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

/// Returns kinds and names of the conflicts, sorted.
fn conflicts(server: &Server) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let report = server.api("/api/v1/table");
    let conflicts = report["conflicts"].as_array().unwrap().iter();
    let mut conflicts: Vec<_> = conflicts
        .map(|conflict| {
            assert!(!text(&conflict["detail"]).is_empty());
            (text(&conflict["kind"]), text(&conflict["name"]))
        })
        .collect();
    conflicts.sort();
    conflicts
}

/// Returns the problems of a kind in the table.
fn problems_of_kind(server: &Server, kind: &str) -> Vec<Value> {
    let report = server.api("/api/v1/table");
    let problems = report["problems"].as_array().unwrap().iter();
    let of_kind = problems.filter(|problem| problem["kind"] == kind);
    of_kind.cloned().collect()
}

/// Returns expected conflicts, sorted.
fn expected(conflicts: &[(&str, &str)]) -> Vec<(String, String)> {
    let conflicts = conflicts.iter();
    conflicts
        .map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned()))
        .collect()
}
