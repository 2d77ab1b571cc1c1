//! The endpoints that have an address, and the names that return it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::table::{Endpoint, Published, Table};
use crate::view::endpoint::{ListedEndpoint, NameReply};
use crate::zone::print::{bases_of_service, names_of_endpoint};
use crate::zone::{Name, Zones};

/// Returns the endpoints of all services that have an address. The names of their services return them or not.
pub(super) fn endpoints_with(table: &Table, address: IpAddr) -> Vec<ListedEndpoint<'_>> {
    let services = table.sorted_services().into_iter();
    let endpoints = services.flat_map(ListedEndpoint::of_service);
    endpoints.filter(|one| has(one.endpoint, address)).collect()
}

/// Returns the names that return an address, of endpoints that have it.
pub(super) fn names_with(
    zones: &Zones,
    published: &Published,
    table: &Table,
    endpoints: &[ListedEndpoint<'_>],
    address: IpAddr,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for zone in zones.iter() {
        for one in endpoints {
            for base in bases_of_service(zone, table, one.service) {
                names.extend(names_of_endpoint(zone.grammar, one.endpoint, &base));
            }
        }
    }
    // Names with a port have no addresses.
    names.retain(|name| !name.starts_with('_') && is_returned(zones, published, name, address));
    names
}

fn is_returned(zones: &Zones, published: &Published, name: &str, address: IpAddr) -> bool {
    let Some(name) = Name::from_text(name) else {
        return false;
    };
    match NameReply::of_name(zones, published, &name) {
        NameReply::Endpoints(view) => view.endpoints().any(|one| has(one, address)),
        NameReply::Failing(_) | NameReply::Nothing(_) => false,
    }
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
