//! nginx: the name in a variable, and `upstream` with `resolve` by A records and by SRV records.
//!
//! nginx counts the time of its cache in seconds, and each `resolver` has its own cache. So the test has many copies of the
//! configuration, each with a `resolver` and a port, and sends one request to each of them in turn.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use support::process::Process;

use super::bed::{Bed, Order, PORT, send_one};
use super::{Expected, Program, Running, Way};

pub(super) struct Nginx;

struct Started {
    process: Process,
    /// For each copy, the time of its last request.
    copies: Vec<Option<Instant>>,
    /// The copy of the next request.
    next: usize,
}

const VARIABLE: Way = Way {
    name: "variable",
    setting: "`resolver … valid=`, else the TTL: the cluster of each answer gets all requests until the next answer",
    rtype: "A",
    askers: 1,
    order: Order::USUAL,
    result: Expected::Drawn,
};

const RESOLVE: Way = Way {
    name: "`resolve`",
    setting: "the same",
    rtype: "A",
    askers: 1,
    order: Order::USUAL,
    result: Expected::Drawn,
};

const SERVICE: Way = Way {
    name: "`service=http resolve`",
    setting: "none: it has all clusters with their weights",
    rtype: "SRV",
    askers: 1,
    order: Order::USUAL,
    result: Expected::Weighted,
};

const COPIES: u16 = 100;
/// The port of the first copy.
const FIRST: u16 = 8100;
/// More than the longest time of the cache with `valid=1s`: it ends within the second after that one.
const PAUSE: Duration = Duration::from_millis(2_500);

impl Program for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn title(&self) -> &'static str {
        "nginx"
    }

    fn version(&self) -> Result<String> {
        crate::clients::nginx::version_of(&crate::clients::nginx::newer()?)
    }

    fn ways(&self) -> Vec<Way> {
        vec![VARIABLE, RESOLVE, SERVICE]
    }

    fn start(&self, bed: &Bed, way: &Way) -> Result<Box<dyn Running>> {
        let (copies, file) = (copies(way), bed.folder().join("nginx.conf"));
        fs::write(&file, configuration(way, copies)?)?;
        let mut command = bed.command(&crate::clients::nginx::newer()?)?;
        command.args(["-e", "stderr", "-p"]).arg(bed.folder());
        command.arg("-c").arg(file);
        let process = Process::start("nginx", command)?.with_children();
        Ok(Box::new(Started {
            process,
            copies: vec![None; usize::from(copies)],
            next: 0,
        }))
    }
}

/// One copy is enough if each answer has all clusters.
fn copies(way: &Way) -> u16 {
    match way.result {
        Expected::Drawn => COPIES,
        _ => 1,
    }
}

fn configuration(way: &Way, copies: u16) -> Result<String> {
    let mut blocks = String::new();
    let resolver = "resolver 10.96.0.10 valid=1s ipv6=off;";
    for copy in 0..copies {
        let location = match way.name {
            name if name == VARIABLE.name => {
                format!("{resolver} set $web web.prod.global; proxy_pass http://$web:{PORT};")
            }
            name => {
                let server = if name == SERVICE.name {
                    "web.prod.global service=http resolve".to_owned()
                } else {
                    format!("web.prod.global:{PORT} resolve")
                };
                writeln!(
                    blocks,
                    "upstream web_{copy} {{ zone web_{copy} 64k; {resolver} server {server}; }}"
                )?;
                format!("proxy_pass http://web_{copy};")
            }
        };
        let port = FIRST + copy;
        writeln!(
            blocks,
            "server {{ listen 127.0.0.1:{port}; location / {{ {location} }} }}"
        )?;
    }
    Ok(format!(
        "worker_processes 1;\ndaemon off;\npid nginx.pid;\nevents {{}}\nhttp {{\naccess_log off;\n{blocks}}}\n"
    ))
}

impl Running for Started {
    fn send(&mut self, _: &Bed, requests: usize) -> Result<()> {
        self.process.check()?;
        for _ in 0..requests {
            let copy = self.next % self.copies.len();
            self.next += 1;
            let is_shared = self.copies.len() == 1;
            let last = self.copies[copy].filter(|_| !is_shared);
            if let Some(left) = last.and_then(|last| PAUSE.checked_sub(last.elapsed())) {
                thread::sleep(left);
            }
            let port = FIRST + u16::try_from(copy)?;
            send_one(SocketAddr::from(([127, 0, 0, 1], port)), "/")?;
            self.copies[copy] = Some(Instant::now());
        }
        Ok(())
    }
}
