//! The poll of the Leases of mirror controllers (rule L1).
//!
//! Each controller renews its Lease every two seconds. A watch would carry each renewal to each replica. A list from the memory
//! of the API server every ten seconds is cheap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use tokio::time::sleep;
use tracing::debug;

use super::super::backoff::{Backoff, jittered};
use super::super::{Feed, Feeds, Update, Updates, log_problem};
use super::requests::read_list;
use super::responses::{RequestFailure, within};
use crate::model::{Kind, KubeObject, Lease};
use crate::table::links::LeasePoll;

/// Interval between two polls.
const INTERVAL: Duration = Duration::from_secs(10);
/// Number of failed polls in a row after which a problem says so.
const MAX_FAILURES: u32 = 3;
/// Maximum time for the list of a namespace.
const TIMEOUT: Duration = Duration::from_secs(8);

/// Polls the Leases in the namespaces of the Links until it is dropped. A poll that fails is skipped: the age of a Lease is
/// known only while polls succeed.
pub(super) async fn poll_leases(client: &Client, feeds: &Feeds, updates: &Updates) {
    let mut links = feeds.all();
    links.retain(|feed| feed.kind == Kind::Link);
    if links.is_empty() {
        return;
    }
    let mut pauses = Backoff::default();
    let mut failures = 0;
    loop {
        let mut pause = jittered(INTERVAL);
        match read(client, &links).await {
            Ok(poll) => {
                pauses.reset();
                failures = 0;
                updates.send(Update::Leases(poll));
            }
            Err(failure) => {
                debug!(error = %failure, "Cannot list Leases");
                failures += 1;
                if let RequestFailure::Broken(reason) = &failure {
                    // An API server that hangs: a watch of it would be silent for long before that is noticed. The watch ends the problem.
                    let problems = links
                        .iter()
                        .filter_map(|feed| feeds.note_failure(feed, reason));
                    problems.for_each(|problem| log_problem(&problem));
                }
                pause = pauses.next().max(pause);
                if failures == MAX_FAILURES {
                    let problem = Some(failure.to_string().into());
                    let leases = None;
                    updates.send(Update::Leases(LeasePoll { leases, problem }));
                }
            }
        }
        sleep(pause).await;
    }
}

/// Lists the Leases of all namespaces. Namespaces that may not be read are a part of the result.
async fn read(client: &Client, links: &BTreeSet<Feed>) -> Result<LeasePoll, RequestFailure> {
    let mut leases = BTreeMap::new();
    let mut refused = Vec::new();
    for namespace in links.iter().filter_map(|feed| feed.namespace.as_ref()) {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        // From the memory of the API server.
        let request = Request::new(path).list(&ListParams::default().match_any())?;
        let take = |json: &str| leases.extend(Lease::read(&KubeObject::read(json)));
        match within(TIMEOUT, read_list(client, request, take)).await {
            Err(
                failure @ RequestFailure::Refused {
                    code: 403 | 404, ..
                },
            ) => refused.push(format!("namespace {namespace}: {failure}")),
            other => drop(other?),
        }
    }
    Ok(LeasePoll {
        leases: Some(leases),
        problem: (!refused.is_empty()).then(|| refused.join("; ").into()),
    })
}
