//! The report on the table as a JSON document that is written one service after the other. It needs memory for one service,
//! not for the document.

use std::collections::BTreeSet;
use std::io;

use serde::Serialize;
use serde::ser::Serializer;

use super::{Report, SchemaVersion, ServiceReport, SkipReport, owns_short_name};
use crate::model::{ObjectRef, Skip};
use crate::table::{Conflict, Published, Service, Table};
use crate::zone::Zones;

/// The parts of a table that are reported, sorted.
pub(super) struct Parts<'t> {
    pub(super) services: Vec<&'t Service>,
    pub(super) skipped: Vec<(ObjectRef, &'t Skip)>,
    pub(super) conflicts: BTreeSet<&'t Conflict>,
}

/// A list whose items are made when they are written.
struct Lazy<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for Lazy<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// Writes the report on the published table: the JSON document of [`Report::new`].
///
/// # Errors
///
/// If writing fails.
pub fn write_report(out: impl io::Write, zones: &Zones, published: &Published) -> io::Result<()> {
    let table = published.table.as_ref();
    let parts = Parts::of(table);
    let services = parts.services.iter();
    let services =
        services.map(|service| ServiceReport::new(service, owns_short_name(service, table)));
    let skipped = parts.skipped.iter().map(SkipReport::new);
    let lists = (Lazy(services), Lazy(skipped), Lazy(parts.conflicts.iter()));
    let report = Report::with_lists(zones, published, lists.0, lists.1, lists.2);
    Ok(serde_json::to_writer(out, &report)?)
}

// === impl Report ===

impl<S, K, C> Report<S, K, C> {
    /// Makes the report on the published table with these lists.
    pub(super) fn with_lists(
        zones: &Zones,
        published: &Published,
        services: S,
        skipped: K,
        conflicts: C,
    ) -> Self {
        Self {
            schema_version: SchemaVersion,
            generation: published.generation,
            serial: published.serial,
            stale: published.is_stale,
            expired: published.is_expired,
            zones: zones.iter().map(|zone| zone.name.to_string()).collect(),
            services,
            skipped,
            conflicts,
        }
    }
}

// === impl Parts ===

impl<'t> Parts<'t> {
    pub(super) fn of(table: Option<&'t Table>) -> Self {
        let services = table.into_iter().flat_map(Table::sorted_services);
        let mut skipped: Vec<_> = table.into_iter().flat_map(Table::skipped).collect();
        skipped.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self {
            services: services.filter(|service| service.is_listed()).collect(),
            skipped,
            conflicts: table.into_iter().flat_map(Table::conflicts).collect(),
        }
    }
}
