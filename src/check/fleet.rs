//! Comparison of several clusters: `global-dns fleet`.
//!
//! [`compare`] is a pure function of the documents of the clusters' servers. `app` gathers them. Addresses differ from cluster
//! to cluster and are never compared. One cause is one line: services that differ only because a Link is missing are counted
//! in the line of that Link.

mod causes;
mod clusters;
mod document;
mod links;
mod member;
mod names;
mod report;
mod servers;
mod services;
mod settings;

pub use document::{ReplicaStatus, ServerTable};
pub use member::{Member, MemberFacts, ReplicaFacts};
pub use report::Fleet;

use super::finding::Diagnosis;
use super::gateway;

/// Compares the clusters of a fleet.
pub fn compare(members: &[Member]) -> Fleet {
    let (read, mut findings) = clusters::distinct(members);
    findings.extend(servers::check(&read));
    let (clusters, of_names) = names::canonical(&read);
    findings.extend(of_names);
    let mut links = links::Directions::of(&clusters);
    let of_services = services::compare(&clusters, &mut links);
    let of_settings = settings::compare(&clusters, &of_services);
    findings.extend(links.findings(&clusters));
    findings.extend(of_services.findings);
    findings.extend(of_settings);
    for cluster in &clusters {
        let mut finding = gateway::check(&cluster.facts.gateways);
        finding.sentence = format!("{}: {}", cluster.name, finding.sentence).into();
        findings.push(finding);
    }
    findings.sort_by_key(|finding| finding.check as usize);
    Fleet::new(members, &clusters, &links, Diagnosis(findings))
}

#[cfg(test)]
mod tests;
