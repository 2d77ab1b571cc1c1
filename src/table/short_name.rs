//! The owner of a short name `S.Z`. [`short`](super::short) assigns it.

use crate::model::Namespace;

/// The owner and the claimants of the short name `S.Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortName {
    /// The owner, or the reason for which there is none.
    pub owner: Result<Namespace, NoOwner>,
    /// The namespaces with a headless service of this name, sorted. They claim the name without a flag.
    pub claimants: Box<[Namespace]>,
    /// The namespaces with a service of another kind, sorted. Only a flag assigns the name to one of them.
    pub others: Box<[Namespace]>,
    /// The namespaces where the name of the service fails before anything of it exists, sorted. A flag assigns the name to
    /// one of them if no other namespace owns it.
    pub failing: Box<[Namespace]>,
}

/// The reason for which a short name has no owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOwner {
    /// `--short-names off`.
    Off,
    /// `--short-name` assigns it to a namespace that does not have the service.
    Pinned(Namespace),
    /// No flag assigns it to a namespace that has the service, and it needs a flag: with `--short-names pinned`, or because
    /// the service is not headless.
    Unpinned,
    /// Several namespaces have the service, and no flag assigns the name.
    Contested,
}
