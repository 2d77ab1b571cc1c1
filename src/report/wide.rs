//! The wide form of the report: one line for each endpoint, with every column, for `grep` and `awk`.

use super::{Colors, EndpointReport, Report, ServiceReport, write_rows};

/// A cell without a value. An empty cell would shift the columns of `awk`.
const NONE: &str = "-";

// === impl Report ===

impl Report {
    /// Writes the services as one table.
    pub(super) fn write_wide(&self, text: &mut String, colors: Colors) -> std::fmt::Result {
        let of_service = ["NAMESPACE", "SERVICE", "KIND", "TTL"].into_iter();
        let heading = of_service.chain(EndpointReport::HEAD).map(str::to_owned);
        let services = self.services.iter();
        let rows: Vec<[String; 11]> = std::iter::once(heading.collect())
            .chain(services.flat_map(|one| one.wide_rows(colors)))
            .map(fill)
            .collect();
        text.push('\n');
        write_rows(text, &rows)
    }
}

impl ServiceReport {
    /// Returns a row for each endpoint, or one row for a service without endpoints.
    fn wide_rows(&self, colors: Colors) -> Vec<Vec<String>> {
        let row = |kind: &str, endpoint: &[String]| {
            let (namespace, service) = (self.namespace.clone(), self.service.clone());
            let start = [namespace, service, kind.to_owned(), self.ttl.to_string()];
            [&start, endpoint].concat()
        };
        match self.endpoints.as_slice() {
            [] => vec![row(&self.kind, &[])],
            some => {
                let rows = some.iter().map(|one| row(&one.kind, &one.row(colors)));
                rows.collect()
            }
        }
    }
}

/// Makes a row complete. A cell with several values separates them by commas.
fn fill(cells: Vec<String>) -> [String; 11] {
    let mut cells = cells.into_iter();
    std::array::from_fn(|_| match cells.next() {
        Some(cell) if !cell.is_empty() => cell.replace(' ', ","),
        _ => NONE.to_owned(),
    })
}
