//! The endpoints that have an address, and the names that return it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::table::{Endpoint, Table};
use crate::view::endpoint::{ListedEndpoint, NameReply};
use crate::view::server::Shown;
use crate::zone::Name;
use crate::zone::print::{bases_of_service, names_of_endpoint};

/// Returns the endpoints of all services that have an address. The names of their services return them or not.
pub(super) fn endpoints_with(table: &Table, address: IpAddr) -> Vec<ListedEndpoint<'_>> {
    let services = table.sorted_services().into_iter();
    let endpoints = services.flat_map(ListedEndpoint::of_service);
    endpoints.filter(|one| has(one.endpoint, address)).collect()
}

/// Returns the names that return an address, of endpoints that have it.
pub(super) fn names_with(
    shown: &Shown<'_>,
    table: &Table,
    endpoints: &[ListedEndpoint<'_>],
    address: IpAddr,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for zone in shown.server.zones.iter() {
        for one in endpoints {
            for base in bases_of_service(zone, table, one.service) {
                names.extend(names_of_endpoint(zone.grammar, one.endpoint, &base));
            }
        }
    }
    // Names with a port have no addresses.
    names.retain(|name| !name.starts_with('_') && is_returned(shown, name, address));
    names
}

fn is_returned(shown: &Shown<'_>, name: &str, address: IpAddr) -> bool {
    let (zones, published) = (&shown.server.zones, &shown.published);
    Name::from_text(name).is_some_and(|name| {
        let reply = NameReply::of_name(zones, published, &name);
        matches!(reply, NameReply::Endpoints(view) if view.endpoints().any(|one| has(one, address)))
    })
}

fn has(endpoint: &Endpoint, address: IpAddr) -> bool {
    endpoint.addresses.iter().any(|one| one.ip == address)
}

/// Describes an address by the number of names that return it and of endpoints that have it.
pub(super) fn describe(names: usize, endpoints: usize) -> String {
    match (names, endpoints) {
        (0, 0) => "not the address of an endpoint".to_owned(),
        (0, _) => "the address of an endpoint that no name returns".to_owned(),
        (1, _) => "an address that 1 name returns".to_owned(),
        (count, _) => format!("an address that {count} names return"),
    }
}
