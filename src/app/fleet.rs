//! `fleet`: reads the servers of several clusters, or the replicas of one, at the same time, and prints how they differ.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures::future::join_all;
use http::Uri;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::command_log::log_to_stderr;
use super::remote::{Remote, RunningServer};
use crate::check::finding::text;
use crate::check::fleet::{Member, Replica, ReplicaTable, Unread, compare};
use crate::cli::{Api, Cluster, FleetArgs, Form, KubeAccess, KubeconfigArgs};
use crate::clock::unix_milliseconds;
use crate::log::error_chain;
use crate::model::{ClusterName, Namespace};
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
#[derive(Clone, Debug)]
enum Place {
    /// The replicas of a cluster, found through its API server, in a namespace.
    Cluster(KubeAccess, Option<Namespace>),
    /// The API of a server.
    Server(Uri),
    /// Files with the objects of the cluster.
    Files(ClusterName),
}

/// Compares clusters and prints the differences. The exit code is 1 if there is one.
pub(super) async fn compare_fleet(args: FleetArgs) -> anyhow::Result<ExitCode> {
    log_to_stderr(&args.log)?;
    let args = Arc::new(args);
    let places = places(&args);
    let mut members = read(&args, &places).await;
    let mut document = compare(&members);
    if document.exit != 0 {
        let can_change = |(place, member): &(&(String, Place), &Member)| {
            member.replicas.is_ok() && !matches!(place.1, Place::Files(_))
        };
        let again = places.iter().zip(&members).filter(can_change);
        let again: Vec<_> = again.map(|(place, _)| place.clone()).collect();
        if !again.is_empty() {
            sleep(SETTLING_TIME).await;
            for later in read(&args, &again).await {
                let mut earlier = members.iter_mut();
                if let Some(earlier) = earlier.find(|one| one.context == later.context) {
                    *earlier = later;
                }
            }
            document = compare(&members);
        }
    }
    let exit = document.exit;
    Form::new(args.output, &args.color).print(document)?;
    Ok(ExitCode::from(exit))
}

/// Returns the clusters of the flags with their names; without flags, that of the current context.
fn places(args: &FleetArgs) -> Vec<(String, Place)> {
    let place = |context: Option<&String>| {
        let kubeconfig = KubeconfigArgs {
            kubeconfig: args.kubeconfig.clone(),
            context: context.cloned(),
        };
        Place::Cluster(kubeconfig.access(), args.server_namespace.clone())
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

/// Reads clusters at the same time, each within the time of `--timeout`.
async fn read(args: &Arc<FleetArgs>, places: &[(String, Place)]) -> Vec<Member> {
    let members = places.iter().map(async |(name, place)| Member {
        context: name.clone(),
        replicas: read_in_thread(args, place.clone()).await,
    });
    join_all(members).await
}

/// Reads a cluster in a thread of its own: a program that gives credentials may block it. The process does not wait for the
/// thread at its end.
async fn read_in_thread(args: &Arc<FleetArgs>, place: Place) -> Result<Vec<Replica>, Unread> {
    let (sender, receiver) = oneshot::channel();
    let (runtime, limit, args) = (Handle::current(), args.timeout, Arc::clone(args));
    thread::spawn(move || {
        let replicas = runtime.block_on(async {
            match place {
                Place::Cluster(access, namespace) => read_cluster(access, namespace.as_ref()).await,
                Place::Server(url) => {
                    let server = running(Api::at(&url));
                    let replica = read_replica(Ok(server), url.to_string(), String::new()).await;
                    read_tables(vec![replica]).await
                }
                Place::Files(name) => read_files(&args, &name).await,
            }
        });
        // Nobody waits any more after the time limit.
        let _ = sender.send(replicas);
    });
    match timeout(limit, receiver).await {
        Ok(Ok(replicas)) => replicas,
        Ok(Err(_)) => Err(unread("reading it failed", HINT)),
        Err(_) => Err(unread(
            format!("no response within {limit:?}"),
            "check the connection to its API server and the program that gives credentials, or raise --timeout",
        )),
    }
}

fn running(api: Api) -> Remote {
    Remote::Running(Box::new(RunningServer::with_api(api)))
}

fn unread(reason: impl Into<String>, hint: &str) -> Unread {
    Unread {
        reason: reason.into(),
        hint: hint.to_owned(),
    }
}

/// Reads the replicas of a cluster.
async fn read_cluster(
    access: KubeAccess,
    namespace: Option<&Namespace>,
) -> Result<Vec<Replica>, Unread> {
    let opened = Cluster::open(access).await;
    let cluster = Arc::new(opened.map_err(|error| unread(error_chain(&error), HINT))?);
    let replicas = cluster.replicas(namespace).await;
    let replicas = replicas.map_err(|error| unread(error.to_string(), HINT))?;
    let read = replicas.iter().take(MAX_REPLICAS).map(async |replica| {
        let api = Api::of_replica(&cluster, replica).await;
        let api = api
            .map(running)
            .map_err(|error| unread(error.to_string(), HINT));
        read_replica(api, replica.to_string(), replica.uid.clone()).await
    });
    read_tables(join_all(read).await).await
}

/// Reads the status of a replica, and the difference of its clock.
async fn read_replica(
    server: Result<Remote, Unread>,
    name: String,
    id: String,
) -> (Replica, Option<Remote>) {
    let mut replica = Replica {
        name,
        id,
        status: Err(unread("it was not asked", HINT)),
        clock_ahead: None,
        table: None,
    };
    let mut server = match server {
        Ok(server) => server,
        Err(why) => {
            replica.status = Err(why);
            return (replica, None);
        }
    };
    let (begin, sent) = (Instant::now(), unix_milliseconds());
    let status = server.status().await;
    let delay = begin.elapsed();
    match status {
        Ok(status) => {
            let date = match &server {
                Remote::Running(server) => server.api.date(),
                Remote::InProcess { .. } => None,
            };
            replica.clock_ahead = date.filter(|_| delay < MAX_DELAY).map(|date| {
                let here = sent + delay.as_millis() as u64 / 2;
                (date.0 as i64 - here as i64) / 1000
            });
            replica.status = Ok(status);
        }
        Err(error) => replica.status = Err(unread(error_chain(error.as_ref()), SERVER_HINT)),
    }
    (replica, Some(server))
}

/// Reads the tables of the replicas that answer differently. Those with the hash of an earlier one have the same answers.
async fn read_tables(read: Vec<(Replica, Option<Remote>)>) -> Result<Vec<Replica>, Unread> {
    let mut hashes: Vec<Value> = Vec::new();
    let mut replicas = Vec::with_capacity(read.len());
    for (mut replica, server) in read {
        if let (Ok(status), Some(mut server)) = (&replica.status, server) {
            let hash = &status["tableHash"];
            if hash.is_null() && !hashes.is_empty() || hashes.contains(hash) {
                replicas.push(replica);
                continue;
            }
            hashes.push(hash.clone());
            if replica.id.is_empty() {
                // The name of a pod is unique, and that of a host with the cluster and the start of the process.
                let parts = ["cluster", "replica", "historyStart"].map(|field| text(status, field));
                replica.id = parts.join(" ");
                replica.name = parts[1].to_owned();
            }
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
async fn table(server: &mut Remote) -> anyhow::Result<ReplicaTable> {
    let all = Filter::default();
    Ok(ReplicaTable {
        services: server.items(View::Table, &all).await?,
        endpoints: server.items(View::Endpoints, &all).await?,
        problems: server.items(View::Problems, &all).await?,
    })
}

/// Reads the objects of files, as a server with default settings.
async fn read_files(args: &FleetArgs, name: &ClusterName) -> Result<Vec<Replica>, Unread> {
    let settings = Settings::of_cluster(name.clone());
    let source = Remote::of_objects(&args.files_of(name), &settings).await;
    let source =
        source.map_err(|error| unread(error_chain(error.as_ref()), "check the files of --file"))?;
    let replica = read_replica(Ok(source), "files".to_owned(), name.to_string()).await;
    read_tables(vec![replica]).await
}
