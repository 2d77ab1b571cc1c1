//! Services of each kind: CPU time of an A query, compared with a headless service, and resident memory with 20,000
//! mirrors with a cluster IP.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value;
use support::objects::{Manifest, exported, federated, flat_mirror, gateway_mirror, mirror};

use crate::data::{address, namespace, write_list, write_questions};
use crate::load::{Way, run};
use crate::memory::stable_memory;
use crate::report::{Figure, Goals, Quantity, Report, Table, median};
use crate::servers::{ONE_CORE, OURS, Server, Source};
use crate::{Effort, print_line};

/// Services of each kind. Each has one address, so that all replies have the same length.
const SERVICES: usize = 1_000;
/// Mirrors with a cluster IP, two for each service.
const MIRRORS: usize = 20_000;
/// The kinds. All names have the same length.
const KINDS: [&str; 5] = [HEADLESS, "gateway", "flat", "federated", "local"];
const HEADLESS: &str = "headless";

/// Measures all kinds in each round, so that other work on the machine affects them equally.
///
/// # Errors
///
/// If the server does not start, or the load generator fails.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    measure_queries(effort, folder.path(), report)?;
    measure_memory(effort, folder.path(), report)
}

fn measure_queries(effort: Effort, folder: &Path, report: &mut Report) -> Result<()> {
    let manifest = folder.join("kinds.json");
    let mut objects: Vec<Value> = Vec::new();
    for (number, kind) in KINDS.iter().enumerate() {
        for index in 0..SERVICES {
            let address = address(number * SERVICES + index)?;
            objects.extend(service(kind, number, index, &address).0);
        }
    }
    write_list(&manifest, objects)?;
    let (server, _) = Server::start_global_dns(Source::File(&manifest), ONE_CORE, &[])?;
    let mut table = Table::new("kinds", "UDP, one core: A for each kind", Goals::None);
    let files = question_files(folder)?;
    let mut costs = KINDS.map(|_| Vec::new());
    for round in 1..=effort.rounds {
        let mut line = format!("kinds: round {round} of {}:", effort.rounds);
        for ((kind, file), costs) in KINDS.iter().zip(&files).zip(&mut costs) {
            let measured = run(&server, file, effort.seconds, Way::Udp)?;
            line += &measured.text(kind);
            costs.push(measured.cpu);
            table.add(kind, OURS, measured);
        }
        print_line(&line);
    }
    report.tables.push(table);
    let headless = median(&costs[0]);
    for (kind, costs) in KINDS.iter().zip(&costs).skip(1) {
        let ratios = costs.iter().map(|cost| cost / headless).collect();
        let name = format!("A of a {kind} service: CPU time ÷ that of a headless one");
        report
            .figures
            .push(Figure::new(&name, ratios, "×").at_most(1.1));
    }
    Ok(())
}

fn measure_memory(effort: Effort, folder: &Path, report: &mut Report) -> Result<()> {
    let manifest = folder.join("mirrors.json");
    let mirrors = (0..MIRRORS).map(|number| {
        let (index, cluster) = (number / 2, ["east", "west"][number % 2]);
        let service = format!("web{index}");
        let mirror = gateway_mirror(&namespace(index), &service, cluster, &address(number)?);
        anyhow::Ok(Manifest::from(mirror).0)
    });
    let mirrors: Result<Vec<Vec<Value>>> = mirrors.collect();
    write_list(&manifest, mirrors?.concat())?;
    let name = "20,000 mirrors with a cluster IP and a slice each: resident, settled";
    let mut resident = Quantity::new(name, "MiB", effort.binaries);
    for round in 1..=effort.rounds {
        for (index, binary) in effort.binaries.iter().enumerate() {
            let source = Source::File(&manifest);
            let (server, _) = Server::start_binary(binary, source, ONE_CORE, &[])?;
            let settled = stable_memory(&server.process)?;
            print_line(&format!(
                "kinds: round {round} of {}, {}: {settled:.1} MiB with {MIRRORS} mirrors with a cluster IP and a slice each",
                effort.rounds, binary.name
            ));
            resident.add(index, settled);
        }
    }
    report.figures.extend(resident.figures());
    Ok(())
}

/// Returns the objects of one service.
fn service(kind: &str, number: usize, index: usize, address: &str) -> Manifest {
    let (namespace, name) = (namespace(index), name(number, index));
    let members = format!("{name}@east,{name}@west");
    match kind {
        HEADLESS => mirror(&namespace, &name, "east")
            .endpoint(&format!("{name}-0"), &[address])
            .into(),
        "gateway" => gateway_mirror(&namespace, &name, "east", address).into(),
        "flat" => flat_mirror(&namespace, &name, "east", address).into(),
        "federated" => federated(&namespace, &name, address, &members).into(),
        _ => exported(&namespace, &name, address).into(),
    }
}

/// Returns the name of a service of the kind with this number.
fn name(number: usize, index: usize) -> String {
    format!("kind{number}-{index}")
}

/// Writes a file of questions for each kind.
fn question_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = KINDS.iter().enumerate().map(|(number, kind)| {
        let file = folder.join(format!("{kind}.questions"));
        let question = |index| format!("{}.{}.global. A", name(number, index), namespace(index));
        let questions: Vec<String> = (0..SERVICES).map(question).collect();
        write_questions(&file, &questions)?;
        Ok(file)
    });
    files.collect()
}
