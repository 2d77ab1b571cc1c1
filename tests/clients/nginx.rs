//! nginx of Debian: `resolver`, with the name in a variable. The addresses are those that it sends requests to.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use support::multicluster::plan::Service;
use support::process::{Process, run, run_tool};

use crate::scenario::client::{Client, Profile, Running, View};
use crate::scenario::pod::Pod;

pub struct Nginx;

struct Started {
    process: Process,
}

/// Its address in the configuration.
const ADDRESS: &str = "127.0.0.1:8000";
/// Requests at the same time. nginx starts at a random address for each request.
const REQUESTS: usize = 40;
/// One more batch without a new address is required for each of so many addresses.
const ADDRESSES_PER_BATCH: usize = 10;

// === impl Nginx ===

impl Client for Nginx {
    fn profile(&self) -> Profile {
        let views = vec![View::addresses(
            "variable",
            "`resolver … valid=`, else the TTL",
        )];
        Profile::new("nginx", "nginx", views)
    }

    fn version(&self) -> Result<String> {
        let output = run_tool("nginx", &["-v"]).output();
        let version = output.trim().rsplit('/').next();
        Ok(version.context("no version")?.to_owned())
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let process_file = pod.directory().join("nginx.pid").display().to_string();
        let replacements = [("/run/nginx/nginx.pid", process_file.as_str())];
        let file = pod.configuration("nginx/nginx.conf", service, &replacements)?;
        let mut command = pod.command("nginx")?;
        command.arg("-p").arg(pod.directory()).arg("-c").arg(file);
        let process = Process::start("nginx", command)?.with_children();
        Ok(Box::new(Started { process }))
    }

    /// Names without a variable.
    fn prove_further(&self, pod: &Pod<'_>) -> Result<()> {
        let cases = [
            ("server web.prod.global:8080;", None),
            (
                "server nope.prod.global:8080;",
                Some("host not found in upstream"),
            ),
            (
                "zone web 64k; server web.prod.global:8080 resolve;",
                Some("invalid parameter \"resolve\""),
            ),
            (
                "server web.prod.global service=http;",
                Some("invalid parameter \"service=http\""),
            ),
        ];
        for (server, error) in cases {
            let file = pod.directory().join("upstream.conf");
            fs::write(
                &file,
                format!(
                    "events {{}}\nhttp {{\n    upstream web {{ {server} }}\n    server {{ listen 127.0.0.1:8001; location / {{ \
                     proxy_pass http://web; }} }}\n}}\n"
                ),
            )?;
            let mut command = pod.command("nginx")?;
            let ended = run(command.arg("-t").arg("-c").arg(file));
            let output = ended.output();
            ensure!(ended.is_success() == error.is_none(), "{server} {output}");
            ensure!(
                output.contains(error.unwrap_or_default()),
                "{server} {output}"
            );
        }
        Ok(())
    }
}

// === impl Started ===

impl Running for Started {
    fn seen(&mut self, _: &Pod<'_>, _: &View) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let mut idle = 0;
        while idle <= found.len() / ADDRESSES_PER_BATCH {
            let before = found.len();
            let requests = (0..REQUESTS).map(|_| thread::spawn(upstreams));
            for request in requests.collect::<Vec<_>>() {
                found.extend(request.join().unwrap()?);
            }
            idle = if found.len() == before { idle + 1 } else { 0 };
            if found.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    fn process(&mut self) -> Option<&mut Process> {
        Some(&mut self.process)
    }
}

/// Sends a request. Returns the addresses that nginx tried. If the name has no address, there are none.
fn upstreams() -> Result<Vec<String>> {
    let mut stream = TcpStream::connect(ADDRESS)?;
    // More than the timeout of nginx's resolver.
    stream.set_read_timeout(Some(Duration::from_secs(40)))?;
    write!(stream, "GET / HTTP/1.0\r\nHost: web\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let header = text
        .lines()
        .find_map(|line| line.strip_prefix("X-Upstream: "));
    let tried = header.unwrap_or_default().split(", ");
    let tried = tried.filter_map(|address| address.trim().rsplit_once(':'));
    Ok(tried.map(|(address, _)| address.to_owned()).collect())
}
