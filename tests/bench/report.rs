//! The report: tables with medians, spread and ratios; goals; the same as Markdown, with a chart.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::load::{Latency, Round};
use crate::servers::{COREDNS, FLOOR, OURS};
use crate::{Binary, print_line};

mod chart;

/// Reference servers. Goals compare global-dns with the better of them.
const PEERS: [&str; 2] = ["Knot", "NSD"];

/// All results.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Rounds under load.
    pub(crate) tables: Vec<Table>,
    /// Sizes and times.
    pub(crate) figures: Vec<Figure>,
}

/// A number with its goal.
#[derive(Debug)]
pub(crate) struct Figure {
    name: String,
    value: Spread,
    unit: &'static str,
    goal: Option<(Bound, f64)>,
}

/// A quantity that the same rounds measure of each binary of global-dns. It becomes a figure for each binary, and one for
/// the ratio to each other revision.
#[derive(Debug)]
pub(crate) struct Quantity {
    name: String,
    unit: &'static str,
    binaries: &'static [Binary],
    /// The values of the rounds, for each binary.
    values: Vec<Vec<f64>>,
    /// The goal of this source's binary.
    limit: Option<f64>,
    /// The goal of the ratio to the first other revision.
    ratio_limit: Option<f64>,
}

/// Rounds by kind of question and server, in the order of their first round.
#[derive(Debug)]
pub(crate) struct Table {
    name: &'static str,
    title: &'static str,
    goals: Goals,
    rows: Vec<Row>,
}

/// Goals of global-dns in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goals {
    /// None; the rows are only compared with each other.
    None,
    /// CPU time: at most 0.9 × the better of Knot and NSD, or 1.1 × the floor if that is larger. Rate: at least 0.97 ×
    /// the better of Knot and NSD.
    CpuAndRate,
    /// Rate: at least that of Knot.
    RateOfKnot,
    /// Rate: at least that of CoreDNS; eight times that for A, ten times that for SRV.
    RateOfCoreDns,
    /// CPU time: at most half of that of CoreDNS on persistent connections. The table has latencies.
    HalfOfCoreDns,
}

/// Marks a kind with persistent connections, as part of its name.
pub(crate) const KEPT: &str = "kept";

#[derive(Debug)]
struct Row {
    kind: String,
    server: &'static str,
    rounds: Vec<Round>,
}

/// Median, minimum and maximum.
#[derive(Clone, Copy, Debug)]
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

/// Relation between a number and its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    AtMost,
    AtLeast,
}

// === impl Report ===

impl Report {
    /// Formats the report for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            text += &format!("{}\n\n", table.title);
            text += &aligned(&table.cells());
            text.push('\n');
        }
        if !self.figures.is_empty() {
            text += &aligned(&self.figure_cells());
            text.push('\n');
        }
        for (goal, is_met) in self.goals() {
            let verdict = if is_met { "met   " } else { "MISSED" };
            text += &format!("{verdict}  {goal}\n");
        }
        text
    }

    /// Writes `NAME.md`, and an SVG for each table.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<()> {
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            print_line(&format!("wrote {}", file.display()));
            fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
        };
        let mut text = String::from("# Benchmarks\n\n");
        for table in &self.tables {
            let chart = format!("{}.svg", table.name);
            write(&chart, &table.chart())?;
            text += &format!("## {}\n\n", table.title);
            text += &markdown(&table.cells());
            text += &format!("\n![CPU time per query]({chart})\n\n");
        }
        if !self.figures.is_empty() {
            text += &format!("## Sizes and times\n\n{}\n", markdown(&self.figure_cells()));
        }
        text += "## Goals\n\n";
        for (goal, is_met) in self.goals() {
            text += &format!("- {}: {goal}\n", if is_met { "met" } else { "**missed**" });
        }
        write(&format!("{name}.md"), &text)
    }

    fn figure_cells(&self) -> Vec<Vec<String>> {
        let head = ["what", "measured", "goal"].map(str::to_owned).to_vec();
        let rows = self.figures.iter().map(|figure| {
            let unit = figure.unit;
            let goal = figure
                .goal
                .map(|(bound, limit)| format!("{} {limit:.2} {unit}", bound.sign()));
            let value = format!("{} {unit}", figure.value.scaled(1.0, 2));
            vec![figure.name.clone(), value, goal.unwrap_or_default()]
        });
        [head].into_iter().chain(rows).collect()
    }

    fn goals(&self) -> Vec<(String, bool)> {
        let figures = self.figures.iter().filter_map(|figure| {
            let (name, unit) = (&figure.name, figure.unit);
            let (bound, limit) = figure.goal?;
            Some(goal(name, figure.value.median, bound, limit, unit))
        });
        let tables = self.tables.iter().flat_map(Table::goals);
        tables.chain(figures).collect()
    }
}

// === impl Figure ===

impl Figure {
    /// Creates a figure from the values of rounds, at least one.
    pub(crate) fn new(name: &str, values: Vec<f64>, unit: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            value: Spread::of(values),
            unit,
            goal: None,
        }
    }

    /// Sets the goal: the maximum of the median.
    pub(crate) fn at_most(mut self, limit: f64) -> Self {
        self.goal = Some((Bound::AtMost, limit));
        self
    }

    /// Sets the goal: the minimum of the median.
    pub(crate) fn at_least(mut self, limit: f64) -> Self {
        self.goal = Some((Bound::AtLeast, limit));
        self
    }
}

// === impl Quantity ===

impl Quantity {
    pub(crate) fn new(name: &str, unit: &'static str, binaries: &'static [Binary]) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            binaries,
            values: vec![vec![]; binaries.len()],
            limit: None,
            ratio_limit: None,
        }
    }

    /// Sets the goal of this source's binary: the maximum of the median.
    pub(crate) fn at_most(self, limit: f64) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }

    /// Sets the goal of the ratio to the first other revision: its maximum.
    pub(crate) fn ratio_at_most(self, limit: f64) -> Self {
        Self {
            ratio_limit: Some(limit),
            ..self
        }
    }

    /// Adds the value of one round for the binary with this index.
    pub(crate) fn add(&mut self, binary: usize, value: f64) {
        self.values[binary].push(value);
    }

    /// Returns the figures of all binaries, at least one round after [`new`](Self::new).
    pub(crate) fn figures(self) -> Vec<Figure> {
        let figure = |name: &str, values: &[f64], unit, limit| Figure {
            goal: limit,
            ..Figure::new(name, values.to_vec(), unit)
        };
        let at_most = |limit: Option<f64>| limit.map(|limit| (Bound::AtMost, limit));
        let mut figures = Vec::new();
        for (index, (binary, values)) in self.binaries.iter().zip(&self.values).enumerate() {
            if index == 0 {
                figures.push(figure(&self.name, values, self.unit, at_most(self.limit)));
                continue;
            }
            let name = format!("{}: {}", self.name, binary.name);
            figures.push(figure(&name, values, self.unit, None));
            let name = format!("{}: {} ÷ {}", self.name, self.binaries[0].name, binary.name);
            let ratio = median(&self.values[0]) / median(values);
            let limit = self.ratio_limit.filter(|_| index == 1);
            figures.push(figure(&name, &[ratio], "×", at_most(limit)));
        }
        figures
    }
}

// === impl Table ===

impl Table {
    /// Creates an empty table. `name` is also the file name of its chart.
    pub(crate) fn new(name: &'static str, title: &'static str, goals: Goals) -> Self {
        Self {
            name,
            title,
            goals,
            rows: Vec::new(),
        }
    }

    /// Adds a round.
    pub(crate) fn add(&mut self, kind: &str, server: &'static str, round: Round) {
        match self
            .rows
            .iter_mut()
            .find(|row| row.kind == kind && row.server == server)
        {
            Some(row) => row.rounds.push(round),
            None => self.rows.push(Row {
                kind: kind.to_owned(),
                server,
                rounds: vec![round],
            }),
        }
    }

    fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = self.rows.iter().map(|row| row.kind.as_str()).collect();
        kinds.dedup();
        kinds
    }

    fn row(&self, kind: &str, server: &str) -> Option<&Row> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.kind == kind && row.server == server)
    }

    /// Returns the lowest CPU time and the highest rate of the reference servers.
    fn best_of_peers(&self, kind: &str) -> Option<(f64, f64)> {
        let peers = PEERS.into_iter().filter_map(|peer| self.row(kind, peer));
        let figures = peers.map(|row| (row.cpu().median, row.rate().median));
        figures.reduce(|best, one| (best.0.min(one.0), best.1.max(one.1)))
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let own: &[&str] = match self.goals {
            Goals::HalfOfCoreDns => &["CPU ÷ CoreDNS", "p50 µs", "p99 µs"],
            Goals::None | Goals::CpuAndRate | Goals::RateOfKnot | Goals::RateOfCoreDns => {
                &["rate ÷ best", "CPU ÷ best", "CPU ÷ floor"]
            }
        };
        let head = [
            &["kind", "server", "k queries/s", "CPU µs/query"],
            own,
            &["lost"],
        ]
        .concat();
        let mut cells = vec![head.into_iter().map(str::to_owned).collect()];
        for row in &self.rows {
            let first = [
                row.kind.clone(),
                row.server.to_owned(),
                row.rate().scaled(1e-3, 1),
                row.cpu().scaled(1.0, 2),
            ];
            let own = match self.goals {
                Goals::HalfOfCoreDns => self.ratios_to_coredns(row),
                Goals::None | Goals::CpuAndRate | Goals::RateOfKnot | Goals::RateOfCoreDns => {
                    self.ratios_to_peers(row)
                }
            };
            let lost = row.rounds.iter().map(|round| round.lost).sum::<u64>();
            cells.push([&first[..], &own, &[lost.to_string()]].concat());
        }
        cells
    }

    /// Returns rate and CPU time divided by those of the reference servers and of the floor.
    fn ratios_to_peers(&self, row: &Row) -> [String; 3] {
        let (rate, cpu) = (row.rate().median, row.cpu().median);
        let best = self.best_of_peers(&row.kind);
        let floor = self.row(&row.kind, FLOOR).map(|floor| floor.cpu().median);
        [
            ratio(rate, best.map(|best| best.1)),
            ratio(cpu, best.map(|best| best.0)),
            ratio(cpu, floor),
        ]
    }

    /// Returns CPU time divided by that of CoreDNS, and latencies.
    fn ratios_to_coredns(&self, row: &Row) -> [String; 3] {
        let theirs = self.row(&row.kind, COREDNS).map(|row| row.cpu().median);
        let latency = |quantile: fn(&Latency) -> f64| {
            let rounds = row.rounds.iter();
            let values: Vec<f64> = rounds
                .filter_map(|round| Some(quantile(round.latency.as_ref()?)))
                .collect();
            if values.is_empty() {
                "–".to_owned()
            } else {
                Spread::of(values).scaled(1.0, 0)
            }
        };
        [
            ratio(row.cpu().median, theirs),
            latency(|latency| latency.p50),
            latency(|latency| latency.p99),
        ]
    }

    fn goals(&self) -> Vec<(String, bool)> {
        let mut goals = Vec::new();
        for kind in self.kinds() {
            let Some(ours) = self.row(kind, OURS) else {
                continue;
            };
            let (rate, cpu) = (ours.rate().median * 1e-3, ours.cpu().median);
            let name = |what: &str| format!("{}, {kind}: {what}", self.name);
            match self.goals {
                Goals::None => {}
                Goals::CpuAndRate => {
                    let Some((best_cpu, best_rate)) = self.best_of_peers(kind) else {
                        continue;
                    };
                    let floor = self
                        .row(kind, FLOOR)
                        .map_or(0.0, |floor| floor.cpu().median);
                    let limit = (0.9 * best_cpu).max(1.1 * floor);
                    goals.push(goal(
                        &name("CPU time per query"),
                        cpu,
                        Bound::AtMost,
                        limit,
                        "µs",
                    ));
                    let least = 0.97 * best_rate * 1e-3;
                    goals.push(goal(&name("rate"), rate, Bound::AtLeast, least, "k/s"));
                }
                Goals::RateOfKnot => {
                    let Some(knot) = self.row(kind, PEERS[0]) else {
                        continue;
                    };
                    let least = knot.rate().median * 1e-3;
                    goals.push(goal(&name("rate"), rate, Bound::AtLeast, least, "k/s"));
                }
                Goals::RateOfCoreDns => {
                    let Some(coredns) = self.row(kind, COREDNS) else {
                        continue;
                    };
                    let times = match kind {
                        "A9" => 8.0,
                        "SRV9" => 10.0,
                        _ => continue,
                    };
                    let least = times * coredns.rate().median * 1e-3;
                    goals.push(goal(&name("rate"), rate, Bound::AtLeast, least, "k/s"));
                }
                Goals::HalfOfCoreDns => {
                    let Some(coredns) = self.row(kind, COREDNS) else {
                        continue;
                    };
                    if !kind.contains(KEPT) {
                        continue;
                    }
                    let most = 0.5 * coredns.cpu().median;
                    let name = name("CPU time per query");
                    goals.push(goal(&name, cpu, Bound::AtMost, most, "µs"));
                }
            }
        }
        goals
    }

    fn chart(&self) -> String {
        let bars = self.kinds().into_iter().map(|kind| {
            let rows = self.rows.iter().filter(|row| row.kind == kind);
            let bars = rows.map(|row| (row.server, row.cpu().median));
            (kind.to_owned(), bars.collect())
        });
        let title = format!("{}: CPU time per answered query, µs", self.title);
        chart::bars(&title, &bars.collect::<Vec<_>>())
    }
}

// === impl Row ===

impl Row {
    fn rate(&self) -> Spread {
        Spread::of(self.rounds.iter().map(|round| round.rate).collect())
    }

    fn cpu(&self) -> Spread {
        Spread::of(self.rounds.iter().map(|round| round.cpu).collect())
    }
}

// === impl Spread ===

impl Spread {
    /// Computes the spread of at least one value.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (low, high) = ((values.len() - 1) / 2, values.len() / 2);
        Self {
            median: f64::midpoint(values[low], values[high]),
            least: values[0],
            greatest: values[values.len() - 1],
        }
    }

    fn scaled(self, by: f64, digits: usize) -> String {
        let [median, least, greatest] =
            [self.median, self.least, self.greatest].map(|value| value * by);
        format!("{median:.digits$} ({least:.digits$}–{greatest:.digits$})")
    }
}

/// Returns the median.
pub(crate) fn median(values: &[f64]) -> f64 {
    Spread::of(values.to_vec()).median
}

// === impl Bound ===

impl Bound {
    fn sign(self) -> &'static str {
        match self {
            Self::AtMost => "≤",
            Self::AtLeast => "≥",
        }
    }
}

// === Text ===

fn goal(name: &str, value: f64, bound: Bound, limit: f64, unit: &str) -> (String, bool) {
    let is_met = match bound {
        Bound::AtMost => value <= limit,
        Bound::AtLeast => value >= limit,
    };
    let sign = bound.sign();
    (
        format!("{name} {value:.2} {sign} {limit:.2} {unit}"),
        is_met,
    )
}

/// Formats the quotient of two numbers, if there is a second one.
fn ratio(value: f64, to: Option<f64>) -> String {
    to.map_or("–".to_owned(), |to| format!("{:.2}", value / to))
}

/// Formats columns: the first is left-aligned, the others are right-aligned.
fn aligned(cells: &[Vec<String>]) -> String {
    let columns = cells.first().map_or(0, Vec::len);
    let width = |column: usize| {
        cells
            .iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in cells {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => text += &format!("  {cell:<width$}"),
                _ => text += &format!("  {cell:>width$}"),
            }
        }
        text.push('\n');
    }
    text
}

fn markdown(cells: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (index, row) in cells.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | ")); // writing to a string cannot fail
        if index == 0 {
            text += &format!("|{}\n", "---|".repeat(row.len()));
        }
    }
    text
}
