//! `fleet`: reads the servers of several clusters, or the replicas of one, at the same time, and prints how they differ.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use futures::future::join_all;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::first_table::first_table;
use super::remote::table;
use crate::check::finding::text;
use crate::check::fleet::{Member, Replica, compare};
use crate::cli::{Api, Cluster, FleetArgs, Location, Place};
use crate::clock::unix_milliseconds;
use crate::log::error_chain;
use crate::settings::Settings;

/// Maximum number of replicas of a cluster that are read. A DaemonSet may have hundreds.
const MAX_REPLICAS: usize = 8;
/// The time after which clusters that differ are read again. They see a change at different times.
const SETTLING_TIME: Duration = Duration::from_secs(2);
/// The longest response whose date tells something about the clock of the server.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Compares clusters and prints the differences. The exit code is 1 if there is one.
pub(super) async fn compare_fleet(args: FleetArgs) -> anyhow::Result<ExitCode> {
    let places = args.places();
    let mut document = compare(&read(&args, &places).await);
    let is_running = |(_, place): &(String, Place)| !matches!(place, Place::Files(..));
    if document.exit != 0 && places.iter().any(is_running) {
        sleep(SETTLING_TIME).await;
        document = compare(&read(&args, &places).await);
    }
    args.print.print(document)
}

/// Reads clusters at the same time, each within the time of `--timeout`.
async fn read(args: &FleetArgs, places: &[(String, Place)]) -> Vec<Member> {
    let members = places.iter().map(async |(name, place)| {
        let late = format!(
            "no response within {:?} (--timeout) of the API server, the server, or the program that gives credentials",
            args.timeout
        );
        let read = timeout(args.timeout, read_place(args, place));
        let replicas = read.await.unwrap_or(Err(anyhow!(late)));
        Member {
            context: name.clone(),
            replicas: replicas.map_err(|error| error_chain(error.as_ref())),
        }
    });
    join_all(members).await
}

/// Reads the replicas of a cluster: all at once their statuses, then the tables of those that answer differently.
async fn read_place(args: &FleetArgs, place: &Place) -> anyhow::Result<Vec<Replica>> {
    let locations = match place {
        Place::Cluster(kubeconfig) => {
            let cluster = Arc::new(Cluster::open(kubeconfig, false).await?);
            let mut replicas = cluster.replicas(args.server_namespace.as_ref()).await?;
            replicas.truncate(MAX_REPLICAS);
            let location = |one| Location::Replica(cluster.clone(), one);
            let replicas = replicas.into_iter();
            let replicas = replicas.map(|one| (one.to_string(), one.uid.clone(), location(one)));
            replicas.collect()
        }
        Place::Server(url) => vec![(url.to_string(), String::new(), Location::Url(url.clone()))],
        Place::Files(name, source) => {
            let location = first_table(source, &Settings::of_cluster(name.clone())).await?;
            vec![("files".to_owned(), name.to_string(), location)]
        }
    };
    let locations = locations.into_iter();
    let read = locations.map(|(name, id, location)| read_status(name, id, Api::new(location)));
    read_tables(join_all(read).await).await
}

/// Reads the status of a replica, and the difference of its clock.
async fn read_status(name: String, id: String, mut api: Api) -> (Replica, anyhow::Result<Api>) {
    let (begin, sent) = (Instant::now(), unix_milliseconds());
    let status = api.status().await;
    let delay = begin.elapsed();
    let date = api.date.filter(|_| delay < MAX_DELAY);
    let mut replica = Replica {
        name,
        id,
        clock_ahead: date.map(|date| {
            let here = sent + delay.as_millis() as u64 / 2;
            (date.0 as i64 - here as i64) / 1000
        }),
        status: Err(String::new()),
        table: None,
    };
    let status = match status {
        Ok(status) => status,
        Err(error) => return (replica, Err(error)),
    };
    if replica.id.is_empty() {
        // The name of a pod is unique, and that of a host with the cluster and the start of the process.
        let parts = ["cluster", "replica", "historyStart"].map(|field| text(&status, field));
        replica.id = parts.join(" ");
        replica.name = parts[1].to_owned();
    }
    replica.status = Ok(status);
    (replica, Ok(api))
}

/// Reads the tables of the replicas that answer differently. Those with the hash of an earlier one have the same answers.
async fn read_tables(read: Vec<(Replica, anyhow::Result<Api>)>) -> anyhow::Result<Vec<Replica>> {
    let mut hashes: Vec<Value> = Vec::new();
    let mut replicas = Vec::with_capacity(read.len());
    let mut failure = anyhow!("no replica responds");
    for (mut replica, server) in read {
        let read = async {
            let mut server = server?;
            let status = replica.status.as_ref().ok().unwrap_or(&Value::Null);
            let hash = &status["tableHash"];
            let is_same = hash.is_null() && !hashes.is_empty() || hashes.contains(hash);
            if is_same || text(status, "state") == "loading" {
                return Ok(None);
            }
            hashes.push(hash.clone());
            table(&mut server).await.map(Some)
        };
        match read.await {
            Ok(table) => replica.table = table,
            Err(error) => {
                replica.status = Err(error_chain(error.as_ref()));
                failure = error;
            }
        }
        replicas.push(replica);
    }
    // Each has the same reason, or one of them is enough.
    match replicas.iter().any(|one| one.status.is_ok()) {
        true => Ok(replicas),
        false => Err(failure),
    }
}
