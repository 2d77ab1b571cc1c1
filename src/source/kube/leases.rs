//! The poll of the Leases of mirror controllers (rule L1).
//!
//! Each controller renews its Lease every two seconds. A watch would carry each renewal to each replica. A list from the memory
//! of the API server every ten seconds is cheap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::Request;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::super::backoff::{Backoff, jittered};
use super::super::{Feeds, Update, Updates};
use super::failure::{Failure, LIST_GROWTH, LIST_PAUSE};
use super::list::ListReader;
use super::requests::ApiServer;
use crate::log::error_chain;
use crate::model::{KubeObject, Lease, Namespace, ObjectKey};
use crate::table::links::LeasePoll;

/// Interval between two polls.
const INTERVAL: Duration = Duration::from_secs(10);
/// Interval while the Leases may not be read.
const REFUSED_INTERVAL: Duration = Duration::from_secs(60);
/// Number of failed polls in a row after which a problem says so.
const MAX_FAILURES: u32 = 3;
/// Maximum time for the list of a namespace.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Polls the Leases in the namespaces of the Links until the receiver of the updates is closed. A poll that fails is skipped: the
/// age of a Lease is known only while polls succeed.
pub(super) async fn poll_leases(server: Arc<ApiServer>, feeds: Feeds, updates: Updates) {
    let links = feeds.links().into_iter();
    let namespaces: Vec<Namespace> = links.filter_map(|feed| feed.namespace).collect();
    if namespaces.is_empty() {
        return;
    }
    let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
    let mut failures = 0;
    loop {
        let pause = match read(&server, &namespaces).await {
            Ok(poll) => {
                let interval = match &poll {
                    LeasePoll::Read(_) => INTERVAL,
                    LeasePoll::Refused(_) | LeasePoll::Failed(_) => REFUSED_INTERVAL,
                };
                if updates.send(Update::Leases(poll)).await.is_err() {
                    return;
                }
                backoff.reset();
                failures = 0;
                jittered(interval)
            }
            Err(failure) => {
                debug!(error = %failure, "Cannot list Leases");
                failures += 1;
                if failures == MAX_FAILURES {
                    let poll = LeasePoll::Failed(failure.to_string().into());
                    if updates.send(Update::Leases(poll)).await.is_err() {
                        return;
                    }
                }
                failure.pause(&mut backoff)
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = updates.closed() => return,
        }
    }
}

/// Lists the Leases of all namespaces.
async fn read(server: &ApiServer, namespaces: &[Namespace]) -> Result<LeasePoll, Failure> {
    let mut leases = BTreeMap::new();
    for namespace in namespaces {
        let list = timeout(TIMEOUT, list(server, namespace)).await;
        match list.unwrap_or(Err(Failure::Silent(TIMEOUT))) {
            Ok(read) => leases.extend(read),
            Err(Failure::Refused(code @ (403 | 404), reason)) => {
                let reason =
                    format!("namespace {namespace}: the API server returned {code}: {reason}");
                return Ok(LeasePoll::Refused(reason.into()));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(LeasePoll::Read(leases))
}

/// Lists the Leases of a namespace, from the memory of the API server.
async fn list(
    server: &ApiServer,
    namespace: &Namespace,
) -> Result<BTreeMap<ObjectKey, Lease>, Failure> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let request = Request::new(path)
        .list(&ListParams::default().match_any())
        .map_err(|error| Failure::Broken(error_chain(&error)))?;
    let text = server.client.request_text(request).await?;
    let mut leases = BTreeMap::new();
    let mut reader = ListReader::default();
    reader.read(text.as_bytes(), |json| {
        leases.extend(Lease::read(&KubeObject::read(json)));
    })?;
    reader.finish()?;
    Ok(leases)
}
