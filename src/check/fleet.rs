//! Comparison of several clusters, or of the replicas of one: `global-dns fleet`.
//!
//! [`compare`] is a pure function of what servers say. A server whose answers differ from those of the other replicas of its
//! cluster is an observer of its own. Addresses differ from cluster to cluster and are never compared. Each difference is a row with
//! one cause: settings first, then links, then the hosts themselves.

mod hosts;
mod observer;
mod servers;
mod settings;

use serde_json::{Value, json};

use super::finding::{self, Check, Finding, list};
use crate::view::{Column, Document, Section};
use observer::{Observer, ServiceLines};

pub use observer::{Member, ReplicaFacts, ServerTable};

/// Compares the members of a fleet.
pub fn compare(members: &[Member]) -> Document {
    let (mut lines, mut rows) = (Vec::new(), ServiceLines::new());
    let read = distinct(members, &mut lines);
    servers::compare(&read, &mut lines);
    let observers = observer::all(&read, &mut lines);
    observer::compare_links(&observers, &mut lines);
    let differences = hosts::compare(&observers, &mut rows);
    settings::compare(&observers, &mut rows);
    let sections = vec![
        clusters(members, &observers),
        observer::matrix(&observers),
        differences,
    ];
    let mut findings = Vec::new();
    if !read.is_empty() {
        let names = list(read.iter().map(|member| &member.context));
        findings.push(Check::FleetClusters.ok(format!("compared {names}")));
    }
    findings.extend(observer::findings(lines, rows));
    finding::document("fleet", "", sections, &findings)
}

/// Returns the members that were read, each cluster once.
fn distinct<'m>(members: &'m [Member], lines: &mut Vec<Finding>) -> Vec<&'m Member> {
    const UNREAD: &str = "the permissions of explain in this cluster suffice; check its API server, and the pods of its server";
    const TWICE: &str = "name each cluster once, by one context or server";
    let mut read = Vec::<&Member>::new();
    for member in members {
        let context = &member.context;
        let is_same = |one: &&&Member| !one.processes().is_disjoint(&member.processes());
        let (what, hint) = if let Err(why) = &member.replicas {
            (format!("{context} cannot be read: {why}"), UNREAD)
        } else if let Some(first) = read.iter().find(is_same) {
            let first = &first.context;
            (format!("{first} and {context} are the same cluster"), TWICE)
        } else {
            read.push(member);
            continue;
        };
        lines.push(Check::FleetClusters.failing(what, hint));
    }
    read
}

/// Makes the section with a row for each member.
fn clusters(members: &[Member], observers: &[Observer<'_>]) -> Section {
    let head = [
        "CONTEXT", "CLUSTER", "VERSION", "TABLE", "REPLICAS", "SERVICES",
    ];
    let mut section = Section::new("clusters", head.map(Column::text));
    for member in members {
        let context = &member.context;
        let names = member.read().iter().map(|one| one.name.as_str());
        let own = observers.iter().find(|one| one.member.context == *context);
        let object = match own {
            None => json!({"context": context}),
            Some(own) => json!({
                "context": context, "cluster": own.cluster,
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
