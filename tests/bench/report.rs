//! The report: a table with medians, spread and ratios.

use support::output::print_line;

/// The values of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// The values of one server.
#[derive(Debug)]
struct Row {
    what: String,
    unit: &'static str,
    server: &'static str,
    values: Vec<f64>,
}

// === impl Report ===

impl Report {
    /// Adds and prints the value of a round.
    pub(crate) fn add(&mut self, what: &str, unit: &'static str, server: &'static str, value: f64) {
        print_line(&format!("{what}: {server}: {value:.2} {unit}"));
        let mut rows = self.rows.iter_mut();
        let known = rows.find(|row| row.what == what && row.unit == unit && row.server == server);
        match known {
            Some(row) => row.values.push(value),
            None => self.rows.push(Row {
                what: what.to_owned(),
                unit,
                server,
                values: vec![value],
            }),
        }
    }

    /// Returns the table in Markdown: for each quantity its servers, compared with the first one.
    pub(crate) fn text(&self) -> String {
        let mut text =
            "| what | server | median | least | greatest | ÷ first |\n|---|---|---|---|---|---|\n"
                .to_owned();
        for (index, row) in self.rows.iter().enumerate() {
            let Row { what, unit, .. } = row;
            let is_same = |other: &&Row| other.what == *what && other.unit == *unit;
            let first = self.rows.iter().position(|other| is_same(&other));
            if first != Some(index) {
                continue;
            }
            for other in self.rows.iter().filter(is_same) {
                let (least, median, greatest) = spread(&other.values);
                text += &format!(
                    "| {what} | {} | {median:.2} {unit} | {least:.2} | {greatest:.2} | {:.2} |\n",
                    other.server,
                    median / spread(&row.values).1
                );
            }
        }
        text
    }
}

/// Returns minimum, median and maximum of at least one value.
fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
    let median = f64::midpoint(values[low], values[high]);
    (values[0], median, values[values.len() - 1])
}

/// Returns the median.
pub(crate) fn median(values: &[f64]) -> f64 {
    spread(values).1
}
