//! The check of versions.

use std::collections::BTreeSet;

use super::facts::Facts;
use super::finding::{Check, Finding, list_some};
use super::objects::{KubeService, linkerd_version};
use super::permissions::ApiServerStatus;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![Check::Versions.green(format!("global-dns {}", crate::VERSION))];
    match &facts.api {
        Ok(ApiServerStatus::Reached { version, .. }) => findings.push(kubernetes(version)),
        Ok(ApiServerStatus::Unreachable(_)) => {} // another check reports it
        Err(reason) => {
            findings.push(Check::Versions.part_not_checked("version of Kubernetes", reason));
        }
    }
    findings.push(match &facts.objects.services {
        Ok(services) => linkerd(services),
        Err(reason) => Check::Versions.part_not_checked("version of Linkerd", reason),
    });
    findings
}

/// Reports the versions of Linkerd that created the gateways' probe Services.
fn linkerd(services: &[KubeService]) -> Finding {
    let versions: BTreeSet<&str> = services.iter().filter_map(linkerd_version).collect();
    if versions.is_empty() {
        Check::Versions.yellow(
            "unknown version of Linkerd: no gateway's probe Service has it",
            "link a cluster with a gateway; the version is in annotation linkerd.io/created-by of its probe Service",
        )
    } else {
        let versions = list_some(versions);
        Check::Versions.green(format!("Linkerd multicluster extension {versions}"))
    }
}

/// Checks the version of Kubernetes. Before 1.22, it mirrored addresses that were not ready into slices as ready
/// (kubernetes/kubernetes#102683).
fn kubernetes(version: &str) -> Finding {
    let sentence = format!("Kubernetes {version}");
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']);
    let mut number = || numbers.next()?.parse::<u32>().ok();
    match (number(), number()) {
        (Some(1), Some(minor)) if minor < 22 => Check::Versions.yellow(
            sentence,
            "with this version, EndpointSlices may report ready although the gateway is down; update Kubernetes to 1.22 or \
             later",
        ),
        (Some(major), Some(_)) if major > 0 => Check::Versions.green(sentence),
        _ => Check::Versions.yellow(
            format!("unknown version of Kubernetes: '{version}'"),
            "the API server was built without a version; with one before 1.22, EndpointSlices may report ready although \
             the gateway is down",
        ),
    }
}
