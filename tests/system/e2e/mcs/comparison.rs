//! Compares names below `clusterset.local` from global-dns and from CoreDNS with its option `multicluster`, with the same
//! API server. The questions are generated from the objects: all names of services, clusters, hosts and ports, and
//! changes of them.
//!
//! Not compared are TTLs, SRV weights (CoreDNS divides 100 by the number of records), SOA and NS records of the apex, and
//! the authority and additional sections. `EXPLANATIONS` lists all other differences. A difference without explanation
//! is a failure, and so is an explanation that no difference needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use support::cluster::Cluster;
use support::commands::{guarded, tool};
use support::objects::{cluster_role, cluster_role_binding};
use support::output::{print_line, with_separators};
use support::ports::free_port;
use support::process::Process;
use support::server::Server;
use support::steps::Steps;
use support::wait::{TIMEOUT, eventually};
use support::wire::{Transport, resolve, try_ask};

use super::{fixtures, is_import, start_ready, write};

const ZONE: &str = "clusterset.local.";
/// Types of questions about names of the objects.
const TYPES: [&str; 8] = ["A", "AAAA", "SRV", "TXT", "NS", "SOA", "PTR", "HTTPS"];
/// Types of questions about changed names.
const TYPES_OF_CHANGES: [&str; 3] = ["A", "SRV", "TXT"];
const CLUSTER: &str = "multicluster.kubernetes.io/source-cluster";
const SERVICE: &str = "multicluster.kubernetes.io/service-name";

/// The two servers that are compared.
struct Pair {
    global_dns: Server,
    coredns: SocketAddr,
    _process: Process,
}

/// Names below the zone, from the objects. A name has its labels, separated by dots.
#[derive(Default)]
struct Sample {
    /// `S.N` of each import.
    services: BTreeSet<String>,
    /// `S.N` of the imports of type Headless.
    headless: BTreeSet<String>,
    /// `C.S.N`, `H.C.S.N`, `_P._R.S.N`.
    clusters: BTreeSet<String>,
    hosts: BTreeSet<String>,
    ports: BTreeSet<String>,
    namespaces: BTreeSet<String>,
}

/// The answer of a server, without the parts that are not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Data(BTreeSet<String>),
    NoData,
    NxDomain,
}

/// A question with different answers.
struct Difference {
    /// The labels below the zone, in lower case.
    labels: Vec<String>,
    rtype: &'static str,
    global_dns: Outcome,
    coredns: Outcome,
    /// The name is above a name with records of global-dns.
    has_names_below: bool,
    /// `S.N` of the name is an import of type Headless.
    is_headless: bool,
}

/// A difference that is intended, and whether it is this one.
type Explanation = (&'static str, fn(&Difference) -> bool);

const EXPLANATIONS: [Explanation; 12] = [
    (
        "a name above existing names exists, without records (RFC 8020); for CoreDNS it does not exist",
        |it| it.is(&Outcome::NoData, &Outcome::NxDomain) && it.has_names_below,
    ),
    (
        "names of ports have only SRV records; CoreDNS also returns addresses for them",
        |it| {
            ["A", "AAAA"].contains(&it.rtype)
                && it.labels.len() == 5
                && it.labels[0].starts_with('_')
                && it.labels[1].starts_with('_')
                && it.global_dns == Outcome::NoData
                && matches!(it.coredns, Outcome::Data(_))
        },
    ),
    (
        "port and protocol both start with an underscore (RFC 2782); CoreDNS accepts one without",
        |it| {
            let underscores = it.labels.iter().filter(|label| label.starts_with('_'));
            it.labels.len() == 5 && underscores.count() == 1 && it.global_dns == Outcome::NxDomain
        },
    ),
    (
        "a namespace without imported services does not exist; for CoreDNS each Namespace, `svc` and `pod` exist",
        |it| {
            let is_above = matches!(it.labels()[..], [_, "svc"] | ["pod"]);
            is_above && it.is(&Outcome::NxDomain, &Outcome::NoData)
        },
    ),
    (
        "a SOA query for a name that does not exist is NXDOMAIN; CoreDNS answers NODATA for all names",
        |it| it.rtype == "SOA" && it.is(&Outcome::NxDomain, &Outcome::NoData),
    ),
    (
        "`dns-version` has the version of the specification, 1.0.0; CoreDNS has that of names in a cluster",
        |it| it.labels() == ["dns-version"],
    ),
    (
        "`ns.dns` has the addresses of --ns-address; CoreDNS has its own",
        |it| matches!(it.labels()[..], ["ns", "dns"] | ["dns"]),
    ),
    (
        "without a ClusterSet IP, Submariner's address of each cluster is answered; CoreDNS has only ips",
        |it| {
            it.is_of("web", "shop")
                && matches!(it.global_dns, Outcome::Data(_) | Outcome::NoData)
                && !matches!(it.coredns, Outcome::Data(_))
        },
    ),
    (
        "Submariner's annotation publishes addresses that are not ready; CoreDNS does not know it",
        |it| it.is_of("db", "shop") && it.lacks_only("10.2.1.11", "db-1.east.db.shop.svc."),
    ),
    (
        "objects that Submariner keeps for its own use have no names; in CoreDNS they have",
        |it| {
            let own = ["submariner-operator", "submariner-k8s-broker"];
            own.iter()
                .any(|namespace| it.labels.iter().any(|label| label == namespace))
                && it.global_dns == Outcome::NxDomain
        },
    ),
    (
        "without an address, a service does not exist; for CoreDNS its import is enough",
        |it| it.is_of("pending", "prod") && it.is(&Outcome::NxDomain, &Outcome::NoData),
    ),
    (
        "a service with a ClusterSet IP has no names of hosts; in CoreDNS it has those of its slices",
        |it| {
            it.labels.len() == 5
                && !it.labels[1].starts_with('_')
                && !it.is_headless
                && it.global_dns == Outcome::NxDomain
        },
    ),
];

pub fn run(steps: &mut Steps, cluster: &Cluster) {
    steps.forget_failed_prerequisite();
    let mut pair = None;
    steps.prerequisite(
        "coredns_serves_the_service_imports_of_the_same_api_server",
        || {
            write(cluster, &fixtures()?)?;
            pair = Some(start(cluster)?);
            Ok(())
        },
    );
    steps.prerequisite(
        "names_of_the_clusterset_differ_from_coredns_only_as_listed",
        || {
            let pair = pair.as_ref().context("the servers did not start")?;
            pair.global_dns.with_log(compare(pair))
        },
    );
}

fn compare(pair: &Pair) -> Result<()> {
    let sample = Sample::new(&fixtures()?)?;
    let mut answers = Vec::new();
    for (name, rtype) in questions(&sample) {
        let ours = outcome(pair.global_dns.dns, &name, rtype)?;
        let theirs = outcome(pair.coredns, &name, rtype)?;
        answers.push((name, rtype, ours, theirs));
    }
    // The owners of records, for RFC 8020.
    let owners = answers
        .iter()
        .filter(|(_, _, ours, _)| matches!(ours, Outcome::Data(_)));
    let owners: BTreeSet<&str> = owners.map(|(name, ..)| name.as_str()).collect();
    let mut used = BTreeMap::new();
    let mut unexplained = Vec::new();
    for (name, rtype, ours, theirs) in &answers {
        let is_own = name.is_empty() && ["SOA", "NS"].contains(rtype);
        if ours == theirs || is_own {
            continue;
        }
        let difference = Difference::new(&sample, &owners, name, rtype, ours, theirs);
        match EXPLANATIONS.iter().find(|(_, is_it)| is_it(&difference)) {
            Some((reason, _)) => *used.entry(*reason).or_insert(0) += 1,
            None => unexplained.push(format!("{name} {rtype}: {ours:?}, in CoreDNS {theirs:?}")),
        }
    }
    let shown = &unexplained[..unexplained.len().min(40)];
    ensure!(
        unexplained.is_empty(),
        "{} differences without explanation, the first of them:\n{}",
        unexplained.len(),
        shown.join("\n")
    );
    for (reason, _) in EXPLANATIONS {
        let count = used
            .get(reason)
            .with_context(|| format!("no difference needs the explanation '{reason}'"))?;
        print_line(&format!("{count:5} questions: {reason}"));
    }
    let same = answers.len() - used.values().sum::<usize>();
    print_line(&format!(
        "same answers as CoreDNS: {} of {} questions",
        with_separators(same),
        with_separators(answers.len())
    ));
    Ok(())
}

fn outcome(server: SocketAddr, name: &str, rtype: &str) -> Result<Outcome> {
    let dot = if name.is_empty() { "" } else { "." };
    let owner = format!("{name}{dot}{ZONE}");
    let reply = resolve(server, &format!("{owner} {rtype}"));
    let mut data = BTreeSet::new();
    for record in &reply.answers {
        ensure!(
            record.owner.eq_ignore_ascii_case(&owner),
            "{owner} {rtype}: a record has owner name {}",
            record.owner
        );
        let text = match record.data.split(' ').collect::<Vec<_>>()[..] {
            [_, _, port, target] if rtype == "SRV" => format!("{port} {target}"),
            _ => record.data.clone(),
        };
        ensure!(
            data.insert(text.to_lowercase()),
            "{owner} {rtype}: duplicate record {record}"
        );
    }
    match (reply.rcode, data.is_empty()) {
        (0, true) => Ok(Outcome::NoData),
        (0, false) => Ok(Outcome::Data(data)),
        (3, true) => Ok(Outcome::NxDomain),
        _ => bail!("{owner} {rtype}: {}", reply.status()),
    }
}

fn labels(name: &str) -> Vec<&str> {
    name.split('.').filter(|label| !label.is_empty()).collect()
}

// === impl Difference ===

impl Difference {
    fn new(
        sample: &Sample,
        owners: &BTreeSet<&str>,
        name: &str,
        rtype: &'static str,
        ours: &Outcome,
        theirs: &Outcome,
    ) -> Self {
        let lower = name.to_lowercase();
        let labels: Vec<String> = labels(&lower).into_iter().map(str::to_owned).collect();
        let service = labels
            .len()
            .checked_sub(3)
            .map(|at| labels[at..at + 2].join("."));
        let is_above = |owner: &&str| owner.to_lowercase().ends_with(&format!(".{lower}"));
        Self {
            rtype,
            global_dns: ours.clone(),
            coredns: theirs.clone(),
            has_names_below: labels.is_empty() || owners.iter().any(is_above),
            is_headless: service.is_some_and(|service| sample.headless.contains(&service)),
            labels,
        }
    }

    fn labels(&self) -> Vec<&str> {
        self.labels.iter().map(String::as_str).collect()
    }

    fn is(&self, global_dns: &Outcome, coredns: &Outcome) -> bool {
        self.global_dns == *global_dns && self.coredns == *coredns
    }

    /// Returns whether the name is that of a service, or below it.
    fn is_of(&self, service: &str, namespace: &str) -> bool {
        self.labels().ends_with(&[service, namespace, "svc"])
    }

    /// Returns whether CoreDNS only lacks an address, or the SRV records of its host.
    fn lacks_only(&self, address: &str, host: &str) -> bool {
        let data = |outcome: &Outcome| match outcome {
            Outcome::Data(data) => data.clone(),
            Outcome::NoData | Outcome::NxDomain => BTreeSet::new(),
        };
        let (ours, theirs) = (data(&self.global_dns), data(&self.coredns));
        let is_it = |one: &&String| *one == address || one.contains(host);
        let is_host = self
            .labels
            .starts_with(&["db-1".to_owned(), "east".to_owned()]);
        theirs.is_subset(&ours) && (is_host || (&ours - &theirs).iter().all(|one| is_it(&one)))
    }
}

// === impl Sample ===

impl Sample {
    fn new(objects: &[Value]) -> Result<Self> {
        let mut sample = Self::default();
        for object in objects {
            let namespace = text(&object["metadata"]["namespace"])?;
            sample.namespaces.insert(namespace.to_owned());
            if is_import(object) {
                let service = format!("{}.{namespace}", text(&object["metadata"]["name"])?);
                if object["spec"]["type"] == "Headless" {
                    sample.headless.insert(service.clone());
                }
                sample.add_ports(&service, &object["spec"]["ports"]);
                sample.services.insert(service);
            }
            let labels = &object["metadata"]["labels"];
            if object["kind"] == "EndpointSlice" {
                let service = format!("{}.{namespace}", text(&labels[SERVICE])?);
                let cluster = format!("{}.{service}", text(&labels[CLUSTER])?);
                for endpoint in object["endpoints"].as_array().into_iter().flatten() {
                    let address = text(&endpoint["addresses"][0])?;
                    let dashed = address.replace(['.', ':'], "-");
                    let host = endpoint["hostname"].as_str().unwrap_or(&dashed);
                    sample.hosts.insert(format!("{host}.{cluster}"));
                    sample.hosts.insert(format!("{dashed}.{cluster}"));
                }
                sample.add_ports(&service, &object["ports"]);
                sample.clusters.insert(cluster);
            }
        }
        Ok(sample)
    }

    fn add_ports(&mut self, service: &str, ports: &Value) {
        for port in ports.as_array().into_iter().flatten() {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
            let name = port["name"].as_str().filter(|name| !name.is_empty());
            // A port without name: its number is no name.
            let name = name.map_or_else(|| port["port"].to_string(), str::to_owned);
            self.ports.insert(format!("_{name}._{protocol}.{service}"));
        }
    }
}

fn text(value: &Value) -> Result<&str> {
    value
        .as_str()
        .with_context(|| format!("{value} is no text"))
}

// === Questions ===

/// Returns names of the sample with all types, and changed names with some.
fn questions(sample: &Sample) -> BTreeSet<(String, &'static str)> {
    let mut names: BTreeSet<String> = ["", "svc", "pod", "dns-version", "dns", "ns.dns"]
        .map(str::to_owned)
        .into();
    let namespaces = sample
        .namespaces
        .iter()
        .chain([&"default".to_owned()])
        .cloned()
        .collect::<Vec<_>>();
    names.extend(
        namespaces
            .iter()
            .map(|namespace| format!("{namespace}.svc")),
    );
    let parts = [
        &sample.services,
        &sample.clusters,
        &sample.hosts,
        &sample.ports,
    ];
    names.extend(
        parts
            .into_iter()
            .flatten()
            .map(|part| format!("{part}.svc")),
    );
    // A port of a host and of a cluster.
    for (host, port) in sample.hosts.iter().zip(sample.ports.iter().cycle()) {
        let (port, _) = port.split_at(port.match_indices('.').nth(1).map_or(0, |(at, _)| at));
        names.insert(format!("{port}.{host}.svc"));
        names.insert(format!(
            "{port}.{}.svc",
            host.split_once('.').unwrap_or_default().1
        ));
    }
    let changes: BTreeSet<String> = names.iter().flat_map(|name| changes(name)).collect();
    let ask = |names: BTreeSet<String>, types: &[&'static str]| {
        let types = types.to_vec();
        names.into_iter().flat_map(move |name| {
            let types = types.clone().into_iter();
            types.map(move |rtype| (name.clone(), rtype))
        })
    };
    ask(names, &TYPES)
        .chain(ask(changes, &TYPES_OF_CHANGES))
        .collect()
}

/// Returns a name with each label removed, doubled, exchanged with the next one, replaced, in capitals, and without its
/// underscore; and names below it.
fn changes(name: &str) -> BTreeSet<String> {
    let labels = labels(name);
    let mut changed = BTreeSet::new();
    let mut add = |labels: &[&str]| {
        changed.insert(labels.join("."));
    };
    for at in 0..labels.len() {
        let (before, after) = (&labels[..at], &labels[at + 1..]);
        let label = labels[at];
        let capitals = label.to_uppercase();
        add(&[before, after].concat());
        add(&[before, &[label, label], after].concat());
        add(&[before, &["nope"], after].concat());
        add(&[before, &[capitals.as_str()], after].concat());
        add(&[before, &[label.trim_start_matches('_')], after].concat());
        if let [next, rest @ ..] = after {
            add(&[before, &[*next, label], rest].concat());
        }
    }
    add(&[&["nope"], &labels[..]].concat());
    add(&[&["_nope", "_tcp"], &labels[..]].concat());
    changed
}

// === Servers ===

fn start(cluster: &Cluster) -> Result<Pair> {
    let program = tool("coredns")?;
    grant(cluster)?;
    let global_dns = start_ready(cluster);
    let coredns = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let corefile = cluster.directory().join("Corefile-multicluster");
    fs::write(
        &corefile,
        format!(
            "clusterset.local:{} {{\n    bind {}\n    errors\n    kubernetes {{\n        kubeconfig {} coredns\n        \
             multicluster clusterset.local\n    }}\n}}\n",
            coredns.port(),
            coredns.ip(),
            cluster.kubeconfig.display(),
        ),
    )?;
    let mut start = guarded(&program);
    start.arg("-conf").arg(&corefile);
    let mut process = Process::start("coredns-multicluster", start)?;
    for server in [coredns, global_dns.dns] {
        eventually("the answers for all fixtures", || {
            process.check()?;
            let question = support::query::query(&format!("svc.{ZONE} A"));
            try_ask(server, &question, Transport::Tcp, TIMEOUT)?;
            for (name, address) in [
                ("db.prod.svc", "10.3.0.20"),
                ("web.prod.svc", "10.96.40.7"),
                ("db.shop.svc", "10.2.1.10"),
                ("db.dual.svc", "10.3.2.20"),
                ("web.dual.svc", "10.96.40.9"),
                ("web.ports.svc", "10.96.40.10"),
            ] {
                let got = outcome(server, name, "A")?;
                let is_complete = matches!(&got, Outcome::Data(data) if data.contains(address));
                ensure!(is_complete, "{name}: {got:?}");
            }
            Ok(())
        })
        .with_context(|| process.log_tail())?;
    }
    Ok(Pair {
        global_dns,
        coredns,
        _process: process,
    })
}

/// Grants the user of CoreDNS what its documentation asks for.
fn grant(cluster: &Cluster) -> Result<()> {
    let verbs = json!(["list", "watch"]);
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": verbs},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs},
        {"apiGroups": ["multicluster.x-k8s.io"], "resources": ["serviceimports"], "verbs": verbs},
    ]);
    cluster.put(&cluster_role("coredns", &rules))?;
    cluster.put(&cluster_role_binding("coredns", "coredns"))?;
    Ok(())
}
