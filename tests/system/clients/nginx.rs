//! nginx: `resolver` with the name in a variable, in that of Debian, and `upstream` with `resolve`, in a newer one. The
//! addresses are those that it sends requests to.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use support::commands::{command, tool};
use support::multicluster::plan::{EAST, Service};
use support::process::{Process, run};

use crate::clients::scenario::client::{Client, Profile, Running, View};
use crate::clients::scenario::pod::Pod;

pub struct Nginx;

struct Started {
    process: Process,
    /// That of the newer version.
    _newer: Process,
}

/// The ways, each with its listener in the configuration.
const VARIABLE: (&str, &str) = ("variable", "127.0.0.1:8000");
const RESOLVE: (&str, &str) = ("`resolve`", "127.0.0.1:8001");
const SERVICE: (&str, &str) = ("`service=http resolve`", "127.0.0.1:8002");
/// Requests at the same time. nginx starts at a random address for each request.
const REQUESTS: usize = 40;
/// One more batch without a new address is required for each of so many addresses.
const ADDRESSES_PER_BATCH: usize = 10;

// === impl Nginx ===

impl Client for Nginx {
    fn profile(&self) -> Profile {
        let setting = "`resolver … valid=`, else the TTL";
        let newer = "the same; after a failure `resolver_timeout`";
        let views = vec![
            View::addresses(VARIABLE.0, setting),
            View::addresses(RESOLVE.0, newer),
            View::srv(SERVICE.0, "_http._tcp.", newer),
        ];
        Profile::new("nginx", "nginx", views)
    }

    fn version(&self) -> Result<String> {
        let versions = (version_of(&tool("nginx")?)?, version_of(&newer()?)?);
        Ok(format!("{}, {} with `resolve`", versions.0, versions.1))
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let process_file = pod.directory().join("nginx.pid").display().to_string();
        let replacements = [("/run/nginx/nginx.pid", process_file.as_str())];
        let file = pod.configuration("nginx/nginx.conf", service, &replacements)?;
        let mut command = pod.command("nginx")?;
        command.arg("-p").arg(pod.directory()).arg("-c").arg(file);
        let process = Process::start("nginx", command)?.with_children();
        let process_file = pod.directory().join("newer.pid").display().to_string();
        let replacements = [("/run/nginx/nginx.pid", process_file.as_str())];
        let file = pod.configuration("nginx/resolve.conf", service, &replacements)?;
        let folder = pod.directory().join("newer");
        fs::create_dir_all(&folder)?;
        let mut command = pod.clusters.pod_command(EAST, &newer()?)?;
        command.args(["-e", "stderr", "-p"]).arg(folder);
        command.arg("-c").arg(file);
        let newer = Process::start("nginx with resolve", command)?.with_children();
        Ok(Box::new(Started {
            process,
            _newer: newer,
        }))
    }

    /// Names without a variable, in both versions.
    fn prove_further(&self, pod: &Pod<'_>) -> Result<()> {
        let missing = Some("host not found in upstream");
        let (resolve, service) = (
            "invalid parameter \"resolve\"",
            "invalid parameter \"service=http\"",
        );
        // The server, and the errors of Debian's version and of the newer one.
        let cases = [
            ("server web.prod.global:8080;", [None, None]),
            ("server nope.prod.global:8080;", [missing, missing]),
            (
                "zone web 64k; server nope.prod.global:8080 resolve;",
                [Some(resolve), None],
            ),
            (
                "zone web 64k; server web.prod.global service=http resolve;",
                [Some(service), None],
            ),
            (
                "server web.prod.global:8080 resolve;",
                [Some(resolve), Some("to be in shared memory")],
            ),
        ];
        let programs = [tool("nginx")?, newer()?];
        for (server, errors) in cases {
            let file = pod.directory().join("upstream.conf");
            fs::write(
                &file,
                format!(
                    "pid upstream.pid;\nevents {{}}\nhttp {{\n    access_log off;\n    resolver 10.96.0.10;\n    upstream web {{ {server} }}\n    server {{ listen \
                     127.0.0.1:8003; location / {{ proxy_pass http://web; }} }}\n}}\n"
                ),
            )?;
            for (program, error) in programs.iter().zip(errors) {
                let mut command = pod.clusters.pod_command(EAST, program)?;
                command
                    .args(["-t", "-e", "stderr", "-p"])
                    .arg(pod.directory());
                let ended = run(command.arg("-c").arg(&file));
                let output = ended.output();
                let is_expected = ended.is_success() == error.is_none()
                    && output.contains(error.unwrap_or_default());
                ensure!(is_expected, "{}: {server} {output}", program.display());
            }
        }
        Ok(())
    }
}

/// Returns the nginx of the crate `nginx-src`.
pub fn newer() -> Result<PathBuf> {
    let variable = "GLOBAL_DNS_TEST_NGINX";
    let path = env::var_os(variable)
        .with_context(|| format!("{variable} is not set; run tests/run clients"))?;
    Ok(path.into())
}

/// Returns the version of an nginx.
pub fn version_of(program: &Path) -> Result<String> {
    let output = run(command(program).arg("-v")).output();
    // nginx version: nginx/1.28.3
    let version = output.trim().rsplit('/').next();
    Ok(version.context("no version")?.to_owned())
}

// === impl Started ===

impl Running for Started {
    fn seen(&mut self, _: &Pod<'_>, view: &View) -> Result<BTreeSet<String>> {
        let ways = [VARIABLE, RESOLVE, SERVICE];
        let way = ways.into_iter().find(|(name, _)| *name == view.name);
        let (_, proxy) = way.context("an unknown way")?;
        let mut found = BTreeSet::new();
        let mut idle = 0;
        while idle <= found.len() / ADDRESSES_PER_BATCH {
            let before = found.len();
            let requests = (0..REQUESTS).map(|_| thread::spawn(|| upstreams(proxy)));
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
fn upstreams(proxy: &str) -> Result<Vec<String>> {
    let mut stream = TcpStream::connect(proxy)?;
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
