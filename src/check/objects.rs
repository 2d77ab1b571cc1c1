//! Checks of objects of the API server that the server itself does not read, or not with these fields.
//!
//! They are maps, and an object without an expected field has nothing wrong. Each selector is applied here too, because one kind
//! may be read for several.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::finding::{Check, Fact, Finding, State, items, key_of, list, name_of, text};
use super::told::Told;

/// Selects Services that this cluster exports through its gateway.
pub const EXPORTED: &str = "mirror.linkerd.io/exported=true";
/// Selects the Deployments of gateways.
pub const GATEWAYS: &str = "component=gateway,linkerd.io/extension=multicluster";
/// The API group of Links.
pub const LINKS_GROUP: &str = "multicluster.linkerd.io";

/// Annotation: the time for which a proxy keeps an address that it does not use.
const CACHE_TIMEOUT: &str = "config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout";
/// Reason of a Link's condition: with headless mirroring on, every headless Service has it, although it is mirrored.
const INVALID_SERVICE: &str = "InvalidService";
/// Maximum number of characters of a condition's message in a finding.
const MAX_MESSAGE: usize = 120;

/// The objects by their kind: all of it that are read, or why they cannot be.
#[derive(Debug, Default)]
pub struct Objects(pub BTreeMap<String, Fact<Vec<Value>>>);

/// What is wrong, and how bad it is.
type Wrong = (State, BTreeSet<String>);

/// A check of objects.
struct Rule {
    check: Check,
    /// The kinds of the objects that it needs.
    kinds: &'static [&'static str],
    /// Finds what is wrong.
    find: fn(&Objects, &Told) -> Wrong,
    what: &'static str,
    hint: &'static str,
}

const RULES: [Rule; 2] = [
    Rule {
        check: Check::LinkStatus,
        kinds: &["Link"],
        find: link_status,
        what: "Links report that mirroring fails",
        hint: "kubectl get links.multicluster.linkerd.io -A -o yaml shows each condition, and the log of the mirror controller the \
               reason; export headless Services with mirror.linkerd.io/exported=true; create a namespace that is missing, or turn \
               on enableNamespaceCreation for the link",
    },
    Rule {
        check: Check::GatewayCache,
        kinds: &["Service", "Deployment", "Namespace"],
        find: gateway_cache,
        what: "gateways that keep the address of a pod that is gone",
        hint: "set gateway.deploymentAnnotations of the chart linkerd-multicluster to \
               {config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout: \"0s\"}; 1s is not enough. Without it, clients in \
               other clusters that retry within 5 s never reach a pod that restarted, or reach the pod that has its old address now",
    },
];

/// Checks all objects. A check whose objects nobody asked for has no line.
pub fn check(objects: &Objects, told: &Told) -> Vec<Finding> {
    let findings = RULES.iter().filter_map(|rule| rule.check(objects, told));
    findings.collect()
}

// === impl Rule ===

impl Rule {
    fn check(&self, objects: &Objects, told: &Told) -> Option<Finding> {
        const HINT: &str = "run it as a user that may list these objects";
        for kind in self.kinds {
            if let Err(why) = objects.0.get(*kind)? {
                return Some(Finding::unknown(self.check, why, HINT));
            }
        }
        let (state, wrong) = (self.find)(objects, told);
        Some(match wrong.is_empty() {
            true => Finding::ok(self.check, "nothing is wrong"),
            false => {
                let sentence = format!("{}: {}", self.what, list(wrong));
                Finding::new(state, self.check, sentence, self.hint)
            }
        })
    }
}

// === impl Objects ===

impl Objects {
    /// Returns the objects of a kind that have the labels of a selector: all if it is empty.
    fn select<'o>(
        &'o self,
        kind: &str,
        selector: &'static str,
    ) -> impl Iterator<Item = &'o Value> + Clone {
        let objects = self.0.get(kind).and_then(|read| read.as_ref().ok());
        let labels = selector.split(',').filter_map(|one| one.split_once('='));
        let is_selected = move |one: &&Value| {
            labels
                .clone()
                .all(|(name, value)| label(one, name) == value)
        };
        objects.into_iter().flatten().filter(is_selected)
    }
}

// === Fields ===

fn label<'o>(object: &'o Value, label: &str) -> &'o str {
    text(&object["metadata"]["labels"], label)
}

fn annotation<'o>(object: &'o Value, annotation: &str) -> Option<&'o str> {
    object["metadata"]["annotations"][annotation].as_str()
}

// === Links ===

/// Finds the Services that Links report as not mirrored, in namespaces that are watched.
fn link_status(objects: &Objects, told: &Told) -> Wrong {
    let settings = &told.status["settings"];
    let watched: Vec<&Value> = items(settings, "namespaces").collect();
    let is_mirrored = |name: &[&str; 2], cluster: &str| {
        let mut services = told.table.services.iter();
        let service = services.find(|one| key_of(one) == *name);
        service
            .is_some_and(|one| items(one, "clusters").any(|cell| text(cell, "cluster") == cluster))
    };
    let mut wrong = BTreeSet::new();
    for link in objects.select("Link", "") {
        let target = text(&link["spec"], "targetClusterName");
        let alias = settings["clusterAliases"][target].as_str();
        let cluster = alias.unwrap_or(target);
        if items(settings, "excludeClusters").any(|one| one == cluster) {
            continue;
        }
        for service in items(&link["status"], "mirrorServices") {
            let name = ["namespace", "name"].map(|field| text(&service["remoteRef"], field));
            let mut conditions = items(service, "conditions");
            let failed = conditions
                .find(|one| [text(one, "type"), text(one, "status")] == ["Mirrored", "False"]);
            let Some(failed) =
                failed.filter(|_| watched.is_empty() || watched.iter().any(|one| **one == name[0]))
            else {
                continue;
            };
            let reason = text(failed, "reason");
            if !(reason == INVALID_SERVICE && is_mirrored(&name, cluster)) {
                let message: String = text(failed, "message").chars().take(MAX_MESSAGE).collect();
                let name = name.join("/");
                wrong.insert(format!(
                    "{name} of cluster '{cluster}' ({reason}: {message})"
                ));
            }
        }
    }
    (State::Attention, wrong)
}

// === Gateways ===

/// Finds the gateways of a cluster that exports a headless Service. Linkerd's injector takes the annotation of the pods, else
/// that of the namespace.
fn gateway_cache(objects: &Objects, _: &Told) -> Wrong {
    let mut wrong = BTreeSet::new();
    let is_headless = |service: &Value| text(&service["spec"], "clusterIP") == "None";
    if objects.select("Service", EXPORTED).any(is_headless) {
        let namespaces = objects.select("Namespace", "");
        for gateway in objects.select("Deployment", GATEWAYS) {
            let [namespace, name] = name_of(gateway);
            let mut namespaces = namespaces.clone();
            let own = namespaces.find(|one| name_of(one)[1] == namespace);
            let of_pods = annotation(&gateway["spec"]["template"], CACHE_TIMEOUT);
            let value = of_pods.or_else(|| annotation(own?, CACHE_TIMEOUT));
            let value = value.unwrap_or("not set");
            let gateway = format!("Deployment/{namespace}/{name} ({value})");
            wrong.extend((value != "0s").then_some(gateway));
        }
    }
    (State::Attention, wrong)
}

#[cfg(test)]
mod tests;
