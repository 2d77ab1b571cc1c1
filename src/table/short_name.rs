//! The owner of a short name `S.Z`. [`short`](super::short) assigns it.

use crate::model::Namespace;

/// The owner of the short name `S.Z`, and the namespaces that have such a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortName {
    /// The owner, or the reason for which there is none.
    pub owner: Result<Namespace, NoOwner>,
    /// The namespaces with a headless service of this name, sorted. If there is one, the name is its own without a flag.
    pub headless: Box<[Namespace]>,
    /// The namespaces with a service of another kind, sorted. Only a flag assigns the name to one of them.
    pub others: Box<[Namespace]>,
    /// The namespaces where the name of the service fails before anything of it exists, sorted. A flag assigns the name to
    /// one of them if it is not that of another namespace.
    pub failing: Box<[Namespace]>,
}

/// The reason for which a short name has no owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoOwner {
    /// `shortNames.which off`.
    Off,
    /// `shortNames.pinned` assigns it to a namespace that does not have the service.
    Pinned(Namespace),
    /// No flag assigns it to a namespace that has the service, and it needs a flag: with `shortNames.which pinned`, or because
    /// the service is not headless.
    Unpinned,
    /// Several namespaces have the service, and no setting assigns the name.
    Ambiguous,
}
