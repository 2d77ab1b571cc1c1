//! Contradictions between objects, which are reported and never silent.

use serde::{Deserialize, Serialize};

/// Something that contradicts something else. Never silent: logged, counted, listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Conflict {
    /// The kind, a metric label.
    pub kind: ConflictKind,
    /// The service (`namespace/service`) or the owner name concerned.
    pub name: String,
    /// One sentence.
    pub detail: String,
}

/// The kinds of conflicts. A closed set, so that it can be a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictKind {
    /// Several namespaces have a service of the same name, and no flag says whose the short name is: nobody's.
    ShortName,
    /// A canonical name hides a short one.
    Shadowed,
    /// Two sources of one cluster name (rule M6).
    ClusterName,
    /// Two objects claim to be one endpoint.
    Endpoint,
    /// A mirror was of something else before (rule M8): two links write one object.
    Identity,
    /// Headless in one cluster, and not in another.
    Headless,
    /// A Service of this cluster joins here, but is not exported: other clusters lack it.
    NotExported,
    /// Members ask for different things by annotation, or for something unreadable.
    Annotation,
}

// === impl ConflictKind ===

impl ConflictKind {
    /// Every kind, for metrics that show zeros too.
    pub const ALL: [Self; 8] = [
        Self::ShortName,
        Self::Shadowed,
        Self::ClusterName,
        Self::Endpoint,
        Self::Identity,
        Self::Headless,
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
            Self::Headless => "headless",
            Self::NotExported => "not-exported",
            Self::Annotation => "annotation",
        }
    }
}
