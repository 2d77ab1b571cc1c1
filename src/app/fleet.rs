//! `fleet`: reads the servers of several clusters, or the replicas of one, at the same time, and prints how they differ.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use http::Uri;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::first_table::first_table;
use crate::check::finding::text;
use crate::check::fleet::{Member, Replica, ReplicaTable, Unread, compare};
use crate::cli::{Api, Cluster, ClusterError, FleetArgs, KubeconfigArgs, Location};
use crate::clock::unix_milliseconds;
use crate::log::error_chain;
use crate::model::ClusterName;
use crate::settings::Settings;
use crate::view::{Filter, View};

/// Maximum number of replicas of a cluster that are read. A DaemonSet may have hundreds.
const MAX_REPLICAS: usize = 8;
/// The time after which clusters that differ are read again. They see a change at different times.
const SETTLING_TIME: Duration = Duration::from_secs(2);
/// The longest response whose date tells something about the clock of the server.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// What to do if a cluster cannot be read.
const HINT: &str = "the permissions of explain in this cluster suffice";
/// What to do if a server does not respond.
const SERVER_HINT: &str = "check the pod of the server and the network to it";

/// The place of a cluster.
enum Place {
    /// The replicas of a cluster, found through its API server.
    Cluster(KubeconfigArgs),
    /// The API of a server.
    Server(Uri),
    /// Files with the objects of the cluster.
    Files(ClusterName),
}

/// Compares clusters and prints the differences. The exit code is 1 if there is one.
pub(super) async fn compare_fleet(args: FleetArgs) -> anyhow::Result<ExitCode> {
    let places = places(&args);
    let read = places.iter().map(|place| read(&args, place));
    let mut members = join_all(read).await;
    let mut document = compare(&members);
    if document.exit != 0 {
        let again = places.iter().zip(&mut members).filter(|(place, member)| {
            member.replicas.is_ok() && !matches!(place.1, Place::Files(_))
        });
        let again: Vec<_> = again.collect();
        if !again.is_empty() {
            sleep(SETTLING_TIME).await;
            let again = again.into_iter();
            join_all(again.map(async |(place, member)| *member = self::read(&args, place).await))
                .await;
            document = compare(&members);
        }
    }
    args.print.print(document)
}

/// Returns the clusters of the flags with their names; without flags, that of the current context.
fn places(args: &FleetArgs) -> Vec<(String, Place)> {
    let place = |context: Option<&String>| {
        Place::Cluster(KubeconfigArgs {
            kubeconfig: args.kubeconfig.clone(),
            context: context.cloned(),
        })
    };
    let contexts = args
        .contexts
        .iter()
        .map(|context| (context.clone(), place(Some(context))));
    let servers = args
        .fleet_server
        .iter()
        .map(|(name, url)| (name.clone(), Place::Server(url.clone())));
    let mut files: Vec<&ClusterName> = args.fleet_file.iter().map(|(name, _)| name).collect();
    files.dedup();
    let files = files
        .into_iter()
        .map(|name| (name.to_string(), Place::Files(name.clone())));
    let mut places: Vec<_> = contexts.chain(servers).chain(files).collect();
    if places.is_empty() {
        places.push(("this cluster".to_owned(), place(None)));
    }
    places
}

/// Reads a cluster within the time of `--timeout`.
async fn read(args: &FleetArgs, (context, place): &(String, Place)) -> Member {
    let read = async {
        let servers = open(args, place).await?;
        let read = servers
            .into_iter()
            .map(|(server, name, id)| read_replica(server, name, id));
        read_tables(join_all(read).await).await
    };
    let replicas = timeout(args.timeout, read).await.unwrap_or_else(|_| {
        let hint = "check the connection to its API server and the program that gives credentials, or raise --timeout";
        Err(unread(format!("no response within {:?}", args.timeout), hint))
    });
    Member {
        context: context.clone(),
        replicas,
    }
}

fn unread(reason: impl Into<String>, hint: &str) -> Unread {
    Unread {
        reason: reason.into(),
        hint: hint.to_owned(),
    }
}

/// Returns the servers of a cluster, each with its name and its ID, if they are known. Files are read as a server with default
/// settings.
async fn open(args: &FleetArgs, place: &Place) -> Result<Vec<(Api, String, String)>, Unread> {
    match place {
        Place::Server(url) => {
            let server = Api::new(Location::Url(url.clone()));
            Ok(vec![(server, url.to_string(), String::new())])
        }
        Place::Files(name) => {
            let settings = Settings::of_cluster(name.clone());
            let server = first_table(&args.files_of(name), &settings).await;
            let server = server.map_err(|error| {
                unread(error_chain(error.as_ref()), "check the files of --file")
            })?;
            Ok(vec![(server, "files".to_owned(), name.to_string())])
        }
        Place::Cluster(kubeconfig) => {
            let opened = Cluster::open(kubeconfig, false).await;
            let cluster = Arc::new(opened.map_err(|error| unread(error_chain(&error), HINT))?);
            let replicas = cluster.replicas(args.server_namespace.as_ref()).await;
            let replicas = replicas.map_err(|error| unread(error.to_string(), HINT))?;
            let server = |replica: crate::cli::Replica| {
                let (name, id) = (replica.to_string(), replica.uid.clone());
                let location = Location::Replica(cluster.clone(), replica);
                (Api::new(location), name, id)
            };
            Ok(replicas
                .into_iter()
                .take(MAX_REPLICAS)
                .map(server)
                .collect())
        }
    }
}

/// Reads the status of a replica, and the difference of its clock.
async fn read_replica(mut server: Api, name: String, id: String) -> (Replica, Api) {
    let (begin, sent) = (Instant::now(), unix_milliseconds());
    let status = server.status().await;
    let delay = begin.elapsed();
    let date = server.date().filter(|_| delay < MAX_DELAY);
    let clock_ahead = date.map(|date| {
        let here = sent + delay.as_millis() as u64 / 2;
        (date.0 as i64 - here as i64) / 1000
    });
    let status = status.map_err(|error| {
        let hint = if error.is::<ClusterError>() {
            HINT
        } else {
            SERVER_HINT
        };
        unread(error_chain(error.as_ref()), hint)
    });
    let replica = Replica {
        name,
        id,
        status,
        clock_ahead,
        table: None,
    };
    (replica, server)
}

/// Reads the tables of the replicas that answer differently. Those with the hash of an earlier one have the same answers.
async fn read_tables(read: Vec<(Replica, Api)>) -> Result<Vec<Replica>, Unread> {
    let mut hashes: Vec<Value> = Vec::new();
    let mut replicas = Vec::with_capacity(read.len());
    for (mut replica, mut server) in read {
        if let Ok(status) = &replica.status {
            if replica.id.is_empty() {
                // The name of a pod is unique, and that of a host with the cluster and the start of the process.
                let parts = ["cluster", "replica", "historyStart"].map(|field| text(status, field));
                replica.id = parts.join(" ");
                replica.name = parts[1].to_owned();
            }
            let hash = &status["tableHash"];
            let is_same = hash.is_null() && !hashes.is_empty() || hashes.contains(hash);
            if is_same || text(status, "state") == "loading" {
                replicas.push(replica);
                continue;
            }
            hashes.push(hash.clone());
            match table(&mut server).await {
                Ok(table) => replica.table = Some(table),
                Err(error) => {
                    replica.status = Err(unread(error_chain(error.as_ref()), SERVER_HINT))
                }
            }
        }
        replicas.push(replica);
    }
    // Each has the same reason, or one of them is enough.
    let is_read = |one: &Replica| one.table.is_some() || one.status.is_ok();
    match replicas.iter().any(is_read) {
        true => Ok(replicas),
        false => Err(replicas
            .into_iter()
            .find_map(|one| one.status.err())
            .unwrap_or_else(|| unread("no replica responds", HINT))),
    }
}

/// Reads the table of a server.
async fn table(server: &mut Api) -> anyhow::Result<ReplicaTable> {
    let all = Filter::default();
    Ok(ReplicaTable {
        services: server.items(View::Table, &all).await?,
        endpoints: server.items(View::Endpoints, &all).await?,
        problems: server.items(View::Problems, &all).await?,
    })
}
