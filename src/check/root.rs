//! One cause, one red line: if the objects cannot be read, or the server does not answer, other findings are
//! consequences of that.

use super::facts::Facts;
use super::finding::{Category, Check, Finding, Health, NotChecked};
use super::permissions::ApiServerStatus;

/// Marks the findings that were not checked because of a red finding about the API server or the server. Adds the red
/// finding, if the API server answers, but its objects cannot be read.
pub(super) fn one_red_line(mut findings: Vec<Finding>, facts: &Facts) -> Vec<Finding> {
    let is_cause = |finding: &Finding| {
        finding.health == Health::Red && finding.check.row().category == Category::ApiServer
    };
    if let (Ok(ApiServerStatus::Reached { .. }), Err(reason)) = (&facts.api, &facts.table)
        && !findings.iter().any(is_cause)
        && let Some(first) = findings.first_mut()
    {
        let sentence = format!("cannot read the objects: {}", reason.reason);
        *first = Check::ApiServer.red(sentence, reason.hint.clone());
    }
    if findings.iter().any(is_cause) {
        let missing = findings.iter_mut().filter(|one| one.health == Health::Grey);
        for finding in missing.filter(|one| reads_objects(one.check)) {
            finding.is_consequence = true;
        }
    }
    if findings
        .iter()
        .any(|one| one.check == Check::Server && one.health == Health::Red)
    {
        let answers = findings
            .iter_mut()
            .filter(|one| one.check == Check::DirectAnswer);
        for finding in answers.filter(|one| one.health == Health::Red) {
            let reason = NotChecked::consequence("the server does not serve its zones");
            *finding = Check::DirectAnswer.not_checked(&reason);
        }
    }
    findings
}

/// Returns whether a check needs the API server. The others need only flags and name servers.
fn reads_objects(check: Check) -> bool {
    check != Check::MirrorControllers && check.row().category != Category::Dns
}
