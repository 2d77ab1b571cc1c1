//! etcd's SRV discovery: a member finds itself and its peers at `_etcd-server-ssl._tcp.DOMAIN`. The real server, with
//! global-dns as the only name server of a network namespace.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::PATIENCE;
use crate::support::objects::{Manifest, endpoint, member};
use crate::support::process::{Daemon, clean, global_dns, outcome, run, tool};

/// The member's address: a name server of ours gives no loopback addresses out.
const MEMBER: &str = "10.96.7.1";

/// A network namespace with a resolver of its own; gone when dropped.
struct Namespace {
    name: String,
    folder: PathBuf,
}

impl Namespace {
    fn new() -> Self {
        let name = format!("global-dns-peers-{}", std::process::id());
        let folder = PathBuf::from("/etc/netns").join(&name);
        let (made, _, error) = outcome(Command::new(tool("ip")).args(["netns", "add", &name]));
        assert!(made, "a network namespace wants root: {error}");
        let namespace = Self { name, folder };
        let address = format!("{MEMBER}/32");
        for arguments in [
            &["link", "set", "lo", "up"][..],
            &["address", "add", &address, "dev", "lo"],
        ] {
            let mut command = Command::new(tool("ip"));
            run(command.args(["-n", &namespace.name]).args(arguments));
        }
        fs::create_dir_all(&namespace.folder).unwrap();
        fs::write(
            namespace.folder.join("resolv.conf"),
            "nameserver 127.0.0.1\n",
        )
        .unwrap();
        namespace
    }

    /// A program that is to run inside.
    fn command(&self, program: impl Into<PathBuf>) -> Command {
        let mut command = clean(Command::new(tool("ip")));
        command
            .args(["netns", "exec", &self.name])
            .arg(program.into());
        command.env("ETCDCTL_API", "3");
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A test that fails must not fail again here.
        let _ = fs::remove_dir_all(&self.folder);
        let _ = fs::remove_dir("/etc/netns"); // if it is empty
        let _ = Command::new(tool("ip"))
            .args(["netns", "del", &self.name])
            .status();
    }
}

#[test]
#[ignore = "needs root, etcd and etcdctl"]
fn etcd_finds_its_cluster_and_etcdctl_finds_etcd() {
    let (etcd, etcdctl) = (tool("etcd"), tool("etcdctl"));
    let folder = tempfile::tempdir().unwrap();
    let namespace = Namespace::new();
    let mut manifest = Manifest::default();
    let ports = [
        (Some("etcd-server-ssl"), "TCP", 2380),
        (Some("etcd-client"), "TCP", 2379),
    ];
    let endpoints = [endpoint("etcd-0", &[MEMBER])];
    manifest.mirror("west", member(("prod", "etcd"), &ports, &endpoints));
    let file = folder.path().join("objects.yaml");
    fs::write(&file, manifest.text()).unwrap();
    let mut command = namespace.command(global_dns().get_program());
    command.args(["serve", "--listen=127.0.0.1:53", "--log-format=json"]);
    command.args(["--admin-listen=127.0.0.1:0", "--api-listen=127.0.0.1:0"]);
    command
        .args(["--cluster-name=hub", "--grace=0s", "--file"])
        .arg(&file);
    let mut dns = Daemon::start("global-dns", command, folder.path());
    dns.wait_for("a table", |log| {
        (log.contains("Published table") && log.contains("127.0.0.1:53\"")).then_some(())
    });

    let started = Instant::now();
    let start = |domain: &str| {
        let mut command = namespace.command(&etcd);
        command.args([
            "--name=etcd-0",
            "--initial-cluster-state=new",
            "--peer-auto-tls",
        ]);
        command.arg(format!("--discovery-srv={domain}"));
        command.arg(format!(
            "--data-dir={}",
            folder.path().join(domain).display()
        ));
        command.arg("--initial-advertise-peer-urls=https://etcd-0.west.etcd.prod.global:2380");
        command.arg("--advertise-client-urls=http://etcd-0.west.etcd.prod.global:2379");
        command.arg(format!("--listen-peer-urls=https://{MEMBER}:2380"));
        command.arg(format!("--listen-client-urls=http://{MEMBER}:2379"));
        command
    };
    let (succeeded, stdout, stderr) = outcome(&mut start("nope.prod.global"));
    let said = [stdout, stderr].concat();
    assert!(!succeeded && said.contains("nope.prod.global"), "{said}");

    let mut member = Daemon::start("etcd", start("etcd.prod.global"), folder.path());
    member.wait_for("a leader", |log| {
        log.contains("elected leader").then_some(())
    });
    let mut health = namespace.command(&etcdctl);
    health.args(["--discovery-srv=etcd.prod.global", "--insecure-discovery"]);
    // Without --cluster this command of etcd 3.4 looks at its default endpoints only.
    health.args(["endpoint", "health", "--cluster"]);
    let deadline = Instant::now() + PATIENCE;
    let health = loop {
        let (succeeded, stdout, stderr) = outcome(&mut health);
        let said = [stdout, stderr].concat();
        if succeeded {
            break said;
        }
        assert!(Instant::now() < deadline, "{said}\n{}", member.log());
    };
    let own = "http://etcd-0.west.etcd.prod.global:2379 is healthy";
    assert!(health.contains(own), "{health}");
    drop(member);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(120));
    println!(
        "peers: etcd: leader of a cluster found by SRV, healthy, after {} ms",
        took.as_millis()
    );
}
