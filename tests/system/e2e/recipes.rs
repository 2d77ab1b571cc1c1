//! The recipes of the page `forwarding.md` of the manual. Their Corefiles run in a real CoreDNS, made by the commands of the page
//! where it has some, and a real API server validates their objects.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::command;
use support::dig::{a_records, dig_recursively, srv_records};
use support::manual::Section;
use support::names::Answer;
use support::objects::namespace;
use support::output::print_line;
use support::process::run_checked;
use support::repository::repository;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Transport;

use crate::e2e::linked_clusters::{NGINX, case_after_recordings, state_after_recordings};
use support::node::{
    BEHIND_THE_CACHE, CLUSTER_DNS, GLOBAL_DNS, NODE_CACHE, Node, PODS, dns, new_corefile,
};

/// The page of the recipes, and sections of it.
const PAGE: &str = "forwarding.md";
const CUSTOM: &str = "ConfigMap coredns-custom";
const MANAGED: &str = "CoreDNS that you manage";
const NODE_CACHES: &str = "NodeLocal DNSCache";

/// A recipe for CoreDNS, with the other parts of its platform.
struct Recipe {
    platform: &'static str,
    /// Its section in the page.
    heading: &'static str,
    /// Writes the Corefile and its imported files to the paths of the platform.
    write: fn(&Section, &Path) -> Result<()>,
    /// Addresses of the name servers that pods use.
    servers: &'static [&'static str],
}

const RECIPES: [Recipe; 6] = [
    Recipe {
        platform: "coredns",
        heading: MANAGED,
        write: |_, coredns| append_stanza(coredns),
        servers: &[CLUSTER_DNS],
    },
    Recipe {
        platform: "coredns_of_stateless_services",
        heading: MANAGED,
        write: |_, coredns| {
            let stanza = fs::read_to_string(repository("coredns/Corefile.services"))?;
            write(coredns, "Corefile", &json!(new_corefile("", "", &stanza)))
        },
        servers: &[CLUSTER_DNS],
    },
    Recipe {
        platform: "eks",
        heading: "EKS",
        write: |section, coredns| {
            append_stanza(coredns)?;
            run_in(coredns, first(section, "sh")?.trim())?;
            let settings = fs::read_to_string(coredns.join("coredns.yaml"))?;
            let settings: Value = serde_saphyr::from_str(&settings)?;
            write(coredns, "Corefile", &settings["corefile"])
        },
        servers: &[CLUSTER_DNS],
    },
    Recipe {
        platform: "aks",
        heading: CUSTOM,
        write: |section, coredns| {
            let main = new_corefile("", "import custom/*.override", "import custom/*.server");
            write(coredns, "Corefile", &json!(main))?;
            write_custom(section, coredns)
        },
        servers: &[CLUSTER_DNS],
    },
    Recipe {
        platform: "k3s",
        heading: CUSTOM,
        write: |section, coredns| {
            let hosts = "hosts /etc/coredns/NodeHosts {\n ttl 60\n reload 15s\n fallthrough\n }";
            let main = new_corefile(
                hosts,
                "import /etc/coredns/custom/*.override",
                "import /etc/coredns/custom/*.server",
            );
            write(coredns, "Corefile", &json!(main))?;
            write(coredns, "NodeHosts", &json!("192.0.2.7 node-0\n"))?;
            write_custom(section, coredns)
        },
        servers: &[CLUSTER_DNS],
    },
    Recipe {
        platform: "nodelocaldns",
        heading: NODE_CACHES,
        write: |section, coredns| {
            let block = |zone: &str, to: &str| {
                format!(
                    "{zone}:53 {{\n errors\n cache 30\n reload\n loop\n bind {NODE_CACHE} {CLUSTER_DNS}\n \
                     forward . {to}\n prometheus :9253\n}}\n"
                )
            };
            let main = [
                block(
                    "cluster.local",
                    &format!("{BEHIND_THE_CACHE} {{\n force_tcp\n }}"),
                ),
                block(".", "/etc/resolv.conf"),
                first(section, "corefile")?,
            ];
            write(coredns, "Corefile", &json!(main.concat()))
        },
        servers: &[CLUSTER_DNS, NODE_CACHE],
    },
];

/// Sections with a Kubernetes object that the API server validates. It does not know that of OpenShift.
const OBJECTS: [&str; 2] = [CUSTOM, "GKE with kube-dns"];

pub fn run(steps: &mut Steps, cluster: &Cluster, node: &Node) {
    let mut server = None;
    steps.step("all_recipes_have_the_same_stanza", check_same_stanza);
    steps.step("api_server_accepts_the_objects_of_the_recipes", || {
        check_objects(cluster)
    });
    steps.step("global_dns_is_ready_behind_its_cluster_ip", || {
        cluster.apply_state(&state_after_recordings()?)?;
        server = Some(start(
            cluster,
            0,
            &[&format!("answers.nsAddresses=[{GLOBAL_DNS}]")],
        ));
        node.set_endpoints(&[0])
    });
    for recipe in &RECIPES {
        let fact = format!("coredns_answers_with_the_recipe_{}", recipe.platform);
        steps.step(&fact, || check_recipe(recipe, cluster, node));
    }
    for number in 0..3 {
        let fact = format!("coredns_answers_names_that_applications_use_{number}");
        steps.step(&fact, || check_existing_names(number, cluster, node));
    }
    steps.step(
        "openshift_recipe_has_the_same_zone_and_upstream",
        check_openshift,
    );
    crate::e2e::resolvers::run(steps, cluster, node);
}

/// Starts global-dns in a pod with additional flags, and waits until it is ready.
pub fn start(cluster: &Cluster, pod: usize, flags: &[&str]) -> Server {
    let listen = format!("{}:5353", PODS[pod]);
    let flags = [&["--listen", &listen], flags].concat();
    Server::ready_of_cluster(&cluster.kubeconfig, &flags)
}

fn check_recipe(recipe: &Recipe, cluster: &Cluster, node: &Node) -> Result<()> {
    let mut upstream = match recipe.heading {
        NODE_CACHES => {
            let etc = node.create_etc("behind-the-cache")?;
            let corefile = format!(
                "cluster.local:53 {{\n bind {BEHIND_THE_CACHE}\n errors\n kubernetes cluster.local\n}}\n"
            );
            fs::write(etc.join("coredns/Corefile"), corefile)?;
            Some(node.start_coredns("coredns-behind-the-cache", &etc, cluster)?)
        }
        _ => None,
    };
    let platform = recipe.platform;
    let etc = node.create_etc(platform)?;
    let section = Section::read(PAGE, recipe.heading)?;
    (recipe.write)(&section, &etc.join("coredns"))?;
    let mut coredns = node.start_coredns(&format!("coredns-{platform}"), &etc, cluster)?;
    let mut answers = || -> Result<()> {
        for server in recipe.servers.iter().copied().map(dns) {
            eventually("CoreDNS to answer", || {
                coredns.check()?;
                if let Some(upstream) = &mut upstream {
                    upstream.check()?;
                }
                // Names of `cluster.local` still resolve.
                let name = "kubernetes.default.svc.cluster.local";
                let output = dig_recursively(server, Transport::Udp, name, "A")?;
                ensure!(
                    output
                        .answer
                        .iter()
                        .any(|record| record.ends_with(" A 10.96.0.1")),
                    "{output:?}"
                );
                Ok(())
            })?;
            check_resolution(node, server)?;
        }
        Ok(())
    };
    answers().with_context(|| coredns.log_tail())
}

/// Asserts that a resolver returns the answers of global-dns over UDP and TCP.
pub fn check_resolution(node: &Node, server: SocketAddr) -> Result<()> {
    let all: Vec<String> = ["east", "west", "north"]
        .iter()
        .flat_map(|cluster| {
            (0..3).map(move |n| format!("nginx-set-{n}.{cluster}.nginx.default.global"))
        })
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let union = case_after_recordings();
    let sql = "_sql._tcp.nginx.default.global";
    let host = "nginx-set-1.west.nginx.default.global";
    for over in Transport::BOTH {
        check_records(server, over, NGINX, "A", &Vec::from_iter(union.records()))?;
        check_records(
            server,
            over,
            host,
            "A",
            &a_records(host, &[&["10.96.116.27"]]),
        )?;
        check_records(server, over, sql, "SRV", &srv_records(sql, 26257, &all))?;
        check_records(server, over, NGINX, "AAAA", &[])?;
        let output = dig_recursively(server, over, "nowhere.default.global", "A")?;
        let soa = output
            .authority
            .iter()
            .filter(|record| record.starts_with("global. ") && record.contains(" IN SOA "));
        ensure!(
            output.status == "NXDOMAIN" && output.answer.is_empty() && soa.count() == 1,
            "a nonexistent name: {output:?}"
        );
    }
    // With the search domains of a pod, and a name without final dot.
    let text = node.nslookup(server, NGINX)?;
    let addresses = text
        .lines()
        .filter_map(|line| line.strip_prefix("Address: "));
    let addresses = Answer::Data(addresses.map(str::to_owned).collect());
    ensure!(addresses == union.answer, "nslookup: {text}");
    Ok(())
}

/// Asserts that CoreDNS answers other names from the zone, with a Corefile of the page: for one service (0), for a namespace (1),
/// or for other names (2).
fn check_existing_names(number: usize, cluster: &Cluster, node: &Node) -> Result<()> {
    let of_service = "nginx.default.svc.cluster.local";
    let names = match number {
        0 | 1 => &[of_service][..],
        _ => &["nginx.default.svc.example.com", "nginx.v1.rpc.example.com"],
    };
    let section = Section::read(PAGE, "Names that applications already use")?;
    let corefiles = section.texts("corefile")?;
    let [of_one_service, of_other_names] = corefiles.as_slice() else {
        bail!("the section has {} Corefiles", corefiles.len());
    };
    let corefile = match number {
        0 => of_one_service.clone(),
        1 => with_rewrite(of_one_service, &first(&section, "")?)?,
        _ => of_other_names.clone(),
    };
    // The test has another service.
    let corefile = corefile
        .replace("db.prod.", "nginx.default.")
        .replace("db\\.prod\\.", "nginx\\.default\\.")
        .replace("\\.prod\\.", "\\.default\\.")
        .replace(".prod.global", ".default.global")
        .replace(".shop.global", ".default.global");
    let etc = node.create_etc(&format!("existing-names-{number}"))?;
    write(&etc.join("coredns"), "Corefile", &json!(corefile))?;
    let mut coredns =
        node.start_coredns(&format!("coredns-existing-names-{number}"), &etc, cluster)?;
    let server = dns(CLUSTER_DNS);
    let answer = |name: &str, kind: &str| -> Result<Vec<String>> {
        Ok(dig_recursively(server, Transport::Udp, name, kind)?.answer)
    };
    let addresses = |name: &str| -> Result<Vec<String>> {
        let records = answer(name, "A")?;
        let of_name = records.iter().filter(|record| record.starts_with(name));
        let addresses = of_name.filter_map(|record| record.rsplit(' ').next());
        let mut addresses: Vec<String> = addresses.map(str::to_owned).collect();
        addresses.sort();
        Ok(addresses)
    };
    let Answer::Data(expected) = case_after_recordings().answer else {
        bail!("no addresses are expected");
    };
    let expected: Vec<String> = expected.into_iter().collect(); // sorted
    let mut answers = || -> Result<()> {
        for name in names {
            eventually("CoreDNS to answer", || {
                coredns.check()?;
                let got = addresses(name)?;
                ensure!(
                    got == expected,
                    "{name}: expected {expected:?}, got {got:?}"
                );
                Ok(())
            })?;
        }
        if number > 1 {
            return Ok(());
        }
        // The targets of SRV records resolve.
        let records = answer(&format!("_sql._tcp.{of_service}"), "SRV")?;
        ensure!(records.len() == expected.len(), "{records:?}");
        for record in &records {
            let target = record.rsplit(' ').next().context("no target")?;
            let target = target.trim_end_matches('.');
            let is_known = target.ends_with(of_service) || target.ends_with(NGINX);
            ensure!(is_known, "{record}");
            ensure!(addresses(target)?.len() == 1, "{target}");
        }
        // Names of this cluster are answered as before.
        let own = addresses("kubernetes.default.svc.cluster.local");
        ensure!(
            number == 1 || own? == ["10.96.0.1"],
            "the Service kubernetes"
        );
        Ok(())
    };
    let result = answers();
    result.with_context(|| coredns.log_tail())
}

/// Returns a Corefile with one line instead of its two lines with `rewrite`, as the page says.
fn with_rewrite(corefile: &str, rewrite: &str) -> Result<String> {
    let is_rewrite = |line: &str| line.trim().starts_with("rewrite ");
    let count = corefile.lines().filter(|line| is_rewrite(line)).count();
    ensure!(count == 2, "{count} lines with rewrite: {corefile}");
    let before = corefile.lines().take_while(|line| !is_rewrite(line));
    let after = corefile.lines().skip_while(|line| !is_rewrite(line));
    let lines = before.chain([rewrite.trim()]).chain(after.skip(count));
    Ok(lines.flat_map(|line| [line, "\n"]).collect())
}

/// Asserts the records of the answer, without their TTLs, because caches decrease TTLs.
fn check_records(
    server: SocketAddr,
    over: Transport,
    name: &str,
    kind: &str,
    expected: &[String],
) -> Result<()> {
    let output = dig_recursively(server, over, name, kind)?;
    let without_ttl = |record: &String| {
        let words: Vec<&str> = record.split(' ').collect();
        [&words[..1], &words[2..]].concat().join(" ")
    };
    let mut answer: Vec<String> = output.answer.iter().map(without_ttl).collect();
    let mut expected: Vec<String> = expected.iter().map(without_ttl).collect();
    answer.sort();
    expected.sort();
    ensure!(
        output.status == "NOERROR" && answer == expected,
        "{name} {kind} over {over:?}: expected {expected:?}, got {output:#?}"
    );
    Ok(())
}

/// Asserts that all recipes have the stanza of `coredns/Corefile`. That of the node's cache adds its listen addresses.
fn check_same_stanza() -> Result<()> {
    let corefile = fs::read_to_string(repository("coredns/Corefile"))?;
    let shipped = stanza(&corefile).context("coredns/Corefile has no stanza")?;
    ensure!(shipped.contains(&"forward . 10.96.0.53".to_owned()));
    for (heading, language) in [(CUSTOM, "yaml"), (NODE_CACHES, "corefile")] {
        let text = first(&Section::read(PAGE, heading)?, language)?;
        let mut block = stanza(&text).with_context(|| format!("{heading} has no stanza"))?;
        block.retain(|line| !line.starts_with("bind "));
        ensure!(block == shipped, "{heading}: {block:?}");
    }
    Ok(())
}

/// Returns the lines of the zone's server block.
fn stanza(text: &str) -> Option<Vec<String>> {
    let mut lines = text
        .lines()
        .map(|line| line.trim().to_owned())
        .skip_while(|line| line != "global:53 {");
    let first = lines.next()?;
    let rest = lines.take_while(|line| line != "}");
    Some([first].into_iter().chain(rest).collect())
}

fn check_objects(cluster: &Cluster) -> Result<()> {
    cluster.put(&namespace("global-dns"))?;
    let services = fs::read_to_string(repository("coredns/gke-cloud-dns.yaml"))?;
    let mut objects: Vec<Value> = Vec::new();
    for text in services.split("\n---\n") {
        let service: Value = serde_saphyr::from_str(text)?;
        let is_server = |label: &str, value| {
            service["spec"]["selector"][format!("app.kubernetes.io/{label}")] == value
        };
        ensure!(
            is_server("instance", "global-dns") && is_server("component", "server"),
            "{text}"
        );
        objects.push(service);
    }
    ensure!(objects.len() == 2, "{objects:?}");
    for heading in OBJECTS {
        objects.push(object(heading)?);
    }
    for object in &objects {
        cluster.dry_run(object)?;
        // An invalid variant must be rejected, which shows that the API server validates this kind.
        let mut invalid = object.clone();
        let (part, value) = match object["kind"].as_str() {
            Some("ConfigMap") => ("data", json!({"key": 1})),
            _ => ("spec", json!({})),
        };
        invalid[part] = value;
        ensure!(
            cluster.dry_run(&invalid).is_err(),
            "the API server accepts {invalid}"
        );
    }
    print_line(&format!("recipes: {} objects accepted", objects.len()));
    Ok(())
}

/// Compares the values of the object. The DNS operator of OpenShift, which would turn them into a stanza, is not
/// available.
fn check_openshift() -> Result<()> {
    let object = object("OpenShift")?;
    ensure!(object["apiVersion"] == "operator.openshift.io/v1" && object["kind"] == "DNS");
    ensure!(object["metadata"] == json!({"name": "default"}), "{object}");
    let server = json!({
        "name": "global-dns", "zones": ["global"],
        "forwardPlugin": {"upstreams": ["10.96.0.53"]},
    });
    ensure!(object["spec"] == json!({"servers": [server]}), "{object}");
    Ok(())
}

// === Files of the platforms ===

/// Writes each key of `coredns-custom` to a file, as these platforms mount it.
fn write_custom(section: &Section, coredns: &Path) -> Result<()> {
    let map: Value = serde_saphyr::from_str(&first(section, "yaml")?)?;
    ensure!(map["metadata"] == json!({"name": "coredns-custom", "namespace": "kube-system"}));
    let data = map["data"]
        .as_object()
        .context("the ConfigMap has no data")?;
    data.iter()
        .try_for_each(|(key, text)| write(&coredns.join("custom"), key, text))
}

fn write(folder: &Path, name: &str, text: &Value) -> Result<()> {
    let text = text
        .as_str()
        .with_context(|| format!("{name} is not a text"))?;
    Ok(fs::write(folder.join(name), text)?)
}

/// Writes a Corefile with the stanza, by the command of the page that appends it.
fn append_stanza(folder: &Path) -> Result<()> {
    let commands = first(&Section::read(PAGE, MANAGED)?, "sh")?;
    let appending = commands.lines().find(|line| line.starts_with("{ "));
    fs::write(folder.join("Corefile.before"), new_corefile("", "", ""))?;
    symlink(repository("coredns"), folder.join("coredns"))?;
    run_in(folder, appending.context("no command appends the stanza")?)
}

/// Runs a command of the page in a folder.
fn run_in(folder: &Path, line: &str) -> Result<()> {
    let mut shell = command("sh");
    run_checked(shell.current_dir(folder).args(["-c", line])).map(drop)
}

// === Blocks of the page ===

/// Returns the first block of a language in a section.
pub fn first(section: &Section, language: &str) -> Result<String> {
    let texts = section.texts(language)?;
    texts.into_iter().next().context("no block")
}

/// Returns the object of a section.
pub fn object(heading: &str) -> Result<Value> {
    let section = Section::read(PAGE, heading)?;
    Ok(serde_saphyr::from_str(&first(&section, "yaml")?)?)
}
