//! The report on the table, as text and JSON: the output of `global-dns table` and `/api/v1/table`.
//!
//! `README.md` in `report/` describes every JSON document, and `report/schema/` has a JSON Schema for each.

mod clusters;
mod document;
mod endpoint;

pub mod events;
mod failover;
mod lazy;
mod map;
mod problems;
mod select;
mod stream;
mod style;
mod summary;
mod wide;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

pub use clusters::ClusterReport;
pub use document::{KnownItems, RecordReport, SchemaVersion};
pub use endpoint::{EndpointReport, EndpointState, NameReply, is_last_resort};
pub use failover::FailoverReport;
pub use problems::{Age, ConflictReport, ProblemReport, SkipReport, problem_with_age};

use crate::model::{Problem, ProblemKind};
use crate::table::{Published, Service, Table};
use crate::zone::{Failure, Zones};
use style::visible_width;

pub use select::{EndpointSelection, Selection};
pub use stream::write_report;
pub use style::{Colors, Shade, Style, TextForm, map_between_colors, text};
pub use summary::{Cell, CellState, ServiceRow, Summary, write_summary};

/// The report on the whole table. The types of its lists differ while it is streamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report<
    S = Vec<ServiceReport>,
    K = Vec<SkipReport>,
    C = Vec<ConflictReport>,
    P = Vec<ProblemReport>,
> {
    /// Version of the document's format.
    #[serde(rename = "schemaVersion")]
    pub schema_version: SchemaVersion,
    /// The time of the table, if it is one of the past (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Number of published tables that differ from the previous one.
    pub generation: u64,
    /// SOA serial.
    pub serial: u32,
    /// The zones, with final dots.
    pub zones: Vec<String>,
    /// All services, sorted by namespace and name.
    pub services: S,
    /// The problems of objects that are skipped.
    pub skipped: K,
    /// The problems that are conflicts.
    pub conflicts: C,
    /// All problems.
    pub problems: P,
}

/// The parts of a table that are reported, sorted.
pub(super) struct Parts<'t> {
    published: &'t Published,
    services: Vec<&'t Service>,
    problems: Vec<&'t Problem>,
}

/// The report on one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceReport {
    /// Namespace, label `N`.
    pub namespace: String,
    /// Name, label `S`.
    pub service: String,
    /// The kind that answers its name.
    #[serde(default)]
    pub kind: String,
    /// TTL of the records, seconds.
    pub ttl: u32,
    /// Whether its short name is that of this service.
    pub owns_short_name: bool,
    /// Its failover order, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<FailoverReport>,
    /// The clusters that its name expects during its bootstrap, such as `local+east`. Empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expected: String,
    /// The expected clusters that its name waits for. If there are any, the name fails with SERVFAIL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_clusters: Vec<String>,
    /// Why its name fails, if it does. Queries for it are answered with SERVFAIL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Its endpoints, including those that replies for its name lack.
    pub endpoints: Vec<EndpointReport>,
}

// === impl Report ===

impl Report {
    /// Makes the report on the published table.
    pub fn new(zones: &Zones, published: &Published) -> Self {
        let of_server: Vec<Problem> = published.problem().into_iter().collect();
        let parts = Parts::of(published, &of_server);
        let lists = (
            parts.services().collect(),
            parts.skipped().collect(),
            parts.conflicts().collect(),
            parts.problems().collect(),
        );
        Self::with_lists(zones, published, lists)
    }

    /// Returns the report as text.
    pub fn to_text(&self, style: Style) -> String {
        text(|text| self.write(text, style))
    }

    fn write(&self, text: &mut String, style: Style) -> std::fmt::Result {
        if let Some(at) = &self.at {
            writeln!(text, "at {}\n", style.time(at))?;
        }
        if self.generation == 0 {
            writeln!(text, "{}", ProblemKind::NoTable.row().sentence)?;
        }
        writeln!(
            text,
            "generation {}, serial {}, zones {}",
            self.generation,
            self.serial,
            self.zones.join(" ")
        )?;
        let colors = style.colors;
        match style.form {
            TextForm::Narrow => {
                let mut services = self.services.iter();
                services.try_for_each(|one| one.write(text, colors))?;
            }
            TextForm::Wide => self.write_wide(text, colors)?,
        }
        writeln!(text, "\nproblems: {}", self.problems.len())?;
        let problems = self.problems.iter().map(|problem| problem.row(style));
        write_rows(text, &problems.collect::<Vec<_>>())
    }
}

impl<S, K, C, P> Report<S, K, C, P> {
    /// Makes the report on the published table with these lists.
    pub(super) fn with_lists(
        zones: &Zones,
        published: &Published,
        (services, skipped, conflicts, problems): (S, K, C, P),
    ) -> Self {
        Self {
            schema_version: SchemaVersion,
            at: None,
            generation: published.generation,
            serial: published.serial,
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
    /// Selects the parts of the published table. `of_server` are the problems of its server.
    pub(super) fn of(published: &'t Published, of_server: &'t [Problem]) -> Self {
        let table = published.table.as_ref();
        let services = table.into_iter().flat_map(Table::sorted_services);
        let of_table = table.into_iter().flat_map(Table::problems);
        let mut problems: Vec<_> = of_server.iter().chain(of_table).collect();
        problems.sort();
        problems.dedup();
        Self {
            published,
            services: services.filter(|service| service.is_listed()).collect(),
            problems,
        }
    }

    pub(super) fn services(&self) -> impl Iterator<Item = ServiceReport> + Clone {
        let services = self.services.iter();
        services.map(|service| ServiceReport::new(service, self.published))
    }

    pub(super) fn skipped(&self) -> impl Iterator<Item = SkipReport> + Clone {
        self.reports(Problem::is_skip)
    }

    pub(super) fn conflicts(&self) -> impl Iterator<Item = ConflictReport> + Clone {
        self.reports(Problem::is_conflict)
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = ProblemReport> + Clone {
        self.reports(|_| true)
    }

    fn reports<'p, R: From<&'p Problem>>(
        &'p self,
        is_selected: impl Fn(&Problem) -> bool + Clone,
    ) -> impl Iterator<Item = R> + Clone {
        let problems = self.problems.iter().copied();
        problems.filter(move |one| is_selected(one)).map(R::from)
    }
}

/// Writes indented rows with aligned columns. A column without content is left out.
///
/// # Errors
///
/// Never returns an error, because writing to a `String` cannot fail.
pub fn write_rows(text: &mut String, rows: &[impl AsRef<[String]>]) -> std::fmt::Result {
    let mut widths = Vec::new();
    for row in rows {
        let row = row.as_ref();
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(visible_width(cell));
        }
    }
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths
            .iter()
            .zip(row.as_ref())
            .filter(|(width, _)| **width > 0)
        {
            let padding = width - visible_width(cell);
            write!(line, "  {cell}{:padding$}", "")?;
        }
        writeln!(text, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Returns whether the short name of a service is that of this one.
fn owns_short_name(service: &Service, table: Option<&Table>) -> bool {
    let key = &service.key;
    let short = table.and_then(|table| table.short_name(key.service.as_str()));
    short.is_some_and(|short| short.owner() == Ok(&key.namespace))
}

// === impl ServiceReport ===

impl ServiceReport {
    fn new(service: &Service, published: &Published) -> Self {
        let reply = NameReply::of_own_name(service);
        Self {
            namespace: service.key.namespace.to_string(),
            service: service.key.service.to_string(),
            kind: service.kind.to_string(),
            ttl: service.ttl,
            owns_short_name: owns_short_name(service, published.table.as_ref()),
            failover: service.failover.as_deref().map(FailoverReport::new),
            expected: service
                .gate
                .as_ref()
                .map_or_else(String::new, |gate| gate.expected.clusters()),
            missing_clusters: service
                .missing_clusters()
                .iter()
                .map(ToString::to_string)
                .collect(),
            failure: Failure::of_service(service).map(|failure| failure.to_string()),
            endpoints: reply.reports(service).collect(),
        }
    }

    /// Writes the service as text: a heading and a row for each endpoint.
    fn write(&self, text: &mut String, colors: Colors) -> std::fmt::Result {
        let short = if self.owns_short_name {
            format!(", short name {}", self.service)
        } else {
            String::new()
        };
        let Self {
            service,
            namespace,
            kind,
            ttl,
            ..
        } = self;
        writeln!(text, "\n{service}.{namespace}  {kind}, ttl {ttl}{short}")?;
        if let Some(FailoverReport {
            order, step, steps, ..
        }) = &self.failover
        {
            let clusters = steps.get(step - 1).map_or("", |step| &step.clusters);
            let count = steps.len();
            writeln!(
                text,
                "  failover order {order}: step {step} of {count}, {clusters}"
            )?;
        }
        if !self.missing_clusters.is_empty() {
            let missing = self.missing_clusters.join(", ");
            writeln!(
                text,
                "  its name fails; it waits for expected clusters: {missing}"
            )?;
        } else if let Some(failure) = &self.failure {
            writeln!(text, "  its name fails: {failure}")?;
        }
        if self.endpoints.is_empty() {
            return writeln!(text, "  no endpoints");
        }
        let mut rows = vec![EndpointReport::HEAD.map(str::to_owned)];
        rows.extend(self.endpoints.iter().map(|one| one.row(colors)));
        write_rows(text, &rows)
    }
}

#[cfg(test)]
mod tests;
