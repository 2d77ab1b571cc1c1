//! Knot, NSD and BIND with the zone file, each on a separate port.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use support::commands::{command, tool};
use support::ports::free_port;
use support::process::Process;
use support::query::query;
use support::wait::TIMEOUT;
use support::wire::{Transport, try_ask};

/// A running server of another implementation.
pub struct Peer {
    pub name: &'static str,
    pub address: SocketAddr,
    _process: Process,
}

/// Words in log lines about problems of a zone.
const COMPLAINTS: [&str; 5] = ["warning", "error", "critical", "fail", "ignor"];

/// Starts all three servers, and fails if one logs a problem of the zone.
pub fn start(zone_file: &Path, folder: &Path) -> Vec<Peer> {
    let zone = zone_file.display();
    let here = folder.display();
    fs::create_dir(folder.join("knot")).unwrap();
    [knot, nsd, bind]
        .map(|server| {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
            let (name, program, arguments, configuration) = server(address, &zone.to_string());
            let configuration = configuration.replace("HERE", &here.to_string());
            let file = folder.join(format!("{name}.conf"));
            fs::write(&file, configuration).unwrap();
            let mut command = command(tool(program).unwrap());
            command.args(arguments).arg(&file).current_dir(folder);
            // NSD terminates its own child processes.
            let mut process = Process::start(name, command).unwrap().with_children();
            let loaded = process.wait_for("the zone", |_| {
                let asked = query("global. SOA +edns");
                let reply = try_ask(address, &asked, Transport::Tcp, TIMEOUT).ok()?;
                (reply.answers.len() == 1).then_some(())
            });
            loaded.unwrap();
            let log = process.log().text();
            let complaint = log.lines().find(|line| {
                let line = line.to_lowercase();
                // BIND's line of compiler flags is not a problem.
                COMPLAINTS.iter().any(|word| line.contains(word)) && !line.contains(" built with ")
            });
            assert_eq!(
                complaint, None,
                "{name} reports a problem of the zone file: {log}"
            );
            Peer {
                name,
                address,
                _process: process,
            }
        })
        .into()
}

type Recipe = (&'static str, &'static str, &'static [&'static str], String);

fn knot(address: SocketAddr, zone: &str) -> Recipe {
    let (ip, port) = (address.ip(), address.port());
    let configuration = format!(
        r#"server:
    rundir: "HERE"
    listen: {ip}@{port}
    udp-max-payload: 1232
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: "HERE/knot"
log:
  - target: stderr
    any: info
zone:
  - domain: global.
    file: "{zone}"
    semantic-checks: on
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
"#
    );
    ("knot", "knotd", &["-c"], configuration)
}

fn nsd(address: SocketAddr, zone: &str) -> Recipe {
    let (ip, port) = (address.ip(), address.port());
    // NSD's response rate limit is off, because it would limit the test.
    let configuration = format!(
        r#"server:
    ip-address: {ip}@{port}
    server-count: 1
    username: ""
    chroot: ""
    zonesdir: "HERE"
    pidfile: ""
    database: ""
    zonelistfile: "HERE/nsd.zones"
    xfrdfile: "HERE/nsd.xfrd"
    xfrdir: "HERE"
    ipv4-edns-size: 1232
    minimal-responses: yes
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
    verbosity: 1
remote-control:
    control-enable: no
zone:
    name: "global"
    zonefile: "{zone}"
"#
    );
    ("nsd", "nsd", &["-d", "-c"], configuration)
}

fn bind(address: SocketAddr, zone: &str) -> Recipe {
    let (ip, port) = (address.ip(), address.port());
    // By default BIND rejects RRsets of more than 100 records, and sets the TTL of the SOA record to 0 in answers to
    // SOA queries.
    let configuration = format!(
        r#"options {{
    directory "HERE";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    pid-file none;
    session-keyfile none;
    recursion no;
    allow-query {{ any; }};
    dnssec-validation no;
    notify no;
    edns-udp-size 1232;
    max-udp-size 1232;
    minimal-responses yes;
    zero-no-soa-ttl no;
    max-records-per-type 0;
    max-types-per-name 0;
    empty-zones-enable no;
}};
controls {{ }};
zone "global" {{ type primary; file "{zone}"; check-names fail; }};
"#
    );
    ("bind", "named", &["-g", "-n", "1", "-c"], configuration)
}
