//! Inputs → table: rules M1–M9. Pure: values in, a value out; no clock, no I/O, no lock, no log.
//!
//! [`build`] makes the services anew that changed and shares the others with the table before. Building everything at
//! once gives the same table; a property test says so.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::inputs::{Dirty, Inputs};
use super::local::non_member_of;
use super::members::build_service;
use super::rules::Rules;
use super::{Addresses, Service, Table, short};
use crate::mirror::ServiceKey;

/// The outcome of a build.
#[derive(Debug)]
pub struct Built {
    /// The next table.
    pub table: Table,
    /// It differs from the one before.
    pub is_changed: bool,
}

/// Builds the table that follows `last` after the services in `dirty` changed.
pub fn build(last: &Table, inputs: &Inputs, dirty: &Dirty, rules: &Rules) -> Built {
    let mut table = last.clone();
    table.skipped = inputs.skipped().clone();
    let mut is_changed = table.skipped != last.skipped;
    for key in dirty {
        is_changed |= note_non_member(&mut table, key, inputs, rules);
        let old = last.service(key.namespace.as_str(), key.service.as_str());
        let new = build_service(key, inputs, rules);
        if old == new.as_ref() {
            continue;
        }
        is_changed = true;
        if rules.has_reverse_zones {
            index_addresses(&mut table.addresses, key, old, new.as_ref());
        }
        put(&mut table, key, new);
    }
    is_changed |= short::assign(last, &mut table, dirty, rules);
    short::note_conflicts(&mut table, dirty);
    Built { table, is_changed }
}

/// Notes why the headless Service of this cluster with a service's name is no member, if it is none; tells whether that is
/// news.
fn note_non_member(table: &mut Table, key: &ServiceKey, inputs: &Inputs, rules: &Rules) -> bool {
    let why = non_member_of(key, inputs, rules);
    if table.non_members.get(key) == why.as_ref() {
        return false; // nothing is copied
    }
    match why {
        Some(why) => table.non_members.insert(key.clone(), why),
        None => table.non_members.remove(key),
    };
    true
}

/// Notes which addresses lead to a service now.
fn index_addresses(
    addresses: &mut Addresses,
    key: &ServiceKey,
    old: Option<&Service>,
    new: Option<&Service>,
) {
    let (old, new) = (addresses_of(old), addresses_of(new));
    for gone in old.difference(&new) {
        remove_address(addresses, gone, key);
    }
    for added in new.difference(&old) {
        add_address(addresses, *added, key);
    }
}

/// Returns the addresses of the endpoints of a service.
fn addresses_of(service: Option<&Service>) -> BTreeSet<IpAddr> {
    let endpoints = service.into_iter().flat_map(|service| &service.endpoints);
    endpoints
        .flat_map(|endpoint| &endpoint.addresses)
        .map(|address| address.ip)
        .collect()
}

/// Notes that an address does not lead to a service any more. The set is changed where it lies: thousands of services
/// may have one address, and a copy of all of them for each would take for ever.
fn remove_address(addresses: &mut Addresses, address: &IpAddr, key: &ServiceKey) {
    let Some(services) = addresses.get_mut(address) else {
        return;
    };
    let services = Arc::make_mut(services);
    services.remove(key);
    if services.is_empty() {
        addresses.remove_mut(address);
    }
}

/// Notes that an address leads to a service, where the set lies, too.
fn add_address(addresses: &mut Addresses, address: IpAddr, key: &ServiceKey) {
    match addresses.get_mut(&address) {
        Some(services) => {
            Arc::make_mut(services).insert(key.clone());
        }
        None => {
            let services = BTreeSet::from([key.clone()]);
            addresses.insert_mut(address, Arc::new(services));
        }
    }
}

/// Puts the new version of a service in the place of the old one.
fn put(table: &mut Table, key: &ServiceKey, service: Option<Service>) {
    let has_endpoints = |service: &Service| usize::from(!service.endpoints.is_empty());
    // Taken out, so that it is copied once for a build and not for each of its services.
    let mut namespace = table.namespaces.remove(&key.namespace).unwrap_or_default();
    let of_namespace = Arc::make_mut(&mut namespace);
    of_namespace.with_endpoints += service.as_ref().map_or(0, has_endpoints);
    let services = &mut of_namespace.services;
    let old = match service {
        Some(service) => services.insert(key.service.clone(), Arc::new(service)),
        None => services.remove(&key.service),
    };
    of_namespace.with_endpoints -= old.map_or(0, |old| has_endpoints(&old));
    if !of_namespace.services.is_empty() {
        table.namespaces.insert(key.namespace.clone(), namespace);
    }
}

#[cfg(test)]
mod tests;
