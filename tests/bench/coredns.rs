//! UDP compared with CoreDNS and its `kubernetes` plugin. CoreDNS reads the same addresses and ports from a real API
//! server, which has a headless Service and a slice for each service of global-dns.

use anyhow::Result;
use serde_json::Value;
use support::cluster::Cluster;
use support::objects::{Manifest, local};
use support::wire::Transport;

use crate::data::{
    Kind, Question, SMALL, Services, namespace, question, write_manifest, write_questions,
};
use crate::load::{Way, run};
use crate::processes::{SERVER, start, wait_until_ready};
use crate::report::{Goals, Report, Table};
use crate::servers::{COREDNS, ONE_CORE, Server, Source};
use crate::start::{coredns_command, write_all};
use crate::{Effort, check, print_line};

/// Zone of CoreDNS's names.
const THEIR_ZONE: &str = "svc.cluster.local.";

/// Measures three kinds of question; each server is queried for its own names.
///
/// # Errors
///
/// If a program is missing, or the servers' addresses or ports differ.
pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let manifest = folder.join("objects.json");
    write_manifest(&manifest, &[SMALL])?;
    let cluster = Cluster::start()?;
    write_all(&cluster, &plain_services(&SMALL))?;

    let (ours, _) =
        Server::start_global_dns(Source::File(&manifest), ONE_CORE, &["--log-level=warn"])?;
    let (command, address, ready) = coredns_command(&cluster.kubeconfig, SERVER, folder)?;
    let mut process = start(COREDNS, command)?;
    wait_until_ready(&mut process, ready)?;
    let last = question(&SMALL, SMALL.count - 1, "", "A", THEIR_ZONE);
    process.wait_for("the last service", |_| {
        check::fetch(address, &last, Transport::Udp).ok()
    })?;
    let theirs = Server {
        name: COREDNS,
        address,
        process,
        admin: None,
    };
    let servers = [(&ours, "global."), (&theirs, THEIR_ZONE)];

    let kinds = [
        ("A9", "", "A"),
        ("SRV9", "_sql._tcp.", "SRV"),
        ("NXDOMAIN", "no-", "A"),
    ];
    let mut asked = vec![];
    for (name, prefix, rtype) in kinds {
        let mut both = vec![];
        for (server, zone) in servers {
            let all = 0..SMALL.count;
            let questions: Vec<Question> = all
                .map(|index| question(&SMALL, index, prefix, rtype, zone))
                .collect();
            let file = folder.join(format!("{name}-{}.questions", server.name));
            write_questions(&file, &questions)?;
            both.push(Kind {
                name,
                questions,
                file,
            });
        }
        check::check_answer_counts(servers.map(|(server, _)| server), &both)?;
        asked.push(both);
    }

    let title = "UDP, one core, compared with CoreDNS on an API server";
    let mut table = Table::new("coredns", title, Goals::RateOfCoreDns);
    for round in 1..=effort.rounds {
        for both in &asked {
            let name = both[0].name;
            let mut line = format!("coredns: round {round} of {}, {name}:", effort.rounds);
            for ((server, _), kind) in servers.iter().zip(both) {
                let measured = run(server, &kind.file, effort.seconds, Way::Udp)?;
                line += &measured.text(server.name);
                table.add(name, server.name, measured);
            }
            print_line(&line);
        }
    }
    report.tables.push(table);
    Ok(())
}

/// Services with the same number of addresses in one cluster, as ordinary Kubernetes objects.
fn plain_services(services: &Services) -> Vec<Value> {
    let count = services.clusters * services.endpoints;
    let service = |index: usize| {
        let (name, namespace) = (services.name(index), namespace(index));
        let service = local(&namespace, &name).without_selector();
        (0..count).fold(service.ports(&services.all_ports()), |service, number| {
            let [_, _, high, low] =
                (u32::try_from(index * count + number).unwrap_or(0)).to_be_bytes();
            let (host, address) = (format!("{name}-{number}"), format!("10.244.{high}.{low}"));
            service.endpoint(Some(&host), &address, true)
        })
    };
    (0..services.count).map(service).collect::<Manifest>().0
}
