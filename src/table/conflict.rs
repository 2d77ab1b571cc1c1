//! Conflicts between objects.

use serde::{Deserialize, Serialize};

use crate::model::Line;

/// A conflict between objects or between names. Every conflict is logged, counted, and listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Conflict {
    /// The kind, a metric label.
    pub kind: ConflictKind,
    /// The service (`namespace/service`), object or owner name that the conflict concerns.
    pub name: Line,
    /// An explanation.
    pub detail: Line,
}

/// The kinds of conflicts. The set is fixed, because kinds are values of a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictKind {
    /// Several namespaces have a service of the same name, and no flag assigns the short name. No namespace owns it.
    ShortName,
    /// A canonical name hides a short one.
    Shadowed,
    /// Two sources have one cluster name (rule M6).
    ClusterName,
    /// Two objects have the name of one endpoint.
    Endpoint,
    /// The service or endpoint of a mirror changed: two Links write one object (rule M8).
    Identity,
    /// Clusters have a service in kinds that cannot be combined (rule K1).
    Kind,
    /// A Service of this cluster is a member here but is not exported, so that other clusters do not have it.
    NotExported,
    /// Annotations of the members differ or are invalid.
    Annotation,
}

// === impl ConflictKind ===

impl ConflictKind {
    /// All kinds. Metrics have a value for each, even if it is zero.
    pub const ALL: [Self; 8] = [
        Self::ShortName,
        Self::Shadowed,
        Self::ClusterName,
        Self::Endpoint,
        Self::Identity,
        Self::Kind,
        Self::NotExported,
        Self::Annotation,
    ];

    /// Returns the kind's name in logs, metrics and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ShortName => "short-name",
            Self::Shadowed => "shadowed",
            Self::ClusterName => "cluster-name",
            Self::Endpoint => "endpoint",
            Self::Identity => "identity",
            Self::Kind => "kind",
            Self::NotExported => "not-exported",
            Self::Annotation => "annotation",
        }
    }
}
