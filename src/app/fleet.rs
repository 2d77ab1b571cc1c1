//! `fleet`: reads the servers of several clusters at the same time, and prints how they differ.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::IsTerminal as _;
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

use super::api::Api;
use super::command_log::log_to_stderr;
use super::diagnose::api_server::read_gateways;
use super::first_table::first_table;
use super::output::{print, print_to_stderr, render};
use super::screen::{CLEAR_LINE, harmless};
use crate::VERSION;
use crate::check::fleet::{Member, MemberFacts, ReplicaFacts, ReplicaStatus, ServerTable, compare};
use crate::check::{Fact, NotChecked};
use crate::cli::{Cluster, FleetArgs, KubeAccess, Replica, ReplicaError};
use crate::clock::unix_milliseconds;
use crate::log::error_chain;
use crate::model::{ClusterName, Namespace, Timestamp};
use crate::report::{ClusterReport, KnownItems, Report, SchemaVersion};
use crate::settings::Settings;

/// Maximum number of replicas of a cluster that are read. A DaemonSet may have hundreds.
const MAX_REPLICAS: usize = 8;
/// The time after which clusters that differ are read again. They see a change at different times.
const SETTLING_TIME: Duration = Duration::from_secs(2);
/// The longest response whose date tells something about the clock of the server.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The namespace of Links, and of the gateway, by default.
const LINKS_NAMESPACE: &str = "linkerd-multicluster";
/// What to do if a cluster cannot be read.
const HINT: &str = "the permissions of explain in this cluster suffice";
/// What to do if a document cannot be parsed.
const VERSION_HINT: &str =
    "install the same version of global-dns in every cluster, and use this version here";

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
    let mut fleet = compare(&members);
    if !fleet.diagnosis.is_success() {
        let can_change = |(place, member): &(&(String, Place), &Member)| {
            member.facts.is_ok() && !matches!(place.1, Place::Files(_))
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
            fleet = compare(&members);
        }
    }
    let colors = args.color.colors();
    print(&render(args.output, colors, &fleet, |style| {
        fleet.to_text(style)
    })?)?;
    Ok(if fleet.diagnosis.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the clusters of the flags with their names.
fn places(args: &FleetArgs) -> Vec<(String, Place)> {
    let context = |context: &String| {
        let access = KubeAccess::Kubeconfig {
            path: args.kubeconfig.clone(),
            context: Some(context.clone()),
        };
        let place = Place::Cluster(access, args.server_namespace.clone());
        (context.clone(), place)
    };
    let contexts = args.contexts.iter().map(context);
    let servers = args
        .fleet_server
        .iter()
        .map(|(name, url)| (name.clone(), Place::Server(url.clone())));
    let mut files: Vec<&ClusterName> = Vec::new();
    for (name, _) in &args.fleet_file {
        if !files.contains(&name) {
            files.push(name);
        }
    }
    let files = files
        .into_iter()
        .map(|name| (name.to_string(), Place::Files(name.clone())));
    contexts.chain(servers).chain(files).collect()
}

/// Reads clusters at the same time, each within the time of `--timeout`.
async fn read(args: &Arc<FleetArgs>, places: &[(String, Place)]) -> Vec<Member> {
    let names = places.iter().map(|(name, _)| name.as_str());
    let missing = &RefCell::new(names.collect::<BTreeSet<&str>>());
    show_missing(&missing.borrow());
    let members = places.iter().map(|(name, place)| async move {
        let facts = read_in_thread(args, place.clone()).await;
        missing.borrow_mut().remove(name.as_str());
        show_missing(&missing.borrow());
        Member {
            context: name.clone(),
            facts,
        }
    });
    join_all(members).await
}

/// Names the clusters that are not read yet in a line on a terminal.
fn show_missing(missing: &BTreeSet<&str>) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let names = harmless(&crate::model::list_some(missing, 5));
    let line = if missing.is_empty() {
        CLEAR_LINE.to_owned()
    } else {
        format!("{CLEAR_LINE}reading {names}")
    };
    print_to_stderr(&line);
}

/// Reads a cluster in a thread of its own: a program that gives credentials may block it. The process does not wait for the
/// thread at its end.
async fn read_in_thread(args: &Arc<FleetArgs>, place: Place) -> Fact<MemberFacts> {
    let (sender, receiver) = oneshot::channel();
    let (runtime, limit, args) = (Handle::current(), args.timeout, Arc::clone(args));
    thread::spawn(move || {
        let facts = runtime.block_on(async {
            match place {
                Place::Cluster(access, namespace) => read_cluster(access, namespace.as_ref()).await,
                Place::Server(url) => read_server(&url).await,
                Place::Files(name) => read_files(&args, &name).await,
            }
        });
        // Nobody waits any more after the time limit.
        let _ = sender.send(facts);
    });
    match timeout(limit, receiver).await {
        Ok(Ok(facts)) => facts,
        Ok(Err(_)) => Err(NotChecked::new("reading it failed", HINT)),
        Err(_) => {
            let reason = format!("no response within {limit:?}");
            let hint = "check the connection to its API server and the program that gives credentials, or raise --timeout";
            Err(NotChecked::new(reason, hint))
        }
    }
}

/// Reads the replicas of a cluster.
async fn read_cluster(access: KubeAccess, namespace: Option<&Namespace>) -> Fact<MemberFacts> {
    let opened = Cluster::open(access).await;
    let cluster = Arc::new(opened.map_err(|error| NotChecked::new(error_chain(&error), HINT))?);
    let replicas = cluster.replicas(namespace).await.map_err(not_read)?;
    let read = replicas.iter().take(MAX_REPLICAS);
    let read = join_all(read.map(|replica| read_replica(&cluster, replica))).await;
    let (mut apis, facts): (Vec<_>, Vec<_>) = read.into_iter().unzip();
    let is_current =
        |facts: &ReplicaFacts| facts.status.as_ref().is_ok_and(ReplicaStatus::is_current);
    let index = facts
        .iter()
        .position(is_current)
        .or_else(|| facts.iter().position(|one| one.status.is_ok()));
    match index.and_then(|index| Some((index, apis[index].as_mut()?))) {
        Some((index, api)) => {
            let namespaces = Vec::from_iter(LINKS_NAMESPACE.parse());
            let gateways = read_gateways(&cluster, &[], &namespaces);
            let (facts, gateways) = tokio::join!(member(api, facts, index), gateways);
            Ok(MemberFacts { gateways, ..facts? })
        }
        // Each has the same reason, or one of them is enough.
        None => Err(facts
            .into_iter()
            .find_map(|one| one.status.err())
            .unwrap_or_else(|| NotChecked::new("no replica responds", HINT))),
    }
}

/// Reads the status of a replica.
async fn read_replica(cluster: &Arc<Cluster>, replica: &Replica) -> (Option<Api>, ReplicaFacts) {
    let mut api = Api::of_replica(cluster, replica).await.map_err(not_read);
    let (status, clock_ahead) = match &mut api {
        Ok(api) => status_of(api).await,
        Err(why) => (Err(why.clone()), None),
    };
    let facts = ReplicaFacts {
        name: replica.to_string(),
        id: Some(replica.uid.clone()).filter(|id| !id.is_empty()),
        status,
        clock_ahead,
    };
    (api.ok(), facts)
}

/// Reads a server at a URL.
async fn read_server(url: &Uri) -> Fact<MemberFacts> {
    let mut api = Api::at(url);
    let (status, clock_ahead) = status_of(&mut api).await;
    let status = status?;
    let replica = ReplicaFacts {
        name: status.replica.clone(),
        id: None,
        status: Ok(status),
        clock_ahead,
    };
    member(&mut api, vec![replica], 0).await
}

/// Reads the status of a server, and the difference of its clock in seconds.
async fn status_of(api: &mut Api) -> (Fact<ReplicaStatus>, Option<i64>) {
    let (begin, sent) = (Instant::now(), unix_milliseconds());
    let (text, date) = match api.get_with_date("/api/v1/status").await {
        Ok(received) => received,
        Err(error) => return (Err(not_responding(&error)), None),
    };
    let delay = begin.elapsed();
    let date = date.as_deref().and_then(Timestamp::from_http_date);
    let ahead = date.filter(|_| delay < MAX_DELAY).map(|date| {
        let here = sent + delay.as_millis() as u64 / 2;
        (date.0 as i64 - here as i64) / 1000
    });
    let status = serde_json::from_str(&text).map_err(|error| {
        let document: Value = serde_json::from_str(&text).unwrap_or_default();
        let version = document["version"].as_str();
        let version = version.map_or_else(String::new, |version| {
            format!("its server has version {version}: ")
        });
        NotChecked::new(
            format!("{version}cannot parse its status: {error}"),
            VERSION_HINT,
        )
    });
    (status, ahead)
}

/// Reads the table of the replica with this index.
async fn member(api: &mut Api, replicas: Vec<ReplicaFacts>, index: usize) -> Fact<MemberFacts> {
    let status = replicas[index].status.clone()?;
    let text = api
        .get("/api/v1/table?output=json")
        .await
        .map_err(|error| not_responding(&error))?;
    let table = serde_json::from_str(&text).map_err(|error| {
        NotChecked::new(format!("cannot parse its table: {error}"), VERSION_HINT)
    })?;
    Ok(MemberFacts {
        status,
        table,
        replicas,
        gateways: Err(NotChecked::new("no API server is given", "set --contexts")),
    })
}

/// Reads the objects of files, as a server with default settings.
async fn read_files(args: &FleetArgs, name: &ClusterName) -> Fact<MemberFacts> {
    let read = async {
        let settings = Settings::of_cluster(name.clone());
        let table = first_table(&args.files_of(name), &settings).await?;
        let (zones, now) = (settings.zones(&[]), table.reader.load());
        let report = Report::new(&zones, &now);
        let status = ReplicaStatus {
            schema_version: SchemaVersion,
            version: VERSION.to_owned(),
            cluster: name.to_string(),
            replica: "files".to_owned(),
            zones: report.zones,
            state: "ready".to_owned(),
            since: None,
            table_hash: None,
            clusters: ClusterReport::all(name, now.table.as_ref()),
        };
        let replica = ReplicaFacts {
            name: "files".to_owned(),
            id: None,
            status: Ok(status.clone()),
            clock_ahead: None,
        };
        anyhow::Ok(MemberFacts {
            status,
            table: ServerTable {
                schema_version: SchemaVersion,
                services: report.services,
                problems: KnownItems(report.problems),
            },
            replicas: vec![replica],
            gateways: Err(NotChecked::new("no API server is given", "set --contexts")),
        })
    };
    let hint = "check the files of --file";
    read.await
        .map_err(|error| NotChecked::new(error_chain(error.as_ref()), hint))
}

fn not_read(error: ReplicaError) -> NotChecked {
    NotChecked::new(error.to_string(), HINT)
}

fn not_responding(error: &anyhow::Error) -> NotChecked {
    NotChecked::new(
        error_chain(error.as_ref()),
        "check the pod of the server and the network to it",
    )
}
