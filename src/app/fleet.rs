//! `fleet`: reads the servers of several clusters, or the replicas of one, at the same time, and prints how they differ.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::future::join_all;
use serde_json::Value;
use tokio::time::sleep;

use super::remote::MAX_REPLICAS;
use crate::check::cluster::list_links;
use crate::check::finding::{Fact, text};
use crate::check::fleet::{Member, ReplicaFacts, ServerTable, compare};
use crate::cli::{Cluster, FleetArgs, FleetTarget, KubeconfigArgs, note};
use crate::clock::unix_milliseconds;
use crate::http::{Api, within};
use crate::log::error_chain;
use crate::model::Timestamp;
use crate::view::{Filter, ViewKind};

/// The time after which clusters that differ are read again. They see a change at different times.
const SETTLING_TIME: Duration = Duration::from_secs(2);
/// Maximum time for a cluster.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time for the status of a replica. All are read twice, if one fails.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum time for the table of a replica.
const TABLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The servers of a cluster.
struct Servers {
    replicas: Vec<Api>,
    /// The Links. Empty: they may not be listed.
    links: Vec<Value>,
}

/// Compares clusters and prints the differences. The exit code is 1 if there is one. Servers that were not found are not looked for
/// again: a credential plugin runs once.
pub(super) async fn compare_fleet(args: FleetArgs) -> Result<ExitCode> {
    let places = args.places();
    let found = places
        .iter()
        .map(|place| in_time(find_servers(&args, place)));
    let found = join_all(found).await;
    let mut document = compare(&read(&places, &found).await);
    if document.exit != 0 {
        sleep(SETTLING_TIME).await;
        document = compare(&read(&places, &found).await);
    }
    args.print.print(document)
}

/// Reads the servers of all clusters at the same time.
async fn read(places: &[FleetTarget], found: &[Fact<Servers>]) -> Vec<Member> {
    let members = places.iter().zip(found).map(async |(place, found)| {
        let mut links = Vec::new();
        let replicas = match found {
            Ok(servers) => {
                links.clone_from(&servers.links);
                in_time(read_servers(&servers.replicas)).await
            }
            Err(why) => Err(why.clone()),
        };
        Member {
            context: place.name.clone(),
            replicas,
            links,
        }
    });
    join_all(members).await
}

/// Waits for a cluster for [`CLUSTER_TIMEOUT`].
async fn in_time<T>(response: impl Future<Output = Result<T>>) -> Fact<T> {
    let response = within(CLUSTER_TIMEOUT, response).await;
    response.map_err(|error| error_chain(error.as_ref()))
}

/// Reads the servers of a cluster: all statuses at once, then the tables of those that answer differently. Those with the hash of
/// an earlier one have the same answers.
async fn read_servers(servers: &[Api]) -> Result<Vec<ReplicaFacts>> {
    let mut replicas = join_all(servers.iter().map(async |api| {
        let asked = unix_milliseconds();
        let status = within(STATUS_TIMEOUT, api.status()).await;
        // The clock of this machine may step back meanwhile.
        let now = unix_milliseconds().max(asked);
        let mut times = status.iter().map(|status| text(status, "time"));
        let time = times
            .find_map(Timestamp::from_text)
            .map_or(asked, |time| time.0);
        ReplicaFacts {
            name: api.to_string(),
            status: status.map_err(|error| error_chain(error.as_ref())),
            clock_offset: (time.cast_signed() - time.clamp(asked, now).cast_signed()) / 1000,
            table: None,
        }
    }))
    .await;
    let mut hashes: Vec<Value> = Vec::new();
    for (api, replica) in servers.iter().zip(&mut replicas) {
        let Ok(status) = &replica.status else {
            continue;
        };
        let hash = &status["tableHash"];
        if hashes.contains(hash) || text(status, "state") == "loading" {
            continue;
        }
        hashes.push(hash.clone());
        match within(TABLE_TIMEOUT, read_table(api)).await {
            Ok(table) => replica.table = Some(table),
            Err(error) => replica.status = Err(error_chain(error.as_ref())),
        }
    }
    if !replicas.iter().any(|one| one.status.is_ok()) {
        // Each has the same reason, or one of them is enough.
        let why = replicas.pop().and_then(|one| one.status.err());
        bail!("{}", why.as_deref().unwrap_or("no replica responds"));
    }
    Ok(replicas)
}

/// Reads the table of a server, and its problems.
async fn read_table(server: &Api) -> Result<ServerTable> {
    let all = Filter::default();
    let (services, endpoints, problems) = tokio::try_join!(
        server.items(ViewKind::Table, &all),
        server.items(ViewKind::Endpoints, &all),
        server.items(ViewKind::Problems, &all)
    )?;
    Ok(ServerTable {
        services,
        endpoints,
        problems,
    })
}

/// Returns the servers of a cluster, and its Links if they may be listed.
async fn find_servers(args: &FleetArgs, place: &FleetTarget) -> Result<Servers> {
    if let Some(url) = &place.server {
        return Ok(Servers {
            replicas: vec![Api::Url(url.clone())],
            links: Vec::new(),
        });
    }
    let kubeconfig = KubeconfigArgs {
        kubeconfig: args.kubeconfig.clone(),
        context: place.context.clone(),
        ..KubeconfigArgs::default()
    };
    let cluster = Arc::new(Cluster::open(&kubeconfig, false).await?);
    let replicas = cluster.replicas(args.server_namespace.as_ref());
    let (replicas, links) = tokio::join!(replicas, list_links(&cluster.client));
    let (mut replicas, url) = (replicas?, cluster.url());
    let count = replicas.len();
    if count > MAX_REPLICAS {
        note(&format!(
            "{url}: {MAX_REPLICAS} of {count} replicas are compared"
        ));
    }
    replicas.truncate(MAX_REPLICAS);
    Ok(Servers {
        replicas,
        links: links.unwrap_or_default(),
    })
}
