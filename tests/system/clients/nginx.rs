//! nginx: `resolver` with the name in a variable. The addresses are those that it sends requests to.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use support::process::{Process, run};

use crate::clients::scenario::pod::Pod;
use crate::clients::scenario::{Client, Profile, View};

pub struct Nginx;

const VIEWS: [View; 1] = [View::new("variable")];
/// Its listener in the configuration.
const LISTENER: &str = "127.0.0.1:8000";
/// Requests at the same time. nginx starts at a random address for each request.
const REQUESTS: usize = 40;
/// One more batch without a new address is required for each of so many addresses.
const ADDRESSES_PER_BATCH: usize = 10;

// === impl Nginx ===

impl Client for Nginx {
    fn profile(&self) -> Profile {
        Profile::new("nginx", &["nginx", "-v"], &VIEWS)
    }

    fn start(&mut self, pod: &Pod<'_>) -> Result<Vec<Process>> {
        let process_file = pod.directory().join("nginx.pid").display().to_string();
        let replacements = [("/run/nginx/nginx.pid", process_file.as_str())];
        let file = pod.configuration("nginx/nginx.conf", &replacements)?;
        let mut command = pod.command("nginx")?;
        command.arg("-p").arg(pod.directory()).arg("-c").arg(file);
        Ok(vec![Process::start("nginx", command)?.with_children()])
    }

    fn seen(&mut self, _: &Pod<'_>, _: &[Process], _: &View) -> Result<BTreeSet<String>> {
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

    /// A name without a variable is resolved at the start.
    fn prove_further(&self, pod: &Pod<'_>) -> Result<()> {
        for (name, is_accepted) in [("web.prod.global", true), ("nope.prod.global", false)] {
            let file = pod.directory().join("upstream.conf");
            let upstream = format!("upstream web {{ server {name}:8080; }}");
            let text = format!("pid upstream.pid;\nevents {{}}\nhttp {{ {upstream} }}\n");
            fs::write(&file, text)?;
            let mut command = pod.command("nginx")?;
            command
                .args(["-t", "-e", "stderr", "-p"])
                .arg(pod.directory());
            let ended = run(command.arg("-c").arg(&file));
            let is_missing = ended.output().contains("host not found in upstream");
            ensure!(
                (ended.is_success(), is_missing) == (is_accepted, !is_accepted),
                "{name}: {}",
                ended.output()
            );
        }
        Ok(())
    }
}

/// Sends a request. Returns the addresses that nginx tried. If the name has no address, there are none.
fn upstreams() -> Result<Vec<String>> {
    let mut stream = TcpStream::connect(LISTENER)?;
    // More than the timeout of nginx's resolver.
    stream.set_read_timeout(Some(Duration::from_secs(40)))?;
    write!(stream, "GET / HTTP/1.0\r\nHost: web\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let mut lines = text.lines();
    let header = lines.find_map(|line| line.strip_prefix("X-Upstream: "));
    let tried = header.unwrap_or_default().split(", ");
    let tried = tried.filter_map(|address| address.trim().rsplit_once(':'));
    Ok(tried.map(|(address, _)| address.to_owned()).collect())
}
