//! Who runs in which version.

use std::collections::BTreeSet;

use super::permissions::ApiServer;
use super::{Check, Facts, Finding, some_of};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![Check::Versions.green(format!("global-dns {}", crate::VERSION))];
    match &facts.api {
        Ok(ApiServer::Reached { version, .. }) => findings.push(kubernetes(version)),
        Ok(ApiServer::Unreachable(_)) => {} // said once already
        Err(reason) => findings.push(Check::Versions.not_checked("Kubernetes' version", reason)),
    }
    findings.push(match &facts.makers {
        Ok(makers) => {
            let makers: BTreeSet<&String> = makers.iter().collect();
            Check::Versions.green(match makers.is_empty() {
                true => "Linkerd's version is not told by any gateway's probe Service".to_owned(),
                false => format!("Linkerd's multicluster extension by {}", some_of(makers)),
            })
        }
        Err(reason) => Check::Versions.not_checked("Linkerd's version", reason),
    });
    findings
}

/// Until Kubernetes 1.22, addresses that are not ready were mirrored into slices as ready (kubernetes/kubernetes#102683).
fn kubernetes(version: &str) -> Finding {
    let sentence = format!("Kubernetes {version}");
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']);
    let mut number = || numbers.next()?.parse::<u32>().ok();
    match (number(), number()) {
        (Some(1), Some(minor)) if minor < 22 => Check::Versions.yellow(
            sentence,
            "slices of this version may call an endpoint ready whose gateway is down; that is mended in Kubernetes 1.22",
        ),
        _ => Check::Versions.green(sentence),
    }
}
