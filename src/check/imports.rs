//! The check of ServiceImports (`--mcs`).

use super::finding::{Check, Fact, Finding, count};
use crate::model::{Kind, Mcs};
use crate::table::{Endpoint, ServiceKind, Table};

/// Checks whether ServiceImports are read, if they are wanted.
pub(super) fn check(table: &Fact<Table>, mcs: Mcs) -> Vec<Finding> {
    vec![match mcs {
        Mcs::Off => Check::ServiceImports.green("ServiceImports are not read"),
        Mcs::On => Check::ServiceImports.check(table, imports),
    }]
}

fn imports(table: &Table) -> Finding {
    let (services, endpoints) = count_imports(table);
    let mut skipped = table
        .skipped()
        .filter_map(|problem| problem.object.as_ref());
    let has_skipped = skipped.any(|object| object.kind == Kind::ServiceImport);
    match services {
        0 if !has_skipped => Check::ServiceImports.yellow(
            "--mcs is given, but there is no ServiceImport",
            "export a Service with a ServiceExport, and check that the implementation of the Multi-Cluster Services API \
             and its CRDs are installed",
        ),
        services => Check::ServiceImports.green(format!(
            "{} with {}",
            count(services, "ServiceImport"),
            count(endpoints, "endpoint")
        )),
    }
}

/// Returns the number of services with endpoints of ServiceImports, and of these endpoints.
pub(super) fn count_imports(table: &Table) -> (usize, usize) {
    let is_import = |endpoint: &&Endpoint| endpoint.kind == ServiceKind::Import;
    let services = table.services();
    let counts = services.map(|service| service.endpoints.iter().filter(is_import).count());
    counts
        .filter(|count| *count > 0)
        .fold((0, 0), |(services, all), count| (services + 1, all + count))
}
