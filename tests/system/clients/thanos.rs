//! Thanos: `thanos query` with `dns+` and with `dnssrv+`, over stores in the other clusters. All stores must be healthy.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use support::commands::tool;
use support::multicluster::Clusters;
use support::multicluster::plan::{ALL, CLUSTERS, EAST, NORTH, Service, WEST};
use support::networks::in_new_network;
use support::output::print_line;
use support::process::{Process, run_checked, run_tool};
use support::repository::repository;
use support::steps::Steps;
use support::wait::eventually;

use crate::clients::prometheus::request;
use crate::clients::scenario::client::{Client, Profile, Running, View};
use crate::clients::scenario::pod::Pod;

pub struct Thanos;

/// One `thanos query` for each view, with its HTTP address.
struct Started(Vec<(&'static str, Process)>);

/// The stores of the proof in three clusters.
static STORES: Service = Service {
    name: "store",
    port_numbers: &[("grpc", 50051)],
    first: 66,
};

/// The port of a store.
const PORT: u16 = 50051;

/// The name of each view, its configuration and the HTTP address of its program.
const WAYS: [(&str, &str, &str); 2] = [
    ("dns+", "thanos/dns.yml", "127.0.0.1:10911"),
    ("dnssrv+", "thanos/dnssrv.yml", "127.0.0.1:10912"),
];

/// Time of the only sample, in seconds since 1970.
const SAMPLE: u64 = 1_767_225_600;

const PAUSE: Duration = Duration::from_millis(50);
/// Time for which the answers must not change.
const UNCHANGED: Duration = Duration::from_secs(15);

// === impl Thanos ===

impl Client for Thanos {
    fn profile(&self) -> Profile {
        let setting = "`--store.sd-dns-interval` 5 s, and 5 s between two updates of the stores";
        let [(dns, ..), (srv, ..)] = WAYS;
        let views = vec![
            View::addresses(dns, setting),
            View::srv(srv, "_grpc._tcp.", setting),
        ];
        Profile::new("thanos", "Thanos", views)
    }

    fn version(&self) -> Result<String> {
        let output = run_tool("thanos", &["--version"]).output();
        // thanos, version 0.42.5 (branch: , revision: …)
        let version = output.split_whitespace().nth(2);
        Ok(version.context("no version")?.to_owned())
    }

    fn start_server(&self, pod: &Pod<'_>, cluster: usize) -> Result<Option<Process>> {
        start_store(pod.clusters, cluster).map(Some)
    }

    fn start(&self, pod: &Pod<'_>, service: &'static Service) -> Result<Box<dyn Running>> {
        let start = |(_, file, address)| {
            let process = start_query(pod, service, file, address)?;
            Ok((address, process))
        };
        let started = WAYS.into_iter().map(start).collect::<Result<_>>()?;
        Ok(Box::new(Started(started)))
    }
}

// === impl Started ===

impl Running for Started {
    fn seen(&mut self, _: &Pod<'_>, view: &View) -> Result<BTreeSet<String>> {
        let mut ways = WAYS.iter();
        let way = ways.find(|(name, ..)| *name == view.name);
        let (.., address) = way.context("an unknown view")?;
        let page = request(address, "/api/v1/stores")?;
        let stores = page["data"]["store"].as_array();
        let addresses = stores.into_iter().flatten().map(|store| {
            ensure!(store["lastError"].is_null(), "not healthy: {store}");
            let name = store["name"].as_str().context("no name")?;
            let (host, _) = name.rsplit_once(':').context("no port")?;
            Ok(host.to_owned())
        });
        addresses.collect()
    }

    fn process(&mut self) -> Option<&mut Process> {
        self.0.first_mut().map(|(_, process)| process)
    }
}

fn start_query(pod: &Pod<'_>, service: &Service, file: &str, address: &str) -> Result<Process> {
    let configuration = pod.configuration(file, service, &[])?;
    let mut command = pod.command("thanos")?;
    command
        .arg("query")
        .arg(format!(
            "--endpoint.sd-config-file={}",
            configuration.display()
        ))
        .arg(format!("--http-address={address}"))
        // The default is 30s.
        .arg("--store.sd-dns-interval=5s")
        // Another free port for each program.
        .arg("--grpc-address=127.0.0.1:0");
    Process::start(format!("thanos-query-{address}"), command)
}

// === Stores ===

/// Starts the store of a cluster. Its bucket has one sample.
fn start_store(clusters: &Clusters, cluster: usize) -> Result<Process> {
    let name = CLUSTERS[cluster].name;
    let folder = clusters.directory().join(format!("store-{name}"));
    let bucket = fill_bucket(clusters, cluster, &folder)?;
    let mut command = thanos(clusters, cluster)?;
    command
        .args(["store", "--http-address=127.0.0.1:10902"])
        .arg(format!("--grpc-address=0.0.0.0:{PORT}"))
        .arg(format!("--data-dir={}", folder.join("data").display()))
        .arg(format!("--objstore.config-file={}", bucket.display()));
    Process::start(format!("thanos-store-{name}"), command)
}

/// Writes a block with one sample to the bucket of a cluster, unless that is done. Returns the configuration of the
/// bucket.
fn fill_bucket(clusters: &Clusters, cluster: usize, folder: &PathBuf) -> Result<PathBuf> {
    let configuration = folder.join("bucket.yml");
    if configuration.exists() {
        return Ok(configuration);
    }
    fs::create_dir_all(folder)?;
    let samples = folder.join("samples");
    let name = CLUSTERS[cluster].name;
    fs::write(&samples, format!("backend 1 {SAMPLE}\n# EOF\n"))?;
    let blocks = folder.join("blocks");
    let mut create = clusters.pod_command(cluster, &tool("promtool")?)?;
    create.args(["tsdb", "create-blocks-from", "openmetrics"]);
    run_checked(create.arg(samples).arg(&blocks))?;
    let text = fs::read_to_string(repository("tests/system/clients/thanos/bucket.yml"))?;
    let bucket = folder.join("bucket").display().to_string();
    fs::write(&configuration, text.replace("BUCKET", &bucket))?;
    let mut upload = thanos(clusters, cluster)?;
    upload
        .args(["tools", "bucket", "upload-blocks"])
        .arg(format!("--label=cluster=\"{name}\""))
        .arg(format!("--path={}", blocks.display()))
        .arg(format!(
            "--objstore.config-file={}",
            configuration.display()
        ));
    run_checked(&mut upload)?;
    Ok(configuration)
}

fn thanos(clusters: &Clusters, cluster: usize) -> Result<Command> {
    clusters.pod_command(cluster, &tool("thanos")?)
}

// === Three clusters ===

/// Proves that queries in `east` read the stores of all three clusters, and of the others while a gateway is down.
pub fn prove_three_clusters() {
    in_new_network(|| {
        let mut steps = Steps::new("Thanos, three clusters");
        let mut started = None;
        steps.prerequisite("thanos: stores_and_queries_start_in_three_clusters", || {
            started = Some(start()?);
            Ok(())
        });
        let Some((mut processes, mut clusters)) = started else {
            return steps.finish();
        };
        let mut step = |fact: &str,
                        change: &mut dyn FnMut(&mut Clusters) -> Result<()>,
                        expected: &[usize]| {
            steps.prerequisite(fact, || {
                let began = Instant::now();
                let changed = change(&mut clusters);
                let result = changed.and_then(|()| wait_for_series(began, expected));
                let logs: Vec<String> = processes.iter_mut().map(|each| each.log_tail()).collect();
                clusters.with_logs(result).with_context(|| logs.join("\n"))
            });
        };
        let none = &mut |_: &mut Clusters| Ok(());
        step(
            "thanos: one_query_returns_the_series_of_three_clusters",
            none,
            &ALL,
        );
        let cut = &mut |clusters: &mut Clusters| clusters.cut(WEST);
        step(
            "thanos: a_lost_gateway_leaves_the_series_of_the_others",
            cut,
            &[EAST, NORTH],
        );
        let restore = &mut |clusters: &mut Clusters| clusters.restore();
        step("thanos: the_series_return_with_the_gateway", restore, &ALL);
        steps.finish();
    });
}

fn start() -> Result<(Vec<Process>, Clusters)> {
    let members = ALL.map(|cluster| STORES.member(cluster, 0));
    let clusters = Clusters::start(&members, &ALL)?;
    clusters.make_pods_ready()?;
    let mut processes = Vec::new();
    for cluster in ALL {
        processes.push(start_store(&clusters, cluster)?);
    }
    clusters.check_answer(EAST, &STORES, &ALL)?;
    let pod = Pod {
        clusters: &clusters,
    };
    for (_, file, address) in WAYS {
        processes.push(start_query(&pod, &STORES, file, address)?);
    }
    Ok((processes, clusters))
}

/// Waits until each way has the series of these clusters, and no others. Asserts that this does not change.
fn wait_for_series(began: Instant, clusters: &[usize]) -> Result<()> {
    let expected: BTreeSet<String> = clusters
        .iter()
        .map(|&cluster| CLUSTERS[cluster].name.to_owned())
        .collect();
    for (way, _, address) in WAYS {
        eventually("the series", || check_series(address, &expected))?;
        let seconds = began.elapsed().as_secs_f64();
        print_line(&format!("Thanos: {way}: {expected:?} after {seconds:.1} s"));
    }
    let began = Instant::now();
    while began.elapsed() < UNCHANGED {
        for (way, _, address) in WAYS {
            check_series(address, &expected).context(way)?;
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn check_series(address: &str, expected: &BTreeSet<String>) -> Result<()> {
    let answer = request(
        address,
        &format!("/api/v1/query?query=backend&time={SAMPLE}"),
    )?;
    let series = answer["data"]["result"].as_array();
    let cluster = |series: &Value| series["metric"]["cluster"].as_str().map(str::to_owned);
    let found: BTreeSet<String> = series.into_iter().flatten().filter_map(cluster).collect();
    ensure!(
        found == *expected,
        "it is {found:?}, expected {expected:?}: {answer}"
    );
    Ok(())
}
