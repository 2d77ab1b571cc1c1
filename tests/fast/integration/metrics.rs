//! The table of metrics in the manual.

use std::collections::BTreeSet;
use std::fs;

use support::repository::repository;
use support::server::Server;

#[test]
fn manual_lists_the_exported_metrics() {
    let chapter = fs::read_to_string(repository("charts/global-dns/docs/src/operate.md")).unwrap();
    let (_, table) = chapter.split_once("\n| metric |").unwrap();
    let lines = table.lines().take_while(|line| !line.is_empty());
    let rows = lines.filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row[2..].split(" | ").next());
    let listed: BTreeSet<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();

    let sample = fs::read_to_string(repository("src/demo.yaml")).unwrap();
    let server = Server::with_text(&sample, &["--cluster-name=hub"]);
    let page = server.admin("/metrics").body;
    let types = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE global_dns_")?.split_once(' '));
    let exported: BTreeSet<String> = types
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            _ => name.to_owned(),
        })
        .collect();
    // They need an encrypted listener, and a multiple of five minutes.
    let later = [
        "certificate_expiry_timestamp_seconds",
        "compared_table_hash",
    ];
    let all: BTreeSet<&str> = exported.iter().map(String::as_str).chain(later).collect();
    assert_eq!(listed, all);
}
