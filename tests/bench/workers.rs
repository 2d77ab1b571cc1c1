//! Two worker threads compared with one, on two cores that they share with the load.

use anyhow::Result;

use crate::data::small_and_large_services;
use crate::load::{Way, run};
use crate::processes::ANY;
use crate::report::{Figure, Report};
use crate::servers::{KNOT, OURS, Served, Share};
use crate::{Effort, print_line};

/// Measures `A9` with one thread and with two, for global-dns and Knot.
///
/// # Errors
///
/// If a server does not start.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    print_line("workers: starting servers");
    let folder = tempfile::tempdir()?;
    let served = Served::prepare(&small_and_large_services(), folder.path())?;
    let mut servers = vec![];
    for workers in [1, 2] {
        let share = Share {
            cores: ANY,
            workers,
        };
        let folder = folder.path().join(format!("{workers}"));
        std::fs::create_dir(&folder)?;
        let both = served
            .start(&effort.binaries[..1], &[KNOT], share, &folder)?
            .into_iter();
        servers.extend(both.map(|server| (server, workers, vec![])));
    }
    let asked = &served.kinds[0];
    for round in 1..=effort.rounds {
        let mut line = format!("workers: round {round} of {}:", effort.rounds);
        for (server, workers, rates) in &mut servers {
            let measured = run(server, &asked.file, effort.seconds, Way::UdpFromBoth)?;
            line += &measured.text(&format!("{} {workers}", server.name));
            rates.push(measured.rate);
        }
        print_line(&line);
    }
    for name in [OURS, KNOT.name] {
        let mut of = servers.iter().filter(|(server, ..)| server.name == name);
        if let (Some((.., one)), Some((.., two))) = (of.next(), of.next()) {
            let ratios = one.iter().zip(two).map(|(one, two)| two / one).collect();
            let what = format!(
                "two threads on two cores, shared with the load: {name}, rate ÷ one thread's"
            );
            report.figures.push(Figure::new(&what, ratios, "×"));
        }
    }
    Ok(())
}
