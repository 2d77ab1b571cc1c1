//! The recipes in `coredns/`. Their Corefiles run unchanged in a real CoreDNS, and a real API server validates their
//! objects.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::dig::{a_records, dig_recursively, srv_records};
use support::names::Answer;
use support::objects::namespace;
use support::output::print_line;
use support::repository::repository;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::Transport;

use crate::e2e::linked_clusters::{NGINX, case_after_recordings, state_after_recordings};
use support::node::{BEHIND_THE_CACHE, CLUSTER_DNS, GLOBAL_DNS, NODE_CACHE, Node, PODS, dns};

/// A recipe for CoreDNS, with the other parts of its platform.
struct Recipe {
    file: &'static str,
    /// Writes the Corefile and its imported files to the paths of the platform.
    write: fn(&Blocks, &Path) -> Result<()>,
    /// Addresses of the name servers that pods use.
    servers: &'static [&'static str],
}

/// The fenced code blocks of a page, with their languages.
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

/// Pages with Kubernetes objects, and the number of objects. The API server validates them.
const OBJECTS: [(&str, usize); 5] = [
    ("README.md", 1),
    ("coredns.md", 1),
    ("aks.md", 1),
    ("k3s.md", 1),
    ("gke.md", 3),
];

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
        let fact = format!("coredns_answers_with_the_recipe_{}", recipe.file);
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
    let mut upstream = match recipe.file {
        "nodelocaldns.md" => {
            let etc = node.create_etc("behind-the-cache")?;
            let corefile = format!(
                "cluster.local:53 {{\n bind {BEHIND_THE_CACHE}\n errors\n kubernetes cluster.local\n}}\n"
            );
            fs::write(etc.join("coredns/Corefile"), corefile)?;
            Some(node.start_coredns("coredns-behind-the-cache", &etc, cluster)?)
        }
        _ => None,
    };
    let etc = node.create_etc(recipe.file)?;
    (recipe.write)(&page(recipe.file)?, &etc.join("coredns"))?;
    let mut coredns = node.start_coredns(&format!("coredns-{}", recipe.file), &etc, cluster)?;
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

/// Asserts that CoreDNS answers other names from the zone, with the Corefile of a recipe in `existing-names.md`.
fn check_existing_names(number: usize, cluster: &Cluster, node: &Node) -> Result<()> {
    let of_service = "nginx.default.svc.cluster.local";
    let names = match number {
        0 | 1 => &[of_service][..],
        _ => &["nginx.default.svc.example.com", "nginx.v1.rpc.example.com"],
    };
    let page = page("existing-names.md")?;
    // The test has another service.
    let corefile = page.text("corefile", number)?;
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
    for recipe in &RECIPES {
        let text = page(recipe.file)?;
        let block = text.0.iter().find_map(|(_, text)| stanza(text));
        let mut block = block.with_context(|| format!("{} has no stanza", recipe.file))?;
        block.retain(|line| !line.starts_with("bind "));
        ensure!(block == shipped, "{}: {block:?}", recipe.file);
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
            // An invalid variant must be rejected, which shows that the API server validates this kind.
            let mut invalid = object.clone();
            let (part, value) = match object["kind"].as_str() {
                Some("ConfigMap") => ("data", json!({"key": 1})),
                _ => ("spec", json!({})),
            };
            invalid[part] = value;
            ensure!(
                cluster.dry_run(&invalid).is_err(),
                "{file}: the API server accepts {invalid}"
            );
            checked += 1;
        }
    }
    print_line(&format!("recipes: {checked} objects accepted"));
    Ok(())
}

/// Compares the values of the object. The DNS operator of OpenShift, which would turn them into a stanza, is not
/// available.
fn check_openshift() -> Result<()> {
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

// === Files of the platforms ===

/// Returns the Corefile of AKS or k3s, which users cannot change, with its two imports.
fn main_corefile(hosts: &str, within: &str, after: &str) -> String {
    format!(
        ".:53 {{\n errors\n health\n ready\n kubernetes cluster.local in-addr.arpa ip6.arpa {{\n pods insecure\n \
         fallthrough in-addr.arpa ip6.arpa\n }}\n {hosts}\n prometheus :9153\n forward . /etc/resolv.conf\n cache 30\n \
         loop\n reload\n loadbalance\n {within}\n}}\n{after}\n"
    )
}

/// Writes each key of `coredns-custom` to a file, as these platforms mount it.
fn write_custom(blocks: &Blocks, coredns: &Path) -> Result<()> {
    let map = blocks.object("yaml", 0)?;
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
    /// Returns a block of a language by its number.
    pub fn text(&self, language: &str, number: usize) -> Result<&str> {
        let mut blocks = self.0.iter().filter(|block| block.0 == language);
        let block = blocks.nth(number);
        let (_, text) = block
            .with_context(|| format!("the page has no block {number} in language {language}"))?;
        Ok(text)
    }

    /// Parses a block of a language as an object.
    pub fn object(&self, language: &str, number: usize) -> Result<Value> {
        Ok(serde_saphyr::from_str(self.text(language, number)?)?)
    }

    /// Parses all Kubernetes objects on the page.
    fn objects(&self) -> Result<Vec<Value>> {
        let blocks = self.0.iter().filter(|block| block.0 == "yaml");
        let documents = blocks.flat_map(|block| block.1.split("\n---\n"));
        documents
            .map(|document| Ok(serde_saphyr::from_str(document)?))
            .collect()
    }
}
