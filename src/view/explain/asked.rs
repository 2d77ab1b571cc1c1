//! What somebody typed: a name, which may lack its zone or be one of Kubernetes, the address of an endpoint, or a URL with either.

use std::net::IpAddr;

use hyper::http::uri::Authority;

use super::name::exists;
use super::nearest::{name_of_address, name_of_object};
use crate::model::Namespace;
use crate::table::{Claim, Table};
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
    let text = host_of(&text.to_ascii_lowercase());
    let text = match text.parse::<IpAddr>() {
        Err(_) => text,
        Ok(address) => match name_of_address(table, address.to_canonical()) {
            Some(name) => name,
            None => return Name::from_text(&text),
        },
    };
    let (text, is_service) = match text.split_once('/') {
        Some((namespace, service)) if !service.contains('/') => {
            (format!("{service}.{namespace}"), true)
        }
        _ => (text, false),
    };
    let whole = Name::from_text(&text).filter(|name| name.count() > 0)?;
    let relative = text.trim_end_matches('.');
    // Kubernetes' own names end with `svc` and the domain of their cluster, which may be another one.
    let own = match relative.split_once(".svc.") {
        Some((own, _)) => Some(own),
        None => relative.strip_suffix(".svc"),
    };
    let is_complete = own.is_none() && text.ends_with('.') || zones.find(&whole).is_some();
    if is_complete && !is_service {
        return Some(whole);
    }
    let text = own.unwrap_or(&text);
    let namespaces = namespaces.iter().filter(|_| !text.contains('.'));
    let mut texts: Vec<String> = namespaces.map(|one| format!("{text}.{one}")).collect();
    let is_service = is_service || !texts.is_empty();
    if texts.is_empty() {
        texts.push(text.to_owned());
        texts.extend(name_of_object(table, text));
    }
    let mut all: Vec<&Zone> = zones.iter().collect();
    all.sort_by_key(|zone| zone.grammar != Grammar::Global);
    let with_zones = texts.iter().flat_map(|text| {
        let zones = all.iter();
        zones.filter_map(move |zone| Name::from_text(&format!("{text}.{}", zone.name_suffix())))
    });
    let candidates: Vec<Name> = with_zones.collect();
    let is_real = |name: &&Name| exists(&read(zones, table, name));
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_known = is_service
        || own.is_some()
        || whole.count() <= 2
        || table.services_in(last).next().is_some()
        || table
            .short_name(last)
            .is_some_and(|name| name.namespaces(Claim::Other).next().is_some());
    let chosen = candidates.iter().find(is_real);
    let chosen = chosen.or_else(|| candidates.first().filter(|_| is_known));
    Some(chosen.cloned().unwrap_or(whole))
}

/// Returns the host of a URL, with or without a scheme, or of a host with a port; another text as it is.
fn host_of(text: &str) -> String {
    let (has_scheme, rest) = match text.split_once("://") {
        Some((_, rest)) => (true, rest),
        None => (false, text),
    };
    let host = rest.split(['/', '?', '#', ',']).next().unwrap_or_default();
    let is_host = has_scheme || host.contains(['.', ':']);
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
            ("db-0.db.prod.svc.cluster.local", "db-0.db.prod.global."),
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
