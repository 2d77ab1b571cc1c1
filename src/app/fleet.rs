//! `fleet`: reads the servers of several clusters, or the replicas of one, at the same time, and prints how they differ.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use futures::future::join_all;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

use super::told::table;
use crate::check::finding::text;
use crate::check::fleet::{Member, Replica, compare};
use crate::cli::{Cluster, FleetArgs, KubeconfigArgs, Place, note};
use crate::http::Api;
use crate::log::error_chain;

/// Maximum number of replicas of a cluster that are read. A DaemonSet may have hundreds.
const MAX_REPLICAS: usize = 8;
/// The time after which clusters that differ are read again. They see a change at different times.
const SETTLING_TIME: Duration = Duration::from_secs(2);
/// Maximum time for a cluster.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(30);

/// Compares clusters and prints the differences. The exit code is 1 if there is one.
pub(super) async fn compare_fleet(args: FleetArgs) -> anyhow::Result<ExitCode> {
    let places = args.places().into_iter();
    let places: Vec<_> = places
        .map(|(name, place)| (name, place, OnceCell::new()))
        .collect();
    let mut document = compare(&read(&args, &places).await);
    if document.exit != 0 {
        sleep(SETTLING_TIME).await;
        document = compare(&read(&args, &places).await);
    }
    args.print.print(document)
}

/// Reads clusters at the same time, each within [`CLUSTER_TIMEOUT`].
async fn read(args: &FleetArgs, places: &[(String, Place, OnceCell<Vec<Api>>)]) -> Vec<Member> {
    let members = places.iter().map(async |(name, place, servers)| {
        let late = format!(
            "no response within {CLUSTER_TIMEOUT:?} of the API server, the server, or the program that gives credentials"
        );
        let read = timeout(CLUSTER_TIMEOUT, async {
            let found = servers.get_or_try_init(|| find_servers(args, place));
            read_servers(found.await?).await
        });
        let replicas = read.await.unwrap_or(Err(anyhow!(late)));
        Member {
            context: name.clone(),
            replicas: replicas.map_err(|error| error_chain(error.as_ref())),
        }
    });
    join_all(members).await
}

/// Reads the servers of a cluster: all statuses at once, then the tables of those that answer differently. Those with the hash of
/// an earlier one have the same answers.
async fn read_servers(servers: &[Api]) -> anyhow::Result<Vec<Replica>> {
    let statuses = join_all(servers.iter().map(Api::status)).await;
    let mut hashes: Vec<Value> = Vec::new();
    let mut replicas = Vec::with_capacity(servers.len());
    let mut failure = anyhow!("no replica responds");
    for (api, status) in servers.iter().zip(statuses) {
        let read = async {
            let status = status?;
            let hash = &status["tableHash"];
            let is_same = hash.is_null() && !hashes.is_empty() || hashes.contains(hash);
            if is_same || text(&status, "state") == "loading" {
                return Ok((status, None));
            }
            hashes.push(hash.clone());
            let table = table(api).await?;
            anyhow::Ok((status, Some(table)))
        };
        let (status, table) = match read.await {
            Ok((status, table)) => (Ok(status), table),
            Err(error) => {
                let why = error_chain(error.as_ref());
                failure = error;
                (Err(why), None)
            }
        };
        replicas.push(Replica {
            name: api.to_string(),
            status,
            table,
        });
    }
    // Each has the same reason, or one of them is enough.
    match replicas.iter().any(|one| one.status.is_ok()) {
        true => Ok(replicas),
        false => Err(failure),
    }
}

/// Returns the servers of a cluster.
async fn find_servers(args: &FleetArgs, place: &Place) -> anyhow::Result<Vec<Api>> {
    Ok(match place {
        Place::Context(context) => {
            let kubeconfig = KubeconfigArgs {
                kubeconfig: args.kubeconfig.clone(),
                context: context.clone(),
            };
            let cluster = Arc::new(Cluster::open(&kubeconfig, false).await?);
            let mut replicas = cluster.replicas(args.server_namespace.as_ref()).await?;
            let (url, count) = (cluster.url(), replicas.len());
            if count > MAX_REPLICAS {
                note(&format!(
                    "{url}: {MAX_REPLICAS} of {count} replicas are compared"
                ));
            }
            replicas.truncate(MAX_REPLICAS);
            replicas
        }
        Place::Server(url) => vec![Api::Url(url.clone())],
    })
}
