//! What somebody typed: a name, which may lack its zone or be one of Kubernetes, the address of an endpoint, or a URL with either.

use std::net::IpAddr;

use hyper::http::uri::Authority;

use super::nearest::{Part, part_of_object, part_of_own, parts_of_address};
use crate::model::Namespace;
use crate::table::Table;
use crate::zone::{Grammar, Name, Zone, Zones, read};

/// Reads a name, `NAMESPACE/SERVICE`, or an address, which stands for the name of its endpoint. A URL and a port are removed. The
/// name of a mirror is that of its endpoints. A name of one label is that of a service in each of `namespaces`, if there are some.
/// Adds a zone to a name that lacks one: if it exists there, or ends with a namespace or a service that is known, or has at most two
/// labels. A name with a final dot is complete, unless it is one of Kubernetes. Returns `None` if the text is none of these.
pub(super) fn read_asked(
    zones: &Zones,
    table: &Table,
    text: &str,
    namespaces: &[Namespace],
) -> Option<Name> {
    let mut host = host_of(&text.to_ascii_lowercase());
    if let Some((namespace, service)) = host.split_once('/') {
        host = format!("{service}.{namespace}.svc");
    }
    let whole = Name::from_text(&host).filter(|name| name.count() > 0)?;
    // Kubernetes' own names end with `svc` and the domain of their cluster, which may be another one.
    let dotted = format!("{}.", host.trim_end_matches('.'));
    let of_kubernetes = dotted.split_once(".svc.");
    let is_complete = of_kubernetes.is_none() && host.ends_with('.');
    if is_complete || zones.find(&whole).is_some() {
        return Some(whole);
    }
    // A name without its zone is not that of one cluster, if there are names of all clusters.
    let is_of_all = |zone: &&Zone| zone.grammar.cluster().is_none();
    let has_all = zones.iter().any(|zone| is_of_all(&zone));
    let sorted = zones.iter().filter(|zone| is_of_all(zone) == has_all);
    let mut sorted: Vec<&Zone> = sorted.collect();
    sorted.sort_by_key(|zone| zone.grammar != Grammar::Global);
    let path = of_kubernetes.map_or(host.as_str(), |(path, _)| path);
    let mut parts = Vec::new();
    let address = host.parse::<IpAddr>();
    if let Ok(address) = address {
        parts = parts_of_address(table, address.to_canonical());
    } else if namespaces.is_empty() || path.contains('.') {
        parts.extend(of_kubernetes.and_then(|(path, domain)| part_of_own(table, path, domain)));
        if has_all || parts.is_empty() {
            parts.push(Part::of_path(path.to_owned()));
        }
        parts.extend(part_of_object(table, path));
    } else {
        let paths = namespaces.iter().map(|one| format!("{path}.{one}"));
        parts.extend(paths.map(Part::of_path));
    }
    let mut names = Vec::new();
    for part in &parts {
        let of_part = sorted.iter().filter_map(|zone| part.name_in(zone));
        names.extend(of_part.filter_map(|name| Name::from_text(&name)));
    }
    let last = path.rsplit('.').next().unwrap_or_default();
    let is_known = of_kubernetes.is_some()
        || address.is_ok()
        || whole.count() <= 2
        || table.services_in(last).next().is_some()
        || table.short_name(last).is_some();
    let exists = |name: &Name| read(zones, table, name).exists();
    let chosen = names.iter().position(exists).or(is_known.then_some(0));
    chosen
        .and_then(|index| names.into_iter().nth(index))
        .or(Some(whole))
}

/// Returns the host of a URL, with or without a scheme, or of a host with a port; another text as it is.
fn host_of(text: &str) -> String {
    let url = text.split_once("://").map(|(_, rest)| rest);
    let host = url
        .unwrap_or(text)
        .split(['/', '?', '#', ','])
        .next()
        .unwrap_or_default();
    let is_host = url.is_some() || host.contains(['.', ':']);
    let text = if is_host { host } else { text };
    match text.parse::<Authority>() {
        Ok(authority) => authority.host().trim_matches(['[', ']']).to_owned(),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{endpoint, mirror, table, zones};

    fn asked(zones: &Zones, text: &str, namespaces: &[&str]) -> Option<String> {
        let objects = [
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        ];
        let namespaces = namespaces.iter().map(|one| one.parse().unwrap());
        let namespaces: Vec<Namespace> = namespaces.collect();
        let name = read_asked(zones, &table(&objects), text, &namespaces);
        name.map(|name| name.to_string())
    }

    #[test]
    fn what_people_type_is_a_name_or_an_address() {
        for (text, expected) in [
            ("db.prod", "db.prod.global."),
            ("prod/db", "db.prod.global."),
            ("db", "db.global."),
            ("db.prod.global", "db.prod.global."),
            ("db.prod.", "db.prod."),
            ("east.db.prod", "east.db.prod.global."),
            ("_mongodb._tcp.db.prod", "_mongodb._tcp.db.prod.global."),
            ("_mongodb._tcp.db", "_mongodb._tcp.db.global."),
            (
                "db-0.db.prod.svc.cluster.local",
                "db-0.east.db.prod.global.",
            ),
            ("db-9.db.prod.svc.cluster.local", "db-9.db.prod.global."),
            ("db.prod.svc", "db.prod.global."),
            ("db.prod.svc.cluster.local.", "db.prod.global."),
            ("db.prod.svc.east.test.", "db.prod.global."),
            (
                "mongodb://db.prod:27017,db-1.db.prod:27017/data",
                "db.prod.global.",
            ),
            (
                "postgres://user:secret@db.prod.global:5432/data",
                "db.prod.global.",
            ),
            ("db.prod:5432", "db.prod.global."),
            ("db.prod:8080/health", "db.prod.global."),
            ("DB-East.Prod", "east.db.prod.global."),
            ("db-east.prod", "east.db.prod.global."),
            ("_sql._tcp.db-east.prod", "_sql._tcp.east.db.prod.global."),
            (
                "db-0-east.prod.svc.cluster.local",
                "db-0.east.db.prod.global.",
            ),
            ("http://[fd00::1]:80/", "fd00::1."),
            ("10.96.0.1:53", "db-0.east.db.prod.global."),
            ("10.96.0.2", "10.96.0.2."),
            ("www.example.org", "www.example.org."),
        ] {
            let name = asked(&zones(&["global"]), text, &[]);
            assert_eq!(name.as_deref(), Some(expected), "{text}");
        }
        for text in ["", ".", "http://", "a..b"] {
            assert_eq!(asked(&zones(&["global"]), text, &[]), None, "{text}");
        }
    }

    #[test]
    fn name_of_one_label_is_of_the_given_namespaces() {
        for (text, namespaces, expected) in [
            ("db", &["prod"][..], "db.prod.global."),
            ("DB:5432", &["shop", "prod"], "db.prod.global."),
            ("db", &["shop"], "db.shop.global."),
            ("db.prod", &["shop"], "db.prod.global."),
        ] {
            let name = asked(&zones(&["global"]), text, namespaces);
            assert_eq!(name.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn name_without_a_zone_is_of_any_zone() {
        let mcs = |mut zones: Zones| {
            zones.0.last_mut().unwrap().grammar = Grammar::Mcs;
            zones
        };
        let (only, both) = (
            mcs(zones(&["cs.local"])),
            mcs(zones(&["global", "cs.local"])),
        );
        for (zones, text, expected) in [
            (&only, "db.prod", "db.prod.svc.cs.local."),
            (&only, "prod/db", "db.prod.svc.cs.local."),
            (&only, "10.96.0.1", "db-0.east.db.prod.svc.cs.local."),
            (&only, "db-0-east.prod", "db-0.east.db.prod.svc.cs.local."),
            (&both, "db.prod", "db.prod.global."),
            (&both, "db.prod.svc.cs.local", "db.prod.svc.cs.local."),
        ] {
            let name = asked(zones, text, &[]);
            assert_eq!(name.as_deref(), Some(expected), "{text}");
        }
    }
}
