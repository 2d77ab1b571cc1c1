//! etcd's SRV discovery: a member finds itself and its peers at `_etcd-server-ssl._tcp.DOMAIN`. It runs in a network
//! namespace with global-dns as the only name server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::commands::{binary, tool};
use support::networks::{Files, Network, in_new_network};
use support::objects::{Manifest, mirror};
use support::process::{Process, run};
use support::settings::add_arguments;
use support::wait::TIMEOUT;

/// Address of the member. global-dns does not publish loopback addresses.
const MEMBER: &str = "10.96.7.1";

#[test]
fn etcd_finds_its_cluster_and_etcdctl_finds_etcd() {
    in_new_network(find_the_cluster);
}

fn find_the_cluster() {
    let (etcd, etcdctl) = (tool("etcd").unwrap(), tool("etcdctl").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let network = Network::of_this_thread();
    let address = format!("address add {MEMBER}/32 dev lo");
    network.ip(&address).unwrap();
    let resolver = folder.path().join("resolv.conf");
    fs::write(&resolver, "nameserver 127.0.0.1\n").unwrap();
    let command = |program: &Path| -> Command {
        let bound = vec![(resolver.clone(), "/etc/resolv.conf".into())];
        let mut command = network.command(program, &Files { bound }).unwrap();
        command.env("ETCDCTL_API", "3");
        command
    };
    let ports = [
        ("etcd-server-ssl", "TCP", 2380),
        ("etcd-client", "TCP", 2379),
    ];
    let mirror = mirror("prod", "etcd", "west").ports(&ports);
    let file = folder.path().join("objects.yaml");
    let objects = Manifest::from(mirror.endpoint("etcd-0", &[MEMBER]));
    fs::write(&file, objects.text()).unwrap();
    let mut serve = command(&binary());
    serve.args(["serve", "--listen=127.0.0.1:53", "--log-format=json"]);
    serve.args(["--admin-listen=127.0.0.1:0", "--api-listen=127.0.0.1:0"]);
    add_arguments(&mut serve, &["--cluster-name=hub", "grace=0s", "--file"]);
    serve.arg(&file);
    let mut dns = Process::start("global-dns", serve).unwrap();
    let is_served = dns.wait_for("a table", |log| {
        let log = log.text();
        (log.contains("Published table") && log.contains("127.0.0.1:53\"")).then_some(())
    });
    is_served.unwrap();

    let started = Instant::now();
    let start = |domain: &str| {
        let mut command = command(&etcd);
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
    let alone = run(&mut start("nope.prod.global"));
    let said = alone.output();
    assert!(
        !alone.is_success() && said.contains("nope.prod.global"),
        "{said}"
    );

    let mut member = Process::start("etcd", start("etcd.prod.global")).unwrap();
    let is_led = member.wait_for("a leader", |log| {
        log.text().contains("elected leader").then_some(())
    });
    is_led.unwrap();
    let mut health = command(&etcdctl);
    health.args(["--discovery-srv=etcd.prod.global", "--insecure-discovery"]);
    // Without --cluster, this command of etcd 3.4 uses only its default endpoints.
    health.args(["endpoint", "health", "--cluster"]);
    let deadline = Instant::now() + TIMEOUT;
    let health = loop {
        let ended = run(&mut health);
        if ended.is_success() {
            break ended.output();
        }
        let last = member.log_tail();
        assert!(Instant::now() < deadline, "{}\n{last}", ended.output());
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
