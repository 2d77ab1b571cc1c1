//! Checks of objects of the API server that the server itself does not read, or not with these fields.
//!
//! They are maps, and an object without an expected field has nothing wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use super::facts::ServerFacts;
use super::finding::{Check, Finding, items, key_of, list, name_of, text};
use crate::model::Namespace;
use crate::source::kube::RequestFailure;

/// Selects Services that this cluster exports through its gateway.
pub const EXPORTED: &str = "mirror.linkerd.io/exported=true";
/// Selects the Pods of gateways.
pub const GATEWAYS: &str = "component=gateway,linkerd.io/extension=multicluster";
/// The API group of Links.
pub const LINKS_GROUP: &str = "multicluster.linkerd.io";

/// Variable of a proxy: the time for which it keeps an address that it does not use.
const CACHE_TIMEOUT: &str = "LINKERD2_PROXY_OUTBOUND_DISCOVERY_IDLE_TIMEOUT";
/// The longest such time after which no client reaches a wrong pod.
const MAX_CACHE_TIMEOUT: Duration = Duration::from_millis(500);
/// Reason of a Link's condition: with headless mirroring on, every headless Service has it, although it is mirrored.
const INVALID_SERVICE: &str = "InvalidService";
/// Maximum number of characters of a condition's message in a finding.
const MAX_MESSAGE: usize = 120;

/// The objects that are read, or why they cannot be.
pub(crate) struct ClusterObjects {
    /// The Services that [`EXPORTED`] selects.
    pub services: Result<Vec<Value>, RequestFailure>,
    /// The Links.
    pub links: Result<Vec<Value>, RequestFailure>,
    /// The Pods that [`GATEWAYS`] selects.
    pub gateways: Result<Vec<Value>, RequestFailure>,
}

/// Checks all objects.
pub(crate) fn check(objects: &ClusterObjects, facts: &ServerFacts) -> Vec<Finding> {
    const HINT: &str = "run it as a user that may list these objects";
    let found = [
        (Check::LinkStatus, check_links(objects, facts)),
        (Check::GatewayCache, check_gateways(objects)),
    ];
    let findings = found
        .into_iter()
        .map(|(check, found)| found.unwrap_or_else(|why| check.unknown(&why.to_string(), HINT)));
    findings.collect()
}

/// Makes the finding of a check of objects.
fn finding(check: Check, what: &str, wrong: &BTreeSet<String>, hint: &str) -> Finding {
    if wrong.is_empty() {
        return check.ok("nothing is wrong");
    }
    check.attention(format!("{what}: {}", list(wrong)), hint)
}

/// Finds the Services that Links report as not mirrored, in the namespaces that are selected or else watched.
fn check_links<'o>(
    objects: &'o ClusterObjects,
    facts: &ServerFacts,
) -> Result<Finding, &'o RequestFailure> {
    const HINT: &str = "kubectl get links.multicluster.linkerd.io -A -o yaml shows each condition, and the log of the mirror controller \
                        the reason; export headless Services with mirror.linkerd.io/exported=true; create a namespace that is missing, \
                        or turn on enableNamespaceCreation for the link";
    let settings = &facts.status["settings"];
    let namespaces: Vec<&str> = if facts.namespaces.is_empty() {
        items(settings, "namespaces")
            .filter_map(Value::as_str)
            .collect()
    } else {
        facts.namespaces.iter().map(Namespace::as_str).collect()
    };
    let mut wrong = BTreeSet::new();
    for link in objects.links.as_ref()? {
        let target = text(link, "spec.targetClusterName");
        let cluster = settings["clusterAliases"][target]
            .as_str()
            .unwrap_or(target);
        if items(settings, "excludeClusters").any(|one| one == cluster) {
            continue;
        }
        for service in items(link, "status.mirrorServices") {
            let name = ["remoteRef.namespace", "remoteRef.name"].map(|path| text(service, path));
            let is_watched = namespaces.is_empty() || namespaces.contains(&name[0]);
            let mut conditions = items(service, "conditions");
            let failed = conditions
                .find(|one| [text(one, "type"), text(one, "status")] == ["Mirrored", "False"]);
            let Some(failed) = failed.filter(|_| is_watched) else {
                continue;
            };
            let is_mirrored = facts.services.iter().any(|one| {
                key_of(one) == name
                    && items(one, "clusters").any(|cell| text(cell, "cluster") == cluster)
            });
            let reason = text(failed, "reason");
            if reason == INVALID_SERVICE && is_mirrored {
                continue;
            }
            let message: String = text(failed, "message").chars().take(MAX_MESSAGE).collect();
            let name = name.join("/");
            wrong.insert(format!(
                "{name} of cluster '{cluster}' ({reason}: {message})"
            ));
        }
    }
    let what = "Links report that mirroring fails";
    Ok(finding(Check::LinkStatus, what, &wrong, HINT))
}

/// Checks the gateways of a cluster that exports a headless Service. Linkerd's injector writes the time into the proxy of a pod: that of
/// the annotation of the pod, else of the namespace, else of the control plane.
fn check_gateways(objects: &ClusterObjects) -> Result<Finding, &RequestFailure> {
    const HINT: &str = "set gateway.deploymentAnnotations of the chart linkerd-multicluster to \
                        {config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout: \"0s\"}; 1s is not enough. Without it, clients \
                        in other clusters that retry within 5 s never reach a pod that restarted, or reach the pod that has its old \
                        address now";
    const NONE: &str = "headless Services are exported, and no Pod has the labels of a gateway";
    let (services, gateways) = (objects.services.as_ref()?, objects.gateways.as_ref()?);
    let is_headless = |service: &Value| text(service, "spec.clusterIP") == "None";
    if !services.iter().any(is_headless) {
        return Ok(finding(Check::GatewayCache, "", &BTreeSet::new(), ""));
    }
    // An evicted pod stays as an object.
    let running = gateways
        .iter()
        .filter(|pod| text(pod, "status.phase") != "Failed");
    let mut wrong = BTreeSet::new();
    for gateway in running.clone() {
        let value = cache_timeout(gateway).unwrap_or("not set");
        let time = value.parse::<SignedDuration>();
        if time.is_ok_and(|time| time.unsigned_abs() <= MAX_CACHE_TIMEOUT) {
            continue;
        }
        wrong.insert(format!("Pod/{} ({value})", name_of(gateway).join("/")));
    }
    if running.count() == 0 {
        let hint = format!(
            "look at the variable {CACHE_TIMEOUT} of the proxy of your gateway: 500ms or less is right"
        );
        return Ok(Check::GatewayCache.unknown(NONE, hint));
    }
    let what = "gateways that keep the address of a pod that is gone";
    Ok(finding(Check::GatewayCache, what, &wrong, HINT))
}

/// Returns the time for which the proxy of a pod keeps an address, if it is set. A native sidecar is an init container.
fn cache_timeout(pod: &Value) -> Option<&str> {
    let lists = ["spec.containers", "spec.initContainers"];
    let mut variables = lists
        .into_iter()
        .flat_map(|list| items(pod, list))
        .flat_map(|container| items(container, "env"));
    let variable = variables.find(|variable| variable["name"] == CACHE_TIMEOUT)?;
    variable["value"].as_str()
}

#[cfg(test)]
mod tests;
