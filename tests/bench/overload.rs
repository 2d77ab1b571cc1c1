//! Overload: the server has half a core and receives twice the queries that it can answer.

use anyhow::{Context as _, Result};

use crate::data::small_and_large_services;
use crate::flow::flow;
use crate::load::{Way, run};
use crate::processes::Quota;
use crate::report::{Figure, Report};
use crate::servers::{KNOT, NSD, ONE_CORE, Served};
use crate::{Effort, print_line};

/// CPU quota of a server: milliseconds of every hundred.
const HALF: u32 = 50;

/// Measures the answer rate of each server at its capacity and at twice its capacity.
///
/// # Errors
///
/// If a server does not start, or the system has no control groups.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    print_line("overload: starting servers");
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let served = Served::prepare(&small_and_large_services(), folder)?;
    let servers = served
        .start(&effort.binaries[..1], &[KNOT, NSD], ONE_CORE, folder)?
        .into_iter();
    let mut servers: Vec<_> = servers.map(|server| (server, vec![])).collect();
    // Each server has a separate quota: queries go to one server at a time, but no server is fully idle.
    let mut quotas = vec![];
    for (server, _) in &servers {
        let quota = Quota::new(server.name, HALF).context("limiting a server to half a core")?;
        quota.add(&server.process)?;
        quotas.push(quota);
    }
    let asked = &served.kinds[0].file;
    for round in 1..=effort.rounds {
        let mut line = format!("overload: round {round} of {}:", effort.rounds);
        for (server, shares) in &mut servers {
            let capacity = run(server, asked, effort.seconds, Way::Udp)?.rate;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "hundreds of thousands"
            )]
            let twice = (2.0 * capacity) as u32;
            let flow = flow(server, asked, twice, effort.seconds)?;
            line += &format!(
                "  {}: capacity {:.0} k/s, sent {:.0}, answered {:.0}",
                server.name,
                capacity / 1e3,
                flow.offered / 1e3,
                flow.answered / 1e3
            );
            shares.push(flow.answered / capacity);
        }
        print_line(&line);
    }
    for (index, (server, shares)) in servers.into_iter().enumerate() {
        let what = format!(
            "half a core, twice the load: {}, answered ÷ capacity",
            server.name
        );
        let figure = Figure::new(&what, shares, "×");
        report.figures.push(match index {
            0 => figure.at_least(0.9),
            _ => figure,
        });
    }
    drop(quotas);
    Ok(())
}
