//! `explain --all-replicas`: asks every ready replica, and prints how their explanations differ.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::future::join_all;
use http::StatusCode;
use tokio::time::{sleep, timeout};

use super::api::{Api, FailedRequest};
use super::first_table::ONE_SHOT_TIMING;
use super::flags::log_to_stderr;
use super::inspect::{question, served_explanation};
use super::origin::SETTLING_TIME;
use super::output::{print, render};
use crate::cli::ExplainArgs;
use crate::explain::{NoExplanation, ReplicaExplanation, ReplicaExplanations};
use crate::model::Timestamp;
use crate::source::kube::{Cluster, Replica};

/// Maximum time for one replica. All are asked at the same time.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(10);

/// Prints the explanations of a name by all replicas, and how they differ. The exit code is 1 if they do.
pub(super) async fn explain_by_all(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let ExplainArgs {
        name,
        view,
        output,
        color,
        at,
        what_if: _,      // it excludes this
        all_replicas: _, // selects this function
    } = args;
    log_to_stderr(&view.log)?;
    let question = &question(name, &view.source.namespace);
    let cluster = Arc::new(Cluster::open(view.source.kubeconfig.access(), ONE_SHOT_TIMING).await?);
    let replicas = cluster
        .replicas(view.server.server_namespace.as_ref())
        .await?;
    let ask = async || {
        let asked = replicas
            .iter()
            .map(|replica| ask(&cluster, replica, question, at));
        ReplicaExplanations::new(join_all(asked).await)
    };
    let mut all = ask().await;
    if !all.is_success() && at.is_none() {
        sleep(SETTLING_TIME).await;
        all = ask().await;
    }
    if all.explanation().is_none() {
        bail!(
            "no replica explains the name: {}",
            all.failures().join("; ")
        );
    }
    print(&render(output, color.colors(), &all, |style| {
        all.to_text(style)
    })?)?;
    Ok(if all.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn ask(
    cluster: &Arc<Cluster>,
    replica: &Replica,
    question: &str,
    at: Option<Timestamp>,
) -> ReplicaExplanation {
    let asked = async {
        let mut api = Api::of_replica(cluster, replica).await?;
        served_explanation(&mut api, question, at, None).await
    };
    let explanation = match timeout(REPLICA_TIMEOUT, asked).await {
        Ok(Ok(explanation)) => Ok(explanation),
        Ok(Err(error)) => Err(no_explanation(&error)),
        Err(_) => {
            let reason = format!("no response within {} s", REPLICA_TIMEOUT.as_secs());
            Err(NoExplanation::Failed(reason.into()))
        }
    };
    let Replica { namespace, pod, .. } = replica;
    ReplicaExplanation {
        pod: format!("{namespace}/{pod}"),
        explanation,
    }
}

/// Returns why there is no explanation. The API returns 404 only if its history begins after the time of the question.
fn no_explanation(error: &anyhow::Error) -> NoExplanation {
    let reason = format!("{error:#}").into();
    let failed = error.downcast_ref::<FailedRequest>();
    if failed.is_some_and(|failed| failed.status == StatusCode::NOT_FOUND) {
        NoExplanation::BeforeHistory(reason)
    } else {
        NoExplanation::Failed(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_whose_history_begins_later_has_not_failed() {
        for (status, is_success) in [(404, true), (400, false), (503, false)] {
            let error = FailedRequest {
                what: "/api/v1/explain of pod dns/dns-0".to_owned(),
                status: StatusCode::from_u16(status).unwrap(),
                text: "no".to_owned(),
            };
            let one = ReplicaExplanation {
                pod: "dns/dns-0".to_owned(),
                explanation: Err(no_explanation(&error.into())),
            };
            let all = ReplicaExplanations::new(vec![one]);
            assert_eq!(all.is_success(), is_success, "{status}");
        }
    }
}
