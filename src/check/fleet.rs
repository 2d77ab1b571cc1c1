//! Comparison of several clusters, or of the replicas of one: `global-dns fleet`.
//!
//! [`compare`] is a pure function of what servers say. A server whose answers differ from those of the other replicas of its
//! cluster is an observer of its own. Addresses differ from cluster to cluster and are never compared. Each difference is a row with
//! one cause: settings first, then links, then the hosts themselves.

mod hosts;
mod mismatch;
mod observer;
mod servers;
mod settings;

use serde_json::{Value, json};

use super::finding::{self, Check, Finding, list};
use crate::view::{Column, Document, Section};
use mismatch::Mismatch;
use observer::Observer;

pub use observer::{Member, ReplicaFacts};

/// Compares the members of a fleet.
pub fn compare(members: &[Member]) -> Document {
    let mut rows = Vec::new();
    let read = distinct(members, &mut rows);
    servers::compare(&read, &mut rows);
    let observers = observer::all(&read, &mut rows);
    observer::compare_links(&observers, &mut rows);
    let differences = hosts::compare(&observers, &mut rows);
    settings::compare(&observers, &mut rows);
    let sections = vec![
        clusters(members, &observers),
        observer::matrix(&observers),
        differences,
    ];
    let mut findings = Vec::new();
    if !read.is_empty() {
        let names = list(read.iter().map(|(member, _)| &member.context));
        findings.push(Finding::ok(
            Check::FleetClusters,
            format!("compared {names}"),
        ));
    }
    findings.extend(mismatch::findings(rows));
    finding::document("fleet", "", sections, &findings)
}

/// Returns the members that were read, each cluster once.
fn distinct<'m>(
    members: &'m [Member],
    rows: &mut Vec<Mismatch<'m>>,
) -> Vec<(&'m Member, &'m [ReplicaFacts])> {
    const UNREAD: &str = "the permissions of explain in this cluster suffice; check its API server, and the pods of its server";
    const TWICE: &str = "name each cluster once, by one context or server";
    let mut read = Vec::<(&Member, &[ReplicaFacts])>::new();
    for member in members {
        let context = &member.context;
        let (what, hint) = match &member.replicas {
            Err(why) => (format!("{context} cannot be read: {why}"), UNREAD),
            Ok(replicas) => {
                let ids: Vec<_> = replicas.iter().filter_map(ReplicaFacts::id).collect();
                let is_known = |one: &ReplicaFacts| one.id().is_some_and(|id| ids.contains(&id));
                let Some((first, _)) = read.iter().find(|(_, known)| known.iter().any(is_known))
                else {
                    read.push((member, replicas));
                    continue;
                };
                let first = &first.context;
                (format!("{first} and {context} are the same cluster"), TWICE)
            }
        };
        let cause = Finding::failing(Check::FleetClusters, "", hint);
        rows.push(Mismatch::new(None, what, "", cause));
    }
    read
}

/// Makes the section with a row for each member.
fn clusters(members: &[Member], observers: &[Observer<'_>]) -> Section {
    let head = [
        "CONTEXT", "CLUSTER", "VERSION", "TABLE", "REPLICAS", "SERVICES",
    ];
    let mut section = Section::new("clusters", head.map(Column::text));
    for Member {
        context, replicas, ..
    } in members
    {
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
