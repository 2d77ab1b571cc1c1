//! The tables of the README and of the manual, made from the results of the last runs.

use std::env;
use std::fs;

use support::output::print_line;
use support::repository::repository;

use super::Expected;
use super::bed::{CLUSTERS, percent};
use super::outcome::{Shares, Spread, SpreadRow, WayShares};
use crate::clients::table::{Table, with_table};

/// `tests/system/clients/table` runs this, with `GLOBAL_DNS_WRITE_TABLE`. Without it, the tables are only printed.
#[test]
fn tables_of_the_last_runs_are_written_to_the_readme_and_the_manual() {
    let shares = programs(&Shares::read_all().unwrap());
    let spread = spread(&Spread::read().unwrap());
    for (name, table, file) in [
        ("shares", shares, "tests/system/clients/README.md"),
        (
            "shares in a minute",
            spread,
            "charts/global-dns/docs/src/failover.md",
        ),
    ] {
        print_line(&format!("{name}, of the last runs:\n{table}"));
        if env::var_os("GLOBAL_DNS_WRITE_TABLE").is_some() {
            let file = repository(file);
            let text = fs::read_to_string(&file).unwrap();
            fs::write(file, with_table(&text, name, &table)).unwrap();
        }
    }
}

fn programs(programs: &[Shares]) -> String {
    let mut head = vec!["program", "way", "decided by", "weights", "look-ups"];
    head.extend(CLUSTERS.map(|(name, _)| name));
    head.push("shares of the weights");
    let mut table = Table::new(&head);
    for program in programs {
        let Shares {
            program: folder,
            title,
            version,
            ways,
        } = program;
        for way in ways {
            let mut cells = vec![
                format!("[{title}]({folder}/README.md) {version}"),
                way.way.clone(),
                way.setting.clone(),
                way.order.to_string(),
                format!("{} {}", way.look_ups, way.rtype),
            ];
            cells.extend(percent(way.counts).map(|share| format!("{share:.1} %")));
            cells.push(result(way).to_owned());
            table.push(&cells);
        }
    }
    table.finish()
}

fn result(way: &WayShares) -> &'static str {
    match way.result {
        Expected::Drawn => "yes: each answer is a draw",
        Expected::Weighted => "yes: it uses the weights of SRV",
        Expected::Equal => "**no**: equal shares",
        Expected::One => "**no**: one answer for all",
    }
}

fn spread(spread: &Spread) -> String {
    let mut table = Table::new(&[
        "order",
        "stanza",
        "CoreDNS pods",
        "least",
        "median",
        "greatest",
        "minutes",
    ]);
    for row in &spread.rows {
        let stanza = match row.stanza.as_str() {
            "Corefile" => "`cache 5`",
            _ => "`Corefile.services` (1 s)",
        };
        let [least, median, greatest] = numbers(row).map(|share| format!("{share:.0} %"));
        // A drained cluster has no part in it.
        let order = row.order.drawn();
        let order: Vec<String> = order
            .map(|(cluster, weight)| format!("{cluster}={weight}"))
            .collect();
        table.push(&[
            format!("`{}`", order.join("+")),
            stanza.to_owned(),
            row.pods.to_string(),
            least,
            median,
            greatest,
            row.minutes.len().to_string(),
        ]);
    }
    table.finish()
}

/// Returns the least, the median and the greatest share of a minute.
fn numbers(row: &SpreadRow) -> [f64; 3] {
    let at = |index: usize| row.minutes.get(index).copied().unwrap_or_default();
    let count = row.minutes.len();
    let median = (at(count / 2) + at(count.saturating_sub(1) / 2)) / 2.0;
    [at(0), median, at(count.saturating_sub(1))]
}
