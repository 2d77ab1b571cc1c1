//! The owner of one short name `S.Z`, and the namespaces that claim it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::service::Service;
use crate::model::{Namespace, Problem};

/// The owner of the short name `S.Z`, and the namespaces that have such a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortName {
    /// The service that owns it, or the reason for which none does.
    pub owner: Result<Arc<Service>, NoOwner>,
    /// Whether a canonical name hides the short name `C.S.Z` of one of its clusters.
    pub has_hidden_cluster: bool,
    /// The namespaces with a service of this name.
    pub claims: BTreeMap<Namespace, Claim>,
    /// That it is ambiguous, or one for each short name `C.S.Z` that a canonical name hides. Sorted.
    pub problems: Box<[Problem]>,
}

/// The claim of a namespace to the short name of its service, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The name of the service fails before anything of it exists. A setting assigns the short name to it if it is not that of
    /// another namespace.
    Failing,
    /// The same, and the Service of this cluster is headless. If it is the only one, the short name is its own without a
    /// setting, until a headless service exists.
    FailingHeadless,
    /// The service is not headless. Only a setting assigns the short name to it.
    Other,
    /// The service is headless. If it is the only one, the short name is its own without a setting.
    Headless,
}

/// The reason for which a short name has no owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOwner {
    /// `shortNames.which: off`.
    Off,
    /// `shortNames.pinned` assigns it to a namespace that does not have the service.
    Pinned(Namespace),
    /// No setting assigns it to a namespace that has the service, and it needs one: with `shortNames.which: pinned`, or because
    /// the service is not headless.
    Unpinned,
    /// Several namespaces have the service, and no setting assigns the name.
    Ambiguous,
}

// === impl ShortName ===

impl ShortName {
    /// Returns the namespaces with at least a claim, sorted.
    pub fn namespaces(&self, least: Claim) -> impl Iterator<Item = &Namespace> {
        let claims = self
            .claims
            .iter()
            .filter(move |(_, claim)| **claim >= least);
        claims.map(|(namespace, _)| namespace)
    }
}

// === impl Claim ===

impl Claim {
    /// Returns the claim of a service. One that only has settings takes no name from another.
    pub(super) fn of(service: &Service) -> Option<Self> {
        match service {
            one if !one.is_known => one.failure.map(|_| match one.is_headless {
                true => Self::FailingHeadless,
                false => Self::Failing,
            }),
            one if one.is_headless => Some(Self::Headless),
            _ => Some(Self::Other),
        }
    }
}
