//! What somebody typed: a name, which may lack its zone or be one of Kubernetes, the address of an endpoint, or a URL with either.

use std::net::IpAddr;

use hyper::http::uri::Authority;

use super::name::exists;
use super::nearest::{name_of_address, name_of_object};
use crate::table::{Claim, Grammar, Table};
use crate::zone::{Name, Zone, Zones, read};

/// The end of Kubernetes' own names of Services, with the usual domain of a cluster.
const CLUSTER_DOMAINS: [&str; 2] = [".svc.cluster.local", ".svc"];

/// Reads a name, `NAMESPACE/SERVICE`, or an address, which stands for the name of its endpoint. A URL and a port are removed. The
/// name of a mirror is that of its endpoints. Adds a zone to a name that lacks one: if it exists there, or ends with a namespace or a
/// service that is known, or has at most two labels. A name with a final dot is complete, unless it is one of Kubernetes. Returns `None` if the text is none of
/// these.
pub(super) fn read_asked(zones: &Zones, table: &Table, text: &str) -> Option<Name> {
    let text = host_of(text);
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
    let whole = Name::from_text(&text)?;
    let relative = text.trim_end_matches('.');
    let mut domains = CLUSTER_DOMAINS.iter();
    let own = domains.find_map(|domain| relative.strip_suffix(domain));
    let is_complete = own.is_none() && text.ends_with('.') || zones.find(&whole).is_some();
    if is_complete && !is_service {
        return Some(whole);
    }
    let text = own.unwrap_or(&text);
    let mut candidates: Vec<Name> = Vec::new();
    for text in [Some(text.to_owned()), name_of_object(table, text)]
        .iter()
        .flatten()
    {
        let forward = zones.iter().filter(|zone| zone.grammar == Grammar::Global);
        let with_zone = |zone: &Zone| Name::from_text(&format!("{text}.{}", zone.name));
        candidates.extend(forward.filter_map(with_zone));
    }
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

/// Returns the host of a URL or of a host with a port; another text as it is.
fn host_of(text: &str) -> String {
    let text = match text.split_once("://") {
        Some((_, rest)) => rest.split(['/', '?', '#', ',']).next().unwrap_or_default(),
        None => text,
    };
    match text.parse::<Authority>() {
        Ok(authority) => authority.host().trim_matches(['[', ']']).to_owned(),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{endpoint, mirror, table, zones};

    fn asked(text: &str) -> String {
        let objects = [
            mirror("prod", "db", "east"),
            endpoint("prod", "db", "east", "db-0", &["10.96.0.1"]),
        ];
        let name = read_asked(&zones(&["global"]), &table(&objects), text);
        name.unwrap().to_string()
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
            (
                "mongodb://db.prod:27017,db-1.db.prod:27017/data",
                "db.prod.global.",
            ),
            (
                "postgres://user:secret@db.prod.global:5432/data",
                "db.prod.global.",
            ),
            ("db.prod:5432", "db.prod.global."),
            ("db-east.prod", "east.db.prod.global."),
            (
                "db-0-east.prod.svc.cluster.local",
                "db-0.east.db.prod.global.",
            ),
            ("http://[fd00::1]:80/", "fd00::1."),
            ("10.96.0.1:53", "db-0.east.db.prod.global."),
            ("10.96.0.2", "10.96.0.2."),
            ("www.example.org", "www.example.org."),
        ] {
            assert_eq!(asked(text), expected, "{text}");
        }
    }
}
