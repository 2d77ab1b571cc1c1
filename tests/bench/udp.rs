//! UDP: rate and CPU time by kind of question, compared with Knot, NSD, BIND, hickory-dns and the bare loop. Also the
//! cost of a listener on every address, with queries to one address and to four.

use anyhow::Result;
use support::wire::Transport;

use crate::check::check_same_answers;
use crate::data::small_and_large_services;
use crate::load::{Way, run};
use crate::report::{Goals, Report, Table};
use crate::servers::{BIND, HICKORY, KNOT, NSD, ONE_CORE, OURS, Served, Server, Source};
use crate::{Effort, print_line};

/// Measures all kinds. Each round includes all servers, so that other work on the machine affects them equally.
///
/// # Errors
///
/// If a server does not start, or the servers' answers differ.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    print_line("udp: starting servers");
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let served = Served::prepare(&small_and_large_services(), folder)?;
    let mut servers = served.start(
        effort.binaries,
        &[KNOT, NSD, BIND, HICKORY],
        ONE_CORE,
        folder,
    )?;
    let ours = servers[0].address;
    servers.push(Server::start_floor(ours, &served.all_questions)?);
    check_same_answers(&servers, &served.kinds, Transport::Udp)?;

    let mut table = Table::new("udp", "UDP, one core", Goals::CpuAndRate);
    for round in 1..=effort.rounds {
        for kind in &served.kinds {
            let mut line = format!("udp: round {round} of {}, {}:", effort.rounds, kind.name);
            for server in &servers {
                let measured = run(server, &kind.file, effort.seconds, Way::Udp)?;
                line += &measured.text(server.name);
                table.add(kind.name, server.name, measured);
            }
            print_line(&line);
        }
    }
    debug_assert_eq!(servers[0].name, OURS, "the first row of each kind");
    report.tables.push(table);
    measure_addresses(&served, effort, report)
}

/// Measures listeners on one address and on every address.
fn measure_addresses(served: &Served, effort: Effort, report: &mut Report) -> Result<()> {
    let source = Source::File(&served.manifest);
    let (bound, _) = Server::start_global_dns(source, ONE_CORE, &[])?;
    let (wildcard, _) = Server::start_global_dns_on_every_address(source, ONE_CORE, &[])?;
    let ways = [
        ("one address", &bound, Way::UdpTo(1)),
        ("every address, 1 queried", &wildcard, Way::UdpTo(1)),
        ("every address, 4 queried", &wildcard, Way::UdpTo(4)),
    ];
    let title = "UDP, one core: a listener on one address, and on every address";
    let mut table = Table::new("udp-addresses", title, Goals::None);
    for round in 1..=effort.rounds {
        // A short and a long reply: the cost of the address does not depend on the length.
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
            print_line(&line);
        }
    }
    report.tables.push(table);
    Ok(())
}
