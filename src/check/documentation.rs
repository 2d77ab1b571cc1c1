//! The documentation of each check: a section of `README.md` beside this file, and the link to it.

use serde::{Serialize, Serializer};

use super::finding::Check;

/// The document, with one section for each check.
const README: &str = include_str!("README.md");
/// The path of the document in the repository.
const PATH: &str = "src/check/README.md";

impl Check {
    /// Returns the name of the check in JSON and for `check --explain`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "api-server",
            Self::Permissions => "permissions",
            Self::MorePermissions => "more-permissions",
            Self::Mirrors => "mirrors",
            Self::HeadlessMirroring => "headless-mirroring",
            Self::OrphanedMirrors => "orphaned-mirrors",
            Self::LinkStatus => "link-status",
            Self::Namespaces => "namespaces",
            Self::EndpointMirrors => "endpoint-mirrors",
            Self::ClobberedMirrors => "clobbered-mirrors",
            Self::Identity => "identity",
            Self::MirrorLabels => "mirror-labels",
            Self::LongNames => "long-names",
            Self::OpaquePorts => "opaque-ports",
            Self::Gateways => "gateways",
            Self::ServiceImports => "service-imports",
            Self::ShortNames => "short-names",
            Self::Conflicts => "conflicts",
            Self::SkippedObjects => "skipped-objects",
            Self::AnswerSizes => "answer-sizes",
            Self::FailoverOrders => "failover-orders",
            Self::ExpectedClusters => "expected-clusters",
            Self::Server => "server",
            Self::Forwarding => "forwarding",
            Self::DirectAnswer => "direct-answer",
            Self::ClusterAnswer => "cluster-answer",
            Self::Resolver => "resolver",
            Self::Connections => "connections",
            Self::Versions => "versions",
        }
    }

    /// Returns the heading of the check's section.
    pub fn heading(self) -> &'static str {
        match self {
            Self::ApiServer => "API server",
            Self::Permissions => "Permissions",
            Self::MorePermissions => "More permissions than needed",
            Self::Mirrors => "Mirrors",
            Self::HeadlessMirroring => "Headless mirroring",
            Self::OrphanedMirrors => "Orphaned mirrors",
            Self::LinkStatus => "Link status",
            Self::Namespaces => "Missing namespaces",
            Self::EndpointMirrors => "Missing endpoint mirrors",
            Self::ClobberedMirrors => "Overwritten headless mirrors",
            Self::Identity => "Mirrors written by two Links",
            Self::MirrorLabels => "Mirror labels",
            Self::LongNames => "Long names",
            Self::OpaquePorts => "Opaque ports",
            Self::Gateways => "Gateways",
            Self::ServiceImports => "ServiceImports",
            Self::ShortNames => "Short names",
            Self::Conflicts => "Other conflicts",
            Self::SkippedObjects => "Skipped objects",
            Self::AnswerSizes => "Answer sizes",
            Self::FailoverOrders => "Failover orders",
            Self::ExpectedClusters => "Expected clusters",
            Self::Server => "Server",
            Self::Forwarding => "Forwarding",
            Self::DirectAnswer => "Answer of the server",
            Self::ClusterAnswer => "Answer of the cluster DNS",
            Self::Resolver => "Resolver",
            Self::Connections => "Connections",
            Self::Versions => "Versions",
        }
    }

    /// Returns the anchor that GitHub generates for the heading.
    pub fn anchor(self) -> String {
        self.heading().to_lowercase().replace(' ', "-")
    }

    /// Returns the section of the check, with its heading.
    pub fn documentation(self) -> String {
        let heading = self.heading();
        let (_, rest) = README
            .split_once(&format!("\n## {heading}\n"))
            .unwrap_or_default();
        let text = rest.split("\n## ").next().unwrap_or_default().trim();
        format!("{heading}\n\n{text}\n")
    }

    /// Returns the link to the section: a URL if Cargo.toml names a repository, and otherwise a path in the repository.
    pub fn link(self) -> String {
        self.link_in(crate::REPOSITORY)
    }

    pub(super) fn link_in(self, repository: &str) -> String {
        let anchor = self.anchor();
        match repository {
            "" => format!("{PATH}#{anchor}"),
            repository => format!("{repository}/blob/main/{PATH}#{anchor}"),
        }
    }

    /// Returns the reference to the section for people: a URL if Cargo.toml names a repository, and otherwise the
    /// command that prints the section.
    pub(super) fn reference(self) -> String {
        self.reference_in(crate::REPOSITORY)
    }

    pub(super) fn reference_in(self, repository: &str) -> String {
        match repository {
            "" => format!("global-dns check --explain {}", self.name()),
            repository => self.link_in(repository),
        }
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
