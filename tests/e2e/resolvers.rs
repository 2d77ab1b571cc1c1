//! Other kinds of forwarders, with the text of `coredns/resolvers.md` and of GKE's stub domains: unbound, which
//! validates, below a root that is signed as the real one is; and dnsmasq, which is what kube-dns is made of. Then those
//! that follow the zone's NS record, which forwarders ignore: unbound with `stub-prime`, and BIND with a stub zone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use support::cluster::Cluster;
use support::dig::{Dug, dig, dig_recursively};
use support::process::{Process, finish};
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Over;

use crate::clusters_come_and_go::NGINX;
use crate::node::{BIND, DNSMASQ, GLOBAL_DNS, Node, PODS, ROOT, UNBOUND, dns};
use crate::recipes::{comes_through, page, start};

const START: Duration = Duration::from_secs(30);
/// A name of the root that shows that validation works.
const SIGNED: &str = "signed.example";

pub fn run(steps: &mut Steps, cluster: &Cluster, node: &Node) {
    let mut root = None;
    steps.step("a_root_server_has_a_signed_delegation_of_the_zone", || {
        root = Some(Root::start(node)?);
        Ok(())
    });
    steps.step("unbound_validates_and_answers_by_the_recipe", || {
        let root = root.as_ref().context("there is no root server")?;
        let recipe = page("resolvers.md")?.text("unbound", 0)?.to_owned();
        let _unbound = unbound(node, root, &recipe)?;
        comes_through(node, dns(UNBOUND))
    });
    steps.step("unbound_rejects_the_zone_without_domain_insecure", || {
        let root = root.as_ref().context("there is no root server")?;
        let _unbound = unbound(node, root, &without("unbound", "domain-insecure:")?)?;
        let dug = dig_recursively(dns(UNBOUND), Over::Udp, NGINX, "A")?;
        ensure!(dug.status == "SERVFAIL", "{dug:?}");
        Ok(())
    });
    steps.step("unbound_takes_addresses_out_without_private_domain", || {
        let root = root.as_ref().context("there is no root server")?;
        let _unbound = unbound(node, root, &without("unbound", "private-domain:")?)?;
        nothing_comes_through(UNBOUND)
    });
    steps.step("unbound_follows_the_ns_record_with_stub_prime", || {
        let root = root.as_ref().context("there is no root server")?;
        let _unbound = unbound(node, root, &primed_recipe()?)?;
        comes_through(node, dns(UNBOUND))
    });
    steps.step("bind_follows_the_ns_record_of_a_stub_zone", || {
        let root = root.as_ref().context("there is no root server")?;
        let _bind = bind(node, root)?;
        comes_through(node, dns(BIND))
    });
    steps.step("a_name_server_that_nobody_reaches_fails_them", || {
        let root = root.as_ref().context("there is no root server")?;
        // The pod's address, at whose port 53 nobody is.
        let _server = start(cluster, 1, &["--ns-address", PODS[1]]);
        node.point_to(&[1])?;
        let led_astray = || -> Result<()> {
            let _unbound = unbound(node, root, &primed_recipe()?)?;
            let _bind = bind(node, root)?;
            for server in [UNBOUND, BIND] {
                // No reply within dig's patience is none, either.
                if let Ok(dug) = dig_recursively(dns(server), Over::Udp, NGINX, "A") {
                    ensure!(dug.answer.is_empty(), "{server}: {dug:?}");
                }
            }
            Ok(())
        };
        let result = led_astray();
        node.point_to(&[0])?;
        result
    });
    steps.step("dnsmasq_answers_by_the_recipe", || {
        let recipe = page("resolvers.md")?.text("dnsmasq", 0)?.to_owned();
        let _dnsmasq = dnsmasq(node, &recipe)?;
        comes_through(node, dns(DNSMASQ))
    });
    steps.step("dnsmasq_rejects_addresses_without_rebind_domain_ok", || {
        let _dnsmasq = dnsmasq(node, &without("dnsmasq", "rebind-domain-ok=")?)?;
        nothing_comes_through(DNSMASQ)
    });
    steps.step("dnsmasq_answers_by_the_stub_domains_of_gke", || {
        let map = page("gke.md")?.object("yaml", 0)?;
        let domains = map["data"]["stubDomains"]
            .as_str()
            .context("no stub domains")?;
        let domains: serde_json::Map<String, serde_json::Value> = serde_json::from_str(domains)?;
        ensure!(domains.len() == 1, "{domains:?}");
        // As kube-dns tells its dnsmasq.
        let servers = domains.iter().flat_map(|(domain, addresses)| {
            let addresses = addresses.as_array().into_iter().flatten();
            addresses.filter_map(move |address| {
                Some(format!("server=/{domain}/{}\n", address.as_str()?))
            })
        });
        let servers: String = servers.collect();
        let _dnsmasq = dnsmasq(node, &format!("{servers}rebind-domain-ok=/global/\n"))?;
        comes_through(node, dns(DNSMASQ))
    });
}

fn nothing_comes_through(server: &str) -> Result<()> {
    let dug = dig_recursively(dns(server), Over::Udp, NGINX, "A")?;
    ensure!(dug.answer.is_empty(), "{dug:?}");
    Ok(())
}

/// The recipe, with a resolver that asks for the zone's name servers and then asks them.
fn primed_recipe() -> Result<String> {
    let page = page("resolvers.md")?;
    let recipe = page.text("unbound", 0)?;
    ensure!(
        recipe.trim_end().ends_with("stub-addr: 10.96.0.53"),
        "{recipe}"
    );
    Ok(format!("{recipe}    stub-prime: yes\n"))
}

/// The recipe without one of its lines.
fn without(language: &str, start: &str) -> Result<String> {
    let page = page("resolvers.md")?;
    let recipe = page.text(language, 0)?;
    let is_meant = |line: &&str| line.trim().starts_with(start);
    ensure!(recipe.lines().filter(is_meant).count() == 1, "{recipe}");
    let rest = recipe.lines().filter(|line| !is_meant(line));
    Ok(rest.flat_map(|line| [line, "\n"]).collect())
}

// === The root ===

/// BIND with a root zone of its own, in which `global` is delegated and signed.
struct Root {
    trust_anchor: PathBuf,
    hints: PathBuf,
    _named: Process,
}

// === impl Root ===

impl Root {
    fn start(node: &Node) -> Result<Self> {
        let folder = node.directory().join("root");
        fs::create_dir_all(&folder)?;
        let key_signing = keygen(node, &folder, ".", &["-f", "KSK"])?;
        keygen(node, &folder, ".", &[])?;
        // Whoever has the public domain has a key of it; we have only the fingerprint.
        let public = keygen(node, &folder, "global", &["-f", "KSK"])?;
        let mut fingerprint = node.command("dnssec-dsfromkey")?;
        let fingerprint = finish(fingerprint.arg(folder.join(format!("{public}.key"))))?;
        fs::write(
            folder.join("root.zone"),
            format!(
                "$TTL 3600\n. SOA a.root. hostmaster.root. 1 3600 600 86400 3600\n. NS a.root.\na.root. A {ROOT}\n\
                 {SIGNED}. A 192.0.2.80\nglobal. NS a.nic.global.\na.nic.global. A 192.0.2.2\n{fingerprint}"
            ),
        )?;
        let mut sign = node.command("dnssec-signzone")?;
        sign.current_dir(&folder);
        finish(sign.args(["-S", "-o", ".", "-f", "root.signed", "root.zone"]))?;
        let conf = folder.join("named.conf");
        let path = folder.display();
        fs::write(
            &conf,
            format!(
                "options {{ directory \"{path}\"; listen-on {{ {ROOT}; }}; listen-on-v6 {{ none; }}; recursion no; \
                 dnssec-validation no; pid-file none; session-keyfile none; lock-file none; }};\ncontrols {{ }};\n\
                 zone \".\" {{ type primary; file \"root.signed\"; }};\n"
            ),
        )?;
        let mut named = node.command("named")?;
        named.arg("-g").arg("-c").arg(&conf);
        let mut named = Process::start("named", named)?;
        answers(&mut named, ROOT, |dug| dug.status == "NOERROR")?;
        let hints = folder.join("hints");
        fs::write(
            &hints,
            format!(". 3600 NS a.root.\na.root. 3600 A {ROOT}\n"),
        )?;
        Ok(Self {
            trust_anchor: folder.join(format!("{key_signing}.key")),
            hints,
            _named: named,
        })
    }
}

/// Makes a key; returns the name of its file.
fn keygen(node: &Node, folder: &Path, zone: &str, further: &[&str]) -> Result<String> {
    let mut keygen = node.command("dnssec-keygen")?;
    keygen.current_dir(folder);
    keygen.args(["-q", "-a", "ECDSAP256SHA256"]).args(further);
    Ok(finish(keygen.arg(zone))?.trim().to_owned())
}

// === The resolvers ===

/// unbound with a recipe in its configuration; returns when it validates.
fn unbound(node: &Node, root: &Root, recipe: &str) -> Result<Process> {
    let conf = node.directory().join("unbound.conf");
    let (hints, anchor) = (root.hints.display(), root.trust_anchor.display());
    let folder = node.directory().display();
    fs::write(
        &conf,
        format!(
            "server:\n  directory: \"{folder}\"\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  \
             do-daemonize: no\n  logfile: \"\"\n  interface: {UNBOUND}\n  access-control: 0.0.0.0/0 allow\n  \
             module-config: \"validator iterator\"\n  val-log-level: 2\n  root-hints: \"{hints}\"\n  \
             trust-anchor-file: \"{anchor}\"\n  private-address: 10.0.0.0/8\n{recipe}\nremote-control:\n  control-enable: no\n"
        ),
    )?;
    let mut unbound = node.command("unbound")?;
    unbound.arg("-d").arg("-c").arg(&conf);
    let mut unbound = Process::start("unbound", unbound)?;
    answers(&mut unbound, UNBOUND, |dug| {
        dug.flags.split(' ').any(|flag| flag == "ad")
    })?;
    Ok(unbound)
}

/// BIND with a stub zone; returns when it has the zone's NS record.
fn bind(node: &Node, root: &Root) -> Result<Process> {
    let folder = node.directory().join("bind");
    fs::create_dir_all(&folder)?;
    let conf = folder.join("named.conf");
    let (path, hints) = (folder.display(), root.hints.display());
    fs::write(
        &conf,
        format!(
            "options {{ directory \"{path}\"; listen-on {{ {BIND}; }}; listen-on-v6 {{ none; }}; recursion yes; \
             allow-recursion {{ any; }}; dnssec-validation no; pid-file none; session-keyfile none; lock-file none; }};\n\
             controls {{ }};\nzone \".\" {{ type hint; file \"{hints}\"; }};\n\
             zone \"global\" {{ type stub; primaries {{ {GLOBAL_DNS}; }}; }};\n"
        ),
    )?;
    let mut named = node.command("named")?;
    named.arg("-g").arg("-c").arg(&conf);
    let mut named = Process::start("named-stub", named)?;
    // Without recursion: else it would ask the root, and remember another name server of the zone.
    let loaded = eventually("the stub zone", START, || {
        named.check()?;
        let dug = dig(dns(BIND), Over::Udp, NGINX, "A")?;
        let is_ns =
            |record: &String| record.starts_with("global. ") && record.ends_with(" ns.dns.global.");
        ensure!(dug.authority.iter().any(is_ns), "{dug:?}");
        Ok(())
    });
    loaded.with_context(|| named.last_words())?;
    Ok(named)
}

/// dnsmasq with a recipe as its configuration, which asks nobody else and suspects rebinding.
fn dnsmasq(node: &Node, recipe: &str) -> Result<Process> {
    let conf = node.directory().join("dnsmasq.conf");
    fs::write(&conf, format!("{recipe}address=/{SIGNED}/192.0.2.80\n"))?;
    let mut dnsmasq = node.command("dnsmasq")?;
    dnsmasq.args([
        "--keep-in-foreground",
        "--log-facility=-",
        "--user=root",
        "--pid-file=",
        "--no-resolv",
        "--no-hosts",
        "--bind-interfaces",
        "--stop-dns-rebind",
        // The cluster's own names: there is no other server that knows them.
        "--local=/cluster.local/",
    ]);
    dnsmasq.arg(format!("--listen-address={DNSMASQ}"));
    dnsmasq.arg(format!("--conf-file={}", conf.display()));
    let mut dnsmasq = Process::start("dnsmasq", dnsmasq)?;
    answers(&mut dnsmasq, DNSMASQ, |dug| !dug.answer.is_empty())?;
    Ok(dnsmasq)
}

/// Waits until a server answers the signed name as it should.
fn answers(process: &mut Process, server: &str, fits: fn(&Dug) -> bool) -> Result<()> {
    let answered = eventually("an answer", START, || {
        process.check()?;
        let dug = dig_recursively(dns(server), Over::Udp, SIGNED, "A")?;
        ensure!(fits(&dug), "{dug:?}");
        Ok(())
    });
    answered.with_context(|| process.last_words())
}
