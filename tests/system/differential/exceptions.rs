//! The answers that rules of the design changed since the reference. Each exception is decided from the objects of the world, the
//! question and the rule, so that any other difference counts.

use std::collections::BTreeSet;

use global_dns::model::key;
use serde_json::Value;

use super::comparison::Content;
use super::settings::Setting;

/// A rule that the reference does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A host that a headless mirror lists exists without its endpoint mirror: it fails, and names above it exist (rule M1b).
    MissingHost,
    /// The slices of a headless mirror say which ports a host has (rule M1c).
    PortsOfHost,
    /// A headless Service that only has settings takes no short name (rule M5).
    ShortName,
    /// All names of an alias are its own: targets, and the names of the hosts of its sources (section 7).
    Alias,
}

/// A host that a slice of a headless mirror lists.
struct ListedHost<'w> {
    /// Its names: `H`, `C`, `S` and `N`, also those of aliases.
    names: Vec<[String; 4]>,
    ports: BTreeSet<(&'w str, &'w str)>,
    /// Those of its mirror.
    of_mirror: BTreeSet<(&'w str, &'w str)>,
}

/// Response codes.
const SERVFAIL: u16 = 2;
const NXDOMAIN: u16 = 3;

/// Returns the rule by which the current reply differs from that of the reference.
pub fn rule_of(
    question: &str,
    [reference, current]: [&Content; 2],
    objects: &[Value],
    setting: &Setting,
) -> Option<Rule> {
    let (name, rtype) = question.split_once(' ')?;
    let labels: Vec<&str> = name.strip_suffix(".global.")?.split('.').collect();
    let prefix = labels.iter().filter(|label| label.starts_with('_')).count();
    let (prefix, path) = labels.split_at(prefix);
    let hosts = listed_hosts(objects, setting);
    let below: Vec<_> = hosts
        .iter()
        .filter(|host| host.is_at_or_below(path))
        .collect();
    let ([was, ..], [is, ..]) = (&reference.2, &current.2);
    let begins_to_exist = reference.1 == NXDOMAIN && current.1 != NXDOMAIN;
    let begins_to_fail = reference.1 != SERVFAIL && current.1 == SERVFAIL;
    if !below.is_empty() && was.is_empty() && is.is_empty() && (begins_to_exist || begins_to_fail) {
        return Some(Rule::MissingHost);
    }
    let loses = |host: &ListedHost<'_>| {
        let lost = host.of_mirror.difference(&host.ports);
        match prefix {
            [port, protocol] => lost.clone().any(|(name, of)| {
                *port == format!("_{name}") && *protocol == format!("_{}", of.to_lowercase())
            }),
            _ => ["SRV", "ANY"].contains(&rtype) && lost.clone().next().is_some(),
        }
    };
    let is_less = is.iter().all(|record| was.contains(record));
    if below.into_iter().any(loses) && (is_less || prefix.len() == 2) {
        return Some(Rule::PortsOfHost);
    }
    let has_all = |(alias, sources): ([&str; 2], Vec<[&str; 2]>)| {
        let tail = match path {
            path if path.ends_with(&alias) => alias.join("."),
            path if path.ends_with(&alias[..1]) => alias[0].to_owned(),
            _ => return false,
        };
        let of_alias = |record: &String, [service, namespace]: &[&str; 2]| {
            record.replace(
                &format!(".{service}.{namespace}.global."),
                &format!(".{tail}.global."),
            )
        };
        let mut records = was.iter().map(|record| {
            let record = record.to_owned();
            sources
                .iter()
                .fold(record, |record, source| of_alias(&record, source))
        });
        records.all(|record| is.contains(&record))
    };
    if setting.aliases().any(has_all) {
        return Some(Rule::Alias);
    }
    let service = path.last()?;
    let is_settings_only = |object: &&Value| is_settings_only(object, objects);
    let mut own = objects.iter().filter(is_settings_only);
    own.any(|own| own["metadata"]["name"] == **service)
        .then_some(Rule::ShortName)
}

/// Returns the hosts that slices of headless mirrors list.
fn listed_hosts<'w>(objects: &'w [Value], setting: &Setting) -> Vec<ListedHost<'w>> {
    let mut hosts = Vec::new();
    let is_of_mirror = |slice: &&Value| {
        label(slice, key::MIRRORED_SERVICE) == "true"
            && label(slice, key::HEADLESS_MIRROR).is_empty()
    };
    let slices = objects.iter().filter(|one| one["kind"] == "EndpointSlice");
    for slice in slices.filter(is_of_mirror) {
        let namespace = text(&slice["metadata"]["namespace"]);
        let owner = label(slice, key::SERVICE_NAME);
        let Some(parent) = service(objects, namespace, owner) else {
            continue;
        };
        let cluster = label(parent, key::CLUSTER_NAME);
        let full = text(&parent["metadata"]["annotations"][key::REMOTE_FQ_NAME]);
        let own = match full.split_once('.') {
            Some((own, _)) => own,
            None => owner
                .strip_suffix(&format!("-{cluster}"))
                .unwrap_or_default(),
        };
        for endpoint in list(&slice["endpoints"]) {
            let host = text(&endpoint["hostname"]);
            let names = setting.services_with(own, namespace).into_iter();
            let name = |(service, namespace)| {
                [
                    host.to_owned(),
                    setting.name_of(cluster),
                    service,
                    namespace,
                ]
            };
            let mirror = service(objects, namespace, &format!("{host}-{cluster}"));
            hosts.push(ListedHost {
                names: names.map(name).collect(),
                ports: ports(&slice["ports"]),
                of_mirror: mirror.map_or_else(BTreeSet::new, |one| ports(&one["spec"]["ports"])),
            });
        }
    }
    hosts
}

/// Returns whether a headless Service of this cluster has an annotation of the server, and neither pods nor an export.
fn is_settings_only(object: &Value, objects: &[Value]) -> bool {
    let metadata = &object["metadata"];
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    let has_settings = |(key, _): (&String, &Value)| key.starts_with(key::PREFIX);
    let is_slice = |slice: &&Value| {
        slice["kind"] == "EndpointSlice"
            && slice["metadata"]["namespace"] == metadata["namespace"]
            && label(slice, key::SERVICE_NAME) == text(&metadata["name"])
    };
    let mut slices = objects.iter().filter(is_slice);
    object["kind"] == "Service"
        && object["spec"]["clusterIP"] == "None"
        && object["spec"]["selector"].is_null()
        && !["true", "remote-discovery"].contains(&label(object, key::EXPORTED))
        && annotations.clone().any(has_settings)
        && slices.all(|slice| list(&slice["endpoints"]).is_empty())
}

fn service<'w>(objects: &'w [Value], namespace: &str, name: &str) -> Option<&'w Value> {
    objects.iter().find(|object| {
        let metadata = &object["metadata"];
        object["kind"] == "Service"
            && metadata["namespace"] == namespace
            && metadata["name"] == name
    })
}

fn label<'w>(object: &'w Value, name: &str) -> &'w str {
    text(&object["metadata"]["labels"][name])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn ports(value: &Value) -> BTreeSet<(&str, &str)> {
    let named = list(value).iter();
    let named = named.map(|port| {
        (
            text(&port["name"]),
            port["protocol"].as_str().unwrap_or("TCP"),
        )
    });
    named.collect()
}

// === impl ListedHost ===

impl ListedHost<'_> {
    /// Returns whether a name is the host's or above it, canonical or short.
    fn is_at_or_below(&self, path: &[&str]) -> bool {
        self.names.iter().any(|name| {
            let ends_with = |labels: &[String]| {
                let start = labels.len().checked_sub(path.len());
                start.is_some_and(|start| labels[start..].iter().eq(path))
            };
            ends_with(name) || ends_with(&name[..3])
        })
    }
}
