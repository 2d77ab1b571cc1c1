//! Which endpoints of an owner name answers include, by their liveness (rules M4, L3).

use super::endpoint::{Endpoint, EndpointLiveness};
use crate::model::GatewayDown;

/// The endpoints of an owner name that answers include, by their liveness. It is decided once for each name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Included {
    /// Those that are alive.
    #[default]
    Alive,
    /// Those of clusters that are not unlinked.
    Linked,
    /// All: nothing better is left.
    All,
}

// === impl GatewayDown ===

impl GatewayDown {
    /// Decides for an owner name which endpoints answers include (rules M4, L3). `covered` are the endpoints that the name
    /// stands for.
    pub fn included<'e>(self, covered: impl Iterator<Item = &'e Endpoint> + Clone) -> Included {
        let best = match self {
            Self::LastResort => Included::Alive,
            Self::Include => Included::Linked,
        };
        let is_enough = |included: &Included| covered.clone().any(|one| included.has(one));
        let all = [best, Included::Linked];
        all.into_iter().find(is_enough).unwrap_or(Included::All)
    }
}

// === impl Included ===

impl Included {
    /// Returns whether answers include an endpoint of the name.
    #[inline]
    pub fn has(self, endpoint: &Endpoint) -> bool {
        match self {
            Self::Alive => endpoint.is_alive(),
            Self::Linked => endpoint.liveness != EndpointLiveness::Unlinked,
            Self::All => true,
        }
    }
}
