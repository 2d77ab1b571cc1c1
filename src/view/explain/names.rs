//! The name that is explained, and the service that it is about.

use crate::table::{Grammar, Service, Table};
use crate::zone::{Name, Reading, Zones, read, yields};

/// A name, as it was read from the table.
pub(super) struct ReadName<'t> {
    pub(super) zones: &'t Zones,
    pub(super) table: &'t Table,
    pub(super) name: &'t Name,
    pub(super) reading: Reading<'t>,
    /// The labels below the zone, without `svc` in a zone with the grammar `mcs`.
    pub(super) labels: Vec<&'t str>,
    /// The services that the name is about.
    pub(super) services: Vec<&'t Service>,
}

// === impl ReadName ===

impl<'t> ReadName<'t> {
    pub(super) fn new(zones: &'t Zones, table: &'t Table, name: &'t Name) -> Self {
        let reading = read(zones, table, name);
        Self {
            services: services_of_name(zones, table, name, &reading),
            labels: labels_below(zones, name),
            zones,
            table,
            name,
            reading,
        }
    }

    /// Returns whether the name exists (RFC 8020).
    pub(super) fn exists(&self) -> bool {
        exists(&self.reading)
    }

    /// Returns whether the name is in a zone with the grammar `mcs`.
    pub(super) fn is_in_mcs_zone(&self) -> bool {
        is_in_mcs_zone(self.zones, self.name)
    }

    /// Returns the labels below the zone, without those of a port.
    pub(super) fn labels_without_port(&self) -> Vec<&'t str> {
        let labels = self.labels.iter().copied();
        labels.filter(|label| !label.starts_with('_')).collect()
    }
}

/// Returns whether a name exists (RFC 8020).
pub(super) fn exists(reading: &Reading<'_>) -> bool {
    match reading {
        Reading::Outside | Reading::Missing(..) => false,
        Reading::Apex(..)
        | Reading::NsHost(_)
        | Reading::Version(_)
        | Reading::Empty(_)
        | Reading::Failing(..)
        | Reading::View(..) => true,
    }
}

/// Returns the service of a name, or of the longest part of the name that exists.
fn services_of_name<'t>(
    zones: &Zones,
    table: &'t Table,
    name: &Name,
    reading: &Reading<'t>,
) -> Vec<&'t Service> {
    match reading {
        Reading::View(_, view) => return vec![view.service],
        Reading::Failing(_, service, _) => return vec![*service],
        _ => {}
    }
    let labels = labels_below(zones, name);
    let canonical = match labels.as_slice() {
        [.., service, namespace] if is_in_mcs_zone(zones, name) => {
            return table.service(namespace, service).into_iter().collect();
        }
        [.., service, namespace] => table
            .service(namespace, service)
            .filter(|service| !yields(table, service)),
        _ => None,
    };
    let short = labels
        .last()
        .and_then(|service| table.short_service(service));
    canonical.or(short).into_iter().collect()
}

/// Returns whether a name is in a zone with the grammar `mcs`.
fn is_in_mcs_zone(zones: &Zones, name: &Name) -> bool {
    zones
        .find(name)
        .is_some_and(|(zone, _)| zone.grammar == Grammar::Mcs)
}

/// Returns the labels of a name without those of its zone, and without `svc` in a zone with the grammar `mcs`.
pub(super) fn labels_below<'n>(zones: &Zones, name: &'n Name) -> Vec<&'n str> {
    let count = zones.find(name).map_or(name.count(), |(_, count)| count);
    let mut labels: Vec<&str> = (0..count).filter_map(|index| name.label(index)).collect();
    if is_in_mcs_zone(zones, name) {
        labels.pop_if(|last| *last == "svc");
    }
    labels
}
