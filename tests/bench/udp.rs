//! UDP: rate and CPU time by kind of question, beside Knot, NSD, BIND, and the least that a server can do; and what it
//! costs to listen on every address, when one of them is asked and when four are.

use anyhow::Result;
use support::wire::Over;

use crate::check::same_answers;
use crate::data::nines_and_nineties;
use crate::load::{Way, run};
use crate::report::{Goals, Report, Table};
use crate::servers::{BIND, HICKORY, KNOT, NSD, ONE_CORE, OURS, Served, Server, Source};
use crate::{Effort, say};

/// Measures all kinds, round by round over all servers, so that what the machine does meanwhile hits them alike.
///
/// # Errors
///
/// If a server does not start, or answers otherwise than the others.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    say("udp: starting servers");
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let served = Served::prepare(&nines_and_nineties(), folder)?;
    let mut servers = served.start(&[KNOT, NSD, BIND, HICKORY], ONE_CORE, folder)?;
    let ours = servers[0].address;
    servers.push(Server::floor(ours, &served.all_questions)?);
    same_answers(&servers, &served.kinds, Over::Udp)?;

    let mut table = Table::new("udp", "UDP, one core", Goals::CpuAndRate);
    for round in 1..=effort.rounds {
        for kind in &served.kinds {
            let mut line = format!("udp: round {round} of {}, {}:", effort.rounds, kind.name);
            for server in &servers {
                let measured = run(server, &kind.file, effort.seconds, Way::Udp)?;
                line += &measured.text(server.name);
                table.add(kind.name, server.name, measured);
            }
            say(&line);
        }
    }
    debug_assert_eq!(servers[0].name, OURS, "the first row of each kind");
    report.tables.push(table);
    measure_addresses(&served, effort, report)
}

/// Measures listeners of one address and of every address.
fn measure_addresses(served: &Served, effort: Effort, report: &mut Report) -> Result<()> {
    let source = Source::File(&served.manifest);
    let (bound, _) = Server::ours(source, ONE_CORE, &[])?;
    let (wildcard, _) = Server::ours_on_every_address(source, ONE_CORE, &[])?;
    let ways = [
        ("one", &bound, Way::UdpTo(1)),
        ("every, 1 asked", &wildcard, Way::UdpTo(1)),
        ("every, 4 asked", &wildcard, Way::UdpTo(4)),
    ];
    let title = "UDP, one core: a listener of one address, and of every address";
    let mut table = Table::new("udp-addresses", title, Goals::None);
    for round in 1..=effort.rounds {
        // A short reply and a long one: an address costs the same for each.
        for kind in served
            .kinds
            .iter()
            .filter(|kind| ["A9", "A90"].contains(&kind.name))
        {
            let mut line = format!("udp: round {round} of {}, {}:", effort.rounds, kind.name);
            for (name, server, way) in ways {
                let measured = run(server, &kind.file, effort.seconds, way)?;
                line += &measured.text(name);
                table.add(kind.name, name, measured);
            }
            say(&line);
        }
    }
    report.tables.push(table);
    Ok(())
}
