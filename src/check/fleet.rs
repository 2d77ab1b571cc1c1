//! Comparison of several clusters, or of the replicas of one: `global-dns fleet`.
//!
//! [`compare`] is a pure function of what servers say. Each server that answers otherwise than the other replicas of its cluster is an
//! observer of its own. Addresses differ from cluster to cluster and are never compared. One cause is one line: services that differ
//! only because a Link is missing are counted in the line of that Link.

mod causes;
mod links;
mod names;
mod observer;
mod servers;
mod services;
mod settings;

use serde_json::{Value, json};

use super::finding::{self, Check, Finding, list, text};
use crate::view::{Column, Document, Section};
use links::Directions;
use observer::Observer;

/// Maximum number of observers whose columns fit into a text of the usual width.
const MAX_COLUMNS: usize = 10;

/// One cluster of a fleet.
#[derive(Clone, Debug)]
pub struct Member {
    /// The context, or the name that a flag gives to a server or to files.
    pub context: String,
    /// Its replicas, or why none can be read.
    pub replicas: Result<Vec<Replica>, Unread>,
}

/// What one replica says.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Its pod, or how it names itself.
    pub name: String,
    /// What no other process has: the unique ID of its pod. Empty: not known.
    pub id: String,
    /// Its status, or why it cannot be read.
    pub status: Result<Value, Unread>,
    /// The difference of its clock from that of this machine in seconds, if it is known.
    pub clock_ahead: Option<i64>,
    /// Its table. `None`: another replica of the cluster has the same answers.
    pub table: Option<ReplicaTable>,
}

/// The table of a replica: the items of its API.
#[derive(Clone, Debug, Default)]
pub struct ReplicaTable {
    /// `table`.
    pub services: Vec<Value>,
    /// `endpoints`.
    pub endpoints: Vec<Value>,
    /// `problems`.
    pub problems: Vec<Value>,
}

/// Why something cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The reason.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

/// Compares the members of a fleet.
pub fn compare(members: &[Member]) -> Document {
    let (read, mut findings) = distinct(members);
    findings.extend(servers::check(&read));
    let mut observers = observer::all(&read);
    findings.extend(names::unify(&mut observers));
    let mut links = Directions::of(&observers);
    let of_services = services::compare(&observers, &mut links);
    let of_settings = settings::compare(&observers, &of_services.services);
    findings.extend(links.findings(&observers));
    findings.extend(of_services.findings);
    findings.extend(of_settings);
    let sections = vec![
        clusters(members, &observers),
        links.matrix(&observers),
        of_services.table,
    ];
    finding::document("fleet", "", sections, &findings)
}

/// Returns the members that were read, each cluster once, and the findings about the others.
fn distinct(members: &[Member]) -> (Vec<(&str, &[Replica])>, Vec<Finding>) {
    let (mut read, mut findings) = (Vec::<(&str, &[Replica])>::new(), Vec::new());
    for Member { context, replicas } in members {
        let replicas = match replicas {
            Ok(replicas) => replicas,
            Err(Unread { reason, hint }) => {
                let sentence = format!("{context} cannot be read: {reason}");
                findings.push(Finding::failing(
                    Check::FleetClusters,
                    sentence,
                    hint.as_str(),
                ));
                continue;
            }
        };
        let is_known =
            |one: &Replica| !one.id.is_empty() && replicas.iter().any(|own| own.id == one.id);
        match read.iter().find(|(_, known)| known.iter().any(is_known)) {
            Some((first, _)) => findings.push(Finding::failing(
                Check::FleetClusters,
                format!("{first} and {context} are the same cluster"),
                "name each cluster once, by one context or server",
            )),
            None => read.push((context, replicas)),
        }
    }
    if findings.is_empty() {
        let names = list(read.iter().map(|(context, _)| context));
        findings.push(Finding::ok(
            Check::FleetClusters,
            format!("{names} can be read"),
        ));
    }
    (read, findings)
}

/// Makes the section with a row for each member.
fn clusters(members: &[Member], observers: &[Observer<'_>]) -> Section {
    let head = [
        "CONTEXT", "CLUSTER", "VERSION", "TABLE", "REPLICAS", "SERVICES",
    ];
    let mut section = Section::new("clusters", head.map(Column::text));
    for Member { context, replicas } in members {
        let own = observers.iter().find(|one| one.context == *context);
        let replicas: Vec<&str> = replicas
            .iter()
            .flatten()
            .map(|one| one.name.as_str())
            .collect();
        let object = match own {
            None => json!({"section": "clusters", "context": context}),
            Some(own) => json!({
                "section": "clusters", "context": context, "cluster": own.cluster,
                "version": own.status["version"], "state": own.status["state"],
                "replicas": replicas, "services": own.services.len(),
            }),
        };
        let told = |field| match text(&object, field) {
            "" => "-".to_owned(),
            text => text.to_owned(),
        };
        let count = |count: usize| own.map_or("-".to_owned(), |_| count.to_string());
        let cells = [
            context.clone(),
            told("cluster"),
            told("version"),
            told("state"),
            count(replicas.len()),
            count(own.map_or(0, |own| own.services.len())),
        ];
        section.push(cells, &object);
    }
    section
}

/// Returns a column for each observer after some columns.
fn columns(first: &[&str], observers: &[Observer<'_>]) -> Vec<Column> {
    let names = observers.iter().enumerate().map(|(index, one)| {
        if index < MAX_COLUMNS {
            Column::text(&one.name)
        } else {
            Column::wide(&one.name)
        }
    });
    first
        .iter()
        .map(|name| Column::text(name))
        .chain(names)
        .collect()
}

#[cfg(test)]
mod tests;
