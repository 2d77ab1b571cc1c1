//! HAProxy: `server-template` with A records and with SRV records, read from its stats socket.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use support::process::{Process, run};

use crate::clients::scenario::pod::Pod;
use crate::clients::scenario::{Client, Profile, View};

pub struct Haproxy;

const VIEWS: [View; 3] = [View::new("A"), View::new("SRV"), View::new("SRV over TCP")];
/// Maximum time of a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// State of a server that is up.
const RUNNING: &str = "2";
/// Bit of the administrative state of a server without an address.
const UNRESOLVED: u32 = 0x20;

// === impl Haproxy ===

impl Client for Haproxy {
    fn profile(&self) -> Profile {
        Profile::new("haproxy", &["haproxy", "-v"], &VIEWS)
    }

    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>> {
        let path = socket(pod).display().to_string();
        let file =
            pod.configuration("haproxy/haproxy.cfg", &[("/run/haproxy/admin.sock", &path)])?;
        let mut command = pod.command("haproxy")?;
        command.arg("-db").arg("-f").arg(file);
        Ok(vec![Process::start("haproxy", command)?])
    }

    fn seen(&mut self, pod: &Pod<'_>, _: &[Process], view: &View) -> Result<BTreeSet<String>> {
        let backend = match view.name {
            "A" => "web_a",
            "SRV" => "web_srv",
            _ => "grpc",
        };
        let mut stream = UnixStream::connect(socket(pod))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(stream, "show servers state {backend}")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        addresses(&text)
    }

    /// A name that does not exist, with and without `init-addr none`.
    fn prove_further(&self, pod: &Pod<'_>) -> Result<()> {
        let missing = ("web.prod.global", "nope.prod.global");
        let cases = [
            (vec![missing], false),
            (vec![missing, (" init-addr none", "")], true),
        ];
        for (replacements, is_looked_up) in cases {
            let file = pod.configuration("haproxy/haproxy.cfg", &replacements)?;
            let mut command = pod.command("haproxy")?;
            let ended = run(command.arg("-c").arg("-f").arg(file));
            let output = ended.output();
            let warning = "could not resolve address 'nope.prod.global', disabling server";
            ensure!(ended.is_success(), "{output}");
            ensure!(output.contains(warning) == is_looked_up, "{output}");
        }
        Ok(())
    }
}

fn socket(pod: &Pod<'_>) -> PathBuf {
    pod.directory().join("haproxy.sock")
}

/// Returns the addresses of the servers. Fails if the health check of one fails.
fn addresses(state: &str) -> Result<BTreeSet<String>> {
    let mut lines = state.lines().skip(1);
    let names = lines.next().context("no heading")?;
    let names: Vec<&str> = names.split_whitespace().skip(1).collect();
    let column = |name: &str| {
        let found = names.iter().position(|each| *each == name);
        found.context("no column")
    };
    let (address, operational, administrative) = (
        column("srv_addr")?,
        column("srv_op_state")?,
        column("srv_admin_state")?,
    );
    let mut addresses = BTreeSet::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        ensure!(fields.len() == names.len(), "{line}");
        let is_resolved = fields[administrative].parse::<u32>()? & UNRESOLVED == 0;
        if is_resolved && fields[address] != "-" {
            ensure!(fields[operational] == RUNNING, "not up: {line}");
            addresses.insert(fields[address].to_owned());
        }
    }
    Ok(addresses)
}
