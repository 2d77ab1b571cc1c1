//! The poll of the Leases of mirror controllers (rule L1).
//!
//! Each controller renews its Lease every two seconds. A watch would carry each renewal to each replica. A list from the memory
//! of the API server every ten seconds is cheap.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use tokio::time::sleep;
use tracing::debug;

use super::super::backoff::{Backoff, jittered};
use super::super::{Feeds, Update, Updates};
use super::failure::{Failure, LIST_GROWTH, LIST_PAUSE};
use super::requests::{ApiServer, list_few};
use crate::model::{KubeObject, Lease, Namespace, ObjectKey};
use crate::table::links::LeasePoll;

/// Interval between two polls.
const INTERVAL: Duration = Duration::from_secs(10);
/// Interval while the Leases of no namespace may be read.
const REFUSED_INTERVAL: Duration = Duration::from_secs(60);
/// Number of failed polls in a row after which a problem says so.
const MAX_FAILURES: u32 = 3;
/// Maximum time for the list of a namespace.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Polls the Leases in the namespaces of the Links until it is dropped. A poll that fails is skipped: the age of a Lease is
/// known only while polls succeed.
pub(super) async fn poll_leases(server: Arc<ApiServer>, feeds: Feeds, updates: Updates) {
    let links = feeds.links().into_iter();
    let namespaces: Vec<Namespace> = links.filter_map(|feed| feed.namespace).collect();
    if namespaces.is_empty() {
        return;
    }
    let mut backoff = Backoff::new(LIST_PAUSE, LIST_GROWTH);
    let mut failures = 0;
    loop {
        let (poll, pause) = match read(&server, &namespaces).await {
            Ok((leases, refused)) => {
                backoff.reset();
                failures = 0;
                let interval = if refused.len() == namespaces.len() {
                    REFUSED_INTERVAL
                } else {
                    INTERVAL
                };
                let refused = (!refused.is_empty()).then(|| refused.join("; ").into());
                let poll = LeasePoll::Read { leases, refused };
                (Some(poll), jittered(interval))
            }
            Err(failure) => {
                debug!(error = %failure, "Cannot list Leases");
                failures += 1;
                let poll = LeasePoll::Failed(failure.to_string().into());
                let poll = Some(poll).filter(|_| failures == MAX_FAILURES);
                (poll, failure.pause(&mut backoff))
            }
        };
        if let Some(poll) = poll {
            // Without a receiver, this poll is dropped.
            _ = updates.send(Update::Leases(poll)).await;
        }
        sleep(pause).await;
    }
}

/// Lists the Leases of all namespaces. Returns why some namespaces may not be read, too.
async fn read(
    server: &ApiServer,
    namespaces: &[Namespace],
) -> Result<(BTreeMap<ObjectKey, Lease>, Vec<String>), Failure> {
    let (mut leases, mut refused) = (BTreeMap::new(), Vec::new());
    for namespace in namespaces {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        // From the memory of the API server.
        let params = ListParams::default().match_any();
        let list = list_few(&server.client, &path, &params, TIMEOUT, |json| {
            leases.extend(Lease::read(&KubeObject::read(json)));
        });
        match list.await {
            Ok(()) => {}
            Err(
                failure @ Failure::Refused {
                    code: 403 | 404, ..
                },
            ) => {
                refused.push(format!("namespace {namespace}: {failure}"));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok((leases, refused))
}
