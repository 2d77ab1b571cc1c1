//! The summary as text: services × clusters. A cell says how many of its endpoints are alive, with a sign that works
//! without colors.

use std::fmt::Write as _;

use super::style::visible_width;
use super::{Cell, CellState, ServiceRow, Shade, Style, Summary, TextForm, text, write_rows};
use crate::table::Impact;

/// The column of addresses that belong to no single cluster.
const NO_CLUSTER: &str = "(federated)";
/// The cell of a cluster without the service.
const NONE: &str = "-";

// === impl Summary ===

impl Summary {
    /// Returns the summary as text: a map of services and clusters. If its lines are too long for the terminal, each service
    /// lists its clusters instead: those with trouble, and the number of the others.
    pub fn to_text(&self, style: Style) -> String {
        text(|text| self.write(text, style))
    }

    fn write(&self, text: &mut String, style: Style) -> std::fmt::Result {
        let head = &self.head;
        if let (Some(generation), Some(serial)) = (head.generation, head.serial) {
            let zones = head.zones.join(" ");
            writeln!(
                text,
                "generation {generation}, serial {serial}, zones {zones}\n"
            )?;
        }
        let mut map = String::new();
        write_rows(&mut map, &self.map(style))?;
        let longest = map.lines().map(visible_width).max().unwrap_or_default();
        if style.width.is_none_or(|width| longest <= width) {
            text.push_str(&map);
        } else {
            write_rows(text, &self.list(style))?;
        }
        let count = |shade| {
            let levels = self.services.iter().map(|one| Shade::from(one.level));
            levels.filter(|one| *one == shade).count()
        };
        let [failing, attention] = [Shade::Bad, Shade::Attention].map(count);
        let all = self.services.len();
        writeln!(
            text,
            "\nservices: {all}, failing: {failing}, need attention: {attention}"
        )
    }

    fn map(&self, style: Style) -> Vec<Vec<String>> {
        let clusters = self.clusters();
        let heads = clusters.iter().map(|one| cluster_name(one).to_owned());
        let head = head_of_services(style).chain(heads).collect();
        let rows = self.services.iter().map(|service| {
            let cells = clusters.iter().map(|cluster| {
                let cell = service.cells.iter().find(|one| one.cluster == **cluster);
                let text = cell.map(|cell| cell.to_text(service.level, style));
                text.unwrap_or_else(|| NONE.to_owned())
            });
            service.columns(style).chain(cells).collect()
        });
        std::iter::once(head).chain(rows).collect()
    }

    fn list(&self, style: Style) -> Vec<Vec<String>> {
        let clusters = std::iter::once("CLUSTERS".to_owned());
        let head = head_of_services(style).chain(clusters).collect();
        let rows = self.services.iter().map(|service| {
            let is_alive = |cell: &&Cell| cell.state == CellState::Alive;
            let alive = service.cells.iter().filter(is_alive).count();
            // Several clusters that are alive share one text.
            let listed = service.cells.iter();
            let listed = listed.filter(|cell| alive < 2 || !is_alive(cell));
            let mut clusters: Vec<String> = listed
                .map(|cell| {
                    let text = cell.to_text(service.level, style);
                    format!("{} {text}", cluster_name(&cell.cluster))
                })
                .collect();
            if alive > 1 {
                let text = format!("{} {alive} clusters alive", Shade::Good.sign());
                clusters.push(style.colors.paint(Shade::Good, &text));
            }
            let clusters = std::iter::once(clusters.join(", "));
            service.columns(style).chain(clusters).collect()
        });
        std::iter::once(head).chain(rows).collect()
    }
}

fn cluster_name(cluster: &str) -> &str {
    if cluster.is_empty() {
        NO_CLUSTER
    } else {
        cluster
    }
}

/// Returns the headings of [`ServiceRow::columns`].
fn head_of_services(style: Style) -> impl Iterator<Item = String> {
    let kind = (style.form == TextForm::Wide).then_some("KIND");
    let heads = [
        Some(""),
        Some("SERVICE"),
        kind,
        Some("RESULT"),
        Some("RETURNED"),
    ];
    heads.into_iter().flatten().map(str::to_owned)
}

// === impl ServiceRow ===

impl ServiceRow {
    /// Returns the columns before those of the clusters.
    fn columns(&self, style: Style) -> impl Iterator<Item = String> {
        let shade = Shade::from(self.level);
        let kind = (style.form == TextForm::Wide).then(|| self.kind.to_string());
        let columns = [
            Some(style.colors.paint(shade, shade.sign())),
            Some(format!("{}.{}", self.service, self.namespace)),
            kind,
            Some(self.result.to_string()),
            Some(self.returned.to_string()),
        ];
        columns.into_iter().flatten()
    }
}

// === impl Cell ===

impl Cell {
    /// Returns the sign, how many endpoints are alive of all, and the state unless all are. Its color is never worse than that
    /// of its service.
    fn to_text(&self, level: Impact, style: Style) -> String {
        let shade = Shade::from(self.state);
        let color = match (shade, level) {
            (Shade::Good | Shade::Idle, _) => shade,
            (Shade::Attention | Shade::Bad, Impact::Fine) => Shade::Idle,
            (Shade::Attention | Shade::Bad, worse) => worse.into(),
        };
        let counts = match self.endpoints {
            0 => String::new(),
            all => format!(" {}/{all}", self.alive),
        };
        let state = match self.state {
            CellState::Alive => String::new(),
            other => format!(" {}", other.name()),
        };
        let text = format!("{}{counts}{state}", shade.sign());
        let text = style.colors.paint(color, &text);
        let age = self.age.to_text(style);
        if age.is_empty() || style.form == TextForm::Narrow {
            text
        } else {
            format!("{text} {age}")
        }
    }
}
