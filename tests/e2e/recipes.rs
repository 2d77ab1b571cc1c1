//! The recipes in `coredns/`: their text, as it is, in a real CoreDNS that finds the API server as its pod would, and
//! their objects in front of a real API server.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::dig::{a, dig_recursively, srv};
use support::names::Answer;
use support::objects::namespace;
use support::repository::repository;
use support::say::say;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Over;

use crate::clusters_come_and_go::{NGINX, after_the_recordings, state_after_the_recordings};
use crate::node::{BEHIND_THE_CACHE, CLUSTER_DNS, GLOBAL_DNS, NODE_CACHE, Node, PODS, dns};

const START: Duration = Duration::from_secs(30);

/// A recipe for a CoreDNS, and what its platform brings along.
struct Recipe {
    file: &'static str,
    /// Makes the Corefile and what it imports; the paths are those of the platform.
    write: fn(&Blocks, &Path) -> Result<()>,
    /// Where pods ask.
    servers: &'static [&'static str],
}

/// The fenced blocks of a page, with their languages.
pub struct Blocks(Vec<(String, String)>);

const RECIPES: [Recipe; 5] = [
    Recipe {
        file: "coredns.md",
        write: |blocks, coredns| {
            let map = blocks.object("yaml", 0)?;
            write(coredns, "Corefile", &map["data"]["Corefile"])
        },
        servers: &[CLUSTER_DNS],
    },
    Recipe {
        file: "eks.md",
        write: |blocks, coredns| write(coredns, "Corefile", &blocks.object("yaml", 0)?["corefile"]),
        servers: &[CLUSTER_DNS],
    },
    Recipe {
        file: "aks.md",
        write: |blocks, coredns| {
            let main = main_corefile("", "import custom/*.override", "import custom/*.server");
            write(coredns, "Corefile", &json!(main))?;
            write_custom(blocks, coredns)
        },
        servers: &[CLUSTER_DNS],
    },
    Recipe {
        file: "k3s.md",
        write: |blocks, coredns| {
            let hosts = "hosts /etc/coredns/NodeHosts {\n ttl 60\n reload 15s\n fallthrough\n }";
            let main = main_corefile(
                hosts,
                "import /etc/coredns/custom/*.override",
                "import /etc/coredns/custom/*.server",
            );
            write(coredns, "Corefile", &json!(main))?;
            write(coredns, "NodeHosts", &json!("192.0.2.7 node-0\n"))?;
            write_custom(blocks, coredns)
        },
        servers: &[CLUSTER_DNS],
    },
    Recipe {
        file: "nodelocaldns.md",
        write: |blocks, coredns| {
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
                blocks.text("corefile", 0)?.to_owned(),
            ];
            write(coredns, "Corefile", &json!(main.concat()))
        },
        servers: &[CLUSTER_DNS, NODE_CACHE],
    },
];

/// Pages whose objects are Kubernetes' own; the API server looks at them.
const OBJECTS: [(&str, usize); 5] = [
    ("README.md", 1),
    ("coredns.md", 1),
    ("aks.md", 1),
    ("k3s.md", 1),
    ("gke.md", 3),
];

pub fn run(steps: &mut Steps, cluster: &Cluster, node: &Node) {
    let mut server = None;
    steps.step("every_recipe_has_the_same_stanza", same_stanza);
    steps.step("the_api_server_accepts_the_objects_of_the_recipes", || {
        objects(cluster)
    });
    steps.step("global_dns_runs_behind_its_cluster_ip", || {
        cluster.become_state(&state_after_the_recordings()?)?;
        server = Some(start(cluster, 0, &["--ns-address", GLOBAL_DNS]));
        node.point_to(&[0])
    });
    for recipe in &RECIPES {
        let fact = format!("coredns_answers_by_the_recipe_{}", recipe.file);
        steps.step(&fact, || recipe_works(recipe, cluster, node));
    }
    steps.step("the_dns_operator_of_openshift_is_told_the_same", openshift);
    crate::resolvers::run(steps, cluster, node);
}

/// Starts global-dns in a pod, ready, with further flags.
pub fn start(cluster: &Cluster, pod: usize, further: &[&str]) -> Server {
    let listen = format!("{}:5353", PODS[pod]);
    let flags = [&["--listen", &listen], further].concat();
    Server::ready_of_cluster(&cluster.kubeconfig, &flags)
}

fn recipe_works(recipe: &Recipe, cluster: &Cluster, node: &Node) -> Result<()> {
    let mut behind = match recipe.file {
        "nodelocaldns.md" => {
            let etc = node.etc("behind-the-cache")?;
            let corefile = format!(
                "cluster.local:53 {{\n bind {BEHIND_THE_CACHE}\n errors\n kubernetes cluster.local\n}}\n"
            );
            fs::write(etc.join("coredns/Corefile"), corefile)?;
            Some(node.coredns("coredns-behind-the-cache", &etc, cluster)?)
        }
        _ => None,
    };
    let etc = node.etc(recipe.file)?;
    (recipe.write)(&page(recipe.file)?, &etc.join("coredns"))?;
    let mut coredns = node.coredns(&format!("coredns-{}", recipe.file), &etc, cluster)?;
    let mut answers = || -> Result<()> {
        for server in recipe.servers.iter().copied().map(dns) {
            eventually("CoreDNS to answer", START, || {
                coredns.check()?;
                if let Some(behind) = &mut behind {
                    behind.check()?;
                }
                // The cluster's own names are there as before.
                let name = "kubernetes.default.svc.cluster.local";
                let dug = dig_recursively(server, Over::Udp, name, "A")?;
                ensure!(
                    dug.answer
                        .iter()
                        .any(|record| record.ends_with(" A 10.96.0.1")),
                    "{dug:?}"
                );
                Ok(())
            })?;
            comes_through(node, server)?;
        }
        Ok(())
    };
    answers().with_context(|| coredns.last_words())
}

/// Everything that a client may ask comes through a resolver, over UDP and TCP.
pub fn comes_through(node: &Node, server: SocketAddr) -> Result<()> {
    let all: Vec<String> = ["east", "west", "north"]
        .iter()
        .flat_map(|cluster| {
            (0..3).map(move |n| format!("nginx-set-{n}.{cluster}.nginx.default.global"))
        })
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let union = after_the_recordings();
    let sql = "_sql._tcp.nginx.default.global";
    let host = "nginx-set-1.west.nginx.default.global";
    for over in Over::BOTH {
        has(server, over, NGINX, "A", &Vec::from_iter(union.records()))?;
        has(server, over, host, "A", &a(host, &[&["10.96.116.27"]]))?;
        has(server, over, sql, "SRV", &srv(sql, 26257, &all))?;
        has(server, over, NGINX, "AAAA", &[])?;
        let dug = dig_recursively(server, over, "nowhere.default.global", "A")?;
        let soa = dug
            .authority
            .iter()
            .filter(|record| record.starts_with("global. ") && record.contains(" IN SOA "));
        ensure!(
            dug.status == "NXDOMAIN" && dug.answer.is_empty() && soa.count() == 1,
            "a missing name: {dug:?}"
        );
    }
    // With the search domains of a pod, and the name as people write it.
    let text = node.nslookup(server, NGINX)?;
    let addresses = text
        .lines()
        .filter_map(|line| line.strip_prefix("Address: "));
    let addresses = Answer::Data(addresses.map(str::to_owned).collect());
    ensure!(addresses == union.answer, "nslookup: {text}");
    Ok(())
}

/// The answer's records are exactly these. What a cache holds may be older: times to live are not compared.
fn has(server: SocketAddr, over: Over, name: &str, kind: &str, wanted: &[String]) -> Result<()> {
    let dug = dig_recursively(server, over, name, kind)?;
    let without_ttl = |record: &String| {
        let words: Vec<&str> = record.split(' ').collect();
        [&words[..1], &words[2..]].concat().join(" ")
    };
    let mut answer: Vec<String> = dug.answer.iter().map(without_ttl).collect();
    let mut wanted: Vec<String> = wanted.iter().map(without_ttl).collect();
    answer.sort();
    wanted.sort();
    ensure!(
        dug.status == "NOERROR" && answer == wanted,
        "{name} {kind} over {over:?}: {dug:#?}"
    );
    Ok(())
}

/// The stanza is one text, wherever it stands; the cache of a node adds where it listens.
fn same_stanza() -> Result<()> {
    let corefile = fs::read_to_string(repository("coredns/Corefile"))?;
    let shipped = stanza(&corefile).context("coredns/Corefile has no stanza")?;
    ensure!(shipped.contains(&"forward . 10.96.0.53".to_owned()));
    for recipe in &RECIPES {
        let text = page(recipe.file)?;
        let block = text.0.iter().find_map(|(_, text)| stanza(text));
        let mut block = block.with_context(|| format!("{} has no stanza", recipe.file))?;
        block.retain(|line| !line.starts_with("bind "));
        ensure!(block == shipped, "{}: {block:?}", recipe.file);
    }
    Ok(())
}

/// The lines of the block of the zone.
fn stanza(text: &str) -> Option<Vec<String>> {
    let mut lines = text
        .lines()
        .map(|line| line.trim().to_owned())
        .skip_while(|line| line != "global:53 {");
    let first = lines.next()?;
    let rest = lines.take_while(|line| line != "}");
    Some([first].into_iter().chain(rest).collect())
}

fn objects(cluster: &Cluster) -> Result<()> {
    cluster.put(&namespace("global-dns"))?;
    let mut checked = 0;
    for (file, count) in OBJECTS {
        let mut objects = page(file)?.objects()?;
        ensure!(
            objects.len() == count,
            "{file} has {} objects",
            objects.len()
        );
        for object in &mut objects {
            let namespace = &mut object["metadata"]["namespace"];
            if namespace.is_null() {
                *namespace = json!("default");
            }
            cluster.dry_run(object).with_context(|| file.to_owned())?;
            // What it would refuse, it refuses: the neighbour is spoilt.
            let mut spoilt = object.clone();
            let (part, value) = match object["kind"].as_str() {
                Some("ConfigMap") => ("data", json!({"key": 1})),
                _ => ("spec", json!({})),
            };
            spoilt[part] = value;
            ensure!(cluster.dry_run(&spoilt).is_err(), "{file}: {spoilt} passes");
            checked += 1;
        }
    }
    say(&format!("recipes: {checked} objects accepted"));
    Ok(())
}

/// Its operator is not to be had here; what it writes of this is the stanza.
fn openshift() -> Result<()> {
    let object = page("openshift.md")?.object("yaml", 0)?;
    ensure!(object["apiVersion"] == "operator.openshift.io/v1" && object["kind"] == "DNS");
    ensure!(object["metadata"] == json!({"name": "default"}), "{object}");
    let server = json!({
        "name": "global-dns", "zones": ["global"],
        "forwardPlugin": {"upstreams": ["10.96.0.53"]},
    });
    ensure!(object["spec"] == json!({"servers": [server]}), "{object}");
    Ok(())
}

// === What platforms bring along ===

/// The Corefile of AKS or k3s, which users cannot change, with its two imports.
fn main_corefile(hosts: &str, within: &str, after: &str) -> String {
    format!(
        ".:53 {{\n errors\n health\n ready\n kubernetes cluster.local in-addr.arpa ip6.arpa {{\n pods insecure\n \
         fallthrough in-addr.arpa ip6.arpa\n }}\n {hosts}\n prometheus :9153\n forward . /etc/resolv.conf\n cache 30\n \
         loop\n reload\n loadbalance\n {within}\n}}\n{after}\n"
    )
}

/// Mounts `coredns-custom` as these platforms do: each key a file.
fn write_custom(blocks: &Blocks, coredns: &Path) -> Result<()> {
    let map = blocks.object("yaml", 0)?;
    ensure!(map["metadata"] == json!({"name": "coredns-custom", "namespace": "kube-system"}));
    let data = map["data"]
        .as_object()
        .context("a ConfigMap without data")?;
    data.iter()
        .try_for_each(|(key, text)| write(&coredns.join("custom"), key, text))
}

fn write(folder: &Path, name: &str, text: &Value) -> Result<()> {
    let text = text
        .as_str()
        .with_context(|| format!("no text for {name}"))?;
    Ok(fs::write(folder.join(name), text)?)
}

// === impl Blocks ===

/// Reads a page of `coredns/`.
pub fn page(file: &str) -> Result<Blocks> {
    let path = repository("coredns").join(file);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let block = lines.by_ref().take_while(|line| *line != "```");
            let block: String = block.flat_map(|line| [line, "\n"]).collect();
            blocks.push((language.to_owned(), block));
        }
    }
    Ok(Blocks(blocks))
}

impl Blocks {
    /// One block of a language, by its number.
    pub fn text(&self, language: &str, number: usize) -> Result<&str> {
        let mut blocks = self.0.iter().filter(|block| block.0 == language);
        let block = blocks.nth(number);
        let (_, text) = block.with_context(|| format!("no block {number} of {language}"))?;
        Ok(text)
    }

    /// The same, read.
    pub fn object(&self, language: &str, number: usize) -> Result<Value> {
        Ok(serde_saphyr::from_str(self.text(language, number)?)?)
    }

    /// Every object of Kubernetes on the page.
    fn objects(&self) -> Result<Vec<Value>> {
        let blocks = self.0.iter().filter(|block| block.0 == "yaml");
        let documents = blocks.flat_map(|block| block.1.split("\n---\n"));
        documents
            .map(|document| Ok(serde_saphyr::from_str(document)?))
            .collect()
    }
}
