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
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{CLUSTERS, EAST, Member, NAMESPACE, Service};
use support::process::Process;
use support::wait::{TIMEOUT, eventually};

use crate::databases::Program;
use crate::databases::plan::NATS;

/// Maximum time without data from a server before the next attempt.
const SILENCE: Duration = Duration::from_millis(500);

pub struct Nats;

/// A minimal NATS client.
struct Client {
    stream: BufReader<TcpStream>,
}

// === impl Nats ===

impl Program for Nats {
    fn service(&self) -> &'static Service {
        &NATS
    }

    /// Starts a server. All servers have the same settings, except for name and addresses.
    fn start(&self, clusters: &mut Clusters, member: Member) -> Result<()> {
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
        let mut command = clusters.pod_command(member.cluster, &tool("nats-server")?)?;
        command.arg("-c").arg(&file);
        clusters.databases.push(Process::start(name, command)?);
        Ok(())
    }

    /// Asserts that a server has routes to all others, and that its messages arrive there.
    fn check(&self, _clusters: &Clusters, viewer: Member, members: &[Member]) -> Result<()> {
        let others = members.iter().filter(|member| **member != viewer);
        let expected: BTreeSet<String> = others.clone().map(|member| name_of(*member)).collect();
        let page = read_routes(viewer)?;
        let routes = page["routes"].as_array().context("no list of routes")?;
        let names = routes
            .iter()
            .filter_map(|route| route["remote_name"].as_str());
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        ensure!(
            names == expected,
            "{} has routes to {names:?}",
            name_of(viewer)
        );
        for other in others {
            let (mut publisher, mut subscriber) =
                (Client::connect(viewer)?, Client::connect(*other)?);
            subscriber.send("SUB news 1")?;
            let stream = subscriber.stream.get_ref();
            stream.set_read_timeout(Some(SILENCE))?;
            // Servers propagate a subscription with a delay.
            eventually("a message", || {
                publisher.send("PUB news 5\r\nhello")?;
                subscriber.expect_line("MSG news 1 5")
            })?;
        }
        Ok(())
    }
}

fn name_of(member: Member) -> String {
    format!("{}.{}", member.host(), CLUSTERS[member.cluster].name)
}

/// Returns the address of a server in `east`, where the test runs.
fn address(member: Member, port: u16) -> Result<SocketAddr> {
    Ok(SocketAddr::new(member.address_in(EAST).parse()?, port))
}

/// Reads the list of routes of a server.
fn read_routes(member: Member) -> Result<Value> {
    let mut stream = TcpStream::connect(address(member, 8222)?)?;
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
    fn connect(member: Member) -> Result<Self> {
        let stream = TcpStream::connect(address(member, 4222)?)?;
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
