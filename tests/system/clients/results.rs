//! The measurements of a program as a table in `target/clients`, and its version in the pages that name it.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;
use support::output::print_line;
use support::process::Process;
use support::repository::repository;

/// The pages with versions of programs.
const PAGES: [&str; 2] = [
    "tests/system/clients/README.md",
    "charts/global-dns/docs/src/clients.md",
];
/// The programs whose versions the pages have, with their names there.
const TITLES: [(&str, &str); 15] = [
    ("envoy", "Envoy"),
    ("etcd", "etcd"),
    ("go", "Go"),
    ("grpc_go", "gRPC for Go"),
    ("grpc_python", "gRPC C core"),
    ("haproxy", "HAProxy"),
    ("java", "Java"),
    ("kafka", "Kafka"),
    ("nginx", "nginx"),
    ("node", "Node.js"),
    ("postgresql", "Patroni"),
    ("prometheus", "Prometheus"),
    ("rabbitmq", "RabbitMQ"),
    ("sentinel", "Redis with Sentinel"),
    ("zookeeper", "ZooKeeper"),
];

/// A table with a row for each way in which a program uses the name. The stages add its columns.
pub struct Results {
    program: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

// === impl Results ===

impl Results {
    pub fn new(program: &'static str, rows: &[&str]) -> Self {
        Self {
            program,
            columns: vec!["way".to_owned()],
            rows: rows.iter().map(|name| vec![(*name).to_owned()]).collect(),
        }
    }

    /// Adds a column with a cell for each row.
    pub fn add(&mut self, column: &str, cells: Vec<String>) {
        let text = format!("{}: {column}: {}", self.program, cells.join("; "));
        print_line(&text);
        self.columns.push(column.to_owned());
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }

    /// Writes the table, with the version of the program above it.
    pub fn write(&self, version: &str) -> Result<()> {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        let text = format!(
            "{}: {version}\n\n{}|{}\n{rows}",
            self.program,
            line(&self.columns),
            "---|".repeat(self.columns.len())
        );
        let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let folder = target
            .unwrap_or_else(|| repository("target"))
            .join("clients");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{}.md", self.program)), text)?;
        let title = TITLES.iter().find(|(program, _)| *program == self.program);
        if let Some((_, title)) = title {
            for page in PAGES.map(repository) {
                let text = fs::read_to_string(&page)?;
                let written = write_version(&text, title, number(version));
                fs::write(
                    &page,
                    written.with_context(|| format!("{title} in {page:?}"))?,
                )?;
            }
        }
        Ok(())
    }
}

/// Returns the first number with dots in a text.
fn number(text: &str) -> &str {
    let text = text.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
    &text[..end.unwrap_or(text.len())]
}

/// Replaces the version that first follows the name of a program, or a link with that name.
fn write_version(page: &str, title: &str, version: &str) -> Option<String> {
    page.match_indices(title).find_map(|(at, _)| {
        let after = at + title.len();
        let link = page[after..]
            .strip_prefix("](")
            .and_then(|rest| rest.find(") "));
        let start = after + link.map_or(1, |end| 2 + end + 2);
        let old = number(page.get(start..)?);
        let is_version = page[start..].starts_with(old) && !old.is_empty();
        is_version.then(|| format!("{}{version}{}", &page[..start], &page[start + old.len()..]))
    })
}

/// Returns the error in the last line of a program's log, or the line.
pub fn last_error(process: &Process) -> String {
    let lines = process.log().lines();
    let line = lines.iter().rev().find(|line| !line.trim().is_empty());
    let line = line.map_or("", |line| line.trim());
    let parsed: Value = serde_json::from_str(line).unwrap_or_default();
    let error = parsed["error"].as_str().unwrap_or(line);
    error.replace('|', "\\|")
}

/// Formats a measured time.
pub fn seconds(time: f64) -> String {
    format!("{time:.1} s")
}
