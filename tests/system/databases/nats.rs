//! NATS: three servers, each with one route to the same name.
//!
//! `pool_size: -1` means one connection per route. Since 2.10, NATS uses route pools by default. Every connection of a
//! pool resolves the name itself and takes a random address. The pool may therefore stay incomplete, and messages of
//! some accounts are lost, although every server lists routes to all others. This affects every name with several
//! addresses.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{CLUSTERS, EAST, Member, NAMESPACE, NORTH, WEST};
use support::output::print_line;
use support::process::Process;
use support::wait::{TIMEOUT, eventually};

use crate::databases::plan::NATS;

/// Maximum time without data from a server before the next attempt.
const SILENCE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub struct Nats {
    /// Indexes into [`Clusters::databases`].
    processes: Vec<usize>,
}

/// A minimal NATS client.
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
        self.check_routes(clusters)?;
        let took = started.elapsed().as_secs_f64();
        print_line(&format!(
            "nats: routes between all three servers after {took:.1} s"
        ));
        Ok(())
    }

    /// Asserts that every server has routes to both others, and that messages arrive at the others.
    pub fn check_routes(&self, clusters: &mut Clusters) -> Result<()> {
        for cluster in [EAST, WEST, NORTH] {
            let others: BTreeSet<String> = [EAST, WEST, NORTH]
                .into_iter()
                .filter(|&other| other != cluster)
                .map(|other| name_of(member(other)))
                .collect();
            eventually("routes to both others", || {
                for &index in &self.processes {
                    clusters.databases[index].check()?;
                }
                let page = read_routes(cluster)?;
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
            let (mut publisher, mut subscriber) = (Client::connect(from)?, Client::connect(to)?);
            subscriber.send("SUB news 1")?;
            subscriber
                .stream
                .get_ref()
                .set_read_timeout(Some(SILENCE))?;
            // Servers propagate a subscription with a delay.
            eventually("a message", || {
                publisher.send("PUB news 5\r\nhello")?;
                subscriber.expect_line("MSG news 1 5")
            })?;
        }
        Ok(())
    }

    /// Starts a server. All servers have the same settings, except for name and addresses.
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
        let mut command = clusters.pod_command(cluster, &tool("nats-server")?)?;
        command.arg("-c").arg(&file);
        self.processes.push(clusters.databases.len());
        let process = Process::start(name, command)?;
        clusters.databases.push(process);
        Ok(())
    }
}

fn member(cluster: usize) -> Member {
    NATS.member(cluster, 0)
}

fn name_of(member: Member) -> String {
    format!("{}.{}", member.host(), CLUSTERS[member.cluster].name)
}

/// Returns the address of a server in `east`, where the test runs.
fn address(cluster: usize, port: u16) -> Result<SocketAddr> {
    Ok(SocketAddr::new(
        member(cluster).address_in(EAST).parse()?,
        port,
    ))
}

/// Reads the list of routes of a server.
fn read_routes(cluster: usize) -> Result<Value> {
    let mut stream = TcpStream::connect(address(cluster, 8222)?)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // HTTP/1.0, because it has no chunked encoding.
    stream.write_all(b"GET /routez HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text
        .split_once("\r\n\r\n")
        .context("the response is not HTTP")?;
    Ok(serde_json::from_str(body)?)
}

// === impl Client ===

impl Client {
    fn connect(cluster: usize) -> Result<Self> {
        let stream = TcpStream::connect(address(cluster, 4222)?)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut client = Self {
            stream: BufReader::new(stream),
        };
        let mut info = String::new();
        client.stream.read_line(&mut info)?;
        ensure!(info.starts_with("INFO "), "{info}");
        client.send("CONNECT {\"verbose\":false}")?;
        Ok(client)
    }

    /// Sends a line, and waits until the server has processed it.
    fn send(&mut self, line: &str) -> Result<()> {
        write!(self.stream.get_mut(), "{line}\r\nPING\r\n")?;
        self.expect_line("PONG")
    }

    /// Reads a line, and asserts its text.
    fn expect_line(&mut self, expected: &str) -> Result<()> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        ensure!(
            line.trim_end() == expected,
            "received {line:?}, expected {expected}"
        );
        Ok(())
    }
}
