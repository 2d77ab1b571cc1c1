//! Checks of objects of the API server that the server itself does not read, or not with these fields.
//!
//! They are maps, and an object without an expected field has nothing wrong. Each selector is applied here too, because files
//! have all objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::finding::{Check, Fact, Finding, State, items, list, text};
use crate::model::{Exported, key, mirrorable};

/// Selects mirrors, their Endpoints and their slices. Linkerd labels Services and Endpoints alike, and Kubernetes copies the
/// labels of Endpoints to slices.
pub const MIRRORS: &str = "mirror.linkerd.io/mirrored-service=true";
/// Selects objects that no watch selects, neither as a mirror nor as an object of this cluster.
pub const UNWATCHED: &str =
    "mirror.linkerd.io/mirrored-service,mirror.linkerd.io/mirrored-service!=true";
/// Selects Services that this cluster exports through its gateway.
pub const EXPORTED: &str = "mirror.linkerd.io/exported=true";
/// Selects the Deployments of gateways.
pub const GATEWAYS: &str = "component=gateway,linkerd.io/extension=multicluster";
/// The API group of Links.
pub const LINKS_GROUP: &str = "multicluster.linkerd.io";

/// Annotation: the time for which a proxy keeps an address that it does not use.
const CACHE_TIMEOUT: &str = "config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout";
/// Annotation: ports without protocol detection by the proxy. It replaces the default.
const OPAQUE_PORTS: &str = "config.linkerd.io/opaque-ports";
/// The default of [`OPAQUE_PORTS`] in Linkerd.
const OPAQUE_BY_DEFAULT: &str = "25,587,3306,4444,5432,6379,9300,11211";
/// Prefixes of port names and application protocols that the proxy knows.
const DETECTED: [&str; 4] = ["http", "grpc", "h2c", "kubernetes.io/h2c"];
/// Reason of a Link's condition: with headless mirroring on, every headless Service has it, although it is mirrored.
const INVALID_SERVICE: &str = "InvalidService";
/// Reason of a Link's condition: the namespace does not exist here.
const MISSING_NAMESPACE: &str = "MissingNamespace";
/// Maximum number of characters of a condition's message in a finding.
const MAX_MESSAGE: usize = 120;

/// The objects, each list or why it cannot be read.
#[derive(Debug)]
pub struct Objects {
    /// Mirrors, and Services that no watch selects.
    pub services: Fact<Vec<Value>>,
    /// Services that this cluster exports.
    pub exported: Fact<Vec<Value>>,
    /// Slices of mirrors, and those that no watch selects.
    pub slices: Fact<Vec<Value>>,
    /// Endpoints of mirrors.
    pub endpoints: Fact<Vec<Value>>,
    /// The Links of this cluster.
    pub links: Fact<Vec<Value>>,
    /// The Deployments of the gateways.
    pub gateways: Fact<Vec<Value>>,
    /// All namespaces.
    pub namespaces: Fact<Vec<Value>>,
}

/// What the server says about the objects.
#[derive(Debug)]
pub struct Told<'t> {
    /// Its settings, as in `status`.
    pub settings: &'t Value,
    /// Its services: the items of `table`.
    pub services: &'t [Value],
    /// The endpoints of its own cluster: items of `endpoints`.
    pub own_endpoints: &'t [Value],
    /// The name of its cluster.
    pub cluster: &'t str,
}

/// What is wrong, and how bad it is; or why it is not known.
type Wrong = Fact<(State, BTreeSet<String>)>;

/// A check: what finds things that are wrong, what they are, and what to do.
struct Rule(
    Check,
    fn(&Objects, &Told<'_>) -> Wrong,
    &'static str,
    &'static str,
);

const RULES: [Rule; 7] = [
    Rule(
        Check::LinkStatus,
        link_status,
        "Links report that mirroring fails",
        "kubectl get links.multicluster.linkerd.io -A -o yaml shows each condition, and the log of the mirror controller the \
         reason; export headless Services with mirror.linkerd.io/exported=true",
    ),
    Rule(
        Check::Namespaces,
        namespaces,
        "namespaces that do not exist here",
        "Linkerd mirrors into the namespace of the same name: create it, or turn on enableNamespaceCreation for the link; if \
         a setting names it, correct the setting",
    ),
    Rule(
        Check::Mirrorable,
        not_mirrorable,
        "exported, and not mirrored as a whole",
        "correct the Services, or do not export them",
    ),
    Rule(
        Check::MirrorLabels,
        mirror_labels,
        "ignored because of the label mirror.linkerd.io/mirrored-service",
        "set the value 'true', as Linkerd does, or remove the label if the object is not a mirror",
    ),
    Rule(
        Check::OpaquePorts,
        opaque_ports,
        "not marked opaque",
        "if the server speaks first or uses TLS of its own: kubectl annotate namespace NAMESPACE \
         config.linkerd.io/opaque-ports=25,587,3306,4444,5432,6379,9300,11211,PORTS before the mirrors are made (others get it \
         when their pods restart); the list replaces that of Linkerd; on a client or on the exported Service, it has no effect",
    ),
    Rule(
        Check::EndpointSlices,
        endpoint_slices,
        "Endpoints of mirrors without an EndpointSlice",
        "nothing shows whether the gateways of these mirrors are down: turn on the controller \
         endpointslice-mirroring-controller of kube-controller-manager (--controllers), or remove label \
         endpointslice.kubernetes.io/skip-mirror from the exported Services",
    ),
    Rule(
        Check::GatewayCache,
        gateway_cache,
        "gateways that keep the address of a pod that is gone",
        "set gateway.deploymentAnnotations of the chart linkerd-multicluster to \
         {config.linkerd.io/proxy-outbound-discovery-cache-unused-timeout: \"0s\"}; 1s is not enough. Without it, clients in \
         other clusters that retry within 5 s never reach a pod that restarted, or reach the pod that has its old address now",
    ),
];

/// Checks all objects. Lists that cannot be read are not checked.
pub fn check(objects: &Objects, told: &Told<'_>) -> Vec<Finding> {
    let findings = RULES
        .iter()
        .map(|Rule(check, find, what, hint)| match find(objects, told) {
            Ok((state, wrong)) => {
                Finding::list(state, *check, wrong, ["nothing is wrong", what, hint])
            }
            Err(why) => {
                Finding::unknown(*check, &why, "run it as a user that may list these objects")
            }
        });
    findings.collect()
}

// === Fields ===

fn label<'o>(object: &'o Value, label: &str) -> &'o str {
    text(&object["metadata"]["labels"], label)
}

fn annotation<'o>(object: &'o Value, annotation: &str) -> Option<&'o str> {
    object["metadata"]["annotations"][annotation].as_str()
}

/// Returns the namespace and the name of an object.
fn name_of(object: &Value) -> [&str; 2] {
    ["namespace", "name"].map(|field| text(&object["metadata"], field))
}

/// Returns the objects that [`MIRRORS`] selects.
fn mirrors(objects: &[Value]) -> impl Iterator<Item = &Value> {
    let of_mirrors = |object: &&Value| label(object, key::MIRRORED_SERVICE) == "true";
    objects.iter().filter(of_mirrors)
}

// === Links ===

/// Returns the Services that a Link reports as not mirrored, in namespaces that are watched: the cluster after aliases, the
/// namespace, the name, and the condition.
fn failures<'l>(
    objects: &'l Objects,
    told: &Told<'l>,
) -> Fact<Vec<(&'l str, [&'l str; 2], &'l Value)>> {
    let settings = told.settings;
    let watched: Vec<&Value> = items(settings, "namespaces").collect();
    let failed = |one: &&Value| [text(one, "type"), text(one, "status")] == ["Mirrored", "False"];
    let mut failures = Vec::new();
    for link in objects.links.as_ref()? {
        let target = text(&link["spec"], "targetClusterName");
        let cluster = settings["clusterAliases"][target]
            .as_str()
            .unwrap_or(target);
        for service in items(&link["status"], "mirrorServices") {
            let name = ["namespace", "name"].map(|field| text(&service["remoteRef"], field));
            let is_watched = watched.is_empty() || watched.iter().any(|one| **one == name[0]);
            let condition = items(service, "conditions")
                .find(failed)
                .filter(|_| is_watched);
            failures.extend(condition.map(|condition| (cluster, name, condition)));
        }
    }
    Ok(failures)
}

/// Finds the Services that Links report as not mirrored.
fn link_status(objects: &Objects, told: &Told<'_>) -> Wrong {
    let mirrored = told.services.iter().flat_map(|service| {
        let name = ["namespace", "service"].map(|field| text(service, field));
        items(service, "clusters").map(move |cell| (name, text(cell, "cluster")))
    });
    let mirrored: BTreeSet<([&str; 2], &str)> = mirrored.collect();
    let failures = failures(objects, told)?.into_iter();
    let failures = failures.filter_map(|(cluster, name, condition)| {
        let reason = text(condition, "reason");
        let is_mirrored = reason == INVALID_SERVICE && mirrored.contains(&(name, cluster));
        let is_excluded = items(told.settings, "excludeClusters").any(|one| one == cluster);
        if is_mirrored || is_excluded || reason == MISSING_NAMESPACE {
            return None;
        }
        let message = text(condition, "message").chars();
        let message: String = message.take(MAX_MESSAGE).collect();
        let name = name.join("/");
        Some(format!(
            "{name} of cluster '{cluster}' ({reason}: {message})"
        ))
    });
    Ok((State::Attention, failures.collect()))
}

/// Returns whether a Link selects Services by other labels than `mirror.linkerd.io/exported=true`, in one of the two forms. The
/// problem `not-exported` is then unreliable.
pub fn selects_by_other_labels(link: &Value) -> bool {
    let selector = &link["spec"]["selector"];
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels = labels.map(|(label, value)| label == key::EXPORTED && value == "true");
    let expressions = items(selector, "matchExpressions").map(|one| {
        let values: Vec<&Value> = items(one, "values").collect();
        text(one, "key") == key::EXPORTED && text(one, "operator") == "In" && values == ["true"]
    });
    let are_default: Vec<bool> = labels.chain(expressions).collect();
    !selector.is_null() && are_default != [true]
}

/// Finds namespaces that do not exist here: those of exported Services, and those that settings name.
fn namespaces(objects: &Objects, told: &Told<'_>) -> Wrong {
    let existing = objects.namespaces.as_ref()?.iter();
    let existing: BTreeSet<&str> = existing.map(|one| name_of(one)[1]).collect();
    let mut missing = BTreeSet::new();
    for (cluster, [namespace, name], condition) in failures(objects, told).unwrap_or_default() {
        if text(condition, "reason") == MISSING_NAMESPACE && !existing.contains(namespace) {
            missing.insert(format!("'{namespace}', of {name} in cluster '{cluster}'"));
        }
    }
    let short = &told.settings["shortNames"];
    let pinned = short["pinned"].as_object().into_iter().flatten();
    let named = pinned
        .map(|(_, namespace)| namespace)
        .chain([&short["defaultNamespace"]]);
    let named = named
        .chain(items(told.settings, "namespaces"))
        .filter_map(Value::as_str);
    for name in named.filter(|name| !name.is_empty() && !existing.contains(name)) {
        missing.insert(format!("'{name}', which the settings name"));
    }
    Ok((State::Attention, missing))
}

// === Exported Services ===

/// Returns whether a Service is exported with a mirror for each pod.
fn is_exported_headless(service: &Value) -> bool {
    text(&service["spec"], "clusterIP") == "None" && label(service, key::EXPORTED) == "true"
}

/// Finds exported Services that other clusters cannot mirror.
fn not_mirrorable(objects: &Objects, told: &Told<'_>) -> Wrong {
    let mut hosts: BTreeMap<[&str; 2], Vec<&str>> = BTreeMap::new();
    for endpoint in told.own_endpoints {
        let name = ["namespace", "service"].map(|field| text(endpoint, field));
        let hosts = hosts.entry(name).or_default();
        hosts.push(text(endpoint, "hostname"));
    }
    let all = objects.exported.as_ref()?.iter();
    let exported = all.filter(|one| label(one, key::EXPORTED) == "true");
    let wrong = exported.filter_map(|service| {
        let name = name_of(service);
        let exported = Exported {
            service: name[1],
            cluster: told.cluster,
            hosts: hosts.get(&name).cloned().unwrap_or_default(),
            is_headless: is_exported_headless(service),
            has_ports: items(&service["spec"], "ports").next().is_some(),
        };
        let reason = mirrorable(&exported).err()?;
        Some(format!("{} ({reason}; {})", name.join("/"), reason.hint()))
    });
    Ok((State::Attention, wrong.collect()))
}

/// Finds the gateways of a cluster that exports a headless Service. Linkerd's injector takes the annotation of the pods, else
/// that of the namespace.
fn gateway_cache(objects: &Objects, _: &Told<'_>) -> Wrong {
    let mut wrong = BTreeSet::new();
    if objects.exported.as_ref()?.iter().any(is_exported_headless) {
        let namespaces = objects.namespaces.as_ref()?;
        for gateway in objects.gateways.as_ref()? {
            let [namespace, name] = name_of(gateway);
            let of_pods = annotation(&gateway["spec"]["template"], CACHE_TIMEOUT);
            let own = namespaces.iter().find(|one| name_of(one)[1] == namespace);
            let of_namespace = || annotation(own?, CACHE_TIMEOUT);
            let value = of_pods.or_else(of_namespace).unwrap_or("not set");
            let gateway = format!("Deployment/{namespace}/{name} ({value})");
            wrong.extend((value != "0s").then_some(gateway));
        }
    }
    Ok((State::Attention, wrong))
}

// === Mirrors ===

/// Finds objects that no watch selects. Mirrors have the value `true`, and this cluster's own objects lack the label.
fn mirror_labels(objects: &Objects, _: &Told<'_>) -> Wrong {
    let mut ignored = BTreeSet::new();
    for (kind, objects) in [
        ("Service", &objects.services),
        ("EndpointSlice", &objects.slices),
    ] {
        for object in objects.as_ref()? {
            let value = label(object, key::MIRRORED_SERVICE);
            let is_ignored = !["", "true"].contains(&value);
            let name = format!("{kind}/{} ('{value}')", name_of(object).join("/"));
            ignored.extend(is_ignored.then_some(name));
        }
    }
    Ok((State::Attention, ignored))
}

/// Finds ports of endpoint mirrors. If the server speaks first and the port is not opaque, the proxy waits for the client in
/// vain. The annotation of the headless mirror has no effect.
fn opaque_ports(objects: &Objects, _: &Told<'_>) -> Wrong {
    let mirrors = mirrors(objects.services.as_ref()?);
    let of_pods = mirrors.filter(|one| !label(one, key::HEADLESS_MIRROR).is_empty());
    let unmarked = of_pods.filter_map(|service| {
        let opaque = annotation(service, OPAQUE_PORTS).unwrap_or(OPAQUE_BY_DEFAULT);
        let ports = items(&service["spec"], "ports");
        let ports = ports.filter(|port| is_unknown(port) && !is_in(opaque, port["port"].as_u64()));
        let ports = ports.map(|port| match text(port, "name") {
            "" => port["port"].to_string(),
            name => format!("{} ({name})", port["port"]),
        });
        let ports = Some(list(ports)).filter(|ports| !ports.is_empty())?;
        let headless = label(service, key::HEADLESS_MIRROR);
        Some(format!(
            "Service/{}/{headless} {ports}",
            name_of(service)[0]
        ))
    });
    Ok((State::Attention, unmarked.collect()))
}

/// Returns whether a port is one of a list of ports and ranges.
fn is_in(list: &str, port: Option<u64>) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match [first, last].map(|number| number.trim().parse::<u64>()) {
            [Ok(first), Ok(last)] => port.is_some_and(|port| (first..=last).contains(&port)),
            _ => false,
        }
    })
}

/// Returns whether the protocol of a port is unknown.
fn is_unknown(port: &Value) -> bool {
    let is_detected = |field| {
        DETECTED
            .iter()
            .any(|start| text(port, field).starts_with(start))
    };
    let is_tcp = ["", "TCP"].contains(&text(port, "protocol"));
    is_tcp && !["name", "appProtocol"].into_iter().any(is_detected)
}

/// Finds Endpoints of mirrors that Kubernetes does not copy to slices. A cluster may turn off the controller that does this
/// (KEP-4974). Linkerd writes the readiness of gateways to Endpoints, and the server reads it from slices only.
///
/// The controller writes no slice for Endpoints without an address. Addresses that are not ready are copied, too. Endpoints can
/// outlive their mirror, and such Endpoints are not copied.
fn endpoint_slices(objects: &Objects, _: &Told<'_>) -> Wrong {
    let existing = mirrors(objects.services.as_ref()?).map(name_of);
    let existing: BTreeSet<[&str; 2]> = existing.collect();
    let copied = mirrors(objects.slices.as_ref()?);
    let copied = copied.map(|slice| [name_of(slice)[0], label(slice, key::SERVICE_NAME)]);
    let copied: BTreeSet<[&str; 2]> = copied.collect();
    let has_address = |object: &&Value| {
        let has = |subset: &Value, field| items(subset, field).next().is_some();
        items(object, "subsets").any(|one| has(one, "addresses") || has(one, "notReadyAddresses"))
    };
    let written = mirrors(objects.endpoints.as_ref()?)
        .filter(has_address)
        .map(name_of);
    let written = written.filter(|mirror| existing.contains(mirror));
    let (with, without): (Vec<_>, Vec<_>) = written.partition(|mirror| copied.contains(mirror));
    // Without any slice, the controller is off. Otherwise, it works, and leaves out some.
    let state = if with.is_empty() {
        State::Failing
    } else {
        State::Attention
    };
    let names = without
        .iter()
        .map(|mirror| format!("Endpoints/{}", mirror.join("/")));
    Ok((state, names.collect()))
}

#[cfg(test)]
mod tests;
