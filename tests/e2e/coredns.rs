//! A real CoreDNS in front, with the stanza that users copy from `coredns/Corefile`.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::ask::{Over, a, dig, srv};
use crate::cluster::Cluster;
use crate::clusters_come_and_go::{
    EAST_REPAIRED, NGINX, NORTH_AGAIN, WEST_LAST, state_after_the_recordings,
};
use crate::harness::{Process, command, eventually, tool};
use crate::server::Server;
use crate::steps::Steps;
use crate::support::ports::free_port;
use crate::support::repository::repository;

const START: Duration = Duration::from_secs(30);

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.step(
        "coredns_forwards_the_zone_with_the_stanza_that_users_copy",
        || forwards_the_zone(cluster),
    );
}

fn forwards_the_zone(cluster: &Cluster) -> Result<()> {
    let program = tool("coredns")?;
    cluster.become_state(&state_after_the_recordings()?)?;
    let server = Server::start_ready(&cluster.kubeconfig, &[]);
    let front = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let corefile = cluster.directory().join("Corefile");
    let shipped = repository("coredns/Corefile");
    let shipped =
        fs::read_to_string(&shipped).with_context(|| format!("reading {}", shipped.display()))?;
    fs::write(&corefile, stanza(&shipped, front, server.dns)?)?;
    let mut coredns = command(&program);
    coredns.arg("-conf").arg(&corefile);
    let mut coredns = Process::start("coredns", coredns, cluster.directory())?;

    eventually("CoreDNS to answer", START, || {
        coredns.check()?;
        let dug = dig(front, Over::Tcp, NGINX, "A")?;
        ensure!(dug.status == "NOERROR", "{}", dug.status);
        Ok(())
    })?;
    let all: Vec<String> = ["east", "west", "north"]
        .iter()
        .flat_map(|cluster| {
            (0..3).map(move |n| format!("nginx-set-{n}.{cluster}.nginx.default.global"))
        })
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let sql = "_sql._tcp.nginx.default.global";
    let host = "nginx-set-1.west.nginx.default.global";
    for over in Over::BOTH {
        has(
            front,
            over,
            NGINX,
            "A",
            &a(NGINX, &[&EAST_REPAIRED, &WEST_LAST, &NORTH_AGAIN]),
        )?;
        has(front, over, host, "A", &a(host, &[&["10.96.116.27"]]))?;
        has(front, over, sql, "SRV", &srv(sql, 26257, &all))?;
        let dug = dig(front, over, "nowhere.default.global", "A")?;
        ensure!(
            dug.status == "NXDOMAIN" && dug.answer.is_empty(),
            "a missing name: {dug:?}"
        );
        let soa = dug
            .authority
            .iter()
            .filter(|record| record.starts_with("global. ") && record.contains(" IN SOA "));
        ensure!(
            dug.authority.len() == 1 && soa.count() == 1,
            "a missing name: {dug:?}"
        );
    }
    Ok(())
}

/// The answer's records are exactly these. What a cache holds may be older: times to live are not compared.
fn has(server: SocketAddr, over: Over, name: &str, kind: &str, wanted: &[String]) -> Result<()> {
    let dug = dig(server, over, name, kind)?;
    let without_ttl = |record: &String| {
        let words: Vec<&str> = record.split(' ').collect();
        [&words[..1], &words[2..]].concat().join(" ")
    };
    let mut answer: Vec<String> = dug.answer.iter().map(without_ttl).collect();
    let mut wanted: Vec<String> = wanted.iter().map(without_ttl).collect();
    answer.sort();
    wanted.sort();
    ensure!(
        dug.status == "NOERROR" && answer == wanted,
        "{name} {kind} over {over:?}: {dug:#?}"
    );
    Ok(())
}

/// The block of the zone in the shipped file, moved to our port and pointed at our server.
pub fn stanza(shipped: &str, front: SocketAddr, server: SocketAddr) -> Result<String> {
    let mut depth = 0;
    let mut stanza = Vec::new();
    for line in shipped
        .lines()
        .skip_while(|line| !line.starts_with("global:53 {"))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["global:53", "{"] => stanza.push(format!(
                "global:{} {{\n    bind {}",
                front.port(),
                front.ip()
            )),
            ["forward", ".", _, rest @ ..] => {
                stanza.push(format!("    forward . {server} {}", rest.join(" ")))
            }
            _ => stanza.push(line.to_owned()),
        }
        depth += line.matches('{').count();
        depth -= line.matches('}').count();
        if depth == 0 {
            break;
        }
    }
    let text = stanza.join("\n");
    ensure!(
        text.contains(&format!("forward . {server}")),
        "coredns/Corefile has no block `global:53` that forwards"
    );
    Ok(text)
}
