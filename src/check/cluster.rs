//! What the API server says: its version, the permissions of the server, the pods, and objects that only `check` reads.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use hyper::Request as HttpRequest;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use kube::core::Request;
use kube::core::request::Error::BuildRequest;
use kube::{Client, Resource};
use serde_json::{Value, json};

use super::finding::{Check, Fact, Finding, condition, items, list as listed, name_of, text};
use super::objects::{ClusterObjects, EXPORTED, GATEWAYS, LINKS_GROUP};
use crate::model::{LINK_VERSIONS, join_texts, sentence_of};
use crate::source::kube::{RequestFailure, within};

/// Maximum time for a request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the findings but those about objects. `settings` are those of the server, or of flags. `pods` are those of the server, if
/// one is looked for: the permissions are those of their account, else those of the caller at `origin`. There is a finding about the
/// pods if none of them answers.
pub async fn check(
    client: &Client,
    origin: &str,
    pods: Option<Fact<Vec<Value>>>,
    settings: &Value,
    has_server: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(pods) = pods.as_ref().filter(|_| !has_server) {
        findings.push(check_pods(pods));
    }
    match send(client, HttpRequest::get("/version").body(Vec::new())).await {
        // The pods are not read for the same reason.
        Err(failure) => return vec![unreachable(&failure.to_string())],
        Ok(info) => {
            let version = text(&info, "gitVersion");
            let sentence = format!("the API server answers, Kubernetes {version}");
            findings.push(Check::ApiServer.ok(sentence));
        }
    }
    let pods = pods.and_then(Result::ok).unwrap_or_default();
    let account = pods.first().map(account);
    let permissions = needed(settings).into_iter();
    let reviews = join_all(permissions.map(|one| review(client, account, one)));
    let (reviews, nodes) = tokio::join!(reviews, check_nodes(client, &pods));
    let account = match account {
        Some(account) => format!("ServiceAccount {}", account.join("/")),
        None => origin.to_owned(),
    };
    findings.push(check_permissions(&account, &reviews));
    findings.extend(nodes);
    findings
}

/// Makes the finding that the API server does not answer.
pub fn unreachable(why: &str) -> Finding {
    let sentence = format!("cannot reach the API server: {why}");
    let hint = "check the kubeconfig (--kubeconfig, --context); in a pod: the token of its ServiceAccount, and its NetworkPolicy";
    Check::ApiServer.failing(sentence, hint)
}

/// Reads the objects in the namespaces of `settings`.
pub(crate) async fn read_objects(client: &Client, settings: &Value) -> ClusterObjects {
    let scopes = scopes(settings);
    let links = scopes_of_links(settings);
    let (services, links, gateways) = tokio::join!(
        select::<Service>(client, EXPORTED, &scopes),
        list_links(client),
        select::<Pod>(client, GATEWAYS, &links),
    );
    ClusterObjects {
        services,
        links,
        gateways,
    }
}

/// Asks whether a ServiceAccount (namespace and name), or the caller, has a permission.
async fn review(client: &Client, account: Option<[&str; 2]>, permission: Value) -> Review {
    let mut spec = json!({"resourceAttributes": permission});
    let kind = match account {
        None => "SelfSubjectAccessReview",
        Some([namespace, name]) => {
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
    let allowed = match send(client, request).await {
        Ok(reviewed) => Ok(reviewed["status"]["allowed"] == true),
        Err(failure) => Err(failure.to_string()),
    };
    Review {
        permission,
        allowed,
    }
}

/// Sends a request.
async fn send(
    client: &Client,
    request: hyper::http::Result<HttpRequest<Vec<u8>>>,
) -> Result<Value, RequestFailure> {
    let request = request.map_err(BuildRequest)?;
    within(REQUEST_TIMEOUT, client.request(request)).await
}

/// Lists Links. There are none if the API server does not define that kind.
///
/// # Errors
///
/// If they cannot be listed.
pub(crate) async fn list_links(client: &Client) -> Result<Vec<Value>, RequestFailure> {
    for version in LINK_VERSIONS {
        match list(client, format!("/apis/{version}/links"), "").await {
            Err(RequestFailure::Refused { code: 404, .. }) => {}
            listed => return listed,
        }
    }
    Ok(Vec::new())
}

/// Lists the objects of a kind that a label selector selects.
async fn select<K: Resource<DynamicType = ()>>(
    client: &Client,
    selector: &str,
    scopes: &[NamespaceScope<'_>],
) -> Result<Vec<Value>, RequestFailure> {
    let paths = scopes.iter().map(|scope| K::url_path(&(), *scope));
    let lists = paths.map(|path| list(client, path, selector));
    Ok(try_join_all(lists).await?.concat())
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
) -> Result<Vec<Value>, RequestFailure> {
    let params = ListParams::default().labels(selector);
    let request = Request::new(&*path).list(&params)?;
    let list = within(REQUEST_TIMEOUT, client.request::<Value>(request)).await;
    match list?["items"].take() {
        Value::Array(items) => Ok(items),
        _ => Err(RequestFailure::Unreadable(format!("{path} is no list"))),
    }
}

/// Makes the finding about the pods of a release, none of which answers.
fn check_pods(pods: &Fact<Vec<Value>>) -> Finding {
    const UNREAD: &str = "repair this; the other lines say what else cannot be read";
    const HINT: &str = "kubectl describe pod and kubectl logs --previous show more; helm list -A shows the release";
    let sentence = match pods {
        Err(why) => return Check::Pods.unknown(why, UNREAD),
        Ok(pods) if pods.is_empty() => "the release has no pods".to_owned(),
        Ok(pods) => join_texts(pods.iter().map(describe_pod), "; "),
    };
    Check::Pods.failing(sentence, HINT)
}

/// Checks the nodes of pods.
async fn check_nodes(client: &Client, pods: &[Value]) -> Option<Finding> {
    const HINT: &str = "kubectl describe node shows why; a pod still answers if only the control plane cannot reach its node";
    let wrong = join_all(pods.iter().map(async |pod| {
        let node = text(pod, "spec.nodeName");
        let is_wrong = is_marked(pod) || is_unready(client, node).await;
        is_wrong.then(|| format!("node {node} of pod {}", name_of(pod).join("/")))
    }));
    let wrong: Vec<String> = wrong.await.into_iter().flatten().collect();
    let sentence = format!("not ready: {}", listed(&wrong));
    (!wrong.is_empty()).then(|| Check::Pods.attention(sentence, HINT))
}

/// Returns whether the control plane has marked a pod as not ready because of its node. It gives no reason, and leaves the other
/// conditions as they were; the kubelet always gives one.
fn is_marked(pod: &Value) -> bool {
    let ready = condition(pod, "Ready");
    let is_running = condition(pod, "ContainersReady")["status"] == "True";
    is_running && ready["status"] == "False" && text(ready, "reason").is_empty()
}

/// Returns whether a node is known to be not ready. Few users may read nodes.
async fn is_unready(client: &Client, node: &str) -> bool {
    let request = HttpRequest::get(format!("/api/v1/nodes/{node}")).body(Vec::new());
    let node = send(client, request).await.unwrap_or_default();
    !["", "True"].contains(&text(condition(&node, "Ready"), "status"))
}

/// Returns the account of a pod: its namespace and its name. The API server fills in the name, unless its admission of accounts is off.
fn account(pod: &Value) -> [&str; 2] {
    let [namespace, _] = name_of(pod);
    let name = pod["spec"]["serviceAccountName"].as_str();
    [namespace, name.unwrap_or("default")]
}

/// Describes a pod: its phase, the conditions that are false, and the containers that wait or have ended.
fn describe_pod(pod: &Value) -> String {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    let reason =
        |object: &Value| sentence_of(&["reason", "message"].map(|field| text(object, field)));
    let mut parts = vec![text(status, "phase").to_owned(), reason(status)];
    if !metadata["deletionTimestamp"].is_null() {
        parts.push("being deleted".to_owned());
    }
    for one in items(status, "conditions").filter(|one| one["status"] == "False") {
        parts.push(format!("not {} ({})", text(one, "type"), reason(one)));
    }
    for container in items(status, "containerStatuses") {
        for (verb, state) in [
            ("waiting", &container["state"]["waiting"]),
            ("ended", &container["state"]["terminated"]),
            ("ended before", &container["lastState"]["terminated"]),
        ] {
            if state.is_object() {
                parts.push(format!(
                    "{} {verb} ({})",
                    text(container, "name"),
                    reason(state)
                ));
            }
        }
        if let Some(restarts) = container["restartCount"]
            .as_u64()
            .filter(|count| *count > 0)
        {
            parts.push(format!("{restarts} restarts"));
        }
    }
    parts.retain(|part| !part.is_empty());
    let name = name_of(pod).join("/");
    format!("{name}: {}", parts.join(", ")).replace(" ()", "")
}

// === Permissions ===

/// A namespace, or all of them.
type NamespaceScope<'s> = Option<&'s str>;

/// Whether an account has a permission: a verb, an API group, a resource in the plural, and a namespace.
struct Review {
    /// The attributes of the resource, as the API server takes them.
    permission: Value,
    /// Whether it is allowed, or why the API server did not review it.
    allowed: Fact<bool>,
}

/// Verbs, groups and resources that `serve` needs, as in a role.
const NEEDED: [[&str; 3]; 7] = [
    ["list", "", "services"],
    ["watch", "", "services"],
    ["list", "discovery.k8s.io", "endpointslices"],
    ["watch", "discovery.k8s.io", "endpointslices"],
    ["list", LINKS_GROUP, "links"],
    ["watch", LINKS_GROUP, "links"],
    ["list", "coordination.k8s.io", "leases"],
];

/// Returns whether a resource has the states of links. Without it, the server answers as if every cluster were linked.
fn is_for_links(resource: &str) -> bool {
    ["links", "leases"].contains(&resource)
}

/// Returns the scopes of objects that settings select.
fn scopes(settings: &Value) -> Vec<NamespaceScope<'_>> {
    let mut scopes: Vec<_> = items(settings, "namespaces").map(Value::as_str).collect();
    if scopes.is_empty() {
        scopes.push(None);
    }
    scopes
}

/// Returns the namespaces of Links that settings select.
fn scopes_of_links(settings: &Value) -> Vec<NamespaceScope<'_>> {
    let links = &settings["links"];
    let namespaces = items(links, "namespaces").filter(|_| links["enabled"] != false);
    namespaces.map(Value::as_str).collect()
}

/// Returns the permissions that a server with these settings needs.
fn needed(settings: &Value) -> Vec<Value> {
    let mut needed = Vec::new();
    for [verb, group, resource] in NEEDED {
        let scopes = if is_for_links(resource) {
            scopes_of_links(settings)
        } else {
            scopes(settings)
        };
        for namespace in scopes {
            needed.push(
                json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace}),
            );
        }
    }
    needed
}

/// Checks the permissions of an account. Those that are missing are one finding, because they usually have one cause.
fn check_permissions(account: &str, reviews: &[Review]) -> Finding {
    const CHECK: Check = Check::Permissions;
    const ROLE: &str = "bind the role of the chart: list and watch on services and endpointslices, in all namespaces or in each \
                        of namespaces; for Links, list and watch on links and list on leases in each of links.namespaces, or set \
                        links.enabled: false";
    let denied = reviews.iter().filter(|one| one.allowed == Ok(false));
    let denied: Vec<&Value> = denied.map(|one| &one.permission).collect();
    if denied.is_empty() {
        let mut failures = reviews.iter().filter_map(|one| one.allowed.as_ref().err());
        return match failures.next() {
            Some(why) => {
                let hint = format!("run it as a user that may review the permissions of {account}");
                CHECK.unknown(why, hint)
            }
            None => CHECK.ok(format!("{account} has every permission that serve needs")),
        };
    }
    let missing = denied.iter().map(|one| {
        let [verb, resource, namespace] =
            ["verb", "resource", "namespace"].map(|field| text(one, field));
        match namespace {
            "" => format!("{verb} {resource} in all namespaces"),
            _ => format!("{verb} {resource} in namespace {namespace}"),
        }
    });
    let sentence = format!("{account} cannot {}", join_texts(missing, ", "));
    if denied.iter().all(|one| is_for_links(text(one, "resource"))) {
        CHECK.attention(sentence, ROLE)
    } else {
        CHECK.failing(sentence, ROLE)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use hyper::Response;
    use kube::client::{Body, ClientBuilder};
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;
    use crate::check::facts::ServerFacts;
    use crate::check::finding::FindingState;
    use crate::check::objects;

    /// Returns a client of an API server that reviews permissions, tells its version and a node that is not ready, and refuses
    /// everything else, and the list of refused paths.
    fn api_server() -> (Client, Arc<Mutex<Vec<String>>>) {
        let refused = Arc::new(Mutex::new(Vec::new()));
        let list = refused.clone();
        let answer = move |request: HttpRequest<Body>| {
            let path = request.uri().path().to_owned();
            let words = [
                "major",
                "minor",
                "gitCommit",
                "gitTreeState",
                "buildDate",
                "goVersion",
            ];
            let mut body =
                json!({"gitVersion": "v1.36.0", "compiler": "gc", "platform": "linux/amd64"});
            words.iter().for_each(|word| body[word] = json!(""));
            let mut status = 200;
            if path.ends_with("accessreviews") {
                body = json!({"status": {"allowed": true}});
            } else if path == "/api/v1/nodes/n2" {
                body = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
            } else if path != "/version" {
                list.lock().push(path);
                (status, body) = (403, json!({"message": "forbidden"}));
            }
            let body = Body::from(body.to_string().into_bytes());
            let response = Response::builder().status(status).body(body).unwrap();
            async { Ok::<_, Infallible>(response) }
        };
        let client = ClientBuilder::new(tower::service_fn(answer), "default").build();
        (client, refused)
    }

    /// The pod of `helm test` has the account of the server.
    #[tokio::test]
    async fn account_of_the_server_is_not_asked_for_what_it_may_not_read() {
        let settings = json!({"namespaces": [], "links": {"enabled": true, "namespaces": ["linkerd-multicluster"]}});
        for is_server in [true, false] {
            let (client, refused) = api_server();
            let origin = "ServiceAccount of this pod";
            let mut lines = check(&client, origin, None, &settings, true).await;
            if !is_server {
                let objects = read_objects(&client, &settings).await;
                lines.extend(objects::check(&objects, &ServerFacts::default()));
            }
            let is_ok = lines.iter().all(|line| line.state == FindingState::Ok);
            assert_eq!(is_ok, is_server, "{lines:#?}");
            assert_eq!(refused.lock().is_empty(), is_server, "{refused:?}");
        }
    }

    #[tokio::test]
    async fn node_that_is_not_ready_is_named() {
        let pod = |number: u8, ready: &str, reason: &str, containers: &str| {
            json!({
                "metadata": {"namespace": "dns", "name": format!("dns-{number}")},
                "spec": {"nodeName": format!("n{number}")},
                "status": {"conditions": [
                    {"type": "Ready", "status": ready, "reason": reason},
                    {"type": "ContainersReady", "status": containers},
                ]},
            })
        };
        let (client, _) = api_server();
        let pods = [
            // The control plane has marked it.
            pod(1, "False", "", "True"),
            // The control plane has not marked it yet.
            pod(2, "True", "", "True"),
            // The kubelet says so.
            pod(3, "False", "ContainersNotReady", "False"),
            pod(4, "False", "ReadinessGatesNotReady", "True"),
            pod(5, "True", "", "True"),
        ];
        let finding = check_nodes(&client, &pods).await.unwrap();
        assert_eq!(finding.state, FindingState::Attention);
        let expected = "not ready: node n1 of pod dns/dns-1, node n2 of pod dns/dns-2";
        assert_eq!(finding.sentence, expected);
        assert_eq!(check_nodes(&client, &pods[2..]).await, None);
    }

    #[test]
    fn pod_that_does_not_start_says_why() {
        let pod = json!({
            "metadata": {"namespace": "dns", "name": "dns-0"}, "spec": {"serviceAccountName": "global-dns"},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
                    {"type": "PodScheduled", "status": "True"},
                ],
                "containerStatuses": [{
                    "name": "global-dns", "restartCount": 7,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                    "lastState": {"terminated": {"reason": "OOMKilled"}},
                }],
            },
        });
        assert_eq!(
            check_pods(&Ok(vec![pod.clone()])).sentence,
            "dns/dns-0: Running, not Ready (ContainersNotReady), global-dns waiting (CrashLoopBackOff: back-off 5m0s), \
             global-dns ended before (OOMKilled), 7 restarts"
        );
        assert_eq!(account(&pod), ["dns", "global-dns"]);
        assert_eq!(
            check_pods(&Ok(Vec::new())).sentence,
            "the release has no pods"
        );
    }

    #[test]
    fn missing_permissions_are_one_finding() {
        let settings = |namespaces: Value| json!({"namespaces": namespaces, "links": {"namespaces": ["linkerd-multicluster"]}});
        for (namespaces, denied, state, sentence) in [
            (
                json!([]),
                "",
                FindingState::Ok,
                "dns has every permission that serve needs",
            ),
            (
                json!(["prod"]),
                "services",
                FindingState::Failing,
                "dns cannot list services in namespace prod, watch services in namespace prod",
            ),
            (
                json!([]),
                "leases",
                FindingState::Attention,
                "dns cannot list leases in namespace linkerd-multicluster",
            ),
        ] {
            let reviews = needed(&settings(namespaces))
                .into_iter()
                .map(|permission| Review {
                    allowed: Ok(permission["resource"] != denied),
                    permission,
                });
            let finding = check_permissions("dns", &reviews.collect::<Vec<_>>());
            assert_eq!(
                (finding.state, finding.sentence.as_str()),
                (state, sentence)
            );
        }
        let unknown = [Review {
            permission: json!({}),
            allowed: Err("403".to_owned()),
        }];
        assert_eq!(
            check_permissions("dns", &unknown).state,
            FindingState::Unknown
        );
    }
}
