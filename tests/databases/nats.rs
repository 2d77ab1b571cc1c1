//! NATS: three servers with one route each, to the one name.
//!
//! `pool_size: -1` is one connection per route. With the pools that are NATS's default since 2.10, every connection of
//! a pool looks the route's name up by itself and takes one of its addresses by chance, so that a pool may stay
//! incomplete for ever and messages of some accounts are lost, although every server lists routes to every other one.
//! That is so for any name with several addresses.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::tool;
use support::process::Process;
use support::say::say;
use support::wait::eventually;

use crate::clusters::{Clusters, PATIENCE};
use crate::plan::{CLUSTERS, EAST, Member, NAMESPACE, NATS, NORTH, WEST};

/// How long a server may be silent before the next attempt.
const SILENCE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Nats {
    /// Where its processes are among those of all databases.
    processes: Vec<usize>,
}

/// A client, as simple as the protocol is.
struct Client {
    stream: BufReader<TcpStream>,
}

// === impl Nats ===

impl Nats {
    pub fn form(&mut self, clusters: &mut Clusters) -> Result<()> {
        let started = Instant::now();
        for cluster in [EAST, WEST, NORTH] {
            self.start(clusters, cluster)?;
        }
        self.is_whole(clusters)?;
        let took = started.elapsed().as_secs_f64();
        say(&format!("nats: routes between all three after {took:.1} s"));
        Ok(())
    }

    /// Every server has routes to both others, and what one is told the others hear.
    pub fn is_whole(&self, clusters: &mut Clusters) -> Result<()> {
        for cluster in [EAST, WEST, NORTH] {
            let others: BTreeSet<String> = [EAST, WEST, NORTH]
                .into_iter()
                .filter(|&other| other != cluster)
                .map(|other| name_of(member(other)))
                .collect();
            eventually("routes to both others", PATIENCE, || {
                for &index in &self.processes {
                    clusters.databases[index].check()?;
                }
                let page = routez(cluster)?;
                let routes = page["routes"].as_array().context("no list of routes")?;
                let names: BTreeSet<String> = routes
                    .iter()
                    .filter_map(|route| route["remote_name"].as_str().map(str::to_owned))
                    .collect();
                let name = name_of(member(cluster));
                ensure!(names == others, "{name} has routes to {names:?}");
                Ok(())
            })?;
        }
        for (from, to) in [(EAST, WEST), (WEST, NORTH), (NORTH, EAST)] {
            let (mut speaker, mut listener) = (Client::connect(from)?, Client::connect(to)?);
            listener.say("SUB news 1")?;
            // The servers tell each other of the listener in their own time.
            eventually("a message", PATIENCE, || {
                speaker.say("PUB news 5\r\nhello")?;
                listener.hear("MSG news 1 5")
            })?;
        }
        Ok(())
    }

    /// Starts a server. But for its own name and addresses, every server has the same settings.
    fn start(&mut self, clusters: &mut Clusters, cluster: usize) -> Result<()> {
        let member = member(cluster);
        let (name, pod) = (name_of(member), member.pod_address());
        let file = clusters.directory().join(format!("{name}.conf"));
        fs::write(
            &file,
            format!(
                "server_name: {name}\nlisten: {pod}:4222\nhttp: {pod}:8222\n\
                 cluster {{\n  name: {NAMESPACE}\n  pool_size: -1\n  listen: {pod}:6222\n  cluster_advertise: \"{}:6222\"\n  \
                 routes: [nats://nats.{NAMESPACE}.global:6222]\n}}\n",
                member.global_name()
            ),
        )?;
        let mut command = clusters.pod(cluster, &tool("nats-server")?)?;
        command.arg("-c").arg(&file);
        self.processes.push(clusters.databases.len());
        let process = Process::start(name, command)?;
        clusters.databases.push(process);
        Ok(())
    }
}

fn member(cluster: usize) -> Member {
    Member {
        service: &NATS,
        cluster,
        ordinal: 0,
    }
}

fn name_of(member: Member) -> String {
    format!("{}.{}", member.host(), CLUSTERS[member.cluster].name)
}

/// Where the test, which is in `east`, finds a server.
fn address(cluster: usize, port: u16) -> Result<SocketAddr> {
    Ok(SocketAddr::new(
        member(cluster).address_in(EAST).parse()?,
        port,
    ))
}

/// A server's own list of its routes.
fn routez(cluster: usize) -> Result<Value> {
    let mut stream = TcpStream::connect(address(cluster, 8222)?)?;
    stream.set_read_timeout(Some(SILENCE))?;
    // Of an older version of HTTP, in which there are no chunks.
    stream.write_all(b"GET /routez HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text.split_once("\r\n\r\n").context("no HTTP")?;
    Ok(serde_json::from_str(body)?)
}

// === impl Client ===

impl Client {
    fn connect(cluster: usize) -> Result<Self> {
        let stream = TcpStream::connect(address(cluster, 4222)?)?;
        stream.set_read_timeout(Some(SILENCE))?;
        let mut client = Self {
            stream: BufReader::new(stream),
        };
        let mut info = String::new();
        client.stream.read_line(&mut info)?;
        ensure!(info.starts_with("INFO "), "{info}");
        client.say("CONNECT {\"verbose\":false}")?;
        Ok(client)
    }

    /// Says something, and waits until the server has taken it.
    fn say(&mut self, line: &str) -> Result<()> {
        write!(self.stream.get_mut(), "{line}\r\nPING\r\n")?;
        self.hear("PONG")
    }

    fn hear(&mut self, wanted: &str) -> Result<()> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        ensure!(line.trim_end() == wanted, "{line:?} instead of {wanted}");
        Ok(())
    }
}
