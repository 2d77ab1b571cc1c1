//! The recipes of the manual at a real API server, through a real CoreDNS: a namespace for each cluster, two Links to one cluster,
//! regions, a database with a primary, and a load that moves in steps. The commands are those of the manual.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use support::cluster::Cluster;
use support::dig::dig_recursively;
use support::manual::Section;
use support::objects::{ClusterIp, Gateway, Mirror, gateway_mirror, local, mirror, namespace};
use support::output::print_line;
use support::process::Process;
use support::repository::repository;
use support::server::Server;
use support::steps::Steps;
use support::wait::eventually;
use support::wire::{Transport, ask};

use crate::e2e::manual::Shell;
use crate::e2e::recipes::start;
use support::node::{CLUSTER_DNS, GLOBAL_DNS, Node, dns};

/// Answers without a cache that are counted after each step of a move.
const DRAWS: usize = 1000;
/// Shorter delays than the defaults.
const FLAGS: [&str; 6] = [
    "--ns-address",
    GLOBAL_DNS,
    "--failover-delay",
    "1500ms",
    "--failback-delay",
    "3s",
];

/// The parts of one recipe. The drop ends the processes.
struct Bed<'c> {
    cluster: &'c Cluster,
    server: Server,
    _coredns: Process,
    shell: Shell<'c>,
}

pub fn run(steps: &mut Steps, cluster: &Cluster, node: &Node) {
    steps.forget_failed_prerequisite();
    let mut step = |fact: &str, flags: &[&str], check: fn(&Bed<'_>) -> Result<()>| {
        steps.step(fact, || {
            let bed = Bed::start(cluster, node, flags)?;
            bed.server.with_log(check(&bed))
        });
    };
    let alias = alias_flag();
    let alias = alias.as_deref().unwrap_or_default();
    step(
        "manual_unites_a_namespace_for_each_cluster",
        &[alias],
        check_alias,
    );
    step(
        "manual_chooses_one_of_two_links_to_a_cluster",
        &[],
        check_two_links,
    );
    step("manual_prefers_a_region", &[], check_regions);
    step("manual_moves_a_primary_by_hand", &[], check_primary);
    step("manual_moves_load_in_steps", &[], check_steps_of_a_drain);
}

// === impl Bed ===

impl<'c> Bed<'c> {
    fn start(cluster: &'c Cluster, node: &'c Node, flags: &[&str]) -> Result<Self> {
        for name in ["prod", "shop", "crdb-east", "crdb-west"] {
            cluster.put(&namespace(name))?;
            cluster.empty(name)?;
        }
        let server = start(cluster, 0, &[&FLAGS, flags].concat());
        node.set_endpoints(&[0])?;
        let etc = node.create_etc("manual")?;
        fs::copy(repository("coredns/Corefile"), etc.join("coredns/Corefile"))?;
        let mut coredns = node.start_coredns("coredns-manual", &etc, cluster)?;
        eventually("CoreDNS to answer", || {
            coredns.check()?;
            let output = dig_recursively(dns(CLUSTER_DNS), Transport::Udp, "global", "SOA")?;
            ensure!(output.status == "NOERROR", "{output:?}");
            Ok(())
        })?;
        let kubeconfig = cluster.kubeconfig.display().to_string();
        let shell = Shell::new(node, &kubeconfig, &server)?;
        Ok(Self {
            cluster,
            server,
            _coredns: coredns,
            shell,
        })
    }

    fn write(&self, objects: &[Value]) -> Result<()> {
        objects
            .iter()
            .try_for_each(|object| self.cluster.put(object).map(drop))
    }

    /// Writes a Service of this cluster that only decides, and waits until the server has seen it.
    fn decide(&self, namespace: &str, name: &str) -> Result<()> {
        self.write(&[local(namespace, name).without_selector().service()])
    }

    /// Waits until an uncached answer has exactly these addresses.
    fn wait_for(&self, name: &str, addresses: &[&str]) -> Result<()> {
        let question = format!("{name}.global. A");
        eventually(&question, || {
            let outcome = self.server.outcome(&question);
            ensure!(outcome == addresses.join(" "), "it is {outcome}");
            Ok(())
        })
    }
}

// === Recipes ===

/// Returns the flag of the aliases on the page, as the chart writes it.
fn alias_flag() -> Result<String> {
    let values = Section::read("recipes.md", "A namespace for each cluster")?.texts("yaml")?;
    let values: Value = serde_saphyr::from_str(&values[0])?;
    let aliases = values["aliases"].as_object().context("no aliases")?;
    let flags = aliases.iter().map(|(name, sources)| {
        let sources = sources.as_array().context("no list of services")?;
        let sources: Vec<&str> = sources.iter().filter_map(Value::as_str).collect();
        anyhow::Ok(format!("--alias={name}={}", sources.join("+")))
    });
    let [flag] = &flags.collect::<Result<Vec<String>>>()?[..] else {
        anyhow::bail!("not one alias");
    };
    Ok(flag.clone())
}

fn check_alias(bed: &Bed<'_>) -> Result<()> {
    let crdb = |cluster: &str, address: &str| {
        mirror(&format!("crdb-{cluster}"), "crdb", cluster).endpoint("crdb-0", &[address])
    };
    bed.write(&crdb("east", "10.96.10.1").writes())?;
    bed.write(&crdb("west", "10.96.20.1").writes())?;
    bed.shell.run_all(&Section::read(
        "recipes.md",
        "A namespace for each cluster",
    )?)
}

fn two_links(gateway: Gateway) -> [Mirror; 2] {
    let through = |link: &str, address: &str, gateway| {
        mirror("prod", "db", link).endpoint_behind(gateway, "db-0", &[address])
    };
    [
        through("east", "10.96.10.1", gateway),
        through("east-gw", "10.96.30.1", Gateway::Up),
    ]
}

fn check_two_links(bed: &Bed<'_>) -> Result<()> {
    let write = |gateway| {
        two_links(gateway)
            .iter()
            .try_for_each(|mirror| bed.write(&mirror.writes()))
    };
    write(Gateway::Up)?;
    bed.decide("prod", "db")?;
    let examples = Section::read("recipes.md", "Two Links to one cluster")?.examples()?;
    let [both, order, one, other] = &examples[..] else {
        anyhow::bail!("{} commands", examples.len());
    };
    for example in [both, order, one] {
        bed.shell.run(example)?;
    }
    write(Gateway::Down)?;
    bed.shell.run(other)?;
    // It comes back by itself.
    write(Gateway::Up)?;
    bed.shell.run(one)?;
    // With one name for both Links, the pod would be returned twice.
    let alias = ["--cluster-alias", "east-gw=east"];
    let server = Server::ready_of_cluster(&bed.cluster.kubeconfig, &alias);
    let name = "east.db.prod.global. A";
    let outcome = server.outcome(name);
    ensure!(outcome == "10.96.10.1 10.96.30.1", "{name}: {outcome}");
    Ok(())
}

/// Returns the mirrors of `shop/pay`, some of them behind gateways that are down.
fn pay(clusters: &[(&str, &str)], down: &[&str]) -> Vec<ClusterIp> {
    let mirror = |(cluster, address): &(&str, &str)| {
        let mirror = gateway_mirror("shop", "pay", cluster, address);
        if down.contains(cluster) {
            mirror.without_ready_endpoint()
        } else {
            mirror
        }
    };
    clusters.iter().map(mirror).collect()
}

fn check_regions(bed: &Bed<'_>) -> Result<()> {
    let clusters = [
        ("eu-1", "10.96.50.1"),
        ("eu-2", "10.96.50.2"),
        ("us-1", "10.96.50.3"),
    ];
    let write = |down: &[&str]| {
        let mirrors = pay(&clusters, down);
        mirrors
            .iter()
            .try_for_each(|mirror| bed.write(&mirror.writes()))
    };
    write(&[])?;
    bed.decide("shop", "pay")?;
    let examples = Section::read("recipes.md", "Regions")?.examples()?;
    let [order, both, other_order, other] = &examples[..] else {
        anyhow::bail!("{} commands", examples.len());
    };
    bed.shell.run(order)?;
    bed.shell.run(both)?;
    // As the text says: one cluster of the region alone, then the other region, and back.
    for (down, expected) in [
        (&["eu-1"][..], &["10.96.50.2"][..]),
        (&["eu-1", "eu-2"], &["10.96.50.3"]),
        (&[], &["10.96.50.1", "10.96.50.2"]),
    ] {
        write(down)?;
        bed.wait_for("pay.shop", expected)?;
    }
    bed.shell.run(other_order)?;
    bed.shell.run(other)
}

fn check_primary(bed: &Bed<'_>) -> Result<()> {
    let east = |gateway| {
        mirror("prod", "db", "east")
            .endpoint_behind(gateway, "db-0", &["10.96.10.1"])
            .endpoint_behind(gateway, "db-1", &["10.96.10.2"])
    };
    bed.write(&east(Gateway::Up).writes())?;
    bed.write(
        &mirror("prod", "db", "west")
            .endpoint("db-0", &["10.96.20.1"])
            .writes(),
    )?;
    bed.decide("prod", "db")?;
    let examples = Section::read("failover.md", "Primary and standby")?.examples()?;
    let [order, primary, other, standby, failing @ ..] = &examples[..] else {
        anyhow::bail!("{} commands", examples.len());
    };
    bed.shell.run(order)?;
    bed.shell.run(primary)?;
    // No other cluster takes over.
    bed.write(&east(Gateway::Down).writes())?;
    eventually("east to be down", || {
        let notes = bed.server.try_api("/api/v1/explain?name=db.prod.global")?["notes"].to_string();
        ensure!(notes.contains("east has been down"), "{notes}");
        Ok(())
    })?;
    bed.shell.run(primary)?;
    bed.shell.run(other)?;
    bed.shell.run(standby)?;
    // The way back, and the end of the order, as the text says.
    bed.write(&east(Gateway::Up).writes())?;
    bed.shell.output(
        "kubectl annotate service db --namespace prod global-dns/failover=east --overwrite",
    )?;
    bed.shell.run(primary)?;
    let end = "kubectl annotate service db --namespace prod global-dns/failover-";
    let page = fs::read_to_string(repository("charts/global-dns/docs/src/failover.md"))?;
    ensure!(page.contains(end), "the page has no {end}");
    bed.shell.output(end)?;
    bed.wait_for("db.prod", &["10.96.10.1", "10.96.10.2", "10.96.20.1"])?;
    ensure!(failing.len() == 2, "{} commands", failing.len());
    Ok(())
}

// === Weights ===

fn check_steps_of_a_drain(bed: &Bed<'_>) -> Result<()> {
    let addresses = [("east", "10.96.50.1"), ("west", "10.96.50.2")];
    for mirror in pay(&addresses, &[]) {
        bed.write(&mirror.writes())?;
    }
    bed.decide("shop", "pay")?;
    let examples =
        Section::read("failover.md", "Move load slowly to another cluster")?.examples()?;
    let mut moves = 0;
    for example in &examples {
        bed.shell.run(example)?;
        let Some(weights) = weights_of(&example.command) else {
            continue;
        };
        moves += 1;
        let shares = eventually("the shares", || check_shares(&weights, &addresses))?;
        print_line(&format!(
            "recipes: {weights:?} gives {shares:?} of {DRAWS} answers"
        ));
        check_behind_the_cache(&weights, &addresses)?;
    }
    ensure!(moves == 5, "{moves} steps");
    Ok(())
}

/// Returns the weights that a command sets.
fn weights_of(command: &str) -> Option<BTreeMap<String, u32>> {
    let order = command
        .strip_prefix("kubectl annotate ")?
        .split_once("global-dns/failover=")?
        .1;
    let order = order.split(' ').next()?;
    let weights = order.split('+').map(|part| {
        let (cluster, weight) = part.split_once('=')?;
        Some((cluster.to_owned(), weight.parse().ok()?))
    });
    weights.collect()
}

/// Counts uncached answers, each of one cluster. Asserts that the shares are those of the weights, within five standard deviations.
fn check_shares(
    weights: &BTreeMap<String, u32>,
    addresses: &[(&str, &str)],
) -> Result<BTreeMap<String, usize>> {
    let mut drawn: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..DRAWS {
        let reply = ask(dns(GLOBAL_DNS), "pay.shop.global. A", Transport::Udp);
        let [record] = &reply.answers[..] else {
            anyhow::bail!("{reply:?}");
        };
        let text = record.to_string();
        let mut known = addresses.iter();
        let cluster = known.find(|(_, address)| text.ends_with(address));
        let (cluster, _) = cluster.with_context(|| text.clone())?;
        *drawn.entry((*cluster).to_owned()).or_default() += 1;
    }
    let sum = f64::from(weights.values().sum::<u32>());
    for (cluster, weight) in weights {
        let share = f64::from(*weight) / sum;
        let expected = share * DRAWS as f64;
        let got = drawn.get(cluster).copied().unwrap_or_default() as f64;
        let limit = 5.0 * (expected * (1.0 - share)).sqrt();
        ensure!(
            (got - expected).abs() <= limit,
            "{cluster}: {got} of {DRAWS}, expected {expected}"
        );
    }
    Ok(drawn)
}

/// Asserts that CoreDNS has no answer of a drained cluster after its cache has expired.
fn check_behind_the_cache(
    weights: &BTreeMap<String, u32>,
    addresses: &[(&str, &str)],
) -> Result<()> {
    let allowed: Vec<&str> = addresses
        .iter()
        .filter(|(cluster, _)| weights.get(*cluster).is_some_and(|weight| *weight > 0))
        .map(|(_, address)| *address)
        .collect();
    eventually("the answer of CoreDNS", || {
        let output = dig_recursively(dns(CLUSTER_DNS), Transport::Udp, "pay.shop.global", "A")?;
        let [record] = &output.answer[..] else {
            anyhow::bail!("{output:?}");
        };
        ensure!(
            allowed.iter().any(|address| record.ends_with(address)),
            "{record}"
        );
        Ok(())
    })
}
