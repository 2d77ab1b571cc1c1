//! Other resolvers, with the configuration from the page `forwarding.md` of the manual.
//!
//! - unbound validates with DNSSEC, below a signed root.
//! - dnsmasq is the resolver in kube-dns.
//! - unbound with `stub-prime` and BIND with a stub zone use the zone's NS record, which forwarders ignore.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use support::cluster::Cluster;
use support::dig::{DigOutput, dig, dig_recursively};
use support::manual::Section;
use support::process::{Process, run_checked};
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Transport;

use crate::e2e::linked_clusters::NGINX;
use crate::e2e::recipes::{check_resolution, first, object, start};
use support::node::{BIND, DNSMASQ, GLOBAL_DNS, Node, PODS, ROOT, UNBOUND, dns};

/// A name in the root zone. Its answer shows that validation works.
const SIGNED: &str = "signed.example";

pub fn run(steps: &mut Steps, cluster: &Cluster, node: &Node) {
    let mut root = None;
    steps.step("root_server_has_a_signed_delegation_of_the_zone", || {
        root = Some(Root::start(node)?);
        Ok(())
    });
    steps.step("unbound_validates_and_answers_with_the_recipe", || {
        let root = root.as_ref().context("there is no root server")?;
        let _unbound = start_unbound(node, root, &recipe("unbound")?)?;
        check_resolution(node, dns(UNBOUND))
    });
    steps.step("unbound_rejects_the_zone_without_domain_insecure", || {
        let root = root.as_ref().context("there is no root server")?;
        let _unbound = start_unbound(node, root, &without("unbound", "domain-insecure:")?)?;
        let output = dig_recursively(dns(UNBOUND), Transport::Udp, NGINX, "A")?;
        ensure!(output.status == "SERVFAIL", "{output:?}");
        Ok(())
    });
    steps.step("unbound_removes_addresses_without_private_domain", || {
        let root = root.as_ref().context("there is no root server")?;
        let _unbound = start_unbound(node, root, &without("unbound", "private-domain:")?)?;
        check_no_resolution(UNBOUND)
    });
    steps.step("unbound_follows_the_ns_record_with_stub_prime", || {
        let root = root.as_ref().context("there is no root server")?;
        let _unbound = start_unbound(node, root, &primed_recipe()?)?;
        check_resolution(node, dns(UNBOUND))
    });
    steps.step("bind_follows_the_ns_record_of_a_stub_zone", || {
        let root = root.as_ref().context("there is no root server")?;
        let _bind = start_bind(node, root)?;
        check_resolution(node, dns(BIND))
    });
    steps.step(
        "unreachable_name_server_in_the_ns_record_breaks_resolution",
        || {
            let root = root.as_ref().context("there is no root server")?;
            // No server listens on port 53 of the pod address.
            let _server = start(cluster, 1, &[&format!("answers.nsAddresses=[{}]", PODS[1])]);
            node.set_endpoints(&[1])?;
            let check = || -> Result<()> {
                let _unbound = start_unbound(node, root, &primed_recipe()?)?;
                let _bind = start_bind(node, root)?;
                for server in [UNBOUND, BIND] {
                    // An error of dig after its timeout also counts as no answer.
                    if let Ok(output) = dig_recursively(dns(server), Transport::Udp, NGINX, "A") {
                        ensure!(output.answer.is_empty(), "{server}: {output:?}");
                    }
                }
                Ok(())
            };
            let result = check();
            node.set_endpoints(&[0])?;
            result
        },
    );
    steps.step("dnsmasq_answers_with_the_recipe", || {
        let _dnsmasq = start_dnsmasq(node, &recipe("dnsmasq")?)?;
        check_resolution(node, dns(DNSMASQ))
    });
    steps.step("dnsmasq_rejects_addresses_without_rebind_domain_ok", || {
        let _dnsmasq = start_dnsmasq(node, &without("dnsmasq", "rebind-domain-ok=")?)?;
        check_no_resolution(DNSMASQ)
    });
    steps.step("dnsmasq_answers_with_the_stub_domains_of_gke", || {
        let map = object("GKE with kube-dns")?;
        let domains = map["data"]["stubDomains"]
            .as_str()
            .context("the ConfigMap has no stub domains")?;
        let domains: serde_json::Map<String, serde_json::Value> = serde_json::from_str(domains)?;
        ensure!(domains.len() == 1, "{domains:?}");
        // kube-dns passes stub domains to dnsmasq in this form.
        let servers = domains.iter().flat_map(|(domain, addresses)| {
            let addresses = addresses.as_array().into_iter().flatten();
            addresses.filter_map(move |address| {
                Some(format!("server=/{domain}/{}\n", address.as_str()?))
            })
        });
        let servers: String = servers.collect();
        let _dnsmasq = start_dnsmasq(node, &format!("{servers}rebind-domain-ok=/global/\n"))?;
        check_resolution(node, dns(DNSMASQ))
    });
}

fn check_no_resolution(server: &str) -> Result<()> {
    let output = dig_recursively(dns(server), Transport::Udp, NGINX, "A")?;
    ensure!(output.answer.is_empty(), "{output:?}");
    Ok(())
}

/// Returns the configuration of the manual.
fn recipe(language: &str) -> Result<String> {
    first(&Section::read("forwarding.md", "Resolvers")?, language)
}

/// Returns the recipe with `stub-prime`: unbound queries the NS record, then the name servers in it.
fn primed_recipe() -> Result<String> {
    let recipe = recipe("unbound")?;
    ensure!(
        recipe.trim_end().ends_with("stub-addr: 10.96.0.53"),
        "{recipe}"
    );
    Ok(format!("{recipe}    stub-prime: yes\n"))
}

/// Returns the recipe without one of its lines.
fn without(language: &str, start: &str) -> Result<String> {
    let recipe = recipe(language)?;
    let is_removed = |line: &&str| line.trim().starts_with(start);
    ensure!(recipe.lines().filter(is_removed).count() == 1, "{recipe}");
    let rest = recipe.lines().filter(|line| !is_removed(line));
    Ok(rest.flat_map(|line| [line, "\n"]).collect())
}

// === The root ===

/// BIND with a signed root zone that delegates `global` with a DS record.
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
        // The root zone needs only the digest of the key of the public domain.
        let public = keygen(node, &folder, "global", &["-f", "KSK"])?;
        let mut digest = node.command("dnssec-dsfromkey")?;
        let digest = run_checked(digest.arg(folder.join(format!("{public}.key"))))?;
        fs::write(
            folder.join("root.zone"),
            format!(
                "$TTL 3600\n. SOA a.root. hostmaster.root. 1 3600 600 86400 3600\n. NS a.root.\na.root. A {ROOT}\n\
                 {SIGNED}. A 192.0.2.80\nglobal. NS a.nic.global.\na.nic.global. A 192.0.2.2\n{digest}"
            ),
        )?;
        let mut sign = node.command("dnssec-signzone")?;
        sign.current_dir(&folder);
        run_checked(sign.args(["-S", "-o", ".", "-f", "root.signed", "root.zone"]))?;
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
        wait_for_answer(&mut named, ROOT, |output| output.status == "NOERROR")?;
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

/// Creates a key, and returns the name of its file.
fn keygen(node: &Node, folder: &Path, zone: &str, flags: &[&str]) -> Result<String> {
    let mut keygen = node.command("dnssec-keygen")?;
    keygen.current_dir(folder);
    keygen.args(["-q", "-a", "ECDSAP256SHA256"]).args(flags);
    Ok(run_checked(keygen.arg(zone))?.trim().to_owned())
}

// === The resolvers ===

/// Starts unbound with a recipe in its configuration, and waits until it validates.
fn start_unbound(node: &Node, root: &Root, recipe: &str) -> Result<Process> {
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
    wait_for_answer(&mut unbound, UNBOUND, |output| {
        output.flags.split(' ').any(|flag| flag == "ad")
    })?;
    Ok(unbound)
}

/// Starts BIND with a stub zone, and waits until it has the zone's NS record.
fn start_bind(node: &Node, root: &Root) -> Result<Process> {
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
    // Queries without recursion. A recursive one would make BIND query the root and cache another name server.
    let loaded = eventually("the stub zone", || {
        named.check()?;
        let output = dig(dns(BIND), Transport::Udp, NGINX, "A")?;
        let is_ns =
            |record: &String| record.starts_with("global. ") && record.ends_with(" ns.dns.global.");
        ensure!(output.authority.iter().any(is_ns), "{output:?}");
        Ok(())
    });
    loaded.with_context(|| named.log_tail())?;
    Ok(named)
}

/// Starts dnsmasq with a recipe as its configuration, without other servers, and with protection against DNS rebinding.
fn start_dnsmasq(node: &Node, recipe: &str) -> Result<Process> {
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
        // No other server has the names of `cluster.local`.
        "--local=/cluster.local/",
    ]);
    dnsmasq.arg(format!("--listen-address={DNSMASQ}"));
    dnsmasq.arg(format!("--conf-file={}", conf.display()));
    let mut dnsmasq = Process::start("dnsmasq", dnsmasq)?;
    wait_for_answer(&mut dnsmasq, DNSMASQ, |output| !output.answer.is_empty())?;
    Ok(dnsmasq)
}

/// Waits until the answer of a server for the signed name meets the condition.
fn wait_for_answer(
    process: &mut Process,
    server: &str,
    is_expected: fn(&DigOutput) -> bool,
) -> Result<()> {
    let answered = eventually("an answer", || {
        process.check()?;
        let output = dig_recursively(dns(server), Transport::Udp, SIGNED, "A")?;
        ensure!(is_expected(&output), "{output:?}");
        Ok(())
    });
    answered.with_context(|| process.log_tail())
}
