//! The targets of PTR records: names that return an endpoint with the address.

use super::read::read;
use super::reading::{Pointers, Reading, View};
use super::record_name::RecordName;
use super::zones::{Zone, ZoneKind};
use crate::table::Endpoint;

impl<'t> Pointers<'t> {
    /// Returns the endpoints with the address and their names, alive or not: a name of one endpoint is never filtered by
    /// liveness (rule M4). A name that does not resolve to its endpoint is omitted: it belongs to a child zone, or to the
    /// zone itself.
    pub fn named(&self) -> impl Iterator<Item = (&'t Endpoint, RecordName<'t>)> + use<'t> {
        let pointers = *self;
        self.selected().filter_map(move |(service, endpoint)| {
            let target = RecordName::of_endpoint(endpoint, &service.key, pointers.below);
            let is_named = pointers.resolves(&target, endpoint);
            is_named.then_some((endpoint, target))
        })
    }

    /// Returns the names of [`Pointers::named`].
    pub fn targets(&self) -> impl Iterator<Item = RecordName<'t>> + use<'t> {
        self.named().map(|(_, target)| target)
    }

    /// Returns whether a name returns an endpoint.
    fn resolves(&self, name: &RecordName<'_>, endpoint: &Endpoint) -> bool {
        let is_forward = |zone: &Zone| !matches!(zone.kind, ZoneKind::Reverse(_));
        let name = name
            .to_name()
            .filter(|name| self.zones.find(name).is_some_and(is_forward));
        let reading = name.map(|name| read(self.zones, self.table, &name));
        let returns = |view: &View<'_>| view.endpoints().any(|one| std::ptr::eq(one, endpoint));
        matches!(&reading, Some(Reading::View(_, view)) if returns(view))
    }
}
