//! Overload: the server is held to half a core, and offered twice what it can answer.

use anyhow::{Context as _, Result};

use crate::data::nines_and_nineties;
use crate::flow::flow;
use crate::load::{Way, run};
use crate::processes::Quota;
use crate::report::{Figure, Report};
use crate::servers::{KNOT, NSD, ONE_CORE, Served};
use crate::{Effort, say};

/// Milliseconds of every hundred that a server may run.
const HALF: u32 = 50;

/// Measures what each server answers when it is asked as much as it can take, and then twice that.
///
/// # Errors
///
/// If a server does not start, or the system has no control groups.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    say("overload: starting servers");
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let served = Served::prepare(&nines_and_nineties(), folder)?;
    let servers = served.start(&[KNOT, NSD], ONE_CORE, folder)?.into_iter();
    let mut servers: Vec<_> = servers.map(|server| (server, vec![])).collect();
    // Each one its own half: they are asked one after the other, but none is quite idle.
    let mut quotas = vec![];
    for (server, _) in &servers {
        let quota = Quota::new(server.name, HALF).context("holding a server to half a core")?;
        quota.hold(&server.process)?;
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
                reason = "some hundred thousands"
            )]
            let twice = (2.0 * capacity) as u32;
            let flow = flow(server, asked, twice, effort.seconds)?;
            line += &format!(
                "  {}: can answer {:.0} k/s, offered {:.0}, answers {:.0}",
                server.name,
                capacity / 1e3,
                flow.offered / 1e3,
                flow.answered / 1e3
            );
            shares.push(flow.answered / capacity);
        }
        say(&line);
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
