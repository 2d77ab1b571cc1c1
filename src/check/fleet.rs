//! Comparison of several clusters, or of the replicas of one: `global-dns fleet`.
//!
//! [`compare`] is a pure function of what servers say. A server whose answers differ from those of the other replicas of its
//! cluster is an observer of its own. Addresses differ from cluster to cluster and are never compared. One cause is one line:
//! services that differ only because a Link is missing are counted in the line of that Link.

mod difference;
mod links;
mod names;
mod observer;
mod servers;
mod services;
mod settings;

use serde_json::{Value, json};

use super::finding::{self, Check, Finding, list};
use crate::view::{Column, Document, Section};
use difference::Differences;
use observer::Observer;

pub use observer::{Member, Replica};

/// Compares the members of a fleet.
pub fn compare(members: &[Member]) -> Document {
    let mut found = Differences::default();
    let read = distinct(members, &mut found);
    servers::compare_servers(&read, &mut found);
    let mut observers = observer::all(&read);
    names::unify(&mut observers, &mut found);
    links::compare(&observers, &mut found);
    let differences = services::compare_hosts(&observers, &mut found);
    settings::compare_services(&observers, &mut found);
    let clusters = clusters(members, &observers);
    let sections = vec![clusters, links::matrix(&observers), differences];
    let mut findings = Vec::new();
    if !read.is_empty() {
        let names = list(read.iter().map(|(context, _)| context));
        findings.push(Finding::ok(
            Check::FleetClusters,
            format!("compared {names}"),
        ));
    }
    findings.extend(found.findings());
    finding::document("fleet", "", sections, &findings)
}

/// Returns the members that were read, each cluster once.
fn distinct<'m>(
    members: &'m [Member],
    found: &mut Differences<'_>,
) -> Vec<(&'m str, &'m [Replica])> {
    const UNREAD: &str = "the permissions of explain in this cluster suffice; check its API server, and the pods of its server";
    let mut read = Vec::<(&str, &[Replica])>::new();
    let mut fail = |sentence: String, hint| {
        found.add([Finding::failing(Check::FleetClusters, sentence, hint)])
    };
    for Member { context, replicas } in members {
        let replicas = match replicas {
            Ok(replicas) => replicas,
            Err(why) => {
                fail(format!("{context} cannot be read: {why}"), UNREAD);
                continue;
            }
        };
        let is_known =
            |one: &Replica| one.id().is_some() && replicas.iter().any(|own| own.id() == one.id());
        match read.iter().find(|(_, known)| known.iter().any(is_known)) {
            Some((first, _)) => fail(
                format!("{first} and {context} are the same cluster"),
                "name each cluster once, by one context or server",
            ),
            None => read.push((context, replicas)),
        }
    }
    read
}

/// Makes the section with a row for each member.
fn clusters(members: &[Member], observers: &[Observer<'_>]) -> Section {
    let head = [
        "CONTEXT", "CLUSTER", "VERSION", "TABLE", "REPLICAS", "SERVICES",
    ];
    let mut section = Section::new("clusters", head.map(Column::text));
    for Member { context, replicas } in members {
        let names = replicas.iter().flatten().map(|one| one.name.as_str());
        let object = match observers.iter().find(|one| one.context == *context) {
            None => json!({"section": "clusters", "context": context}),
            Some(own) => json!({
                "section": "clusters", "context": context, "cluster": own.cluster,
                "version": own.status["version"], "state": own.status["state"],
                "replicas": names.collect::<Vec<_>>(), "services": own.services.len(),
            }),
        };
        let fields = [
            "context", "cluster", "version", "state", "replicas", "services",
        ];
        let cells = fields.map(|field| match &object[field] {
            Value::String(text) => text.clone(),
            Value::Array(all) => all.len().to_string(),
            Value::Null => "-".to_owned(),
            other => other.to_string(),
        });
        section.push(cells, &object);
    }
    section
}

#[cfg(test)]
mod tests;
