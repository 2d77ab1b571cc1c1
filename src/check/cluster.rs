//! What the API server says: its version, the permissions of the server, the pods, and objects that only `check` reads.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use hyper::Request as HttpRequest;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Service};
use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Resource};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::finding::{Check, Fact, Finding};
use super::objects::{EXPORTED, GATEWAYS, Objects};
use super::permissions::{self, Permission, Scope};
use super::pods;
use crate::model::{LINK_VERSIONS, Namespace};
use crate::source::kube::{Failure, within};

/// Maximum time for a request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads all, at the same time. Returns the findings but those about objects, which are not read if the API server does not
/// answer. `settings` are those of the server, or of flags. `pods` are those of the server, if one is looked for: the permissions are
/// those of their account, else those of the caller, `origin`. They matter if none of them answers.
pub async fn read(
    client: &Client,
    origin: &str,
    pods: Option<Fact<Vec<Value>>>,
    settings: &Value,
    has_server: bool,
) -> (Vec<Finding>, Option<Objects>) {
    let named = |of: &Value| Vec::<Scope>::deserialize(&of["namespaces"]).unwrap_or_default();
    let (mut namespaces, mut links) = (named(settings), named(&settings["links"]));
    if namespaces.is_empty() {
        namespaces.push(None);
    }
    links.retain(|_| settings["links"]["enabled"] != false);
    let account = pods.iter().flatten().flatten().next().map(pods::account);
    let of_pods = pods.filter(|_| !has_server).map(|pods| match pods {
        Ok(pods) => pods::check(&pods),
        Err(why) => Finding::unknown(Check::Pods, &why, "see the line above"),
    });
    let mut findings = Vec::from_iter(of_pods);
    let reviews = permissions::needed(&namespaces, &links);
    let reviews = join_all(reviews.into_iter().map(async |permission| {
        let allowed = is_allowed(client, account.as_ref(), &permission).await;
        (permission, allowed)
    }));
    let (version, reviews, objects) = tokio::join!(
        version(client),
        reviews,
        read_objects(client, &namespaces, &links),
    );
    match version {
        Ok(version) => {
            let sentence = format!("the API server answers, Kubernetes {version}");
            findings.push(Finding::ok(Check::ApiServer, sentence));
            let account = match &account {
                Some((namespace, name)) => format!("ServiceAccount {namespace}/{name}"),
                None => origin.to_owned(),
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
pub fn unreachable(why: &str) -> Finding {
    let sentence = format!("cannot reach the API server: {why}");
    let hint = "check the kubeconfig (--kubeconfig, --context); in a pod: the token of its ServiceAccount, and its NetworkPolicy";
    Finding::failing(Check::ApiServer, sentence, hint)
}

/// Reads the objects.
async fn read_objects(client: &Client, namespaces: &[Scope], links: &[Scope]) -> Objects {
    let (services, all_links, gateways, all) = tokio::join!(
        select::<Service>(client, EXPORTED, namespaces),
        list_links(client),
        select::<Deployment>(client, GATEWAYS, links),
        select::<KubeNamespace>(client, "", &[None]),
    );
    let links = ("Link".to_owned(), all_links);
    Objects([services, links, gateways, all].into())
}

/// Returns the version of the API server, for example `v1.33.4`.
async fn version(client: &Client) -> Fact<String> {
    let info = within(REQUEST_TIMEOUT, client.apiserver_version()).await;
    let info = info.map_err(|failure| failure.to_string())?;
    Ok(info.git_version)
}

/// Returns whether a ServiceAccount (namespace and name), or the caller, has a permission.
async fn is_allowed(
    client: &Client,
    account: Option<&(String, String)>,
    permission: &Permission,
) -> Fact<bool> {
    let mut spec = json!({"resourceAttributes": permission});
    let kind = match account {
        None => "SelfSubjectAccessReview",
        Some((namespace, name)) => {
            let accounts = "system:serviceaccounts";
            spec["user"] = json!(format!("system:serviceaccount:{namespace}:{name}"));
            let of_namespace = format!("{accounts}:{namespace}");
            spec["groups"] = json!([accounts, of_namespace, "system:authenticated"]);
            "SubjectAccessReview"
        }
    };
    let version = "authorization.k8s.io/v1";
    let path = format!("/apis/{version}/{}s", kind.to_lowercase());
    let review = json!({"apiVersion": version, "kind": kind, "spec": spec});
    let request = HttpRequest::post(path).body(review.to_string().into_bytes());
    let request = request.map_err(|error| error.to_string())?;
    let reviewed = within(REQUEST_TIMEOUT, client.request::<Value>(request)).await;
    let reviewed = reviewed.map_err(|failure| failure.to_string())?;
    Ok(reviewed["status"]["allowed"] == true)
}

/// Lists Links. There are none if the API server does not define that kind.
async fn list_links(client: &Client) -> Fact<Vec<Value>> {
    for version in LINK_VERSIONS {
        match list(client, format!("/apis/{version}/links"), "").await {
            Err(Failure::Refused { code: 404, .. }) => {}
            listed => return listed.map_err(|failure| failure.to_string()),
        }
    }
    Ok(Vec::new())
}

/// Lists the objects of a kind that a label selector selects. Returns them, or why they cannot be listed, with the name of the kind.
async fn select<K: Resource<DynamicType = ()>>(
    client: &Client,
    selector: &str,
    scopes: &[Scope],
) -> (String, Fact<Vec<Value>>) {
    let path = |scope: &Scope| K::url_path(&(), scope.as_ref().map(Namespace::as_str));
    let lists = scopes
        .iter()
        .map(|scope| list(client, path(scope), selector));
    let listed = try_join_all(lists).await.map(|lists| lists.concat());
    let listed = listed.map_err(|failure| failure.to_string());
    (K::kind(&()).into_owned(), listed)
}

/// Lists the objects at a path that a label selector selects.
///
/// # Errors
///
/// If the request fails, or the response is no list.
pub(crate) async fn list(
    client: &Client,
    path: String,
    selector: &str,
) -> Result<Vec<Value>, Failure> {
    let params = ListParams::default().labels(selector);
    let request = Request::new(&*path).list(&params)?;
    let list = within(REQUEST_TIMEOUT, client.request::<Value>(request)).await;
    match list?["items"].take() {
        Value::Array(items) => Ok(items),
        _ => Err(Failure::Unreadable(format!("{path} is no list"))),
    }
}
