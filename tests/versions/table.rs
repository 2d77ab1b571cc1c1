//! The table of `charts/global-dns/docs/src/versions.md`, made of the results of the last runs.

use std::env;
use std::fs;

use anyhow::{Context, Result};
use support::output::print_line;
use support::repository::repository;

use crate::outcome::Outcome;

const PAGE: &str = "charts/global-dns/docs/src/versions.md";
const BEGIN: &str = "<!-- table of versions: tests/versions/table writes it -->\n";
const END: &str = "<!-- end of the table of versions -->\n";

/// `tests/versions/table` runs this, with `GLOBAL_DNS_WRITE_TABLE`. Without it, the table is only printed.
#[test]
#[ignore = "needs results of tests/run versions"]
fn table_of_the_last_runs_is_written_to_the_manual() -> Result<()> {
    let table = table(&Outcome::read_all()?);
    print_line(&table);
    let file = repository(PAGE);
    let text = fs::read_to_string(&file)?;
    let (before, rest) = text.split_once(BEGIN).context("the begin of the table")?;
    let (_, after) = rest.split_once(END).context("the end of the table")?;
    if env::var_os("GLOBAL_DNS_WRITE_TABLE").is_some() {
        fs::write(&file, format!("{before}{BEGIN}\n{table}\n\n{END}{after}"))?;
    }
    Ok(())
}

fn table(outcomes: &[Outcome]) -> String {
    let mut lines = vec![
        "| Kubernetes | CoreDNS | Helm | objects of Linkerd |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for outcome in outcomes {
        let all = |list: &[String]| match list {
            [] => "not run, or failed".to_owned(),
            list => list.join(", "),
        };
        let one = |text: &str| match text {
            "" => "not run, or failed".to_owned(),
            text => text.to_owned(),
        };
        let kubernetes = match outcome.kubernetes.as_str() {
            "" => format!("{}: not run, or failed", outcome.minor),
            version => version.to_owned(),
        };
        lines.push(format!(
            "| {kubernetes} | {} | {} | {} |",
            one(&outcome.coredns),
            all(&outcome.helm),
            all(&outcome.linkerd)
        ));
    }
    lines.join("\n")
}
