//! The origin of the data of `explain`, `table` and `events`: a running server, or objects.
//!
//! Without flags, it is a ready replica, so that the flags of `serve` need not be repeated. If none can be reached, the
//! objects are read directly.

use std::io::Write as _;

use anyhow::{Context as _, anyhow};

use super::api::Api;
use super::first_table::{ONE_SHOT_TIMING, first_table};
use super::{access, zones};
use crate::admin::choose_zone;
use crate::cli::{ServerArgs, ViewArgs};
use crate::report::Report;
use crate::source::kube::{self, Cluster, ReplicaError};
use crate::table::publish::Reader;
use crate::zone::print::zone_file;

/// Maximum number of replicas that are tried. All of them rarely fail for different reasons.
const MAX_REPLICAS: usize = 3;

/// The origin of a command's data.
pub(super) enum Origin {
    /// A running server.
    Server(Box<Api>),
    /// The objects of a source.
    Objects(Reader),
}

// === impl Origin ===

impl Origin {
    /// Finds the server, or reads the first table of the objects.
    pub(super) async fn find(view: &ViewArgs) -> anyhow::Result<Self> {
        if !view.direct && view.source.file.is_empty() {
            match find_server(&view.server, access_of(view)).await? {
                Ok(api) => return Ok(Self::Server(Box::new(api))),
                // Reading the objects fails for the same reason, and reports it.
                Err(ReplicaError::NoApiServer { .. }) => {}
                Err(error) => note(&format!(
                    "{error}; reading the objects directly, with default flags (--direct takes the flags of serve)"
                )),
            }
        }
        first_table(&view.source, &view.model)
            .await
            .map(Self::Objects)
    }

    /// Finds another replica after the last one has failed. A command that has started with a server stays with servers.
    pub(super) async fn find_again(view: &ViewArgs) -> anyhow::Result<Self> {
        let found = find_server(&view.server, access_of(view)).await??;
        Ok(Self::Server(Box::new(found)))
    }

    /// Returns the report on the current table.
    pub(super) async fn report(&mut self, view: &ViewArgs) -> anyhow::Result<Report> {
        match self {
            Self::Server(api) => {
                let text = api.get("/api/v1/table").await?;
                serde_json::from_str(&text).context("cannot parse the table of the server")
            }
            Self::Objects(reader) => Ok(Report::new(&zones(&view.model, &[]), &reader.load())),
        }
    }

    /// Returns the current table as a zone file.
    pub(super) async fn zone_file(&mut self, view: &ViewArgs) -> anyhow::Result<String> {
        match self {
            Self::Server(api) => {
                let zone = match view.model.zone.as_slice() {
                    [zone] => format!("&zone={}", zone.name),
                    _ => String::new(),
                };
                let path = format!("/api/v1/table?output=zone{zone}");
                api.get(&path).await
            }
            Self::Objects(reader) => {
                let zones = zones(&view.model, &[]);
                let zone = choose_zone(&zones, None).map_err(|problem| anyhow!(problem))?;
                Ok(zone_file(&zones, zone, &reader.load()))
            }
        }
    }
}

fn access_of(view: &ViewArgs) -> kube::Access {
    let (kubeconfig, context) = (&view.source.kubeconfig, &view.source.context);
    access(kubeconfig.as_ref(), context.as_ref(), kube::Access::Auto)
}

/// Returns the API of the named server, or of a ready replica.
///
/// # Errors
///
/// If the kubeconfig cannot be used. The inner error: if no replica can be reached.
pub(super) async fn find_server(
    args: &ServerArgs,
    access: kube::Access,
) -> anyhow::Result<Result<Api, ReplicaError>> {
    if let Some(url) = &args.server {
        return Ok(Ok(Api::at(url)));
    }
    let mut cluster = Cluster::open(access, ONE_SHOT_TIMING).await?;
    let replicas = match cluster.replicas(args.server_namespace.as_ref()).await {
        Ok(replicas) => replicas,
        Err(error) => return Ok(Err(error)),
    };
    let mut last = ReplicaError::None(args.server_namespace.clone());
    for replica in replicas.into_iter().take(MAX_REPLICAS) {
        match Api::of_replica(cluster, replica).await {
            Ok(api) => return Ok(Ok(api)),
            Err((_, error @ ReplicaError::Forbidden { .. })) => return Ok(Err(error)),
            Err((same, error)) => (cluster, last) = (same, error),
        }
    }
    Ok(Err(last))
}

/// Prints a sentence to standard error. Ignores a stream that cannot be written.
pub(super) fn note(sentence: &str) {
    let _ = writeln!(std::io::stderr(), "note: {sentence}");
}
