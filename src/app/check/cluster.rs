//! What the API server says: its version, the permissions of the server, the pods, and objects that only `check` reads.

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Service};
use serde::Deserialize as _;
use serde_json::Value;

use crate::check::finding::{Check, Finding};
use crate::check::objects::{EXPORTED, GATEWAYS, Objects};
use crate::check::{permissions, pods};
use crate::cli::{CheckArgs, Cluster};
use crate::model::Namespace;

/// Reads all, at the same time. Returns the findings but those about objects, which are not read if the API server does not
/// answer. `settings` are those of the server, or of flags. The pods matter if none of them answers.
pub(super) async fn read(
    cluster: &Cluster,
    args: &CheckArgs,
    settings: &Value,
    has_server: bool,
) -> (Vec<Finding>, Option<Objects>) {
    let named = |of: &Value| Vec::<Namespace>::deserialize(&of["namespaces"]).unwrap_or_default();
    let (namespaces, mut links) = (named(settings), named(&settings["links"]));
    links.retain(|_| settings["links"]["enabled"] != false);
    let mut findings = Vec::new();
    let mut account = None;
    if !args.view.reads_objects() {
        let pods = cluster.pods(args.view.server.server_namespace.as_ref());
        let pods = pods.await.map(|(_, pods)| pods);
        let pods = pods.map_err(|error| error.to_string());
        account = pods.iter().flatten().next().map(pods::account);
        if !has_server {
            findings.push(match &pods {
                Ok(pods) => pods::check(pods),
                Err(why) => Finding::unknown(Check::Pods, why, "see the line above"),
            });
        }
    }
    let reviews = permissions::needed(&namespaces, &links);
    let reviews = join_all(reviews.into_iter().map(async |permission| {
        let allowed = cluster.is_allowed(account.as_ref(), &permission).await;
        (permission, allowed)
    }));
    let (version, reviews, objects) = tokio::join!(
        cluster.version(),
        reviews,
        read_objects(cluster, &namespaces, &links),
    );
    match version {
        Ok(version) => {
            let sentence = format!("the API server answers, Kubernetes {version}");
            findings.push(Finding::ok(Check::ApiServer, sentence));
            let account = match &account {
                Some((namespace, name)) => format!("ServiceAccount {namespace}/{name}"),
                None => cluster.origin.clone(),
            };
            findings.push(permissions::check(&account, &reviews));
            (findings, Some(objects))
        }
        Err(why) => {
            findings.push(unreachable(&why));
            (findings, None)
        }
    }
}

/// Makes the finding that the API server does not answer.
pub(super) fn unreachable(why: &str) -> Finding {
    let sentence = format!("cannot reach the API server: {why}");
    let hint = "check the kubeconfig (--kubeconfig, --context); in a pod: the token of its ServiceAccount, and its NetworkPolicy";
    Finding::failing(Check::ApiServer, sentence, hint)
}

/// Reads the objects.
async fn read_objects(cluster: &Cluster, namespaces: &[Namespace], links: &[Namespace]) -> Objects {
    // Without namespaces of links, there are no gateways.
    let gateways: &[&str] = if links.is_empty() { &[] } else { &[GATEWAYS] };
    let (services, all_links, gateways, all) = tokio::join!(
        cluster.select::<Service>(&[EXPORTED], namespaces),
        cluster.links(),
        cluster.select::<Deployment>(gateways, links),
        cluster.select::<KubeNamespace>(&[""], &[]),
    );
    let links = ("Link".to_owned(), all_links);
    Objects([services, links, gateways, all].into())
}
