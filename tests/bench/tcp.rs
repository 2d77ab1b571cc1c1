//! TCP: pipelined queries, and one query for each connection, compared with Knot and NSD.

use anyhow::Result;
use support::wire::Transport;

use crate::check::check_same_answers;
use crate::data::small_and_large_services;
use crate::load::{Way, run};
use crate::report::{Goals, Report, Table};
use crate::servers::{KNOT, NSD, ONE_CORE, Served};
use crate::{Effort, print_line};

/// Measures both ways with the mixed questions.
///
/// # Errors
///
/// If a server does not start, or the servers' answers differ.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    print_line("tcp: starting servers");
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let served = Served::prepare(&small_and_large_services(), folder)?;
    let servers = served.start(effort.binaries, &[KNOT, NSD], ONE_CORE, folder)?;
    check_same_answers(&servers, &served.kinds, Transport::Tcp)?;

    let mut table = Table::new("tcp", "TCP, one core", Goals::RateOfKnot);
    let ways = [
        ("pipelined", Way::Pipelined),
        ("one query each", Way::Connections),
    ];
    let asked: Vec<_> = served
        .kinds
        .iter()
        .filter(|kind| matches!(kind.name, "A9" | "mixed"))
        .collect();
    for round in 1..=effort.rounds {
        for (way_name, way) in ways {
            for kind in &asked {
                let name = format!("{} {way_name}", kind.name);
                let mut line = format!("tcp: round {round} of {}, {name}:", effort.rounds);
                for server in &servers {
                    let measured = run(server, &kind.file, effort.seconds, way)?;
                    line += &measured.text(server.name);
                    table.add(&name, server.name, measured);
                }
                print_line(&line);
            }
        }
    }
    report.tables.push(table);
    Ok(())
}
