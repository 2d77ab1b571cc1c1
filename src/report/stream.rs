//! The report on the table as a JSON document that is written one service after the other. It needs memory for one service,
//! not for the document.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde::ser::Serializer;

use super::{
    ConflictReport, ProblemReport, Report, SchemaVersion, ServiceReport, SkipReport,
    owns_short_name,
};
use crate::model::Problem;
use crate::table::{Published, Service, Table};
use crate::zone::Zones;

/// The parts of a table that are reported, sorted.
pub(super) struct Parts<'t> {
    pub(super) services: Vec<&'t Service>,
    pub(super) problems: Vec<Cow<'t, Problem>>,
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
    let problems = parts.problems.iter();
    let lists = (
        Lazy(services),
        Lazy(parts.skipped().map(SkipReport::from)),
        Lazy(parts.conflicts().map(ConflictReport::from)),
        Lazy(problems.map(|problem| ProblemReport::from(problem.as_ref()))),
    );
    let report = Report::with_lists(zones, published, lists);
    Ok(serde_json::to_writer(out, &report)?)
}

// === impl Report ===

impl<S, K, C, P> Report<S, K, C, P> {
    /// Makes the report on the published table with these lists.
    pub(super) fn with_lists(
        zones: &Zones,
        published: &Published,
        (services, skipped, conflicts, problems): (S, K, C, P),
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
            problems,
        }
    }
}

// === impl Parts ===

impl<'t> Parts<'t> {
    pub(super) fn of(table: Option<&'t Table>) -> Self {
        let services = table.into_iter().flat_map(Table::sorted_services);
        let mut problems: Vec<_> = table.into_iter().flat_map(Table::problems).collect();
        problems.sort();
        problems.dedup();
        Self {
            services: services.filter(|service| service.is_listed()).collect(),
            problems,
        }
    }

    pub(super) fn skipped(&self) -> impl Iterator<Item = &Problem> + Clone {
        let problems = self.problems.iter().map(AsRef::as_ref);
        problems.filter(|problem| problem.is_skip())
    }

    pub(super) fn conflicts(&self) -> impl Iterator<Item = &Problem> + Clone {
        let problems = self.problems.iter().map(AsRef::as_ref);
        problems.filter(|problem| problem.is_conflict())
    }
}
